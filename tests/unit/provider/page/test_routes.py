"""The page's routes over a real run, made by the engine that needs no Spark."""

from __future__ import annotations

import dataclasses
import errno
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from airflow_samza.errors import MessageError, SamzaError, StorageUnavailable, UpstreamCleared
from airflow_samza.provider.disclosure import shown_row
from airflow_samza.provider.page import app as page_app
from airflow_samza.provider.page.airflow_records import DownstreamRun, Event, TaskMark
from airflow_samza.provider.page.routes import runs as routes_of_runs
from airflow_samza.provider.page.stage_answers import stage_answer
from airflow_samza.runs.progress.progress import ProgressReport
from airflow_samza.runs.progress.stage_progress import heads_that_answer, stage_progress
from airflow_samza.runs.records.comparison import Comparison, OutputComparison
from airflow_samza.runs.records.data_interval import DataInterval
from airflow_samza.runs.records.folders import RunFolder, must_read, replace, write_once
from airflow_samza.runs.records.names import Generation
from airflow_samza.runs.records.stage_result import StageResult
from airflow_samza.runs.stages.stage_runners import StageRequest
from airflow_samza.runs.stages.stage_state import FAILED, StageHandle, StatusRecord
from airflow_samza.systems.filesystems.filesystem import raise_storage_error
from airflow_samza.systems.filesystems.local import LocalFilesystem
from airflow_samza.systems.filesystems.opening import open_filesystem
from tests.support.page_here import DAG, DAG_RUN, PLAN_TASK, Page


def test_a_dag_run_lists_its_applications_and_the_one_of_a_task(page: Page) -> None:
    page.run()
    found = page.ask(f"{DAG}/runs/{DAG_RUN}/applications", task_id="flow.visits").json()
    (application,) = found["applications"]
    assert (application["application"], application["state"], application["group"]) == ("visits", "succeeded", "flow")
    assert [stage["task_id"] for stage in application["stages"]] == ["flow.visits", "flow.by-country"]
    assert found["selected"] == {"plan_task": PLAN_TASK, "map_index": -1, "stage_id": "visits"}
    assert found["note"] is None


def test_a_dag_run_without_a_plan_says_so(page: Page) -> None:
    page.airflow.dag_runs.add((DAG, DAG_RUN))
    page.airflow.tasks = {PLAN_TASK: "running"}
    found = page.ask(f"{DAG}/runs/{DAG_RUN}/applications").json()
    assert found["note"] == "Nothing is planned yet: flow.plan (running)."
    assert page.get("plan", 404)["rule"] == "not-planned"


def test_a_dag_run_that_is_not_there_is_one_sentence(page: Page) -> None:
    found = page.ask(f"{DAG}/runs/none/applications")
    assert (found.status_code, found.json()["sentence"]) == (404, "There is no run 'none' of the Dag 'visits'.")
    assert "lists its runs" in found.json()["hint"]


def test_the_plan_is_a_graph_with_reasons(page: Page) -> None:
    page.plan()
    plan = page.get("plan")
    nodes = {item["node"] for kind in ("stages", "operators", "streams", "tables") for item in plan[kind]}
    assert {edge["source"] for edge in plan["edges"]} | {edge["target"] for edge in plan["edges"]} <= nodes
    assert {"stage:visits", "stage:by-country", "stream:by-country", "operator:visits-1-map-calibrate"} <= nodes
    between = next(stream for stream in plan["streams"] if stream["stream_id"] == "by-country")
    assert between["partitions"] == 2
    assert between["reason"]
    (calibrate,) = (operator for operator in plan["operators"] if operator["name"] == "calibrate")
    assert (calibrate["stage_id"], calibrate["engine"]) == ("visits", "python")
    assert {(edge["source"], edge["target"]) for edge in plan["edges"] if edge["level"] == "stage"} == {
        ("stream:visits", "stage:visits"),
        ("stage:visits", "stream:by-country"),
        ("stream:by-country", "stage:by-country"),
        ("stage:by-country", "stream:countries"),
    }


def test_plans_of_two_runs_are_compared(page: Page) -> None:
    page.plan("manual__0")
    page.plan()
    (other,) = page.get("other-plans")["plans"]
    assert other["dag_run_id"] == "manual__0"
    same = page.get("difference", other_run_id="manual__0")
    assert (same["same"], same["changes"]) == (True, [])
    assert page.get("difference", 404, other_run_id="manual__9")["sentence"].startswith("There is no plan")


def test_progress_of_a_run_that_has_ended_says_all_of_it(page: Page) -> None:
    page.run()
    found = page.get("progress")
    assert (found["state"], found["next_look"]) == ("succeeded", 0.0)
    first, second = found["stages"]
    assert (first["stage_id"], first["state"], first["read"], first["sent"]) == ("visits", "succeeded", 5, 4)
    assert first["dropped"] == 1
    (between,) = second["inputs"]
    assert (between["producer"], between["ends"], between["ends_expected"]) == ("visits", 4, 4)
    assert second["began_at"] >= first["began_at"]


def test_a_stage_that_has_ended_has_the_figures_that_a_report_on_it_has(page: Page) -> None:
    run = page.run()
    for shown in page.get("progress")["stages"]:
        report = stage_progress(
            page.here.log.filesystem, heads_that_answer({"log": page.here.log}, {}), run, shown["stage_id"]
        )
        whole = stage_answer(run, report, shown["stage_name"], shown["task_id"], {})
        by_report = whole.model_dump(exclude={"inputs"})
        assert {name: shown[name] for name in by_report} == by_report
        assert [(part["stream_id"], part["read"], part["lag"], part["percent_read"]) for part in shown["inputs"]] == [
            (part.stream_id, part.read, part.lag, part.percent_read) for part in whole.inputs
        ]


def test_counts_of_tasks_come_with_their_unit(page: Page) -> None:
    counts = {"restore_seconds": 0.0421, "restored_from_root_bytes": 4_536, "scores": 2.0}
    report = ProgressReport("visits", "1.1", FAILED, 0.0, metrics=counts, restored={"root": 4_536})
    shown = stage_answer(page.plan(), report, "", "", {})
    assert {count.name: count.unit for count in shown.metrics} == dict(
        zip(counts, ("seconds", "bytes", ""), strict=True)
    )
    assert [(count.name, count.unit) for count in shown.restored] == [("root", "bytes")]


def test_progress_of_a_run_at_work_tells_stages_apart(page: Page) -> None:
    run = page.plan()
    page.here.stages(run, "visits")
    page.airflow.marks["flow.by-country"] = TaskMark(None, 0, 0, None)
    found = page.get("progress")
    assert [stage["state"] for stage in found["stages"]] == ["succeeded", "not started"]
    assert found["next_look"] > 0


def test_the_same_progress_is_not_sent_again(page: Page) -> None:
    page.run()
    path = f"{DAG}/runs/{DAG_RUN}/plans/{PLAN_TASK}/-1/progress"
    first = page.ask(path)
    again = page.ask(path, {"If-None-Match": first.headers["ETag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert page.ask(path, {"If-None-Match": '"another"'}).status_code == 200


def test_a_stage_that_is_cleared_is_looked_at_again(page: Page) -> None:
    run = page.run()
    assert page.get("progress")["stages"][0]["generation"] == "1.1"
    page.here.stages(run, "visits", generation=2)
    page.airflow.marks["flow.visits"] = TaskMark("success", 2, 1, 2.0)
    assert page.get("progress")["stages"][0]["generation"] == "1.2"


def test_partitions_come_on_request_a_page_at_a_time(page: Page) -> None:
    page.run()
    first = page.get("stages/by-country/inputs/by-country/partitions", limit=1)
    assert (first["total"], len(first["partitions"])) == (2, 1)
    largest = page.get("stages/by-country/inputs/by-country/partitions", order="size", limit=1)["partitions"][0]
    assert largest["head"] == max(
        found["head"] for found in page.get("stages/by-country/inputs/by-country/partitions")["partitions"]
    )
    assert page.get("stages/by-country/inputs/visits/partitions", 404)["hint"] == "It reads by-country."


def test_outputs_have_rows_and_the_runs_that_they_started(page: Page) -> None:
    page.run()
    started = (
        DownstreamRun(dag_id="readers", run_id="asset__1", state="running"),
        DownstreamRun(dag_id="secret", run_id="asset__2", state="running"),
    )
    page.airflow.sent = [Event("flow.by-country", "samza://x/countries", "countries", 1.0, {"rows": 2}, started)]
    page.forbidden = {"secret"}
    found = page.get("outputs")
    (countries,) = (output for output in found["outputs"] if not output["own"])
    assert (countries["stream_id"], countries["messages"]) == ("countries", 4)
    (event,) = found["events"]
    assert event["runs"] == [{"dag_id": "readers", "run_id": "asset__1", "state": "running"}]
    assert (event["hidden_runs"], event["messages"]) == (1, 2)


def test_a_comparison_has_counts_by_output_and_no_keys_of_rows(page: Page) -> None:
    run = page.run()
    assert page.get("outputs")["compared"] is None
    columns: dict[str, int] = {"n": 2, "country": 1}
    output = OutputComparison(
        "countries", ("country",), 9, 9, 6, 1, 1, 2, columns, samples={"added": ({"country": "n"},)}
    )
    alone = OutputComparison("more", (), 0, 3, 0, 3, 0, 0, only_in=run.run_id)
    files = open_filesystem(str(page.here.root))
    made = Comparison(run.application, run.run_id, "visits-by-country", "monday", (output, alone), ("A note.",), 1.0)
    replace(files, RunFolder(run.application, run.run_id).comparison, made)
    found = page.get("outputs")["compared"]
    assert (found["application"], found["run_id"], found["equal"]) == ("visits-by-country", "monday", False)
    assert found["notes"] == ["A note."]
    counted, other = found["outputs"]
    assert counted == {
        "stream_id": "countries",
        "key": ["country"],
        "equal": False,
        "same": 6,
        "added": 1,
        "gone": 1,
        "different": 2,
        "columns": "columns that differ: n (2), country (1)",
        "only_in": "",
    }
    assert (other["only_in"], other["added"]) == (run.run_id, 3)


def test_an_output_to_a_table_has_the_snapshot_that_was_committed(page: Page) -> None:
    run = page.run()
    handle = StageHandle(run.application, run.run_id, "by-country", Generation(1, 1))
    files = open_filesystem(str(page.here.root))
    result = must_read(files, handle.folder.result, StageResult)
    facts = {"path": "web.countries", "snapshot": "8271638172635514", "files": ["a.parquet"]}
    outputs = tuple(dataclasses.replace(output, facts=facts) for output in result.outputs)
    replace(files, handle.folder.result, dataclasses.replace(result, outputs=outputs))
    (shown,) = (output for output in page.get("outputs")["outputs"] if output["stage_id"] == "by-country")
    assert shown["place"] == "web.countries (snapshot 8271638172635514)"


def test_bad_records_are_counted_by_operator_with_samples(page: Page) -> None:
    page.run()
    (row,) = page.get("bad-records")["records"]
    assert (row["stage_id"], row["kind"], row["count"]) == ("visits", "dropped", 1)
    assert "calibrate" in row["operator"]
    (sample,) = page.get("bad-records/samples")["samples"]
    assert "-1 is no number of visits" in sample["text"]
    assert sample["operator"] == "map 'calibrate'"


def test_places_in_samples_are_those_of_the_dag_folder(
    page: Page, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = tmp_path / "userFiles" / "0123456789abcdef.zip"  # a folder imports as the zip does that it stands for
    copy.mkdir(parents=True)
    (tmp_path / "page_app.py").rename(copy / "page_app.py")
    monkeypatch.syspath_prepend(str(copy))
    page.run()
    (sample,) = page.get("bad-records/samples")["samples"]
    assert "(page_app.py:8)" in sample["text"]


def test_samples_and_messages_can_be_switched_off(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    page.run()
    monkeypatch.setenv("AIRFLOW__SAMZA__PAGE_SAMPLES", "False")
    assert page.get("bad-records/samples")["samples"] == []
    found = page.get("topics/by-country/messages")
    assert found["messages"] == []
    assert "page_samples" in found["note"]
    assert not page.ask(f"{DAG}/runs/{DAG_RUN}/applications").json()["samples"]


def test_masked_columns_are_shown_nowhere(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    page.run()
    monkeypatch.setenv("AIRFLOW__SAMZA__PAGE_MASKED_COLUMNS", "EMAIL, n")
    found = page.get("topics/visits/messages", partition=0)
    found["messages"] += page.get("topics/visits/messages", partition=1)["messages"]
    values = [message["value"] for message in found["messages"] if message["control"] is None]
    assert {value["email"] for value in values} == {"***"}
    assert {value["country"] for value in values} == {"de", "fr"}
    assert "-1" not in page.get("bad-records/samples")["samples"][0]["text"]


def test_masks_reach_the_keys_of_map_columns_at_any_depth() -> None:
    tags = pa.map_(pa.string(), pa.string())
    rows = pa.table(
        {
            "id": [1, 2],
            "tags": pa.array([[("Email", "c@d.de"), ("country", "de")], []], tags),
            "deep": pa.array(
                [[{"of": [("x", [("email", "c@d.de")])]}], None],
                pa.list_(pa.struct([("of", pa.map_(pa.string(), tags))])),
            ),
            "keyed": pa.array(
                [[({"email": "c@d.de"}, 1)], None],
                pa.map_(pa.struct([pa.field("email", pa.string(), nullable=False)]), pa.int64()),
            ),
            "days": pa.array([[(18000, "c@d.de")], None], pa.map_(pa.date32(), pa.string())),
        }
    ).to_pylist()
    shown = shown_row(rows[0], ("email", "2019-*"))
    assert "c@d.de" not in str(shown)
    assert shown["tags"] == [["Email", "***"], ["country", "de"]]
    assert shown_row(rows[0], ())["tags"] == [["Email", "c@d.de"], ["country", "de"]]
    assert shown_row(rows[1], ("email",))["tags"] == []


MESSAGE = MessageError(
    "f in map 'calibrate' raised ValueError: c@d.de is unknown, on the message Visit(email='c@d.de').",
    hint="Return a message, or None.",
    operator="calibrate",
    file="/dags/visits.py",
    line=3,
    message="Visit(email='c@d.de')",
    exception="ValueError",
)


def fail(page: Page, error: SamzaError) -> None:
    """Leave the records of an attempt at the first stage that failed."""
    run = page.plan()
    root, folder = open_filesystem(str(page.here.root)), RunFolder(run.application, run.run_id)
    stage = folder.stage("visits", Generation(1, 1))
    write_once(root, stage.attempt(1, "request"), StageRequest("visits", "1.1", 1))
    replace(root, stage.attempt(1, "status"), StatusRecord(FAILED, error.to_dict(), at=time.time()))


def test_a_failure_that_quotes_a_message_is_without_it_where_columns_are_masked(
    page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail(page, MESSAGE)
    (failure,) = page.get("failures")["failures"]
    assert "c@d.de" in failure["sentence"]
    for setting, value in (("PAGE_MASKED_COLUMNS", "email"), ("PAGE_SAMPLES", "False")):
        with monkeypatch.context() as patch:
            patch.setenv(f"AIRFLOW__SAMZA__{setting}", value)
            answer = page.ask(f"{DAG}/runs/{DAG_RUN}/plans/{PLAN_TASK}/-1/failures")
        assert "c@d.de" not in answer.text
        (failure,) = answer.json()["failures"]
        assert failure["callable"] == "/dags/visits.py:3"
        assert failure["facts"] == ["operator: calibrate", "exception: ValueError"]
        assert setting.lower() in failure["sentence"]


@pytest.mark.parametrize(
    ("error", "another_try"),
    [
        (MESSAGE, "fails in the same way, unless the function asks something besides its message"),
        (MessageError("[DIVIDE_BY_ZERO] 1 / n.", condition="DIVIDE_BY_ZERO"), "fails in the same way"),
        (UpstreamCleared("by-country is written anew."), "fails in the same way"),
        (StorageUnavailable("The disk did not answer."), "may succeed"),
    ],
)
def test_another_try_is_promised_only_where_it_can_help(page: Page, error: SamzaError, another_try: str) -> None:
    fail(page, error)
    assert page.get("failures")["failures"][0]["another_try"] == another_try


def test_topics_show_messages_and_control_messages_from_an_offset_on(page: Page) -> None:
    page.run()
    topics = {topic["stream_id"]: topic for topic in page.get("topics")["topics"]}
    assert set(topics) == {"visits", "by-country", "countries"}
    assert topics["by-country"]["messages"] == 4
    assert topics["by-country"]["control"] == sum(
        commit["control"] for commit in page.get("topics/by-country")["commits"]
    )
    detail = page.get("topics/by-country")
    assert detail["columns"]
    assert detail["commits"]
    (filled,) = (part for part in detail["partitions"] if part["messages"] == 4)
    first = page.get("topics/by-country/messages", partition=filled["partition"], from_offset=0, limit=3)
    assert [message["value"]["country"] for message in first["messages"]] == ["fr"] * 3
    rest = page.get("topics/by-country/messages", partition=filled["partition"], from_offset=first["next_offset"])
    assert [message["control"] for message in rest["messages"]] == [None, "EndOfStream", "EndOfStream"]
    assert rest["next_offset"] == rest["head"]
    without = page.get("topics/by-country/messages", partition=filled["partition"], control=False)
    assert all(message["control"] is None for message in without["messages"])


@pytest.mark.parametrize(
    ("path", "asked", "status"),
    [
        ("topics/none/messages", {}, 404),
        ("topics/by-country/messages", {"partition": 7}, 404),
        ("topics/by-country/messages", {"partition": -1}, 422),
        ("topics/by-country/messages", {"limit": 100_000}, 422),
        ("topics/..%2F..%2Fetc", {}, 404),
        ("stages/none/inputs/by-country/partitions", {}, 404),
        ("clear", {"task_id": "other.task"}, 404),
        ("logs", {"kilobytes": "all"}, 422),
    ],
)
def test_wrong_questions_get_a_sentence(page: Page, path: str, asked: dict[str, Any], status: int) -> None:
    page.run()
    found = page.get(path, status, **asked)
    assert found["sentence"].endswith(".")


def test_the_preview_of_a_clear_names_what_goes_again_and_what_must(page: Page) -> None:
    page.run()
    alone = page.get("clear", task_id="flow.visits", downstream=False)
    assert [(stage["stage_id"], stage["effect"]) for stage in alone["stages"]] == [
        ("visits", "runs again"),
        ("by-country", "must run again"),
    ]
    both = page.get("clear", task_id="flow.visits")  # the tasks after it are cleared, too
    assert {stage["effect"] for stage in both["stages"]} == {"runs again"}
    last = page.get("clear", task_id="flow.by-country")
    assert [stage["effect"] for stage in last["stages"]] == ["stays", "runs again"]
    plan = page.get("clear", task_id=PLAN_TASK, downstream=False)
    assert {stage["effect"] for stage in plan["stages"]} == {"must run again"}


def test_a_clear_of_the_task_that_plans_and_runs_all_plans_anew(page: Page) -> None:
    page.run(task_id="all")
    page.rewrite(tasks={"visits": "all", "by-country": "all"})
    found = page.ask(f"{DAG}/runs/{DAG_RUN}/plans/all/-1/clear", task_id="all", downstream=False).json()
    assert {stage["effect"] for stage in found["stages"]} == {"runs again"}


def test_a_clear_of_the_stage_that_has_planned_for_its_siblings_adopts_the_plan_again(page: Page) -> None:
    page.run(task_id="flow.visits")
    found = page.ask(f"{DAG}/runs/{DAG_RUN}/plans/flow.visits/-1/clear", task_id="flow.visits", downstream=False).json()
    assert [stage["effect"] for stage in found["stages"]] == ["runs again", "must run again"]


def test_a_cleared_stage_whose_input_is_deleted_needs_its_producer(page: Page) -> None:
    page.run()
    (between,) = (t["topic"] for t in page.get("topics")["topics"] if t["stream_id"] == "by-country")
    root = open_filesystem(str(page.here.root))
    root.delete_tree(page.here.log.topic(between).directory)
    found = page.get("clear", task_id="flow.by-country")
    assert [stage["effect"] for stage in found["stages"]] == ["must run again", "runs again"]


def test_a_run_without_state_and_tables_says_so(page: Page) -> None:
    page.run()
    assert page.get("state")["note"].startswith("The runs of this application carry no state")
    assert page.get("tables")["tables"] == []


def test_a_run_whose_records_are_deleted_is_gone(page: Page) -> None:
    run = page.run()
    open_filesystem(str(page.here.root)).delete_tree(RunFolder(run.application, run.run_id).path)
    for path in ("plan", "progress", "outputs", "topics"):
        assert page.get(path, 404)["rule"] == "gone"
    row = page.ask(f"{DAG}/runs/{DAG_RUN}/applications").json()["applications"][0]
    assert row["state"] == "gone"


def test_records_of_another_dag_are_not_reached_by_their_ids(page: Page) -> None:
    theirs = page.run(dag_id="theirs", run_id="manual__9", application="other-visits")
    page.run()
    page.rewrite(application=theirs.application, run_id=theirs.run_id)  # an XCom may be written by its Dag's users
    page.forbidden = {"theirs"}
    for path in ("plan", "progress", "outputs", "topics", "failures", "logs", "topics/visits/messages"):
        assert page.get(path, 404)["rule"] == "not-planned"


def test_a_run_in_the_list_has_its_data_interval(page: Page) -> None:
    page.plan(interval=DataInterval.from_iso("2026-01-01T05:00", "2026-01-01T06:00"))
    page.plan(run_id="manual__2")
    found = page.browse("/api/roots/samza_page/runs").json()["runs"]
    assert {row["dag_run_id"]: row["interval"] for row in found} == {
        DAG_RUN: ["2026-01-01T05:00:00+00:00", "2026-01-01T06:00:00+00:00"],
        "manual__2": None,
    }


def test_a_list_of_runs_says_of_how_many_plans_it_is(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    page.plan()
    assert (page.browse("/api/roots").json()["note"], page.browse("/api/roots/samza_page/runs").json()["note"]) == (
        None,
        None,
    )
    monkeypatch.setattr(routes_of_runs, "NEWEST", 1)
    said = "Of all roots together the newest 1 plans are counted."
    assert page.browse("/api/roots").json()["note"] == said
    assert page.browse("/api/roots/samza_page/runs").json()["note"] == said


def test_runs_of_a_root_are_those_of_dags_that_the_user_may_read(page: Page) -> None:
    page.run(dag_id="theirs", run_id="manual__9", application="other-visits")
    page.run()
    page.forbidden = {"theirs"}
    (root,) = page.browse("/api/roots").json()["roots"]
    assert (root["applications"], root["runs"]) == (["visits"], 1)
    found = page.browse("/api/roots/samza_page/runs").json()
    assert [row["dag_id"] for row in found["runs"]] == [DAG]
    page.forbidden = {"theirs", DAG}
    assert page.browse("/api/roots").json()["roots"] == []
    assert page.browse("/api/roots/samza_page/runs").status_code == 404


@pytest.mark.parametrize("path", ["plan", "progress", "outputs", "topics", "logs"])
def test_a_storage_that_is_away_is_one_sentence(page: Page, monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    page.run()
    asked = []

    def away(self: Any, path: str) -> bytes:
        asked.append(path)
        raise_storage_error(OSError(errno.EHOSTDOWN, "Host is down"), "be read", path)

    monkeypatch.setattr(LocalFilesystem, "read", away)
    found = page.get(path, 503)
    assert "Host is down" in found["sentence"]
    assert "Traceback" not in found["sentence"]
    page.get(path, 503)
    assert len(asked) == 1  # a moment later nobody waits for it again


def test_a_connection_that_is_not_there_is_one_sentence(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    page.run()
    page.rewrite(conn_id="none")
    from airflow_samza.provider.airflow_versions import AirflowNotFoundException
    from airflow_samza.provider.hooks.samza import SamzaHook

    def missing(*_: Any) -> Any:
        raise AirflowNotFoundException("none")

    monkeypatch.setattr(SamzaHook, "get_connection", missing)
    assert page.get("plan", 503)["sentence"] == "The connection 'none' is not defined."


def test_an_unforeseen_error_shows_no_traceback(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    page.run()
    monkeypatch.setattr(page.airflow, "notes", lambda *_: 1 / 0)
    found = page.get("plan", 500)
    assert found["sentence"].startswith("The page's server met an error (ZeroDivisionError)")


def test_runs_differ_though_their_dag_runs_have_one_id(page: Page) -> None:
    page.run()
    page.run(dag_id="theirs", application="other-visits")
    assert page.get("plan")["application"] == "visits"
    theirs = page.ask(f"theirs/runs/{DAG_RUN}/plans/{PLAN_TASK}/-1/plan").json()
    assert theirs["application"] == "other-visits"


def test_a_mapped_group_has_an_application_per_index(page: Page) -> None:
    page.run()
    first = page.airflow.plans.pop()
    page.airflow.plans += [dataclasses.replace(first, map_index=0), dataclasses.replace(first, map_index=1)]
    found = page.ask(f"{DAG}/runs/{DAG_RUN}/applications", task_id="flow.visits", map_index=1).json()
    assert [application["map_index"] for application in found["applications"]] == [0, 1]
    assert found["selected"]["map_index"] == 1


def test_every_answer_has_the_policy_of_the_page(page: Page) -> None:
    for path in ("/", "/api/roots", "/api/none", "/assets/none.js"):
        headers = page.browse(path).headers
        assert "frame-ancestors 'self'" in headers["Content-Security-Policy"]
        assert "script-src 'self';" in headers["Content-Security-Policy"]
        assert headers["X-Content-Type-Options"] == "nosniff"
    assert page.browse("/api/none").json()["sentence"] == "There is no such address."


def test_the_page_finds_its_files_below_the_path_of_airflow(
    page: Page, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "index.html").write_text('<head><base href="./" /></head>', encoding="utf-8")
    monkeypatch.setattr(page_app, "STATIC", tmp_path)
    outer = FastAPI()
    outer.mount("/airflow/samza", page.app)
    for path in ("/airflow/samza/", "/airflow/samza/runs/a/b", "/airflow/samza/tasks/a/b/c/-1"):
        assert '<base href="/airflow/samza/" />' in TestClient(outer).get(path).text

"""OpenLineage facets of operators, in this process: datasets, columns, counts, and the plan."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from openlineage.client.serde import Serde

from airflow_samza.errors import MessageError
from airflow_samza.launch.runtime import SparkRuntime
from airflow_samza.prepare.run_request import RunRequest
from airflow_samza.provider.airflow_versions import AirflowException
from airflow_samza.provider.lineage.methods import openlineage_is_active
from airflow_samza.provider.lineage.openlineage_facets import (
    MOST_FIELDS,
    MOST_STAGES,
    column_facet,
    facets_of,
    plan_facet,
)
from airflow_samza.provider.lineage.push_lineage import PushLineage, push_lineage
from airflow_samza.provider.lineage.task_lineage import TaskLineage, names_in
from airflow_samza.provider.operators.plan import SamzaPlanOperator
from airflow_samza.provider.operators.stream import SamzaStreamOperator
from airflow_samza.runs.records.names import Generation
from airflow_samza.runs.records.run_plan import RunPlan
from airflow_samza.runs.records.stage_result import InputResult, OutputResult, StageResult
from airflow_samza.runs.stages.stage_state import StageHandle
from airflow_samza.systems.system import SystemBinding
from airflow_samza.task.program.column_sources import ColumnSource, StreamLineage
from tests.support.lineage_events import check_dataset, check_facets, reached

TRIPS = "provider_applications:trips"


@pytest.fixture
def planned(tmp_path: Path) -> tuple[RunPlan, Any]:
    """A run of ``trips`` that is planned over files, and the hook that plans it."""
    (tmp_path / "trips").mkdir()
    (tmp_path / "trips" / "a.csv").write_text("city,km,paid\nRome,3,true\nOslo,5,false\n")
    bindings = {name: SystemBinding("files", {"root": str(tmp_path)}) for name in ("lake", "warehouse")}
    root = str(tmp_path / "root")
    run = SparkRuntime(root, bindings).prepare(RunRequest(TRIPS, "run-1"))
    return run, SimpleNamespace(bindings=lambda: bindings, root=root)


def results_of(run: RunPlan) -> list[StageResult]:
    found = []
    for stage in run.plan.stages:
        handle = StageHandle(run.application, run.run_id, stage.stage_id, Generation(1, 1), 1)
        outputs = tuple(
            OutputResult(name, "x", name, 2, 7, 0, 70, run.is_own(name), {"files": ["a", "b"]})
            for name in stage.outputs
        )
        inputs = tuple(InputResult(name, "x", name, 2, 9, 0, 90) for name in stage.inputs)
        made = StageResult(
            run.application, run.run_id, stage.stage_id, str(handle.generation), 2, 1.5, 2.0, inputs, outputs
        )
        found.append(made)
    return found


def events_of(planned: tuple[RunPlan, Any], *, whole: bool = False) -> list[dict[str, Any]]:
    """Return the lineage of each stage that has ended, or of the whole run, as JSON."""
    run, hook = planned
    names, results = names_in(hook, run), results_of(run)
    parts = [[stage.stage_id for stage in run.plan.stages]] if whole else [[s.stage_id] for s in run.plan.stages]
    found = []
    for stages in parts:
        ended = [result for result in results if result.stage_id in stages]
        lineage = TaskLineage(run, stages, names, whole=whole, results=ended)
        told = facets_of(lineage, None, SimpleNamespace(application=TRIPS, stage=stages[0]))
        found.append(Serde.to_dict(told))
    for event in found:
        check_facets({**event["run_facets"], **event["job_facets"]})
        for dataset in (*event["inputs"], *event["outputs"]):
            check_dataset(dataset)
    return found


def test_stages_are_connected_from_source_to_sink_through_their_topics(planned: Any, tmp_path: Path) -> None:
    events = events_of(planned)
    topic = ("file", f"{tmp_path}/root/topics/trips-1-by-city")
    assert [(o["namespace"], o["name"]) for o in events[0]["outputs"]] == [topic]
    assert reached(events, ("file", f"{tmp_path}/trips")) == {
        ("file", f"{tmp_path}/trips"),
        topic,
        ("file", f"{tmp_path}/per-city"),
    }


def test_a_stage_tells_columns_rows_bytes_and_files(planned: Any) -> None:
    (read,), (sent,) = (events_of(planned)[0][part] for part in ("inputs", "outputs"))
    assert [(f["name"], f["type"]) for f in read["facets"]["schema"]["fields"]] == [
        ("city", "string"),
        ("km", "bigint"),
        ("paid", "boolean"),
    ]
    assert read["inputFacets"]["inputStatistics"]["rowCount"] == 9
    statistics = sent["outputFacets"]["outputStatistics"]
    assert (statistics["rowCount"], statistics["size"], statistics["fileCount"]) == (7, 70, 2)


def columns_of(output: dict[str, Any]) -> dict[str, list[tuple[str, str]]]:
    fields = output["facets"]["columnLineage"]["fields"]
    return {
        name: [(f["field"], t["subtype"]) for f in found["inputFields"] for t in f["transformations"]]
        for name, found in fields.items()
    }


def test_the_whole_run_has_its_columns_in_those_of_its_sources(planned: Any, tmp_path: Path) -> None:
    (event,) = events_of(planned, whole=True)
    (read,), (written,) = event["inputs"], event["outputs"]
    assert read["name"] == f"{tmp_path}/trips"
    assert columns_of(written) == {"city": [("city", "IDENTITY")], "n": [], "km": [("km", "AGGREGATION")]}
    of_rows = {
        (f["field"], t["subtype"]) for f in written["facets"]["columnLineage"]["dataset"] for t in f["transformations"]
    }
    assert of_rows == {("paid", "FILTER"), ("city", "GROUP_BY")}
    assert [stage["id"] for stage in event["run_facets"]["samza_plan"]["stages"]] == ["trips", "by-city"]
    assert event["job_facets"]["samza"]["application"] == TRIPS


def test_an_application_that_can_no_longer_be_read_has_datasets_without_columns(planned: Any) -> None:
    run, hook = planned
    lineage = TaskLineage(replace(run, reference="provider_applications:gone"), ["by-city"], names_in(hook, run))
    told = facets_of(lineage, None, None)
    assert [dataset.name.rpartition("/")[2] for dataset in told.outputs] == ["per-city"]
    assert "columnLineage" not in told.outputs[0].facets


def test_a_plan_of_many_stages_is_cut(planned: Any) -> None:
    run, _ = planned
    many = replace(run, plan=replace(run.plan, stages=run.plan.stages * 200))
    facet = plan_facet(many)
    assert (len(facet.stages), facet.leftOut) == (MOST_STAGES, 400 - MOST_STAGES)


def test_too_many_sources_stand_for_the_dataset_as_a_whole() -> None:
    names = [f"c{number}" for number in range(100)]
    sources = frozenset(ColumnSource("in", name, opaque=True) for name in names)
    place = {"in": names_for("in")}
    facet = column_facet(StreamLineage(dict.fromkeys(names, sources)), place)
    assert len(names) ** 2 > MOST_FIELDS
    assert facet.fields == {}
    assert {field.field for field in facet.dataset or ()} == set(names)
    few = column_facet(StreamLineage({"a": sources}), place)
    descriptions = {str(change.description)[:20] for change in few.fields["a"].inputFields[0].transformations or ()}
    assert descriptions == {"by a Python callable"}


def names_for(name: str) -> Any:
    from airflow_samza.provider.lineage.dataset_names import path_dataset

    return path_dataset(f"s3://lake/{name}")


# -- operators -----------------------------------------------------------------------------------------------------------


SYSTEMS = {"logs": "views_logs", "warehouse": "views_out"}


def test_a_start_says_the_same_each_time_that_a_task_starts(runtime: Any, make_context: Any) -> None:
    operator = SamzaStreamOperator(
        task_id="s", application="provider_applications:views", systems=SYSTEMS, stage="by-member"
    )
    once, again = operator.get_openlineage_facets_on_start(), operator.get_openlineage_facets_on_start()
    assert once == again
    assert (once.inputs, once.outputs) == ([], [])
    assert once.job_facets["samza"].stage == "by-member"


def test_a_stage_that_failed_tells_its_error_in_one_sentence(
    runtime: Any, make_context: Any, stage_failed: Any
) -> None:
    operator = SamzaStreamOperator(
        task_id="s", application="provider_applications:views", systems=SYSTEMS, poll_interval=0.001, deferrable=False
    )
    runtime.ends["by-member"] = stage_failed
    context = make_context(operator)
    with pytest.raises(Exception, match="failed"):
        operator.execute(context)
    told = operator.get_openlineage_facets_on_failure(context["ti"])
    assert told.run_facets["errorMessage"].message == "Stage 'by-tail' failed."
    assert "stackTrace" not in told.run_facets["errorMessage"].message


def test_the_error_of_a_lineage_event_quotes_no_message_where_columns_are_masked(
    runtime: Any, make_context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = MessageError("f raised ValueError, on the message Visit(email='c@d.de').", stage="by-member", operator="f")
    runtime.ends["by-member"] = error
    said = []
    for masked in ("", "email"):
        monkeypatch.setenv("AIRFLOW__SAMZA__PAGE_MASKED_COLUMNS", masked)
        operator = SamzaStreamOperator(
            task_id="s", application="provider_applications:views", systems=SYSTEMS, poll_interval=0.001
        )
        operator.deferrable = False
        context = make_context(operator)
        with pytest.raises(AirflowException):
            operator.execute(context)
        said.append(operator.get_openlineage_facets_on_failure(context["ti"]).run_facets["errorMessage"].message)
    assert said[0] == error.sentence
    assert said[1].startswith("MessageError, stage 'by-member', operator 'f'. Its text may quote a message")


def test_a_task_that_failed_before_it_knew_its_run_says_no_more_than_at_its_start() -> None:
    operator = SamzaStreamOperator(task_id="s", application="provider_applications:views", systems=SYSTEMS)
    assert operator.get_openlineage_facets_on_failure(None) == operator.get_openlineage_facets_on_start()


def test_the_plan_is_a_facet_of_the_task_that_made_it(runtime: Any, make_context: Any) -> None:
    operator = SamzaPlanOperator(task_id="plan", application="provider_applications:views", systems=SYSTEMS)
    context = make_context(operator)
    operator.execute(context)
    facet = operator.get_openlineage_facets_on_complete(context["ti"]).run_facets["samza_plan"]
    assert [stage["id"] for stage in facet.stages] == ["page-views", "by-member", "by-country"]


# -- pushes --------------------------------------------------------------------------------------------------------------


def pushed(tmp_path: Path, source: Any, columns: Any = None, url: str = "") -> PushLineage:
    runtime = SparkRuntime(str(tmp_path), {})
    hook: Any = SimpleNamespace(pushed_table=runtime.pushed_table, bindings=dict, root=str(tmp_path))
    found = push_lineage(hook, "provider_applications:with_profiles", "profiles", {}, source, columns, url)
    assert found is not None
    return found


def test_a_push_reads_its_source_and_writes_the_stream_that_its_readers_read(tmp_path: Path) -> None:
    found = pushed(tmp_path, "s3a://lake/profiles", {"id": "member", "tier": "upper(plan)"})
    assert found.source is not None
    assert found.source[:2] == ("s3://lake", "profiles")
    assert found.table[:2] == ("file", f"{tmp_path}/topics/profiles-push")
    (table,) = facets_of(found, None, None).outputs
    assert columns_of(json.loads(Serde.to_json(table))) == {
        "id": [("member", "IDENTITY")],
        "tier": [("plan", "TRANSFORMATION")],
    }


def test_a_push_from_a_database_names_no_user_and_no_password(tmp_path: Path) -> None:
    url = "jdbc:postgresql://me:hush@db:5432/shop?password=hush"
    found = pushed(tmp_path, {"jdbc": {"dbtable": "members"}}, url=url)
    assert found.source is not None
    assert found.source[:2] == ("postgres://db:5432", "shop.members")
    assert "hush" not in Serde.to_json(facets_of(found, None, None))


@pytest.mark.parametrize("source", [{"query": "select 1"}, {"callable": "a:b"}, len])
def test_a_source_that_has_no_address_is_no_dataset(tmp_path: Path, source: Any) -> None:
    assert facets_of(pushed(tmp_path, source), None, None).inputs == []


# -- without OpenLineage -------------------------------------------------------------------------------------------------


@pytest.mark.extended
def test_operators_load_nothing_of_openlineage() -> None:
    code = (
        "import sys, airflow_samza.operators, airflow_samza.provider.task_group\n"
        "print([name for name in sys.modules if name.startswith('openlineage.') or name.endswith('openlineage_facets')])"
    )
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_without_openlineage_it_is_not_active(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "airflow.providers.openlineage", None)
    assert not openlineage_is_active()


@pytest.mark.parametrize(
    ("disabled", "listener", "active"), [(False, object(), True), (False, None, False), (True, object(), False)]
)
def test_it_is_active_where_openlineage_listens_and_is_not_disabled(
    monkeypatch: pytest.MonkeyPatch, disabled: bool, listener: object, active: bool
) -> None:
    monkeypatch.setattr("airflow.providers.openlineage.conf.is_disabled", lambda: disabled)
    place = "airflow.providers.openlineage.plugins.listener.get_openlineage_listener"
    monkeypatch.setattr(place, lambda: listener)
    assert openlineage_is_active() is active

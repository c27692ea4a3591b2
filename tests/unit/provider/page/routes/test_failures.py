"""Failures, logs and links of a run: what the page says of stages and of their runners."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from airflow_samza.errors import MessageError, SamzaError, StageFailed, StorageUnavailable, TopicError
from airflow_samza.provider.page.airflow_records import TaskMark
from airflow_samza.provider.page.routes import failures
from airflow_samza.runs.records.folders import RunFolder, replace, write_once
from airflow_samza.runs.records.liveness import identity
from airflow_samza.runs.records.run_plan import RunPlan
from airflow_samza.runs.stages.spark_page import SparkPage, note_spark_page
from airflow_samza.runs.stages.stage_runners import DID_NOT_START, Claim, Heartbeat, RunnerEnd, RunnerFolder
from airflow_samza.runs.stages.stage_state import CANCELLED, FAILED, RUNNING
from airflow_samza.systems.filesystems.local import LocalFilesystem
from airflow_samza.systems.filesystems.opening import open_filesystem
from tests.support.page_here import Page

HERE = Claim(**identity(), claimed_at=1.0)
ENDED = dataclasses.replace(HERE, started=1.0)
"""A process that is not there any more: another one has its id now."""


def runner(page: Page, run: RunPlan, number: int = 1, said: str | None = None, claim: Claim = HERE) -> RunnerFolder:
    """Leave the records of a stage runner, whose last sign of life is of the second of its number."""
    files = open_filesystem(str(page.here.root))
    folder = RunnerFolder(RunFolder(run.application, run.run_id), "key", number)
    write_once(files, folder.claim, claim)
    replace(files, folder.heartbeat, Heartbeat(float(number)))
    if said is not None:
        (page.here.root / folder.log).write_text(said, encoding="utf-8")
    return folder


def failure_of(page: Page, state: str, error: SamzaError | None = None) -> dict[str, Any]:
    page.attempt(page.plan(), state, error)
    (failure,) = page.get("failures")["failures"]
    found: dict[str, Any] = failure
    return found


def test_a_run_without_an_attempt_has_no_failure(page: Page) -> None:
    page.plan()
    assert page.get("failures")["failures"] == []


def test_a_stage_that_has_succeeded_has_no_failure(page: Page) -> None:
    page.run()
    assert page.get("failures")["failures"] == []


def test_a_stage_that_is_at_work_has_no_failure(page: Page) -> None:
    run = page.plan()
    folder = runner(page, run)
    replace(open_filesystem(str(page.here.root)), folder.heartbeat, Heartbeat(1e12))
    page.attempt(run, RUNNING)
    assert page.get("failures")["failures"] == []


def test_a_failure_names_the_stage_the_attempt_and_what_failed(page: Page) -> None:
    error = TopicError("There is no topic 't'.", hint="Create it.", stream="t", system="k", reason=None)
    assert failure_of(page, FAILED, error) == {
        "stage_id": "visits",
        "stage_name": "visits (calibrate)",
        "generation": "1.1",
        "attempt": 1,
        "state": "failed",
        "kind": "TopicError",
        "sentence": "There is no topic 't'.",
        "hint": "Create it.",
        "entry": "docs/reference/errors.md#topic",
        "callable": None,
        "file": None,
        "line": None,
        "record": None,
        "facts": ["stream: t", "system: k"],
        "at": 5.0,
        "another_try": "fails in the same way",
    }


def test_the_failure_of_a_stage_is_that_of_its_newest_attempt(page: Page) -> None:
    run = page.plan()
    page.attempt(run, FAILED, StorageUnavailable("The disk did not answer."))
    page.attempt(run, FAILED, StorageUnavailable("It did not answer again."), number=2)
    (failure,) = page.get("failures")["failures"]
    assert (failure["attempt"], failure["sentence"]) == (2, "It did not answer again.")


@pytest.mark.parametrize(
    ("state", "at", "expected"),
    [(FAILED, 9.0, ["by-country", "visits"]), (CANCELLED, 3.0, ["visits", "by-country"])],
    ids=["the first comes first", "those that were cancelled come last"],
)
def test_failures_come_in_an_order_that_shows_their_cause(
    page: Page, state: str, at: float, expected: list[str]
) -> None:
    run = page.plan()
    first, second = ("visits", "by-country") if state == FAILED else ("by-country", "visits")
    page.attempt(run, state, StorageUnavailable("Away.") if state == FAILED else None, stage_id=first, at=at)
    page.attempt(run, FAILED, StorageUnavailable("The disk did not answer."), stage_id=second)
    assert [failure["stage_id"] for failure in page.get("failures")["failures"]] == expected


def test_the_end_of_a_runner_that_did_not_start_is_the_failure_of_the_first_stage_that_waits_for_it(page: Page) -> None:
    folder = runner(page, page.plan())
    error = StageFailed("There is no Java.", hint="Install Java 17.")
    write_once(open_filesystem(str(page.here.root)), folder.closed, RunnerEnd(DID_NOT_START, 5.0, error.to_dict()))
    (failure,) = page.get("failures")["failures"]
    shown = {name: failure[name] for name in ("stage_id", "attempt", "state", "kind", "sentence", "hint", "at")}
    assert shown == {
        "stage_id": "visits",
        "attempt": 0,
        "state": "failed",
        "kind": "StageFailed",
        "sentence": "There is no Java.",
        "hint": "Install Java 17.",
        "at": 5.0,
    }


def test_stages_whose_tasks_have_never_begun_are_not_looked_at(page: Page) -> None:
    page.attempt(page.plan(), FAILED, StorageUnavailable("The disk did not answer."))
    page.airflow.marks["flow.visits"] = TaskMark("upstream_failed", 0, 0, None)
    assert page.get("failures")["failures"] == []
    page.airflow.marks["flow.visits"] = TaskMark(None, 1, 1, None)  # cleared, and not scheduled yet
    assert [failure["stage_id"] for failure in page.get("failures")["failures"]] == ["visits"]


def test_the_users_function_is_named_by_its_file_where_the_line_is_not_known(page: Page) -> None:
    error = MessageError("f raised.", file="/dags/visits.py", operator="calibrate")
    assert failure_of(page, FAILED, error)["callable"] == "/dags/visits.py"


def bad_record(record: str) -> TopicError:
    """The error of a line of a file that cannot be read."""
    facts = {"file": "/data/in.json", "stream": "visits", "reason": "no JSON.", "line": 323, "record": record}
    return TopicError("File /data/in.json cannot be read as JSON lines: no JSON.", hint="Leave it out.", **facts)


def test_a_bad_record_is_shown_with_its_file_and_line_instead_of_a_function(page: Page) -> None:
    failure = failure_of(page, FAILED, bad_record('{"country": "fr"'))
    assert (failure["file"], failure["line"], failure["record"]) == ("/data/in.json", 323, '{"country": "fr"')
    assert (failure["callable"], failure["facts"]) == (None, ["stream: visits"])


@pytest.mark.parametrize(
    ("record", "shown"),
    [('{"country": "fr", "email": "a@b.fr"}', '{"country": "fr", "email": "***"}'), ('{"email": "a@b.fr"', "***")],
    ids=["an object", "no object"],
)
def test_of_a_bad_record_no_masked_column_is_shown(
    page: Page, monkeypatch: pytest.MonkeyPatch, record: str, shown: str
) -> None:
    monkeypatch.setenv("AIRFLOW__SAMZA__PAGE_MASKED_COLUMNS", "email")
    failure = failure_of(page, FAILED, bad_record(record))
    assert (failure["line"], failure["record"]) == (323, shown)
    assert "a@b.fr" not in str(failure)


def test_no_bad_record_is_shown_where_rows_are_not(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__SAMZA__PAGE_SAMPLES", "False")
    failure = failure_of(page, FAILED, bad_record('{"country": "fr"'))
    assert (failure["line"], failure["record"]) == (323, None)
    assert '"fr"' not in str(failure)


def test_a_secret_in_a_bad_record_is_not_shown(page: Page) -> None:
    failure = failure_of(page, FAILED, bad_record('{"api_key": "hush", "n": 1}'))
    assert failure["record"] == '{"api_key": "***", "n": 1}'


def test_a_failure_shows_no_password(page: Page) -> None:
    error = TopicError("ftp://me:hush@host did not answer.", hint="Try ftp://me:hush@host.", place="ftp://me:hush@host")
    assert "hush" not in str(failure_of(page, FAILED, error))


def test_a_cancelled_stage_says_that_it_was_cancelled(page: Page) -> None:
    failure = failure_of(page, CANCELLED)
    assert (failure["kind"], failure["sentence"]) == ("cancelled", "The stage visits was cancelled.")


def test_a_stage_whose_runner_has_died_says_so_and_what_to_look_at(page: Page) -> None:
    run = page.plan()
    runner(page, run, claim=ENDED)
    page.attempt(run, RUNNING)
    (failure,) = page.get("failures")["failures"]
    assert failure["kind"] == "lost"
    assert failure["sentence"].startswith("The runner of the stage visits died (")
    assert "it was killed, by hand or out of memory" in failure["sentence"]
    assert "spark.driver.memory" in failure["hint"]


# -- logs --------------------------------------------------------------------------------------------------------------


def test_a_run_without_a_runner_says_so(page: Page) -> None:
    page.plan()
    assert page.get("logs") == {"logs": [], "note": "No stage runner has been started yet."}


def test_a_log_is_shown_with_its_runner(page: Page) -> None:
    folder = runner(page, page.plan(), 3, "one\ntwo\x1b[2J\n", ENDED)
    found = page.get("logs")
    (log,) = found["logs"]
    assert found["note"] is None
    assert (log["runner"], log["host"], log["lives"]) == (3, HERE.host, False)
    assert (log["place"], log["bytes"], log["from_byte"]) == (f"{page.here.root}/{folder.log}", 12, 0)
    assert log["text"] == "one\ntwo\\x1b[2J"
    assert log["note"] is None


def test_of_a_long_log_the_end_is_shown_in_whole_lines(page: Page) -> None:
    runner(page, page.plan(), 1, "a long beginning " * 100 + "\n" + "x" * 1000 + "\n")
    (log,) = page.get("logs", kilobytes=1)["logs"]
    assert log["text"] == "x" * 1000
    assert (log["bytes"], log["from_byte"]) == (2702, 1701)
    assert log["note"] == "Its last 1,001 of 2,702 bytes."


def test_a_runner_without_a_log_says_where_it_prints(page: Page) -> None:
    runner(page, page.plan())
    (log,) = page.get("logs")["logs"]
    assert (log["text"], log["bytes"], log["from_byte"]) == ("", None, 0)
    assert log["note"].startswith("This runner keeps no log under the root")


@pytest.mark.parametrize(
    ("error", "note"),
    [
        (StorageUnavailable("ftp://me:hush@host is away."), "The log could not be read: ftp://me:***@host is away."),
        (OSError("Host is down"), "The log could not be read: Host is down."),
    ],
)
def test_a_log_that_cannot_be_read_says_why(
    page: Page, monkeypatch: pytest.MonkeyPatch, error: Exception, note: str
) -> None:
    runner(page, page.plan(), 1, "something\n")

    def away(self: Any, path: str) -> Any:
        raise error

    monkeypatch.setattr(LocalFilesystem, "open_input", away)
    (log,) = page.get("logs")["logs"]
    assert (log["text"], log["note"]) == ("", note)


def test_the_runners_that_were_heard_last_are_shown_first_and_older_ones_are_counted(page: Page) -> None:
    run = page.plan()
    for number in range(1, 8):
        runner(page, run, number)
    found = page.get("logs")
    assert [log["runner"] for log in found["logs"]] == [7, 6, 5, 4, 3]
    assert found["note"] == "2 older runners are left out: airflow-samza logs shows all."


@pytest.mark.extended
def test_all_runners_are_shown_where_they_are_few(page: Page) -> None:
    run = page.plan()
    for number in range(failures.RUNNERS_SHOWN):
        runner(page, run, number + 1)
    assert page.get("logs")["note"] is None


# -- links -------------------------------------------------------------------------------------------------------------


def links(page: Page, spark: SparkPage | None, claim: Claim) -> list[dict[str, Any]]:
    folder = runner(page, page.plan(), claim=claim)
    if spark is not None:
        note_spark_page(open_filesystem(str(page.here.root)), folder, spark)
    replace(open_filesystem(str(page.here.root)), folder.heartbeat, Heartbeat(1e12))
    found: list[dict[str, Any]] = page.get("links")["links"]
    return found


def test_a_runner_that_lives_is_linked_to_its_spark(page: Page) -> None:
    assert links(page, SparkPage("app-1", "http://driver:4040", "http://history/app-1"), HERE) == [
        {"name": "Spark of runner 1", "url": "http://driver:4040", "stage_id": None, "note": None}
    ]


@pytest.mark.parametrize(
    ("spark", "url", "note"),
    [
        (SparkPage("app-1", "http://driver:4040", "http://history/app-1"), "http://history/app-1", None),
        (
            SparkPage("app-1", "http://driver:4040"),
            "http://driver:4040",
            "The driver has ended, and its page with it.",
        ),
    ],
)
def test_a_runner_that_has_ended_is_linked_to_its_history_if_there_is_one(
    page: Page, spark: SparkPage, url: str, note: str | None
) -> None:
    (link,) = links(page, spark, ENDED)
    assert (link["url"], link["note"]) == (url, note)


@pytest.mark.parametrize("spark", [None, SparkPage("app-1")])
def test_a_runner_whose_spark_has_no_page_has_no_link(page: Page, spark: SparkPage | None) -> None:
    assert links(page, spark, HERE) == []

"""The result of a stage and of a run as people read it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, cast

import pytest

from airflow_samza.cli.run_command import summary
from airflow_samza.figures import BYTES, SECONDS, unit_of
from airflow_samza.provider.stats import COUNTERS
from airflow_samza.provider.xcoms import summary as xcom
from airflow_samza.records import decode, encode, from_plain
from airflow_samza.runs.records.run_plan import CONTINUOUS, STAGED, RunPlan
from airflow_samza.runs.records.spans import Span
from airflow_samza.runs.records.stage_result import (
    InputResult,
    OutputResult,
    StageResult,
    describe_result,
    run_seconds,
)
from airflow_samza.runs.records.totals import Totals
from airflow_samza.runs.stages.stage_state import StatusRecord

READ = InputResult("lines", "lake", "lines", 2, 1_500, 4, 33_191)
SENT = OutputResult("by-word", "log", "by-word", 2, 12, 8, 15_592, "partial results", own=True)


def result(stage_id: str = "lines", *ran: Span, **facts: Any) -> StageResult:
    seconds = sum(span.seconds for span in ran)
    return StageResult("words", "r", stage_id, "1.1", 2, seconds, 1.5, (READ,), (SENT,), facts, ran=ran)


def of_mode(mode: str) -> RunPlan:
    run = RunPlan("words", "1", "words:words", "r", 1, cast(Any, None), {}, mode=mode)
    return run


def test_counts_of_tasks_are_shown_in_their_unit_with_no_digit_that_nobody_measured() -> None:
    told = Totals(0.0).plus(
        [
            ({}, {}, {"restore_seconds": part, "restored_from_root_bytes": 2_268, "scores": 0.1}, 0.0)
            for part in (0.0401, 0.002)
        ]
    )
    lines = describe_result(result("lines", Span(1, 0.0, 3.0), **told.facts))
    assert [line.strip() for line in lines[3:]] == [
        "restore: 42.1 ms",
        "restored from root: 4.4 KiB",
        "scores: 0.2",
    ]
    assert told.facts["restore_seconds"] == 0.0421


def test_bytes_that_were_read_are_those_in_memory_and_partial_results_are_called_so() -> None:
    read, sent = describe_result(result("lines", Span(1, 0.0, 3.0)))[1:]
    assert "1,500 messages  32.4 KiB in memory  4 control messages" in " ".join(read.split(" "))
    assert "12 partial results  15.2 KiB " in sent


@pytest.mark.parametrize(
    ("facts", "shown"),
    [
        ({"snapshot": "8271638172635514"}, "web.lines (snapshot 8271638172635514)"),
        ({"version": "0"}, "web.lines (version 0)"),
        ({"snapshot": "7", "branch": "audit/r"}, "web.lines (snapshot 7 on the branch 'audit/r')"),
        ({}, "web.lines"),
    ],
)
def test_what_was_committed_to_a_table_has_its_snapshot_or_version(facts: dict[str, Any], shown: str) -> None:
    written = replace(result("lines"), outputs=(replace(SENT, facts={"path": "web.lines", **facts}),))
    assert describe_result(written)[2].endswith(f"  {shown}")


def test_the_units_of_counters_are_those_of_their_names() -> None:
    for name, counter in COUNTERS.items():
        assert unit_of(name) == (counter.unit if counter.unit in (SECONDS, BYTES) else ""), name


TOGETHER = [result("lines", Span(1, 100.0, 58.3)), result("by-word", Span(1, 100.4, 75.9))]
IN_TURN = [result("lines", Span(1, 100.0, 5.0), Span(2, 900.0, 11.0)), result("by-word", Span(1, 911.0, 2.0))]


@pytest.mark.parametrize(
    ("mode", "results", "seconds", "text"),
    [(CONTINUOUS, TOGETHER, 76.3, "1 min 16 s"), (STAGED, IN_TURN, 18.0, "18.0 s")],
    ids=["stages at the same time", "one after the other, with a pause before a retry"],
)
def test_a_run_takes_the_time_in_which_at_least_one_of_its_stages_was_at_work(
    mode: str, results: list[StageResult], seconds: float, text: str
) -> None:
    run = of_mode(mode)
    assert run_seconds(run, results) == pytest.approx(seconds)
    assert summary(run, results).startswith(f"Run r of words succeeded in {text}.")
    written = [replace(one, inputs=(), outputs=()) for one in results]
    assert xcom(run, written)["seconds"] == pytest.approx(seconds)


def test_the_work_of_a_former_plan_is_not_part_of_the_time_of_a_run_that_keeps_its_result() -> None:
    results = [replace(IN_TURN[0], kept=True), IN_TURN[1]]
    assert summary(of_mode(STAGED), results).startswith("Run r of words succeeded in 2.0 s.")
    assert xcom(of_mode(STAGED), [replace(one, inputs=(), outputs=()) for one in results])["seconds"] == 2.0


def test_results_of_a_former_release_are_added_up_unless_their_stages_ran_at_the_same_time() -> None:
    known = [replace(one, ran=()) for one in TOGETHER]
    assert run_seconds(of_mode(CONTINUOUS), known) == 75.9
    assert run_seconds(of_mode(STAGED), known) == pytest.approx(134.2)


def test_records_of_a_former_release_have_no_spans() -> None:
    status, finished = StatusRecord("failed", None, None, 9.0), result("lines", Span(1, 0.0, 3.0))
    for record, key in ((status, "ran"), (finished, "ran")):
        written = json.loads(encode(record))
        del written[key]
        assert decode(type(record), json.dumps(written).encode(), "x").ran == ()
    assert from_plain(Totals, {"began_at": 1.0}).seconds is None

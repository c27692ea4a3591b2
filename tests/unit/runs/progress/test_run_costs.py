"""Estimates of what a run may cost, by what former runs of the application have cost."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

from airflow_samza.records import encode
from airflow_samza.runs.progress.run_costs import (
    Estimate,
    History,
    InputAmount,
    RunCost,
    _amount,
    history,
    run_requests,
    total,
)
from airflow_samza.runs.progress.run_list import Origin
from airflow_samza.runs.records.folders import RunFolder, must_read, replace, write_once
from airflow_samza.runs.records.names import Generation
from airflow_samza.runs.records.run_plan import most_messages_of
from airflow_samza.runs.records.stage_result import StageResult
from airflow_samza.runs.stages.run_ends import RunEnd
from airflow_samza.runs.stages.stage_runners import Claim, RunnerEnd, RunnerFolder, StageRequest
from airflow_samza.systems.filesystems.local import LocalFilesystem
from airflow_samza.systems.filesystems.pace import CHARGED
from tests.support.runs_here import Here

MEETING = "tests.support.carrying_apps:meeting"
CLICKS = pa.schema([("member", pa.int64()), ("page", pa.string()), ("n", pa.int64())])


def read(amount: int | None) -> tuple[InputAmount, ...]:
    return (InputAmount("events", "lake", "files", 1, amount),)


def cost(amount: int | None, *, seconds: float, work: float, rows: int) -> RunCost:
    return RunCost(f"of-{amount}", None, "succeeded", seconds, work, {"counts": rows}, read(amount))


def estimate(wanted: int, *runs: RunCost) -> Estimate:
    found = History(runs).estimate(read(wanted))
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("input_slice", "messages"),
    [
        ({"offsets": [[3, 10], [0, 5]]}, 12),
        ({"offsets": [[3, None]]}, None),
        ({"offsets": None, "bytes": 3200}, 100),
        ({"offsets": [[0, 1 << 40]], "chunks": [], "bytes": 640}, 20),
        ({"offsets": None}, None),
        ({}, None),
        (None, None),
    ],
)
def test_messages_of_a_range_are_those_between_its_offsets_or_by_its_size(
    input_slice: dict[str, Any] | None, messages: int | None
) -> None:
    assert most_messages_of(input_slice) == messages


def test_the_start_of_spark_does_not_grow_with_the_input() -> None:
    found = estimate(1000, cost(10, seconds=8.0, work=0.2, rows=2))
    assert found.seconds == 7.8 + 0.2 * 100
    assert found.task_seconds == 0.2 * 100


def test_the_time_of_tasks_that_work_side_by_side_grows_as_a_whole() -> None:
    assert estimate(200, cost(100, seconds=50.0, work=380.0, rows=1)).seconds == 100.0


def test_rows_grow_in_proportion_while_former_runs_have_read_about_the_same() -> None:
    runs = cost(100, seconds=1, work=1, rows=50), cost(110, seconds=1, work=1, rows=55)
    assert estimate(1000, *runs).rows == 500


def test_rows_of_an_aggregation_do_not_grow_when_former_runs_show_it() -> None:
    runs = cost(42, seconds=1, work=1, rows=2), cost(481, seconds=1, work=1, rows=2)
    assert estimate(1400, *runs).rows == 2


def test_without_known_amounts_a_run_costs_what_runs_have_cost() -> None:
    found = estimate(7, cost(None, seconds=3.0, work=2.0, rows=5), cost(None, seconds=5.0, work=2.0, rows=5))
    assert (found.by, found.seconds, found.rows) == ("run", 4.0, 5)


amounts = st.integers(1, 10**12)


@given(amounts, amounts, st.floats(0, 1e5), st.floats(0, 1e6), st.integers(0, 10**9))
def test_more_input_costs_no_less_and_the_same_input_the_same(
    some: int, more: int, seconds: float, work: float, rows: int
) -> None:
    run = cost(some, seconds=seconds, work=work, rows=rows)
    same, other = estimate(some, run), estimate(some + more, run)
    assert abs(same.seconds - seconds) < 0.01
    assert same.rows == rows
    assert other.seconds >= same.seconds
    assert other.rows >= same.rows


# -- the records that estimates are made of ----------------------------------------------------------------------------


@pytest.fixture
def here(tmp_path: Path) -> Here:
    here = Here(tmp_path)
    rows = [{"member": n % 3, "page": f"p{n}", "n": n} for n in range(6)]
    here.log.append("clicks", pa.Table.from_pylist(rows, CLICKS), key=["member"], partitions=2)
    return here


def test_former_runs_are_read_newest_first_with_what_they_have_read_and_written(here: Here) -> None:
    files = here.log.filesystem
    for number, run_id in enumerate(("old", "new")):
        run = here.whole(MEETING, run_id)
        origin = Origin("flights", f"of {run_id}", "plan", float(number + 1))
        replace(files, f"{RunFolder('meeting', run_id).path}/origin.json", origin)
    assert run.interval is None
    found = history(files, "meeting")
    assert ([cost.run_id for cost in found.runs], found.unread) == (["new", "old"], 0)
    (newest,) = history(files, "meeting", 1).runs
    assert (newest.run_id, newest.state, newest.dag_id, newest.dag_run) == ("new", "succeeded", "flights", "of new")
    assert newest.rows == {"met": 6}  # and nothing of what passes between stages
    assert [(amount.stream_id, amount.offsets, amount.files, amount.bytes) for amount in newest.inputs] == [
        ("clicks", 6, None, None)
    ]
    assert newest.seconds is not None
    assert newest.task_seconds > 0


def test_a_run_that_has_not_ended_has_no_time(here: Here) -> None:
    run = here.plan(MEETING, "half")
    here.stages(run, "clicks")
    (found,) = history(here.log.filesystem, "meeting").runs
    assert (found.seconds, found.state, found.rows) == (None, "running", {})
    assert found.task_seconds > 0
    assert History([found]).estimate(found.inputs) is None


def test_a_run_whose_records_cannot_be_read_is_counted_and_no_more(here: Here) -> None:
    here.whole(MEETING, "good")
    here.plan(MEETING, "bad")
    here.log.filesystem.put(RunFolder("meeting", "bad").plan(1), b"{")
    found = history(here.log.filesystem, "meeting")
    assert ([cost.run_id for cost in found.runs], found.unread) == (["good"], 1)


def test_runs_of_an_interval_are_found_by_it() -> None:
    day = ("2026-01-01", "2026-01-02")
    runs = [RunCost(str(n), day if n % 2 else None, "succeeded", 1.0, 1.0, {}, ()) for n in range(4)]
    assert [run.run_id for run in History(runs).of_data(day)] == ["1", "3"]
    assert History(runs).of_data(None) == []
    keyed = [RunCost(key, None, "succeeded", 1.0, 1.0, {}, (), partition_key=key) for key in ("nl", "be")]
    assert [run.run_id for run in History(keyed).of_data(None, "nl")] == ["nl"]


@pytest.mark.parametrize(
    ("amounts_read", "what", "whole"),
    [
        ([1, 2], "bytes", 3),
        ([1, None], "bytes", None),
        ([], "bytes", None),
        ([0], "bytes", 0),
        ([1, 2], "offsets", None),
    ],
)
def test_an_amount_of_all_inputs_is_known_where_that_of_each_is(
    amounts_read: list[int | None], what: str, whole: int | None
) -> None:
    assert total([InputAmount("s", "lake", "files", 1, amount) for amount in amounts_read], what) == whole


@pytest.mark.parametrize(
    ("slice_", "amount"),
    [
        ({}, (None, None, None)),
        ({"files": [{}, {}], "bytes": 7, "offsets": [[0, 2]]}, (2, 7, None)),
        ({"offsets": [[1, 5], [0, 2]], "bytes": "many"}, (None, None, 6)),
        ({"offsets": [["a", "b"]]}, (None, None, None)),
        ({"offsets": [[1]]}, (None, None, None)),
        ({"files": None, "offsets": None}, (None, None, None)),
    ],
)
def test_what_a_plan_knows_of_an_input_is_files_and_bytes_or_offsets(slice_: Any, amount: tuple[Any, ...]) -> None:
    found = _amount("s", "lake", "files", slice_)
    assert (found.files, found.bytes, found.offsets) == amount


class Charged(LocalFilesystem):
    """A root that charges for each request."""

    pace = CHARGED


def test_requests_are_those_of_planning_submitting_tasks_runners_and_the_end(here: Here) -> None:
    files, run = here.log.filesystem, here.plan(MEETING, "run-1")
    here.stages(run, "clicks")
    folder = RunFolder("meeting", "run-1")
    stage, runner = folder.stage("clicks", Generation(1, 1)), RunnerFolder(folder, "key", 1)
    result = must_read(files, stage.result, StageResult)
    files.put(stage.result, encode(dataclasses.replace(result, requests={"put": 100})))
    for attempt in (1, 2):
        write_once(
            files, stage.attempt(attempt, "request"), StageRequest("clicks", "1.1", attempt, requests={"get": 1})
        )
    write_once(files, runner.claim, Claim(claimed_at=1.0))
    write_once(files, runner.closed, RunnerEnd("idle", 1.0, requests={"get": 10}))
    write_once(files, folder.closed, RunEnd(True, 1.0, requests={"list": 5}))
    planned = dataclasses.replace(run, requests={"put": 1})
    assert run_requests(Charged(here.root), planned) == {"put": 101, "get": 12, "list": 5}
    assert run_requests(files, planned) == {}

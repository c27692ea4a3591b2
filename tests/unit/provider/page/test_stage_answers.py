"""Figures of a stage's inputs: which partitions are furthest behind, and how unequal they are."""

from __future__ import annotations

import dataclasses

import pytest

from airflow_samza.provider.page.stage_answers import (
    Skew,
    bound_of,
    ended_stage,
    input_answer,
    skew,
    stage_answer,
)
from airflow_samza.runs.progress.progress import PartitionProgress, ProgressReport
from airflow_samza.runs.records.run_plan import RunPlan
from airflow_samza.runs.records.stage_result import InputResult, StageResult
from tests.support.page_here import Page


@pytest.fixture
def run(page: Page) -> RunPlan:
    return page.plan()


def partition(number: int, offset: int | None, head: int | None, **given: object) -> PartitionProgress:
    return PartitionProgress("visits", number, offset, head, **given)  # type: ignore[arg-type]


def test_the_partitions_that_are_furthest_behind_are_shown_at_most_three(run: RunPlan) -> None:
    lags = [1, 0, 4, 2, 3, None]
    partitions = [partition(n, 10, None if lag is None else 10 + lag) for n, lag in enumerate(lags)]
    found = input_answer(run, "visits", partitions)
    assert [(worst.partition, worst.lag) for worst in found.worst] == [(2, 4), (4, 3), (3, 2)]


def test_an_input_adds_its_partitions_up(run: RunPlan) -> None:
    partitions = [
        partition(0, 5, 10, watermark=70, ends=1, ends_expected=2),
        partition(1, 10, 10, watermark=50, ends=2, ends_expected=2, ended=True),
        partition(2, 10, 10, ends_expected=2),
    ]
    found = input_answer(run, "visits", partitions, read=9)
    assert (found.stream_id, found.producer, found.partitions, found.read) == ("visits", None, 3, 9)
    assert (found.lag, found.watermark) == (5, None)
    assert (found.ends, found.ends_expected, found.ended_partitions, found.idle_partitions) == (3, 6, 1, 1)
    assert found.percent_read == pytest.approx(83.3, abs=0.1)


def test_an_input_from_a_stage_names_it(run: RunPlan) -> None:
    assert input_answer(run, "by-country", []).producer == "visits"


def test_skew_compares_the_largest_partition_with_the_mean() -> None:
    found = skew([partition(0, 0, 2), partition(1, 0, 7), partition(2, 0, 7, begin=1), partition(3, 0, None)])
    assert found is not None
    assert (found.largest, found.largest_offsets, found.mean_offsets, found.ratio) == (1, 7, 5.0, 1.4)


def test_of_equally_large_partitions_the_first_is_named() -> None:
    found = skew([partition(0, 0, 1), partition(1, 0, 3), partition(2, 0, 3)])
    assert found is not None
    assert found.largest == 1


def test_the_result_of_a_stage_tells_the_skew_of_its_inputs(run: RunPlan) -> None:
    inputs = [
        InputResult("visits", "log", "visits", 4, 100, 0, 0, largest=2, largest_offsets=70, offsets=100),
        InputResult("countries", "log", "countries", 4, 100, 0, 0),
    ]
    result = StageResult("visits", "one", "visits", "1.1", 4, 1.0, 1.0, tuple(inputs), ())
    shown = [read.skew for read in ended_stage(run, result, "", "", 1, None).inputs]
    assert shown == [Skew(largest=2, largest_offsets=70, mean_offsets=25.0, ratio=2.8), None]


@pytest.mark.parametrize("heads", [[], [5], [0, 0], [5, None]])
def test_there_is_no_skew_without_two_sizes(heads: list[int | None]) -> None:
    assert skew([partition(number, 0, head) for number, head in enumerate(heads)]) is None


def test_a_side_input_shows_its_own_partitions(run: RunPlan) -> None:
    side = (PartitionProgress("visits", 0, 3, 5), PartitionProgress("countries", 0, 1, 1))
    report = ProgressReport("visits", "1.1", "running", 0.0, side_inputs=side)
    shown = stage_answer(run, report, "", "", {})
    assert {found.stream_id: (found.partitions, found.read, found.lag) for found in shown.side_inputs} == {
        "visits": (1, None, 2),
        "countries": (1, None, 0),
    }


@pytest.mark.parametrize(
    ("stage_id", "lag", "at_work", "publishing", "expected"),
    [
        ("visits", 0, 0.1, 0.0, "source"),
        ("by-country", 0, 0.1, 0.9, "producer"),
        ("visits", 9, 1.9, 0.9, "tasks"),
        ("visits", 9, 0.2, 0.9, "epochs"),  # it writes a topic of the run
        ("by-country", 9, 0.2, 0.9, "sink"),
        ("by-country", 9, 0.2, 0.1, "epochs"),
        ("by-country", 9, 0.2, None, "epochs"),
        ("visits", 9, None, None, None),
    ],
)
def test_the_pace_of_a_stage_is_that_of_its_input_its_tasks_its_sink_or_its_epochs(
    run: RunPlan, stage_id: str, lag: int, at_work: float | None, publishing: float | None, expected: str | None
) -> None:
    partitions = (PartitionProgress(stage_id, 0, 1, 1 + lag),)
    report = ProgressReport(stage_id, "1.1", "running", 5.0, tasks=2, several_epochs=True, partitions=partitions)
    report = dataclasses.replace(report, at_work=at_work, publishing=publishing)
    assert bound_of(run, report) == expected
    whole = dataclasses.replace(report, several_epochs=False)
    assert bound_of(run, whole) is None
    ended = dataclasses.replace(report, state="succeeded")
    assert bound_of(run, ended) is None

"""Costs of an application's former runs, by their records, and what another run may cost by them.

Operators of automatic mode, previews of backfills, the page and the command line estimate by them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from statistics import linear_regression, median
from typing import Any

from airflow_samza.application.operator_specs import TransformSpec
from airflow_samza.config import Config
from airflow_samza.errors import SamzaError
from airflow_samza.grouping import grouped
from airflow_samza.runs.progress.run_list import RunEntry, newest_runs, plan_of, run_state
from airflow_samza.runs.records.folders import numbers, read_report
from airflow_samza.runs.records.run_plan import SIDE_INPUT, RunPlan, most_messages_of, slice_facts
from airflow_samza.runs.records.stage_result import StageResult, requests_of, run_seconds
from airflow_samza.runs.stages.newest_stages import finished_result
from airflow_samza.runs.stages.run_ends import RunEnd
from airflow_samza.runs.stages.stage_runners import RunnerEnd, StageRequest, all_runners
from airflow_samza.system_kinds import DATAFRAMES, KINDS_OF_NAMES
from airflow_samza.systems.filesystems.filesystem import Filesystem
from airflow_samza.systems.filesystems.object_store.requests import added


@dataclass(frozen=True)
class InputAmount:
    """The amount that a run reads of one input: files, bytes and offsets, each None where a plan does not know it."""

    stream_id: str
    system: str
    kind: str
    files: int | None = None
    bytes: int | None = None
    offsets: int | None = None


@dataclass(frozen=True)
class RunCost:
    """The cost of a run that is on record.

    ``state`` is that of lists of runs. ``seconds`` is the time in which at least one of its stages was at work (None
    unless all have succeeded), without that of Airflow between them; ``task_seconds`` the work of all tasks. ``rows``
    are what it wrote outside, by stream. ``interval`` is its data interval as ISO texts, ``partition_key`` its key.
    """

    run_id: str
    interval: tuple[str, str] | None
    state: str
    seconds: float | None
    task_seconds: float
    rows: Mapping[str, int]
    inputs: tuple[InputAmount, ...]
    dag_id: str = ""
    dag_run: str = ""
    partition_key: str | None = None


@dataclass(frozen=True)
class Estimate:
    """The likely cost of a run by ``runs`` former ones: seconds, and the rows that it writes.

    ``by`` says what the cost was taken to grow with: ``bytes`` or ``offsets`` of the inputs, or ``run`` (nothing).
    """

    runs: int
    by: str
    seconds: float
    task_seconds: float
    rows: int


@dataclass(frozen=True)
class History:
    """The former runs of an application, newest first; ``unread`` are those whose records cannot be read."""

    runs: Sequence[RunCost] = ()
    unread: int = 0

    @cached_property
    def _succeeded(self) -> list[RunCost]:
        """The runs that an estimate is made from."""
        return [run for run in self.runs if run.seconds is not None][:_MOST]

    def of_data(self, interval: tuple[str, str] | None, partition_key: str | None = None) -> list[RunCost]:
        """Return the runs of a data interval, or of a partition key that names none."""
        if interval is not None:
            return [run for run in self.runs if run.interval == interval]
        return [run for run in self.runs if partition_key is not None and run.partition_key == partition_key]

    def estimate(self, inputs: Sequence[InputAmount]) -> Estimate | None:
        """Return the likely cost of a run that reads these amounts; None without a former run that succeeded."""
        if not self._succeeded:
            return None
        for by in ("bytes", "offsets"):
            planned = total(inputs, by)
            former = [(run, amount) for run in self._succeeded if (amount := total(run.inputs, by))]
            if former and planned is not None:
                return _estimate(former, planned, by)
        return _estimate([(run, 1) for run in self._succeeded], 1, "run")


_MOST = 20
"""Former runs of which an estimate is made: the newest, since code and cluster change."""


def history(files: Filesystem, application: str, most: int | None = None) -> History:
    """Return the former runs of an application: all, or the newest ``most``."""
    costs, unread = [], 0
    for former_run in islice(newest_runs(files, application), most):
        try:
            costs.append(_cost(files, former_run))
        except (SamzaError, OSError, KeyError, ValueError):
            unread += 1
    return History(costs, unread)


def amounts(run: RunPlan) -> tuple[InputAmount, ...]:
    """Return what a planned run reads of each input from outside, as far as its plan knows."""
    return tuple(
        _amount(stream_id, stream.system, str(run.systems.get(stream.system, {}).get("kind", "")), stream.slice or {})
        for stream_id, stream in sorted(run.streams.items())
        if stream.role == "input"
    )


def may_do_without_spark(run: RunPlan) -> bool:
    """Return whether no stage of a run needs Spark, as far as the plan knows.

    Its fixed ranges have no more messages than an epoch that runs without, no stage has parts that Spark runs, or
    tables that it keeps from epoch to epoch, and no stream is one of Spark's.
    """
    plan = run.plan
    if any((stage.tables or stage.side_inputs) and run.runs_epochs(stage.stage_id) for stage in plan.stages):
        return False
    if any(operator.op == TransformSpec.op for operator in plan.operators):
        return False
    if any(system.get("kind") == KINDS_OF_NAMES[DATAFRAMES] for system in run.systems.values()):
        return False
    read = [most_messages_of(bound.slice) for bound in run.streams.values() if bound.role in ("input", SIDE_INPUT)]
    return None not in read and sum(n for n in read if n is not None) <= Config(run.config).driver_max_messages


def total(inputs: Sequence[InputAmount], what: str) -> int | None:
    """Return the ``files``, ``bytes`` or ``offsets`` of all inputs; None when that of one is not known, or none is."""
    amounts = [getattr(amount, what) for amount in inputs]
    return None if not amounts or None in amounts else sum(amounts)


def _amount(stream_id: str, system: str, kind: str, slice_: Mapping[str, Any]) -> InputAmount:
    facts, offsets = slice_facts(slice_), slice_.get("offsets")
    files, offsets_read = facts.get("files"), None
    if files is None and isinstance(offsets, list):
        with suppress(TypeError, ValueError):
            offsets_read = sum(int(end) - int(start) for start, end in offsets)
    size = slice_.get("bytes")
    return InputAmount(
        stream_id,
        system,
        kind,
        files=files,
        bytes=size if isinstance(size, int) else None,
        offsets=offsets_read,
    )


def _cost(files: Filesystem, former_run: RunEntry) -> RunCost:
    run = plan_of(files, former_run)
    found = (finished_result(files, run, stage.stage_id) for stage in run.plan.stages)
    results = [result for result in found if result is not None]
    written = grouped((out.stream_id, out.messages) for one in results for out in one.outputs if not out.own)
    return RunCost(
        run.run_id,
        run.interval,
        run_state(files, former_run.folder),
        run_seconds(run, results) if len(results) == len(run.plan.stages) else None,
        sum(result.task_seconds for result in results),
        {stream_id: sum(messages) for stream_id, messages in written.items()},
        amounts(run),
        former_run.origin.dag_id,
        former_run.origin.run_id,
        run.partition_key,
    )


def _estimate(costs: Sequence[tuple[RunCost, int]], new_amount: int, by: str) -> Estimate:
    """Return the likely cost of an input of an amount, by runs with the amounts that they read."""
    return Estimate(
        len(costs),
        by,
        round(median(_seconds(run, new_amount / amount) for run, amount in costs), 3),
        round(median(run.task_seconds * new_amount / amount for run, amount in costs), 3),
        _rows([(amount, sum(run.rows.values())) for run, amount in costs], new_amount),
    )


def _seconds(run: RunCost, factor: float) -> float:
    """Return the time of a run that reads ``factor`` times as much.

    The work in the tasks grows with what is read; the rest, such as the start of Spark, does not.
    """
    seconds = run.seconds or 0.0
    grows = min(seconds, run.task_seconds)
    return seconds - grows + grows * factor


def _rows(former: Sequence[tuple[int, int]], new_amount: int) -> int:
    """Return the rows that are written for an amount of input.

    Amounts of which the greatest is twice the least one show how rows grow with them: those of an aggregation hardly
    do. Else they are taken to grow in proportion.
    """
    amounts_read = [amount for amount, _ in former]
    if max(amounts_read) < 2 * min(amounts_read):
        return round(median(rows * new_amount / amount for amount, rows in former))
    slope, intercept = linear_regression(amounts_read, [rows for _, rows in former])
    return max(0, round(intercept + slope * new_amount))


def run_requests(files: Filesystem, run: RunPlan) -> dict[str, int]:
    """Return the requests of a run so far, by kind; none on a root where they cost nothing.

    They are those of planning, of submitting, of its runners and tasks, and of its end. Looks of tasks that only wait
    are in no record.
    """
    if files.pace.is_free:
        return {}
    folder = run.folder
    parts = [run.requests]
    for stage in run.plan.stages:
        for generation in folder.generations(files, stage.stage_id):
            records = folder.stage(stage.stage_id, generation)
            for attempt in numbers(files, records.attempts):
                request = read_report(files, records.attempt(attempt, "request"), StageRequest)
                parts += [request.requests] if request is not None else []
            result = read_report(files, records.result, StageResult)
            parts += [result.requests, requests_of(result.task_facts)] if result is not None else []
    ends = [read_report(files, runner.closed, RunnerEnd) for runner in all_runners(files, folder)]
    parts += [end.requests for end in ends if end is not None]
    closed = read_report(files, folder.closed, RunEnd)
    return added([*parts, closed.requests if closed is not None else {}])

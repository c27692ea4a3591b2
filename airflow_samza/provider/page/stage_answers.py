"""A stage's progress as the page shows it: inputs with all their partitions together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from pydantic import PrivateAttr

from airflow_samza.figures import unit_of
from airflow_samza.provider.page.answer import Answer, OfStage
from airflow_samza.runs.progress.progress import (
    PartitionProgress,
    ProgressReport,
    idle_partitions,
    lowest_watermark,
    percent_behind,
    percent_read,
    summed,
)
from airflow_samza.runs.progress.stage_progress import ended_report, ends_expected
from airflow_samza.runs.records.expectations import Results
from airflow_samza.runs.records.run_plan import RunPlan
from airflow_samza.runs.records.stage_result import InputResult, StageResult
from airflow_samza.runs.stages.stage_state import RUNNING

WORST = 3
"""Partitions of an input that are named with the input itself."""


class Rate(Answer):
    """Messages per second, read and sent, over so many seconds."""

    read: float
    sent: float
    seconds: float


class Partition(Answer):
    """One partition of an input; None where a figure is not known. The watermark is in ms since 1970."""

    stream_id: str
    partition: int
    begin: int
    offset: int | None
    """The next offset to be read."""
    head: int | None
    offsets: int | None
    """All offsets that it has for this run: messages, and whatever else has a place among them."""
    lag: int | None
    percent_read: float | None
    """100 only where nothing is left."""
    watermark: int | None
    ends: int
    ends_expected: int
    ended: bool


class Skew(Answer):
    """The skew of partitions, by the offsets that they have for this run."""

    largest: int
    """The number of the largest partition."""
    largest_offsets: int
    mean_offsets: float
    ratio: float
    """The largest over the mean; 1.0 where all are equal."""


class Input(Answer):
    """An input of a stage, all its partitions together."""

    stream_id: str
    producer: str | None
    """The stage that writes it; None of a source."""
    partitions: int
    read: int | None
    """Messages read of it; None of a side input, which fills tables."""
    lag: int | None
    """Offsets that are not read, as far as the ends of its partitions are known."""
    percent_read: float | None
    watermark: int | None
    """The least of the partitions that have not ended, in ms since 1970."""
    ends: int
    """End-of-stream messages received: of each producing task in each partition."""
    ends_expected: int
    ended_partitions: int
    idle_partitions: int
    """Partitions at their head and without a watermark, for which time waits."""
    skew: Skew | None
    worst: list[Partition]
    """The partitions that are furthest behind, three at most."""


class HeldTable(Answer):
    """The version of a pushed table that a stage reads."""

    table_id: str
    version: int
    newest: int | None
    """The current version under the root."""
    current_from: str | None
    """Since when the newest is current, an ISO text."""


class Count(Answer):
    """A count or gauge of tasks; ``unit`` is ``seconds``, ``bytes``, or empty for a number."""

    name: str
    value: float
    unit: str


Bound = Literal["source", "producer", "tasks", "sink", "epochs"]


class Stage(OfStage):
    """A stage of a run at a moment."""

    task_id: str
    generation: str
    state: str
    """One of *not started*, *queued*, *running*, *unfinished*, *succeeded*, *failed*, *cancelled*, *lost*."""
    attempt: int
    epochs: int
    tasks: int
    tasks_done: int
    """Tasks that have nothing left to do in the open epoch."""
    tasks_ended: int
    """Tasks that have nothing left to do in the whole stage."""
    began_at: float | None
    seconds: float | None
    """The time for which attempts have run it, without what passed between them; None: not known."""
    read: int
    read_unit: str
    """``messages`` or ``partial results``."""
    sent: int
    sent_unit: str
    bytes_read: int | None
    """Bytes of the columns that were read, in memory."""
    bytes_written: int | None
    """Bytes in the systems that were written to, as far as these report them."""
    late: int
    dropped: int
    dead_letters: int
    now: Rate | None
    overall: Rate | None
    lag: int | None
    """Offsets that are not read, as far as the ends of the inputs are known."""
    percent_read: float | None
    """None unless the ends of all inputs are known."""
    watermark: int | None
    waiting_for: str | None
    waits: str | None
    """The reason for which the stage has not begun, a sentence; None of one that has."""
    seconds_left: float | None
    """The time until it has read what lies before it, at its present rate; None: not known, or nothing is left."""
    at_work: float | None
    """The number of its tasks that were at work of late, on average; None: not known."""
    bound: Bound | None
    """The limit of its pace; None: not known.

    Its ``source`` or ``producer`` has no more for it; its ``tasks`` are at work nearly all of the time; its ``sink``
    takes most of it to publish; or most of the time passes otherwise outside of tasks, with ``epochs`` that begin and
    commit, and slots of Spark.
    """
    several_epochs: bool
    inputs: list[Input]
    side_inputs: list[Input]
    tables: list[HeldTable]
    restored: list[Count]
    """Bytes of state with which tasks began, by where they were found."""
    metrics: list[Count]
    _warnings: tuple[str, ...] = ()
    """Sentences about what all its messages so far had in common: they are among the notes of the run."""
    _expectations: Results = PrivateAttr(default_factory=dict)
    """The results of its expectations so far, by stream: they are among the outputs of the run."""


class Progress(Answer):
    """The progress of a run. The same ``ETag`` (send it as ``If-None-Match``) is answered with 304."""

    application: str
    run: str
    generation: int
    mode: str
    state: str
    """``running``, ``succeeded`` or ``failed``."""
    stages: list[Stage]
    requests: list[Count]
    """Requests to a root that charges for them, by kind."""
    bottleneck: str | None
    """The stage that takes longest to read what lies before it, where several run."""
    state_version: int | None
    """The version of the application's state that the run has left; None where it leaves none, or none yet."""
    next_look: float
    """Seconds after which another look is fitting; 0 when the run has ended."""
    note: str | None


class Partitions(Answer):
    """A page of the partitions of an input."""

    stage_id: str
    stream_id: str
    total: int
    partitions: list[Partition]


def stage_answer(
    run: RunPlan, report: ProgressReport, name: str, task_id: str, tables: Mapping[str, HeldTable]
) -> Stage:
    """Return a stage as a report has it."""
    answer = Stage(
        stage_id=report.stage_id,
        stage_name=name,
        task_id=task_id,
        generation=report.generation,
        state=report.state,
        attempt=report.attempt,
        epochs=report.epochs,
        tasks=report.tasks,
        tasks_done=report.tasks_done,
        tasks_ended=report.tasks_ended,
        began_at=report.began_at,
        seconds=report.seconds,
        read=report.read,
        read_unit=report.units[0],
        sent=report.sent,
        sent_unit=report.units[1],
        bytes_read=report.bytes_read,
        bytes_written=report.bytes_written,
        late=report.late,
        dropped=report.dropped,
        dead_letters=report.dead_letters,
        now=_rate(report.now),
        overall=_rate(report.overall),
        lag=report.lag,
        percent_read=percent_read(report.percent_behind),
        watermark=report.watermark,
        waiting_for=report.waiting_for,
        waits=None,
        seconds_left=report.seconds_left,
        at_work=report.at_work,
        bound=bound_of(run, report),
        several_epochs=report.several_epochs,
        inputs=[
            input_answer(run, stream_id, report.of(stream_id), report.read_of.get(stream_id))
            for stream_id in report.inputs
        ],
        side_inputs=[
            input_answer(
                run, stream_id, [partition for partition in report.side_inputs if partition.stream_id == stream_id]
            )
            for stream_id in report.side_input_lags
        ],
        tables=[
            tables[table_id].model_copy(update={"version": number})
            for table_id, number in report.tables.items()
            if table_id in tables
        ],
        restored=_counts(report.restored, "bytes"),
        metrics=_counts(report.metrics),
    )
    answer._warnings = report.warnings
    answer._expectations = report.expectations
    return answer


def ended_stage(
    run: RunPlan, result: StageResult, name: str, task_id: str, attempt: int, began_at: float | None
) -> Stage:
    """Return a stage that has succeeded, by its result: no record of its partitions is looked at."""
    answer = stage_answer(run, ended_report(run, result, attempt, began_at, 0.0), name, task_id, {})
    return answer.model_copy(update={"inputs": [_ended_input(run, result_input) for result_input in result.inputs]})


def input_answer(
    run: RunPlan, stream_id: str, partitions: Sequence[PartitionProgress], read: int | None = None
) -> Input:
    """Return an input, all its partitions together, of which so many messages are read."""
    behind = sorted(
        (partition for partition in partitions if partition.lag), key=lambda partition: -(partition.lag or 0)
    )
    return Input(
        stream_id=stream_id,
        producer=producer_of(run, stream_id),
        partitions=len(partitions),
        read=read,
        lag=summed(partition.lag for partition in partitions),
        percent_read=percent_read(percent_behind(partitions)),
        watermark=lowest_watermark(partitions),
        ends=sum(partition.ends for partition in partitions),
        ends_expected=sum(partition.ends_expected for partition in partitions),
        ended_partitions=sum(partition.ended for partition in partitions),
        idle_partitions=len(idle_partitions(partitions)),
        skew=skew(partitions),
        worst=[partition_answer(partition) for partition in behind[:WORST]],
    )


def partition_answer(partition: PartitionProgress) -> Partition:
    """Return one partition."""
    return Partition(
        stream_id=partition.stream_id,
        partition=partition.partition,
        begin=partition.begin,
        offset=partition.offset,
        head=partition.head,
        offsets=partition.offsets,
        lag=partition.lag,
        percent_read=percent_read(partition.percent_behind),
        watermark=partition.watermark,
        ends=partition.ends,
        ends_expected=partition.ends_expected,
        ended=partition.ended,
    )


def skew(partitions: Iterable[PartitionProgress]) -> Skew | None:
    """Return how unequal partitions are; None where there are no two with known sizes, or nothing is in them."""
    sizes = [(one.offsets, one.partition) for one in partitions if one.offsets is not None]
    total = sum(size for size, _ in sizes)
    if len(sizes) < 2 or not total:
        return None
    largest, partition = max(sizes, key=lambda size: (size[0], -size[1]))
    return _skew(partition, largest, total / len(sizes))


def _skew(partition: int, largest: int, mean: float) -> Skew:
    return Skew(largest=partition, largest_offsets=largest, mean_offsets=round(mean, 1), ratio=round(largest / mean, 2))


def producer_of(run: RunPlan, stream_id: str) -> str | None:
    """Return the stage that writes a stream; None of a source."""
    return run.writer_stage(stream_id) if run.is_own(stream_id) else None


MOSTLY = 0.6
"""The share of the time from which on tasks are at work nearly all of it; the rest is what epochs always need."""


PUBLISHING = 0.5
"""The share of the time from which on a sink that publishes it is what a stage waits for."""


def bound_of(run: RunPlan, report: ProgressReport) -> Bound | None:
    """Return what sets the pace of a stage that runs epoch after epoch; None where that is not known."""
    if report.state != RUNNING or not report.several_epochs or report.lag is None:
        return None
    if report.lag == 0:
        open_inputs = {partition.stream_id for partition in report.partitions if not partition.ended}
        writers = [producer_of(run, stream_id) for stream_id in open_inputs]
        return None if not writers else "producer" if any(writers) else "source"
    if report.at_work is None or not report.tasks:
        return None
    if report.at_work >= MOSTLY * report.tasks:
        return "tasks"
    sinks = [stream_id for stream_id in run.plan.stage(report.stage_id).outputs if not run.is_own(stream_id)]
    return "sink" if sinks and (report.publishing or 0.0) >= PUBLISHING else "epochs"


def _ended_input(run: RunPlan, result_input: InputResult) -> Input:
    expected = ends_expected(run, result_input.stream_id) * result_input.partitions
    return Input(
        stream_id=result_input.stream_id,
        producer=producer_of(run, result_input.stream_id),
        partitions=result_input.partitions,
        read=result_input.messages,
        lag=0,
        percent_read=100.0,
        watermark=None,
        ends=expected,
        ends_expected=expected,
        ended_partitions=result_input.partitions,
        idle_partitions=0,
        skew=_ended_skew(result_input),
        worst=[],
    )


def _ended_skew(read: InputResult) -> Skew | None:
    """Return how unequal the partitions of an input were, as the result of its stage has it."""
    if read.largest is None or not read.offsets:
        return None
    return _skew(read.largest, read.largest_offsets, read.offsets / read.partitions)


def _rate(rate: object) -> Rate | None:
    return None if rate is None else Rate.model_validate(rate)


def _counts(counts: Mapping[str, float], unit: str | None = None) -> list[Count]:
    return [
        Count(name=name, value=value, unit=unit_of(name) if unit is None else unit)
        for name, value in sorted(counts.items())
    ]

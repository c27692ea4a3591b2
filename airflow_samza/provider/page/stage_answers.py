"""A stage's progress as the page shows it: inputs with all their partitions together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from airflow_samza.figures import unit_of
from airflow_samza.provider.page.answers.progress import Count, HeldTable, Input, Partition, Rate, Skew, Stage
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
from airflow_samza.runs.records.run_plan import RunPlan
from airflow_samza.runs.records.stage_result import InputResult, StageResult

WORST = 3
"""Partitions of an input that are named with the input itself."""


def stage_answer(
    run: RunPlan, report: ProgressReport, name: str, task_id: str, tables: Mapping[str, HeldTable]
) -> Stage:
    """Return a stage as a report has it."""
    return Stage(
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
    mean = total / len(sizes)
    return Skew(largest=partition, largest_offsets=largest, mean_offsets=round(mean, 1), ratio=round(largest / mean, 2))


def producer_of(run: RunPlan, stream_id: str) -> str | None:
    """Return the stage that writes a stream; None of a source."""
    return run.writer_stage(stream_id) if run.is_own(stream_id) else None


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
        skew=None,
        worst=[],
    )


def _rate(rate: object) -> Rate | None:
    return None if rate is None else Rate.model_validate(rate)


def _counts(counts: Mapping[str, float], unit: str | None = None) -> list[Count]:
    return [
        Count(name=name, value=value, unit=unit_of(name) if unit is None else unit)
        for name, value in sorted(counts.items())
    ]

"""A stage's progress as lines of text: a headline, a line per input, and the partitions furthest behind.

The command ``status`` prints it, and tasks log it.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timezone

from airflow_samza.figures import duration, rate, share, size
from airflow_samza.runs.progress.progress import (
    PartitionProgress,
    ProgressReport,
    Rate,
    idle_partitions,
    lowest_watermark,
    percent_behind,
    summed,
)
from airflow_samza.runs.records.expectations import result_lines
from airflow_samza.runs.records.stage_result import warning_lines
from airflow_samza.runs.stages.stage_state import FINAL, SUCCEEDED

WORST_SHOWN = 3
"""Partitions of an input that get a line of their own, where they are behind."""


def describe_progress(report: ProgressReport, *, worst: int = WORST_SHOWN, name: str = "") -> list[str]:
    """The lines, none longer than a terminal of 140 columns is wide as long as names are of the usual length.

    ``name`` is the stage's, by default its id.
    """
    lines = [f"Stage {name or report.stage_id}: {_headline(report)}"]
    if report.state == SUCCEEDED:
        return [*lines, *_findings(report)]
    sides = report.side_input_lags if report.several_epochs else {}
    width = max((len(name) for name in (*report.inputs, *sides)), default=0)
    for stream_id in report.inputs if report.several_epochs else ():
        partitions = report.of(stream_id)
        lines.append(f"  {stream_id:<{width}}  {', '.join(_of_input(report, partitions))}")
        behind = sorted((one for one in partitions if one.lag), key=lambda one: (-(one.lag or 0), one.partition))
        if len(partitions) > 1:
            lines += [f"  {'':<{width}}    {_of_partition(report, one)}" for one in behind[:worst]]
            if len(behind) > worst:
                lines.append(f"  {'':<{width}}    {len(behind) - worst:,} further partitions are less behind")
    for name, lag in sides.items():
        lines.append(f"  {name:<{width}}  side input, {_offsets_behind(lag) if lag else 'at the head'}")
    return [*lines, *_tables(report), *_findings(report)]


def _headline(report: ProgressReport) -> str:
    state = report.state
    if state in FINAL and report.seconds is not None:
        state += f" after {duration(report.seconds)}"
    parts = [f"waiting for {report.waiting_for}" if report.waiting_for else state]
    if report.several_epochs:
        if report.epochs:
            parts.append("1 epoch" if report.epochs == 1 else f"{report.epochs:,} epochs")
        else:
            parts.append(f"first epoch, {report.tasks_done} of {_tasks(report.tasks)} done")
        if report.tasks_ended:
            parts.append(f"{report.tasks_ended} of {_tasks(report.tasks)} ended")
    elif report.tasks and report.state != SUCCEEDED:
        parts.append(f"{report.tasks_done} of {_tasks(report.tasks)} done")
    text = ", ".join(parts)
    if report.epochs or report.read:
        read, sent = report.units
        text += f"; read {report.read:,} {read}{_per_second(report.overall, 'read')}{_at_present(report, 'read')}"
        unit = "" if sent == read else f" {sent}"
        text += f", sent {report.sent:,}{unit}{_per_second(report.overall, 'sent')}{_at_present(report, 'sent')}"
    return text


def _of_input(report: ProgressReport, partitions: Sequence[PartitionProgress]) -> list[str]:
    parts = ["1 partition" if len(partitions) == 1 else f"{len(partitions)} partitions"]
    lag, behind = summed(one.lag for one in partitions), percent_behind(partitions)
    if lag == 0:
        parts.append("at the head")
    elif lag is not None and behind is not None:
        parts.append(f"{_offsets_behind(lag)} ({share(100 - behind):.1f} % read)")
    watermark = lowest_watermark(partitions)
    if watermark is not None:
        parts.append(_watermark(watermark, report.at))
    if idle := idle_partitions(partitions):
        parts.append(f"{len(idle)} idle, without a watermark")
    ends, expected = sum(one.ends for one in partitions), sum(one.ends_expected for one in partitions)
    parts.append(f"end-of-stream {ends:,} of {expected:,}")
    return parts


def _of_partition(report: ProgressReport, partition: PartitionProgress) -> str:
    read = share(100 - (partition.percent_behind or 0))
    parts = [
        f"partition {partition.partition}: offset {partition.offset:,} of {partition.head:,}, {partition.lag:,} behind "
        f"({read:.1f} % read)"
    ]
    if partition.watermark is not None:
        parts.append(_watermark(partition.watermark, report.at))
    if partition.ends_expected > 1:
        parts.append(f"end-of-stream {partition.ends} of {partition.ends_expected}")
    return ", ".join(parts)


def _watermark(watermark: int, at: float) -> str:
    moment = datetime.fromtimestamp(watermark / 1000, timezone.utc)
    age = at - watermark / 1000
    old = f"{duration(age)} old" if age >= 0 else f"{duration(-age)} ahead of the clock"
    return f"watermark {moment:%Y-%m-%d %H:%M:%SZ} ({old})"


def _tables(report: ProgressReport) -> list[str]:
    """Return the versions that pushed tables hold, in a run in which they may change."""
    said = ", ".join(f"{table} in version {number}" for table, number in report.tables.items())
    return [f"  tables: {said}"] if said and report.several_epochs else []


def _restored(report: ProgressReport) -> list[str]:
    """Return whether tasks on a cluster found their state in a process, on the host, or only in the root."""
    if not report.restored.get(
        "host"
    ):  # without copies on hosts, as on one machine, it says nothing that anybody could change
        return []
    memory, host, root = (size(report.restored.get(place, 0)) for place in ("memory", "host", "root"))
    return [f"  state: {memory} found in memory, {host} on the host, {root} read from the root"]


def _offsets_behind(lag: int) -> str:
    return "1 offset behind" if lag == 1 else f"{lag:,} offsets behind"


def _findings(report: ProgressReport) -> list[str]:
    """Return where state was found, counts of messages that got no further, warnings and expectations."""
    counts = ((report.late, "late"), (report.dropped, "dropped"), (report.dead_letters, "in dead letters"))
    parts = [f"{count:,} {what}" for count, what in counts if count]
    lost = [f"  messages: {', '.join(parts)}"] if parts else []
    return [*_restored(report), *lost, *warning_lines(report.warnings), *result_lines(report.expectations)]


def _per_second(measured: Rate | None, what: str) -> str:
    return f" ({rate(getattr(measured, what))})" if measured is not None else ""


def _at_present(report: ProgressReport, what: str) -> str:
    return f", at present {rate(getattr(report.now, what))}" if report.now is not None else ""


def _tasks(count: int) -> str:
    return "1 task" if count == 1 else f"{count} tasks"

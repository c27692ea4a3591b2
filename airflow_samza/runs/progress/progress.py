"""Progress of a stage of a run, by partition and in all (decision 17).

:mod:`~airflow_samza.runs.progress.stage_progress` makes it. The command line, the page, logs of tasks and triggers show
it; as lines of text it has a headline, a line per input, and the partitions furthest behind.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

from airflow_samza.figures import duration, rate, share, size
from airflow_samza.runs.records.expectations import Results, result_lines
from airflow_samza.runs.records.stage_result import warning_lines
from airflow_samza.runs.stages.stage_state import FINAL, RUNNING, SUCCEEDED

NOT_STARTED = "not started"
"""The state of a stage that nobody has submitted."""


@dataclass(frozen=True)
class PartitionProgress:
    """One partition of an input: the next ``offset`` to be read, and the ``head``.

    None where offsets are counted only while reading.

    ``begin`` is where the run began; ``watermark`` in ms since the epoch UTC, None: none yet. ``ends`` of
    ``ends_expected`` producers have sent their end-of-stream.
    """

    stream_id: str
    partition: int
    offset: int | None = None
    head: int | None = None
    begin: int = 0
    watermark: int | None = None
    ends: int = 0
    ends_expected: int = 1
    ended: bool = False

    @property
    def lag(self) -> int | None:
        """Offsets between here and the head: messages, and whatever else has a place among them; 0 once it ended."""
        if self.ended:
            return 0
        return max(self.head - self.offset, 0) if self.head is not None and self.offset is not None else None

    @property
    def offsets(self) -> int | None:
        """All offsets that the partition has for this run; None where its head is not known."""
        return max(self.head - self.begin, 0) if self.head is not None else None

    @property
    def percent_behind(self) -> float | None:
        """The lag, of all that there is for this run; 0 at the head."""
        return percent_behind([self])


@dataclass(frozen=True)
class Rate:
    """Messages per second, read and sent, over some seconds."""

    read: float
    sent: float
    seconds: float

    @classmethod
    def of(cls, read: int, sent: int, seconds: float | None) -> Rate | None:
        """The rate of so many messages; None where no time has passed, or it is not known how much."""
        if seconds is None or seconds <= 0:
            return None
        return cls(round(read / seconds, 1), round(sent / seconds, 1), round(seconds, 3))


@dataclass(frozen=True)
class ProgressReport:
    """One stage of a run at a moment (``at``, seconds since 1970).

    ``tasks_done`` of ``tasks`` have nothing left to do in the open epoch, ``tasks_ended`` in the whole stage. ``read``
    (``read_of`` each input) and ``sent`` are user messages, the latter to all outputs. ``bytes_read`` are those of the
    columns that were read, in memory, ``bytes_written`` those in systems that report them. ``late``, ``dropped`` and
    ``dead_letters`` got no further, or were sent away. ``seconds`` is the time for which attempts have run the stage,
    without what passed between them (None: not known), ``began_at`` when its first epoch was decided. ``now`` is the
    rate of late, ``overall`` that of all ``seconds``. ``at_work`` is how many of its tasks were at work of late, on
    average (None: not known), ``publishing`` the share of the time that its newest epoch took to be published.
    ``waiting_for`` is the stage that has to start first. ``restored`` are
    the bytes of state with which tasks began their epochs, by where they were: in ``memory``, on the ``host``, or only
    under the ``root``. ``tables`` are the versions that pushed tables hold, by table; ``side_inputs``
    the partitions of the other side inputs of a run that follows them, of which the tables hold all before ``offset``.
    ``metrics`` are the counts of tasks and processors, added up, and of each gauge the greatest of the tasks' last
    values; ``gauges`` are those values, by gauge and task.
    """

    stage_id: str
    generation: str
    state: str
    at: float
    attempt: int = 0
    epochs: int = 0
    tasks: int = 0
    tasks_done: int = 0
    tasks_ended: int = 0
    began_at: float | None = None
    read: int = 0
    sent: int = 0
    late: int = 0
    dropped: int = 0
    dead_letters: int = 0
    now: Rate | None = None
    overall: Rate | None = None
    waiting_for: str | None = None
    partitions: tuple[PartitionProgress, ...] = ()
    several_epochs: bool = False
    restored: Mapping[str, int] = field(default_factory=dict)
    tables: Mapping[str, int] = field(default_factory=dict)
    side_inputs: tuple[PartitionProgress, ...] = ()
    metrics: Mapping[str, float] = field(default_factory=dict)
    gauges: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    bytes_read: int = 0
    bytes_written: int = 0
    seconds: float | None = None
    read_of: Mapping[str, int] = field(default_factory=dict)
    at_work: float | None = None
    publishing: float | None = None
    units: tuple[str, str] = ("messages", "messages")
    """The units of what was read and what was sent, for people."""
    expectations: Results = field(default_factory=dict)
    """The results of what the application expects, by stream; of a stage that is rejected those of its last epoch."""
    warnings: tuple[str, ...] = ()
    """Sentences about what all its messages so far had in common."""

    def of(self, stream_id: str) -> tuple[PartitionProgress, ...]:
        """The partitions of one input."""
        return tuple(partition for partition in self.partitions if partition.stream_id == stream_id)

    @property
    def inputs(self) -> tuple[str, ...]:
        """The inputs, in the plan's order."""
        return tuple(dict.fromkeys(partition.stream_id for partition in self.partitions))

    @property
    def lag(self) -> int | None:
        """The lag of all partitions together, as far as it is known; None where none is, 0 of a stage that is done."""
        return 0 if self.state == SUCCEEDED else summed(partition.lag for partition in self.partitions)

    @property
    def side_input_lags(self) -> dict[str, int]:
        """Return how many offsets tables are behind, by side input; those of which it is not known are left out."""
        lags = {
            stream_id: summed(partition.lag for partition in self.side_inputs if partition.stream_id == stream_id)
            for stream_id in dict.fromkeys(partition.stream_id for partition in self.side_inputs)
        }
        return {stream_id: lag for stream_id, lag in lags.items() if lag is not None}

    @property
    def percent_behind(self) -> float | None:
        """The lag of all partitions, of all that there is for this run; None unless each of them is known."""
        return 0.0 if self.state == SUCCEEDED else percent_behind(self.partitions)

    @property
    def present_rate(self) -> Rate | None:
        """The rate of late, or where there is none yet that of all time; of a stage that has ended none."""
        return None if self.state != RUNNING else self.now or self.overall

    @property
    def seconds_left(self) -> float | None:
        """The time until the stage has read what lies before it, at its present rate; None where that is not known."""
        reads = self.present_rate
        if reads is None or reads.read <= 0 or not self.lag:
            return None
        return round(self.lag / reads.read, 1)

    @property
    def watermark(self) -> int | None:
        """The watermark: the least of the partitions that have not ended; None where one of them has none yet."""
        return lowest_watermark(self.partitions)

    @property
    def idle(self) -> tuple[PartitionProgress, ...]:
        """The idle partitions of all inputs: the watermark waits for them."""
        return tuple(partition for stream_id in self.inputs for partition in idle_partitions(self.of(stream_id)))

    def to_dict(self) -> dict[str, Any]:
        """The JSON form, with what is computed of it."""
        body = dataclasses.asdict(self)
        for name, partitions in (("partitions", self.partitions), ("side_inputs", self.side_inputs)):
            body[name] = [
                {**dataclasses.asdict(partition), "lag": partition.lag, "percent_behind": partition.percent_behind}
                for partition in partitions
            ]
        idle = [{"stream_id": partition.stream_id, "partition": partition.partition} for partition in self.idle]
        figures = {"lag": self.lag, "percent_behind": self.percent_behind, "watermark": self.watermark}
        return {**body, **figures, "idle": idle}


def summed(values: Iterable[int | None]) -> int | None:
    """The sum of what is known; None where nothing is."""
    numbers = [value for value in values if value is not None]
    return sum(numbers) if numbers else None


def percent_behind(partitions: Iterable[PartitionProgress]) -> float | None:
    """The lag of some partitions, of all that there is for this run; None unless that of each is known."""
    read = list(partitions)
    lags = [partition.lag for partition in read if partition.lag is not None]
    if not read or len(lags) < len(read):
        return None
    return 100.0 * sum(lags) / max(sum(partition.offsets or 0 for partition in read), sum(lags), 1)


def percent_read(behind: float | None) -> float | None:
    """Return the per cent that are read where so many are not: 100 only at the head."""
    return None if behind is None else share(100.0 - behind, 2)


def idle_partitions(partitions: Iterable[PartitionProgress]) -> list[PartitionProgress]:
    """The partitions that have nothing to read and no watermark yet, while others have one: time waits for them."""
    all_ = list(partitions)
    if all(one.watermark is None for one in all_):
        return []
    return [one for one in all_ if not one.ended and one.lag == 0 and one.watermark is None]


def lowest_watermark(partitions: Iterable[PartitionProgress]) -> int | None:
    """The least watermark of those partitions that have not ended; None where one has none yet."""
    open_ = [partition.watermark for partition in partitions if not partition.ended]
    watermarks = [watermark for watermark in open_ if watermark is not None]
    return min(watermarks) if watermarks and len(watermarks) == len(open_) else None


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

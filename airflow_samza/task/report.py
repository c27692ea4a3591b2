"""The report of a task, as JSON for its manifest.

It has messages and bytes in and out, control messages, offsets, ends and seconds. The run loop counts by it, and the
stage runner reads it in manifests.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from airflow_samza.control.messages import ControlMessage, EndOfStreamMessage, WatermarkMessage
from airflow_samza.control.watermarks import NONE_YET
from airflow_samza.runs.records.expectations import Checked
from airflow_samza.task.checkpoint import TaskCheckpoint


@dataclass(frozen=True)
class Boundary:
    """Data that a section hands to the one behind it beside its batches, when all of those have been handed over.

    They are the end, and how far time has come.
    """

    ended: bool = True
    final: bool = True
    watermark: int = NONE_YET


@dataclass
class InputReport:
    """One input stream.

    It has user messages, their bytes in memory, control messages, the next offset of each partition, and what was
    expected of the messages.
    """

    messages: int = 0
    bytes: int = 0
    control_messages: int = 0
    next_offsets: dict[int, int] = field(default_factory=dict)
    expectations: list[Checked] = field(default_factory=list)


@dataclass
class OutputReport:
    """One output stream: messages, bytes in memory, what is to be committed behind them, and what was expected.

    ``end_of_stream`` None: this task does not end it (yet); ``watermark`` None: it has not moved.
    """

    messages: int = 0
    bytes: int = 0
    end_of_stream: EndOfStreamMessage | None = None
    watermark: WatermarkMessage | None = None
    expectations: list[Checked] = field(default_factory=list)

    @property
    def control(self) -> tuple[ControlMessage, ...]:
        """The control messages to commit, in their order."""
        return tuple(message for message in (self.watermark, self.end_of_stream) if message is not None)


@dataclass
class OperatorReport:
    """One operator: messages in and out."""

    messages_in: int = 0
    messages_out: int = 0


@dataclass
class TableReport:
    """One table: rows at the end, their bytes in memory, and rows that were ignored because their key is null."""

    rows: int = 0
    bytes: int = 0
    ignored: int = 0


@dataclass
class TaskReport:
    """One task of a stage, or one epoch of it.

    ``checkpoint`` is where it stands (rule C6), ``ended`` whether it has nothing more to do, ``boundary`` what its
    section hands over (None: to no section). ``follows_clock``: time alone may bring results about, so it wants an
    epoch now and then without messages. ``metrics`` are counts, ``gauges`` the last values of what the user's code set.
    ``shut_down``: it was asked to end before its inputs did; ``shuts_down_all``: it asks that for all tasks of the
    stage.
    """

    stage: str
    task: str
    inputs: dict[str, InputReport] = field(default_factory=dict)
    side_inputs: dict[str, InputReport] = field(default_factory=dict)
    outputs: dict[str, OutputReport] = field(default_factory=dict)
    operators: dict[str, OperatorReport] = field(default_factory=dict)
    tables: dict[str, TableReport] = field(default_factory=dict)
    metrics: dict[str, int | float] = field(default_factory=dict)
    gauges: dict[str, int | float] = field(default_factory=dict)
    bad_samples: list[str] = field(default_factory=list)
    checkpoint: TaskCheckpoint = field(default_factory=TaskCheckpoint)
    boundary: Boundary | None = None
    ended: bool = True
    final: bool = True
    follows_clock: bool = False
    shut_down: bool = False
    shuts_down_all: bool = False
    seconds: float = 0.0


def added(counts: Mapping[str, float], more: Mapping[str, float]) -> dict[str, float]:
    """Counts by name, added up."""
    return {**counts, **{name: counts.get(name, 0) + value for name, value in more.items()}}

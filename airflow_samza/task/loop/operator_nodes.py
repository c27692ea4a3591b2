"""An operator within a task: its making, its edges with what waits on them, and how far it has come."""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pyarrow as pa

from airflow_samza.control.operator_watermark import OperatorWatermark
from airflow_samza.errors import SchemaError
from airflow_samza.schema import Schema
from airflow_samza.task.loop.checks import EventTimes, KeyCounts, KeyPlaces, delay_of, later_by
from airflow_samza.task.messages.bad_records import BadRecords
from airflow_samza.task.messages.output_writers import dead_letter_sender
from airflow_samza.task.operators.operator import Operator
from airflow_samza.task.program.kinds.operator_kind import CompiledOperator, Making, TaskResources
from airflow_samza.task.program.kinds.registry import kind_of

State = dict[str, Mapping[str, "pa.Table"]]
"""The state that a task keeps from epoch to epoch.

It has tables by operator id, and by ``held:<source>:<operator>`` the batches that wait for a later phase.
"""


_IN_MEMORY = 64 << 20
"""Bytes kept in memory.

They are far less than a task's share of an executor, and so many that small inputs never touch the disk.
"""


class HeldBack:
    """Batches of one schema that wait on an edge to a later phase, in order: in memory while few, else in a file."""

    def __init__(self) -> None:
        self._file: Any = None
        self._writer: Any = None

    def add(self, batch: pa.RecordBatch) -> None:
        """Append a batch."""
        if self._writer is None:
            self._file = tempfile.SpooledTemporaryFile(_IN_MEMORY, prefix="airflow-samza-held-")  # noqa: SIM115 (closed by drain and close)
            self._writer = pa.ipc.new_stream(pa.PythonFile(self._file, mode="w"), batch.schema)
        self._writer.write_batch(batch)

    def drain(self) -> Iterator[pa.RecordBatch]:
        """All batches in order; the queue is empty afterwards."""
        if self._writer is not None:
            self._writer.close()
            self._file.seek(0)
            yield from pa.ipc.open_stream(pa.PythonFile(self._file, mode="r"))
            self.close()

    def batches(self) -> list[pa.RecordBatch]:
        """All batches in order; they stay in the queue."""
        batches = list(self.drain())
        for batch in batches:
            self.add(batch)
        return batches

    def close(self) -> None:
        """Give the file back."""
        if self._file is not None:
            self._file.close()
        self._file = self._writer = None


@dataclass
class Node:
    """An operator with the edges behind it. ``open`` counts the inputs that have not ended."""

    op_id: str
    operator: Operator[Any]
    open: int
    marks: OperatorWatermark
    final: bool = True
    ended: bool = False
    next: list[Edge] = field(default_factory=list)
    held: dict[str, HeldBack] = field(default_factory=dict)
    """Edges to a later phase (by operator id), and the batches that wait on them."""
    held_end: dict[str, bool] = field(default_factory=dict)
    places: dict[int, KeyPlaces] = field(default_factory=dict)
    """Checks of the messages that arrive, by the number of the input."""
    keys: tuple[KeyCounts, ...] = ()
    """Counts of the messages that arrive and of null keys, by the number of the input."""
    times: EventTimes | None = None
    """The check of the event times of what it makes."""

    def checkpoint(self) -> dict[str, Any]:
        """Return how far it has come, as JSON."""
        return {
            "watermark": self.marks.checkpoint(),
            "open": self.open,
            "final": self.final,
            "ended": self.ended,
            "held": {following: self.held_end.get(following) for following in self.held},
        }

    def snapshot(self) -> Iterator[tuple[str, Mapping[str, pa.Table]]]:
        """Yield its state, and the batches that wait for a later phase, as far as there are any, by name."""
        tables = self.operator.snapshot_after_end() if self.ended and self.final else self.operator.snapshot()
        if tables:
            yield self.op_id, tables
        for following, held in self.held.items():
            batches = held.batches()
            if batches:
                yield f"held:{self.op_id}:{following}", {"batches": pa.Table.from_batches(batches)}

    def restore(self, checkpoint: Mapping[str, Any], state: Mapping[str, Mapping[str, pa.Table]]) -> None:
        """Take over how far it had come, and the batches that wait."""
        self.marks.restore(checkpoint["watermark"])
        if "open" not in checkpoint:  # of a former run: how far time had come, and nothing of its ends
            return
        self.open, self.final = int(checkpoint["open"]), bool(checkpoint["final"])
        self.ended = bool(checkpoint["ended"])
        for following in list(self.held):
            if following not in checkpoint["held"]:  # its phase had begun
                del self.held[following]
                continue
            if checkpoint["held"][following] is not None:
                self.held_end[following] = bool(checkpoint["held"][following])
            for table in state.get(f"held:{self.op_id}:{following}", {}).values():
                for batch in table.to_batches():
                    self.held[following].add(batch)


class Edge(NamedTuple):
    """The way to an operator, and the number of the input at which it arrives.

    Over one that is not ``open`` come times and ends only.
    """

    node: Node
    side: int
    open: bool = True


class Work(NamedTuple):
    """Batches before an operator, or (``side`` None) behind it."""

    node: Node
    batches: Iterator[pa.RecordBatch]
    side: int | None


def before(node: Node, batch: pa.RecordBatch, side: int = 0) -> Work:
    """A batch that arrives at an operator."""
    return Work(node, iter((batch,)), side)


def output_watermark(operator: Operator[Any]) -> Callable[[int], int | None] | None:
    """Return what sets an operator's output watermark; None when it passes on its input's."""
    delay = delay_of(operator.spec)
    if type(operator).output_watermark is Operator.output_watermark:
        return functools.partial(later_by, delay) if delay else None
    if not delay:
        return operator.output_watermark
    return lambda timestamp: later_by(delay, operator.output_watermark(timestamp))


def hands_time_on(operator: Operator[Any]) -> bool:
    """Return whether an operator only hands event time on.

    Behind the end of its input range, too: an input that is left out follows those that it meets (rules C8, C9).
    """
    return type(operator).on_watermark is Operator.on_watermark and output_watermark(operator) is None


def make_operator(compiled: CompiledOperator, resources: TaskResources, *, beside: bool = True) -> Operator[Any]:
    """Return the operator of one task; reject one that only Spark runs.

    ``beside``: whether it writes dead letters and late messages beside its results; of an operator that all tasks run
    alike, one does.
    """
    spec, policy = compiled.spec, compiled.spec.on_error
    inputs = [_schema_of(compiled, schema) for schema in compiled.inputs]
    output = None if spec.is_terminal else _schema_of(compiled, compiled.schema)
    operator = kind_of(spec).make(Making(compiled, spec, inputs, output, resources, beside))
    if policy is not None:
        dead_letters = dead_letter_sender(spec, policy, resources.writers) if beside else None
        operator.bad = BadRecords(spec, policy, dead_letters, resources.reading, resources.clock)
    return operator


def _schema_of(compiled: CompiledOperator, schema: Schema | None) -> Schema:
    if schema is None:
        raise SchemaError(
            f"The columns of {compiled.spec.title} are not known.",
            hint="Declare the schema of the stage's inputs.",
            operator=compiled.spec.op_id,
        )
    return schema

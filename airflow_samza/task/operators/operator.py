"""The interface of the operators of a task.

The run loop drives every operator by it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar, Generic, TypeVar

import pyarrow as pa

from airflow_samza.application.operator_spec import OperatorSpec
from airflow_samza.schema import Schema
from airflow_samza.task.messages.bad_records import BadRecords

Spec = TypeVar("Spec", bound=OperatorSpec)

_OUT_ROWS = 1 << 16
"""Rows of an emitted batch."""


class Operator(Generic[Spec]):
    """One operator of one task.

    ``input`` is the schema of the batches it gets, ``output`` of those it gives (None: it gives none).

    It keeps no reference to other operators: the task instance takes what :meth:`process` gives and hands it on.
    """

    takes_dictionaries: ClassVar[bool] = False
    """True where its input may have dictionary-encoded columns (decision 32); else they are decoded before."""

    moves_watermark: bool = False
    """True where messages, too, may move :meth:`output_watermark`: it is then called again after each batch."""

    bad: BadRecords | None = None
    """The handler of messages on which it fails; None: they fail the stage."""

    def __init__(self, spec: Spec, inputs: Schema, output: Schema | None) -> None:
        self.spec = spec
        self.input = inputs
        self.output = output
        self.messages_in = 0
        self.messages_out = 0

    def start(self) -> None:
        """Called once before the first batch."""

    def process(self, batch: pa.RecordBatch) -> Iterable[pa.RecordBatch]:
        """Return the results of one batch; empty batches need not be among them."""
        raise NotImplementedError

    def process_from(self, batch: pa.RecordBatch, side: int) -> Iterable[pa.RecordBatch]:
        """Return the results of a batch of the input number ``side`` among the spec's inputs."""
        return self.process(batch)

    def emitted(self, columns: Mapping[str, Any]) -> Iterator[pa.RecordBatch]:
        """Yield results, given by columns, in batches of its output's schema."""
        assert self.output is not None
        schema = self.output.to_arrow()
        table = pa.Table.from_arrays([columns[field.name].cast(field.type) for field in schema], schema=schema)
        yield from table.combine_chunks().to_batches(max_chunksize=_OUT_ROWS)

    def on_watermark(self, timestamp: int) -> Iterable[pa.RecordBatch]:
        """Return the results of event time having reached ``timestamp`` (ms since 1970, UTC) on all inputs.

        The time only grows. This is called between batches. The end of all inputs is :meth:`flush`, not a watermark.
        """
        return ()

    def output_watermark(self, timestamp: int) -> int:
        """Return the watermark for the operators behind when this one's input has reached ``timestamp``.

        It is called after :meth:`on_watermark`, and gives less than ``timestamp`` when older results may still come.
        """
        return timestamp

    def on_time(self, now: int) -> Iterable[pa.RecordBatch]:
        """Return the results of processing time having reached ``now`` (ms since 1970).

        It is called between batches now and then.
        """
        return ()

    @property
    def waits_for_time(self) -> bool:
        """Return whether :meth:`on_time` may have results although no message comes; called at the end of an epoch."""
        return type(self).on_time is not Operator.on_time

    def metrics(self) -> Mapping[str, float]:
        """Return what it has counted in this run, by the names under which reports show it.

        Operators of one task are added up.
        """
        return {}

    def settle(self) -> Iterable[pa.RecordBatch]:
        """Return the results of the end of an epoch that does not end the inputs.

        They are everything in flight, and what waits to be sent. It is called before :meth:`snapshot`, and before
        :meth:`flush`.
        """
        return ()

    def snapshot(self) -> Mapping[str, pa.Table]:
        """Return the state to keep from epoch to epoch, as tables by names of its own.

        It is nothing (the default) when it keeps nothing. It is called between batches; the tables must not change
        afterwards.
        """
        return {}

    def snapshot_after_end(self) -> Mapping[str, pa.Table]:
        """Return the state that outlasts the end of all inputs, from which the next run continues.

        It is nothing (the default) where the end flushes it all.
        """
        return {}

    def restore(self, tables: Mapping[str, pa.Table]) -> None:
        """Takes over what :meth:`snapshot` gave, after :meth:`start` and before the first batch.

        It is called only when there was something.
        """

    def flush(self) -> Iterable[pa.RecordBatch]:
        """Return the results of the end of all inputs, when the end is final (rule C9)."""
        return ()

    def finish(self) -> None:
        """Called once at the end of all inputs, after :meth:`flush`, whether the end is final or not."""

    def close(self) -> None:
        """Called once, also after a failure."""

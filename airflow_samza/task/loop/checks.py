"""Checks that cannot be made before a run: where keys lie, event times behind callables, and ends of inputs.

Source: rule P11 (keys); control-messages, event time and watermarks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_samza.application.operator_spec import OperatorSpec
from airflow_samza.application.stream import declare_anew
from airflow_samza.application.times import duration_text
from airflow_samza.control.watermarks import END_OF_TIME, NONE_YET
from airflow_samza.errors import MessageError, PartitioningMismatch, StageError
from airflow_samza.partitioner import partition_array
from airflow_samza.planner.plan import KeyCheck
from airflow_samza.planner.wording import columns_text, partition_before
from airflow_samza.quoting import one_line
from airflow_samza.runs.records.stage_result import SIDES
from airflow_samza.runs.records.totals import KEYED, WITHOUT_KEY
from airflow_samza.schema import Field
from airflow_samza.task.messages.event_times import micros_or_null
from airflow_samza.task.messages.user_errors import located
from airflow_samza.task.operators.operator import Operator
from airflow_samza.task.tables.parts import rows_with_key

TIMES = ("timestamp", "timestamp_ntz", "date", "bigint")
"""The types of columns that hold event times."""


class KeyPlaces:
    """The check that the messages of an operator's input lie in the partition of their key."""

    def __init__(self, check: KeyCheck, spec: OperatorSpec, partition: int) -> None:
        self._check = check
        self._spec = spec
        self._partition = partition

    def see(self, batch: pa.RecordBatch) -> None:
        """Reject a batch of which a message belongs to another partition."""
        check = self._check
        partitions = partition_array(batch, check.columns, check.partitions)
        if (partitions == self._partition).all():
            return
        place = int(np.flatnonzero(partitions != self._partition)[0])
        values = [batch.column(name)[place].as_py() for name in check.columns]
        key = ", ".join(f"{name}={one_line(repr(value))}" for name, value in zip(check.columns, values, strict=True))
        named = columns_text(check.columns)
        raise PartitioningMismatch(
            f"{self._spec.title} takes its messages as partitioned by {named}, and one with {key} lies in partition "
            f"{self._partition} of {check.partitions}, while its key belongs to partition {int(partitions[place])}: "
            f"{check.why}{located(self._spec.location)}.",
            hint=f"{partition_before(check.columns)}; or, if all messages of a key lie in one partition by another "
            f"rule, set assume_partitioned_by={named} there.",
            operator=self._spec.op_id,
            key=check.columns,
            partition=self._partition,
            expected=int(partitions[place]),
        )


class KeyCounts:
    """The counts of messages that arrive at an input of a keyed operator, and of those with a null in their key."""

    def __init__(self, place: str, key: Sequence[str]) -> None:
        self._place = place
        self._key = key
        self._messages = 0
        self._without_key = 0

    def see(self, batch: pa.RecordBatch) -> None:
        """Count the messages of a batch."""
        self._messages += batch.num_rows
        with_key = rows_with_key([batch.column(name) for name in self._key])
        if with_key is not None:
            self._without_key += batch.num_rows - int(with_key.sum())

    def metrics(self) -> dict[str, float]:
        """Return the counts that are not 0, by the names under which reports have them."""
        counts = {f"{KEYED}{self._place}": self._messages, f"{WITHOUT_KEY}{self._place}": self._without_key}
        return {name: count for name, count in counts.items() if count}


def key_counts(spec: OperatorSpec) -> tuple[KeyCounts, ...]:
    """Return the counts of an operator's messages by input; none where it has no keys."""
    keys = spec.input_keys
    sides = SIDES[:1] if len(keys) == 1 else SIDES[1:]
    return tuple(KeyCounts(f"{spec.op_id}{side}", key) for side, key in zip(sides, keys, strict=False))


class EventTimes:
    """The check that a callable gives no message an event time before those that it was given.

    Watermarks go by the messages that arrive. So what it makes of them between two watermarks is late for nobody, as
    long as it is not before the earliest of them.
    """

    def __init__(self, spec: OperatorSpec, former: Field, output: Field) -> None:
        self._spec = spec
        self._former = former
        self._output = output
        self._earliest: int | None = None

    def note(self, batch: pa.RecordBatch) -> None:
        """Note the event times of a batch that arrives."""
        least = _least(batch, self._former)
        if least is not None and (self._earliest is None or least < self._earliest):
            self._earliest = least

    def forget(self) -> None:
        """Begin anew: the watermark has moved on, and all that arrived before it has been handed on."""
        self._earliest = None

    def through(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Pass on the results; reject the first with an earlier event time."""
        for batch in batches:
            least = _least(batch, self._output) if batch.num_rows and self._earliest is not None else None
            if least is not None and self._earliest is not None and least < self._earliest:
                raise self._moved(batch, self._earliest - least)
            yield batch

    def _moved(self, batch: pa.RecordBatch, by: int) -> MessageError:
        column = self._output.name
        earliest = min(value for value in batch.column(column).to_pylist() if value is not None)
        return MessageError(
            f"{self._spec.title} gave a message the event time {column}={earliest}, which is "
            f"{duration_text(max(by // 1000, 1))} before that of every message it was given, so windows could take it "
            f"for late{located(self._spec.location)}.",
            hint=declare_anew(column),
            operator=self._spec.op_id,
            column=column,
        )


def checked_times(operator: Operator[Any]) -> EventTimes | None:
    """Return the check of an operator's event times; None where there is none to make."""
    time = operator.spec.event_time
    if time is None or time.max_delay_ms is not None or operator.output is None:
        return None
    schemas = (operator.input, operator.output)
    fields = [schema[time.column] for schema in schemas if time.column in schema]
    if len(fields) < len(schemas) or any(field.type.name not in TIMES for field in fields):
        return None
    return EventTimes(operator.spec, *fields)


def _least(batch: pa.RecordBatch, field: Field) -> int | None:
    """Return the earliest time of a column, in microseconds; None where it has none."""
    least = pc.min(micros_or_null(batch.column(field.name), field.type, field.name)).as_py()
    return int(least) if least is not None else None


def later_by(delay_ms: int, timestamp: int) -> int:
    """Return a watermark for event times that may lie so far before those that it is of."""
    return timestamp if timestamp >= END_OF_TIME else max(timestamp - delay_ms, NONE_YET)


def delay_of(spec: OperatorSpec) -> int:
    """Return by how much the watermarks of an operator wait for its event times, in ms."""
    return (spec.event_time.max_delay_ms or 0) if spec.event_time is not None else 0


def no_end(stage: str, task: str, missing: Mapping[tuple[str, int], tuple[int, int | None]]) -> StageError:
    """Return the error of a task that has read everything, and whose partitions lack an end.

    ``missing`` holds the producers that have ended each, and how many there are.
    """
    stream, partition = next(iter(missing))
    ended, total = missing[stream, partition]
    text = f"{ended} of {total} producers have ended it" if total is not None else "no producer has ended it"
    more = f" (and {len(missing) - 1} more)" if len(missing) > 1 else ""
    return StageError(
        f"Input {stream!r}, partition {partition}{more}, of stage {stage!r} has no end-of-stream: {text}.",
        hint="The stage that writes it did not finish, or its topic was cleaned up: clear it with its upstream.",
        stage=stage,
        task=task,
        stream=stream,
        partition=partition,
    )

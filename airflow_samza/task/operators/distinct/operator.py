"""One message of several copies, which have equal keys: the first or the last one."""

from __future__ import annotations

import decimal
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from airflow_samza.application.operator_specs import DistinctSpec
from airflow_samza.control.watermarks import NONE_YET
from airflow_samza.schema import DataType, Field, Schema
from airflow_samza.task.messages.event_times import timed_messages
from airflow_samza.task.messages.output_writers import Sender, without_late
from airflow_samza.task.operators.distinct.chains import Longs
from airflow_samza.task.operators.distinct.copies import LONG_AGO, Copies
from airflow_samza.task.operators.operator import Operator
from airflow_samza.task.tables.parts import rows_with_key

WORK = 1 << 16
"""Messages without an event time that wait before they are looked up."""

_NULLS = "nulls-"
"""The beginning of the names of tables that are kept of keys with nulls."""


class Distinct(Operator[DistinctSpec]):
    """Messages without their copies, in the order of their event times.

    A group of copies begins with a message that is in no group, and lasts for the spec's time; without one it never
    ends. A message waits until the watermark has passed it, or the end has come: before that another one could be the
    first of its group. The last one of a group waits until the group is over. Without event times messages are taken as
    they come. ``late`` counts messages that came behind the watermark, ``without_time`` those that have no event time
    and so belong to no group. Late messages go to ``late_to`` if there is one. No copy is left out before the shuffle
    (decision 132).
    """

    def __init__(self, spec: DistinctSpec, messages: Schema, late_to: Sender | None = None) -> None:
        super().__init__(spec, messages, messages)
        self.late = 0
        self.without_time = 0
        self._late_to = late_to
        self._by_event = spec.time_column is not None
        self._watermark = NONE_YET
        fields = [messages[name] for name in spec.key]
        key = [Field(f"k{place}", field.type) for place, field in enumerate(fields)]
        mask = Field("nulls", DataType("bigint"))
        self._copies = Copies(spec, messages, key, self._keys, self._times)
        # An index knows no null. Keys that have one are few: a mask says where, beside other values in its place.
        self._of_nulls = Copies(spec, messages, [mask, *key], self._keys_with_nulls, self._times)

    def metrics(self) -> Mapping[str, float]:
        """Return the counts of copies, and of messages that came too late or have no event time."""
        counts: dict[str, float] = {"duplicate_messages": self._copies.duplicates + self._of_nulls.duplicates}
        if self._by_event:
            counts |= {"late_messages": self.late, "messages_without_time": self.without_time}
        return counts

    # -- messages ------------------------------------------------------------------------------------------------------

    def process(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Let messages wait; return results where these do not depend on time."""
        batch, times, without = self._timed(batch)
        self.without_time += without
        if self._watermark != NONE_YET:
            batch, times, late = without_late(batch, times, times < self._watermark * 1000, self._late_to)
            self.late += late
        if not batch.num_rows:
            return
        with_key = rows_with_key(self._keys(batch))
        if with_key is None:
            self._copies.add(batch, times)
        else:
            self._of_nulls.add(batch.filter(pa.array(~with_key)), times[~with_key])
            self._copies.add(batch.filter(pa.array(with_key)), times[with_key])
        if not self._by_event and self._copies.waiting + self._of_nulls.waiting >= WORK:
            yield from self._settled(_ARRIVED)

    def _timed(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, Longs, int]:
        """Return the messages that have an event time, their times (µs), and how many have none.

        Where there are no event times all have the time 0.
        """
        if self.spec.time_column is None:
            return batch, np.zeros(batch.num_rows, np.int64), 0
        return timed_messages(batch, self.input, self.spec.time_column, f"input of {self.spec.title}")

    def _times(self, batch: pa.RecordBatch) -> Longs:
        return self._timed(batch)[1]

    def _keys(self, batch: pa.RecordBatch) -> list[pa.Array]:
        return [batch.column(name) for name in self.spec.key]

    def _keys_with_nulls(self, batch: pa.RecordBatch) -> list[pa.Array]:
        keys = self._keys(batch)
        mask = np.zeros(batch.num_rows, np.int64)
        for place, column in enumerate(keys):
            mask |= column.is_null().to_numpy(zero_copy_only=False).astype(np.int64) << place
        return [pa.array(mask), *(column.fill_null(_any_value(column.type)) for column in keys)]

    # -- time ----------------------------------------------------------------------------------------------------------

    def on_watermark(self, timestamp: int) -> Iterator[pa.RecordBatch]:
        """Return the messages that stay now that time has passed them."""
        if self._by_event and timestamp > self._watermark:
            self._watermark = timestamp
            if self.spec.within_ms is not None:
                yield from self._settled(timestamp * 1000)

    def output_watermark(self, timestamp: int) -> int:
        """Return the watermark less the time for which a last copy waits; none where messages wait for the end."""
        if self.spec.within_ms is None:
            return NONE_YET if self._by_event or self.spec.keep == "last" else timestamp
        return timestamp if self.spec.keep == "first" else max(timestamp - self.spec.within_ms, NONE_YET)

    def settle(self) -> Iterator[pa.RecordBatch]:
        """Return what does not depend on time."""
        if not self._by_event:
            yield from self._settled(_ARRIVED)

    def flush(self) -> Iterator[pa.RecordBatch]:
        """Return all messages that stay."""
        yield from self._settled(None)

    def _settled(self, until: int | None) -> Iterator[pa.RecordBatch]:
        yield from self._copies.settle(until)
        yield from self._of_nulls.settle(until)

    # -- state ---------------------------------------------------------------------------------------------------------

    def snapshot(self) -> Mapping[str, pa.Table]:
        """The messages that wait, the open groups, and the time reached."""
        of_nulls = {_NULLS + name: table for name, table in self._of_nulls.snapshot().items()}
        reached = pa.table({"watermark": pa.array([self._watermark], pa.int64())})
        return {**self._copies.snapshot(), **of_nulls, "reached": reached}

    def restore(self, tables: Mapping[str, pa.Table]) -> None:
        """Take over the messages that wait, the open groups, and the time reached."""
        self._watermark = tables["reached"].column("watermark")[0].as_py()
        with_nulls = {name.removeprefix(_NULLS): t for name, t in tables.items() if name.startswith(_NULLS)}
        reached = self._watermark * 1000 if self._watermark != NONE_YET else LONG_AGO
        self._copies.restore({name: t for name, t in tables.items() if not name.startswith(_NULLS)}, reached)
        self._of_nulls.restore(with_nulls, reached)


_ARRIVED = 1
"""The time by which messages without event times, which have the time 0, have come."""


def _any_value(kind: pa.DataType) -> Any:
    """Return a value of a type that keys have."""
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return ""
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return b""
    if pa.types.is_boolean(kind):
        return False
    return pa.scalar(decimal.Decimal(0) if pa.types.is_decimal(kind) else 0, kind)

"""The time of reading as a column of messages, and as their watermark."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import pyarrow as pa

from airflow_samza.application.operator_specs import ReadTimeSpec
from airflow_samza.control.watermarks import NONE_YET
from airflow_samza.schema import Schema
from airflow_samza.systems.dictionaries import batch_of
from airflow_samza.task.operators.operator import Operator


class ReadTime(Operator[ReadTimeSpec]):
    """Puts the clock's time into a column.

    It never goes back, not over a restart either; so it is the watermark of what follows.

    ``bounded``: the input ends, and makes no watermarks before.
    """

    takes_dictionaries = True

    def __init__(
        self, spec: ReadTimeSpec, inputs: Schema, output: Schema, clock: Callable[[], int], *, bounded: bool
    ) -> None:
        super().__init__(spec, inputs, output)
        self.moves_watermark = not bounded
        self._clock = clock
        self._arrow = output.to_arrow()
        self._now = NONE_YET

    def process(self, batch: pa.RecordBatch) -> Iterable[pa.RecordBatch]:
        """The messages with the time."""
        self._now = max(self._now, self._clock())
        stamps = pa.repeat(pa.scalar(self._now * 1000, pa.int64()), batch.num_rows).view(pa.timestamp("us", "UTC"))
        columns = [stamps if name == self.spec.column else batch.column(name) for name in self._arrow.names]
        return (batch_of(columns, self._arrow),)

    def on_time(self, now: int) -> Iterable[pa.RecordBatch]:
        """Note the time; nothing is emitted."""
        self._now = max(self._now, now)
        return ()

    @property
    def waits_for_time(self) -> bool:
        """Return whether windows behind it close by the clock."""
        return self.moves_watermark

    def output_watermark(self, timestamp: int) -> int:
        """The time of the latest message: none will have an earlier one."""
        return self._now if self.moves_watermark else timestamp

    def snapshot(self) -> Mapping[str, pa.Table]:
        """The time reached."""
        return {"reached": pa.table({"now": pa.array([self._now], pa.int64())})}

    def restore(self, tables: Mapping[str, pa.Table]) -> None:
        """Take over the time reached."""
        self._now = tables["reached"].column("now")[0].as_py()

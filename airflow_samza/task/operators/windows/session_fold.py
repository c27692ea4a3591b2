"""Sessions with a fold of the user's.

Two sessions can become one, and two folded values cannot: so their messages are kept until then.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from airflow_samza.application.operator_specs import WindowOperatorSpec
from airflow_samza.application.windows import Aggregation
from airflow_samza.schema import DataType, Field, Schema
from airflow_samza.task.operators.accumulators import Accumulator
from airflow_samza.task.operators.windows.early import EarlyResults
from airflow_samza.task.operators.windows.folded import Fold
from airflow_samza.task.operators.windows.open_windows import Results
from airflow_samza.task.operators.windows.sessions import SessionWindows

if TYPE_CHECKING:
    import pyarrow as pa

_MESSAGE = "\0message"


class FoldedSessions:
    """Open sessions, each with its messages, which are folded when a result is asked for."""

    def __init__(self, spec: WindowOperatorSpec, fold: Fold, inputs: Schema, gap_ms: int, *, early: bool) -> None:
        self.fold = self._fold = fold
        self._accumulating = spec.window.accumulating
        kind = DataType("struct", children=tuple(field.type for field in inputs.fields), names=inputs.names)
        collected = Field(_MESSAGE, DataType("array", children=(kind,)))
        messages = Accumulator(Aggregation("collect", _MESSAGE, _MESSAGE), kind, collected, placed=True)
        self._sessions = SessionWindows(
            spec, [messages], gap_ms, EarlyResults(spec.window, ["p0", "p1"]) if early else None
        )

    def late(self, times: Any, watermark: int) -> Any:
        """See :class:`OpenWindows`."""
        return self._sessions.late(times, watermark)

    def add(self, batch: pa.RecordBatch, times: Any, watermark: int, now: int) -> Iterator[Results]:
        """See :class:`OpenWindows`."""
        return self._folded(
            self._sessions.add(batch.append_column(_MESSAGE, batch.to_struct_array()), times, watermark, now)
        )

    def close(self, watermark: int | None) -> Iterator[Results]:
        """See :class:`OpenWindows`."""
        return self._folded(self._sessions.close(watermark))

    def due(self, now: int) -> Iterator[Results]:
        """See :class:`OpenWindows`."""
        return self._folded(self._sessions.due(now))

    def _folded(self, results: Iterator[Results]) -> Iterator[Results]:
        import pyarrow as pa

        for found in results:
            values = []
            for messages in found.values[_MESSAGE]:
                value = self._fold.begun()
                for message in self._fold.messages(pa.RecordBatch.from_struct_array(messages.values)):
                    value = self._fold.next(value, message, rejects=found.final or not self._accumulating)
                values.append(value)
            yield replace(found, values=self._fold.columns(values))

    def earliest(self, watermark: int) -> int:
        """See :class:`OpenWindows`."""
        return self._sessions.earliest(watermark)

    def snapshot(self) -> Mapping[str, pa.Table]:
        """See :class:`OpenWindows`."""
        return self._sessions.snapshot()

    def restore(self, tables: Mapping[str, pa.Table]) -> None:
        """See :class:`OpenWindows`."""
        self._sessions.restore(tables)

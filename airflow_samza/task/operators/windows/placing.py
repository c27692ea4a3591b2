"""Messages placed in windows before they are sent to the task that makes the windows, and which windows can be so."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_samza.application.operator_specs import WindowOperatorSpec
from airflow_samza.schema import Schema
from airflow_samza.task.messages.event_times import micros
from airflow_samza.task.operators.windows.fixed import placed_in_slices
from airflow_samza.task.operators.windows.grids import slices_of

if TYPE_CHECKING:
    import pyarrow as pa


def made_of_slices(spec: WindowOperatorSpec) -> bool:
    """Return whether a window's results can be put together of partial results of slices that other tasks made."""
    window = spec.window
    whole = spec.fold is not None or bool(spec.side_outputs) or window.is_early
    return (
        window.duration_ms is not None
        and window.time == "event"
        and not whole
        and slices_of(window, spec.aggregations) is not None
    )


class Placing:
    """Puts the start of its slice behind each message.

    ``without_time`` counts the messages that have none and are left out.
    """

    def __init__(self, spec: WindowOperatorSpec, messages: Schema) -> None:
        slices = slices_of(spec.window, spec.aggregations)
        assert slices is not None
        self.without_time = 0
        self._slices = slices
        self._title = spec.title
        self._place = messages.names.index(spec.time_column or "")
        self._kind = messages.fields[self._place].type

    def placed(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The messages that have a time, with the start of their slice."""
        times = micros(batch.column(self._place), self._kind, f"input of {self._title}")
        if times.null_count:
            self.without_time += times.null_count
            batch, times = batch.filter(times.is_valid()), times.drop_null()
        return placed_in_slices(batch, times.to_numpy(zero_copy_only=False), self._slices)

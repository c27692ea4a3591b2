"""Open windows with a fold of the user's: a value for each tumbling or hopping window, the messages of a session.

Two sessions can become one, and two folded values cannot: so the messages of a session are kept until then.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from airflow_samza.application.operator_specs import WindowOperatorSpec
from airflow_samza.application.rejections import USER_ERRORS
from airflow_samza.application.windows import Aggregation
from airflow_samza.row import Row
from airflow_samza.schema import DataType, Field, Schema
from airflow_samza.task.messages.bad_records import BadRecords
from airflow_samza.task.messages.messages import MessageReader, MessageWriter, chunks
from airflow_samza.task.messages.plain_values import NotPlain, from_text, to_text
from airflow_samza.task.messages.user_errors import callable_failed
from airflow_samza.task.operators.aggregation.accumulators import Accumulator, same_key
from airflow_samza.task.operators.calls import batch_of
from airflow_samza.task.operators.windows.early import EarlyWindows, touched_windows
from airflow_samza.task.operators.windows.fixed import START_COLUMN, placed_in_windows
from airflow_samza.task.operators.windows.open_windows import PANE, PENDING, SEEN, Results, by_end, with_columns
from airflow_samza.task.operators.windows.sessions import SessionWindows

_ROW, _MESSAGE = "\0row", "\0message"

logger = logging.getLogger(__name__)


class Fold:
    """The user's function over messages, and the batches of what it makes."""

    def __init__(self, spec: WindowOperatorSpec, inputs: Schema, result: Schema) -> None:
        assert spec.fold is not None
        self._spec = spec
        self._function = spec.fold
        self._reader = MessageReader(inputs)
        self._writer = MessageWriter(result)
        self._result_reader = MessageReader(result)
        self._inputs = inputs
        self._result = result
        self._rejected: set[int] = set()
        self._pickling_reported = False
        self.bad: BadRecords | None = None
        """The handler of messages on which the function fails; the window continues without them."""

    def messages(self, batch: pa.RecordBatch) -> list[Any]:
        """The messages of a batch."""
        self._rejected.clear()
        return [message for part in chunks(batch) for message in self._reader.read(part)]

    def begun(self) -> Any:
        """Return the value with which a window starts; its own, so that a fold may change it."""
        initial = self._spec.initial
        try:
            return initial() if callable(initial) else copy.deepcopy(initial)
        except USER_ERRORS as error:
            raise callable_failed(self._spec, initial, None, error, may_go_on=False) from error

    def next(self, value: Any, message: Any, *, rejects: bool = True) -> Any:
        """The value with one more message; ``rejects``: a message on which it fails is rejected (once)."""
        try:
            return self._function(value, message)
        except USER_ERRORS as error:
            failure = callable_failed(self._spec, self._function, message, error)
            if self.bad is None:
                raise failure from error
            if rejects and id(message) not in self._rejected:  # it may be in several windows
                self._rejected.add(id(message))
                self.bad.reject_message(message, self._inputs, failure)
            return value

    def columns(self, values: Sequence[Any]) -> dict[str, Any]:
        """Values as columns of the result."""
        batch = batch_of(self._spec, self._function, self._writer, values)
        return dict(zip(batch.schema.names, batch.columns, strict=True))

    def kept(self, values: Mapping[int, Any]) -> dict[str, pa.Table]:
        """Return values by number as tables.

        Those of the result's own class are kept by column, plain ones as text, and only the others pickled.
        """
        import cloudpickle

        plain = self._result.python_class or Row
        own = {
            number: value
            for number, value in values.items()
            if type(value) is plain or (plain is Row and isinstance(value, Row))
        }
        others = {number: value for number, value in values.items() if number not in own}
        tables = {}
        if own:
            tables["values"] = pa.table({_ROW: pa.array(list(own), pa.int64()), **self.columns(list(own.values()))})
        plain_ones, pickled = {}, {}
        for number, value in others.items():
            try:
                plain_ones[number] = to_text(value)
            except NotPlain as error:
                self._report_pickled(error)
                pickled[number] = cloudpickle.dumps(value)
        for name, kept, kind in (("plain", plain_ones, pa.string()), ("pickled", pickled, pa.binary())):
            if kept:
                tables[name] = pa.table(
                    {_ROW: pa.array(list(kept), pa.int64()), "value": pa.array(list(kept.values()), kind)}
                )
        return tables

    def _report_pickled(self, why: NotPlain) -> None:
        if not self._pickling_reported:
            self._pickling_reported = True
            title = self._spec.title
            logger.warning(
                "The fold of %s keeps values that only pickle keeps (%s): who may write the root can run code here.",
                title,
                why,
            )

    def restored(self, tables: Mapping[str, pa.Table]) -> dict[int, Any]:
        """Return the values that :meth:`kept` gave."""
        import cloudpickle

        values: dict[int, Any] = {}
        if "values" in tables:
            for batch in tables["values"].to_batches():
                messages = self._result_reader.read(batch.drop_columns([_ROW]))
                values.update(zip(batch.column(_ROW).to_pylist(), messages, strict=True))
        for name, load in (("plain", from_text), ("pickled", cloudpickle.loads)):
            if name in tables:
                numbers, kept = (tables[name].column(column).to_pylist() for column in (_ROW, "value"))
                values.update(zip(numbers, map(load, kept), strict=True))
        return values


class FoldedWindows(EarlyWindows):
    """Tumbling or hopping windows with a fold, with or without early results."""

    def __init__(self, spec: WindowOperatorSpec, fold: Fold) -> None:
        super().__init__(spec, [])
        self.fold = fold
        self._keys = [f"k{place}" for place in range(len(spec.key))]
        self._values: dict[int, Any] = {}  # by the window's turn

    def add(self, batch: pa.RecordBatch, times: Any, watermark: int, now: int) -> Iterator[Results]:
        """See :class:`.FixedWindows`."""
        messages = self.fold.messages(batch)
        rows = pa.RecordBatch.from_arrays(
            [*(batch.column(name) for name in self._spec.key), pa.array(np.arange(batch.num_rows))], [*self._keys, _ROW]
        )
        placed = placed_in_windows(rows, times, self._grid, watermark)
        if not placed.num_rows:
            return
        keys = [same_key(placed.column(name)) for name in (*self._keys, START_COLUMN)]
        window, windows, _, others = touched_windows(self._open, self._keys, keys, self._grid, self._early)
        pending = windows.column(PENDING).to_pylist()
        turns = windows.column(SEEN).to_pylist()
        results = [0] * windows.num_rows
        emitted: list[tuple[int, int, Any]] = []  # window, number of the result, value
        every, values = self._early.every, self._values
        for place, row in zip(window.tolist(), placed.column(_ROW).to_pylist(), strict=True):
            turn = turns[place]
            value = values[turn] if turn in values else self.fold.begun()
            values[turn] = value = self.fold.next(value, messages[row])
            pending[place] += 1
            if every is not None and pending[place] % every == 0:
                emitted.append((place, results[place], value))
                results[place] += 1
                if self._early.accumulating:
                    values[turn] = copy.deepcopy(value)
                else:
                    del values[turn]
        if emitted:
            places, numbers, folded = zip(*emitted, strict=True)
            table = windows.take(pa.array(places, pa.int64()))
            panes = pa.array(table.column(PANE).to_numpy() + np.array(numbers))
            yield self._folded(with_columns(table, {PANE: panes}), list(folded), False)
        left = self._early.counted(windows, np.array(results), np.array(pending), now)
        self._open = left if others is None else pa.concat_tables([others, left.select(others.column_names)])

    def _results(self, windows: pa.Table, *, final: bool) -> Results:
        return self._folded(windows, [self._values[turn] for turn in windows.column(SEEN).to_pylist()], final)

    def _folded(self, windows: pa.Table, values: list[Any], final: bool) -> Results:
        table = by_end(windows.append_column(_ROW, pa.array(range(len(values)), pa.int64())))
        return Results(table, self.fold.columns([values[row] for row in table.column(_ROW).to_pylist()]), final)

    def _forget(self, windows: pa.Table) -> None:
        for turn in windows.column(SEEN).to_pylist():
            self._values.pop(turn, None)

    def snapshot(self) -> Mapping[str, pa.Table]:
        """See :class:`.FixedWindows`."""
        windows = super().snapshot()
        return {**windows, **self.fold.kept(self._values)} if windows else windows

    def restore(self, tables: Mapping[str, pa.Table]) -> None:
        """See :class:`.FixedWindows`."""
        super().restore(tables)
        self._values = self.fold.restored(tables)


class FoldedSessions(SessionWindows):
    """Open sessions, each with its messages, which are folded when a result is asked for."""

    def __init__(self, spec: WindowOperatorSpec, fold: Fold, inputs: Schema) -> None:
        kind = DataType("struct", children=tuple(field.type for field in inputs.fields), names=inputs.names)
        collected = Field(_MESSAGE, DataType("array", children=(kind,)))
        messages = Accumulator(Aggregation("collect", _MESSAGE, _MESSAGE), kind, collected, placed=True)
        super().__init__(spec, [messages])
        self.fold = fold
        self._accumulating = spec.window.accumulating

    def add(self, batch: pa.RecordBatch, times: Any, watermark: int, now: int) -> Iterator[Results]:
        """See :class:`.FixedWindows`."""
        return super().add(batch.append_column(_MESSAGE, batch.to_struct_array()), times, watermark, now)

    def _values(self, sessions: pa.Table, final: bool) -> Mapping[str, Any]:
        values = []
        for messages in super()._values(sessions, final)[_MESSAGE]:
            value = self.fold.begun()
            for message in self.fold.messages(pa.RecordBatch.from_struct_array(messages.values)):
                value = self.fold.next(value, message, rejects=final or not self._accumulating)
            values.append(value)
        return self.fold.columns(values)

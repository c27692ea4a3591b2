"""Operators on whole batches that keep nothing: where, select, merge, map_batches, inputs, sending to a stream."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

import pyarrow as pa

from airflow_samza.application.operator_spec import OperatorSpec
from airflow_samza.application.operator_specs import MapBatchesSpec, SelectSpec, WhereSpec
from airflow_samza.application.rejections import USER_ERRORS
from airflow_samza.errors import MessageError, SamzaError, SchemaError
from airflow_samza.quoting import one_line, quoted
from airflow_samza.row import Row
from airflow_samza.schema import Schema
from airflow_samza.systems.dictionaries import batch_of
from airflow_samza.task.expressions.compiler import Projection
from airflow_samza.task.expressions.expression import EvaluationFailure, Expression, Frame, is_true
from airflow_samza.task.messages.bad_records import BadRecords, halved
from airflow_samza.task.messages.conform import SchemaConformer
from airflow_samza.task.messages.expectations import Expectations
from airflow_samza.task.messages.output_writers import OutputWriter, Sender
from airflow_samza.task.messages.user_errors import callable_failed, file_and_line, located, wrong_shape
from airflow_samza.task.operators.operator import Operator


def evaluation_failed(spec: OperatorSpec, text: str, failure: EvaluationFailure, message: str = "") -> MessageError:
    """The error for an expression that has no value on some row.

    ``message`` is that row for people, where one row is the cause.
    """
    on = f", on the message {message}" if message else ""
    text = one_line(text)
    return MessageError(
        f"[{failure.condition}] {failure.sentence.removesuffix('.')}, in {spec.title}: {text}{on}"
        f"{located(spec.location)}.",
        hint="Leave such rows out before, or use CASE WHEN … THEN … END around the part that fails.",
        operator=spec.op_id,
        expression=text,
        message=message or None,
        condition=failure.condition,
        **file_and_line(spec.location),
    )


def first_failure(
    batch: pa.RecordBatch, failure: EvaluationFailure, evaluate: Callable[[pa.RecordBatch], object]
) -> tuple[EvaluationFailure, str]:
    """The failure of the first row of a batch on which ``evaluate`` fails, and that row for people.

    It is looked for by halving.
    """
    while batch.num_rows > 1:
        middle = batch.num_rows // 2
        try:
            evaluate(batch.slice(0, middle))
        except EvaluationFailure as earlier:
            failure, batch = earlier, batch.slice(0, middle)
        else:
            batch = batch.slice(middle)
    return failure, quoted(Row(batch.to_pylist()[0])) if batch.num_rows else ""


class Pass(Operator[OperatorSpec]):
    """Hands batches on as they are: a merge, and where an input enters."""

    takes_dictionaries = True

    def __init__(self, spec: OperatorSpec, output: Schema) -> None:
        super().__init__(spec, output, output)
        self._arrow = output.to_arrow()

    def process(self, batch: pa.RecordBatch) -> Iterable[pa.RecordBatch]:
        """The batch, with the output's nullability."""
        if batch.schema.equals(self._arrow):
            return (batch,)
        if batch.num_columns != len(self._arrow):  # what is merged may carry columns that others of the stage read
            batch = batch.select(self._arrow.names)
        return (batch_of(batch.columns, self._arrow),)


class ExpectingInput(Pass):
    """Hands the messages of an input on that meet what is expected of them, or need not meet it."""

    takes_dictionaries = False  # conditions are evaluated on plain columns

    def __init__(self, spec: OperatorSpec, output: Schema, expectations: Expectations) -> None:
        super().__init__(spec, output)
        self.expectations = expectations

    def process(self, batch: pa.RecordBatch) -> Iterable[pa.RecordBatch]:
        """The messages that are left."""
        kept = self.expectations.kept(batch)
        return super().process(kept) if kept.num_rows else ()

    def metrics(self) -> Mapping[str, float]:
        """Return how many messages were dropped or sent away."""
        return self.expectations.metrics


def _in_pieces(
    batch: pa.RecordBatch, evaluate: Callable[[pa.RecordBatch], pa.RecordBatch], bad: BadRecords | None
) -> Iterable[pa.RecordBatch]:
    """Return the result of a batch, with a handler in pieces without the rows on which ``evaluate`` fails."""
    if bad is None:
        return (evaluate(batch),)
    bad.begin(batch)
    return (piece for _, piece in halved(batch, lambda part, _: evaluate(part), MessageError, bad.reject_row))


class Where(Operator[WhereSpec]):
    """Keeps the rows for which every conjunct is true, each evaluated on the rows that passed those before."""

    takes_dictionaries = True

    def __init__(self, spec: WhereSpec, inputs: Schema, conjuncts: tuple[Expression, ...]) -> None:
        super().__init__(spec, inputs, inputs)
        self._conjuncts = conjuncts

    def process(self, batch: pa.RecordBatch) -> Iterable[pa.RecordBatch]:
        """The rows that are kept."""
        return _in_pieces(batch, self._kept, self.bad)

    def _kept(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        for conjunct in self._conjuncts:
            condition = functools.partial(_mask, conjunct)
            try:
                mask = condition(batch)
            except EvaluationFailure as failure:
                raise evaluation_failed(
                    self.spec, self.spec.condition, *first_failure(batch, failure, condition)
                ) from None
            kept = mask.true_count
            if kept == 0:
                return batch.slice(0, 0)
            if kept < batch.num_rows:
                batch = batch.filter(mask)
        return batch


def _mask(conjunct: Expression, batch: pa.RecordBatch) -> pa.Array:
    """Return a mask of the rows for which a conjunct is true."""
    return is_true(conjunct.array(Frame(batch.columns, batch.num_rows)))


class Select(Operator[SelectSpec]):
    """Makes the columns."""

    takes_dictionaries = True

    def __init__(self, spec: SelectSpec, inputs: Schema, projection: Projection) -> None:
        super().__init__(spec, inputs, projection.schema)
        self._projection = projection
        self._arrow = projection.schema.to_arrow()

    def process(self, batch: pa.RecordBatch) -> Iterable[pa.RecordBatch]:
        """The selected columns of all rows."""
        return _in_pieces(batch, self._selected, self.bad)

    def _selected(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        try:
            columns = self._columns(batch)
        except EvaluationFailure as failure:
            text = ", ".join(self.spec.expressions)
            raise evaluation_failed(self.spec, text, *first_failure(batch, failure, self._columns)) from None
        return batch_of(columns, self._arrow)

    def _columns(self, batch: pa.RecordBatch) -> list[pa.Array]:
        frame = Frame(batch.columns, batch.num_rows)
        expressions = self._projection.expressions
        return [batch.column(e.place) if e.place is not None else e.array(frame) for e in expressions]


class MapBatches(Operator[MapBatchesSpec]):
    """Hands batches to the user's callable and checks the schema of what comes back."""

    def __init__(self, spec: MapBatchesSpec, inputs: Schema, output: Schema) -> None:
        super().__init__(spec, inputs, output)
        self._conformer = SchemaConformer(output, f"the result of {spec.title}")

    def process(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """The callable's batches; where it may fail, all of a batch at a time."""
        if self.bad is None:
            return self._results(batch)
        self.bad.begin(batch)
        pieces = halved(batch, lambda part, _: list(self._results(part)), Exception, self.bad.reject_row)
        return chain.from_iterable(results for _, results in pieces)

    def _results(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        results = self._called(batch)
        while True:
            try:
                result = next(results, None)
            except SamzaError:
                raise
            except USER_ERRORS as error:
                raise callable_failed(self.spec, self.spec.function, _shown(batch), error) from error
            if result is None:
                return
            yield self._checked(result)

    def _called(self, batch: pa.RecordBatch) -> Iterator[Any]:
        result = self.spec.function(batch)
        is_several = isinstance(result, Iterable) and not isinstance(
            result, pa.RecordBatch | pa.Table | str | bytes | dict
        )
        for part in result if is_several else [result]:
            if isinstance(part, pa.Table):
                yield from part.to_batches()
            elif isinstance(part, pa.RecordBatch):
                yield part
            else:
                expected = "a pyarrow.RecordBatch or an iterable of them"
                raise wrong_shape(self.spec, self.spec.function, part, expected)

    def _checked(self, result: pa.RecordBatch) -> pa.RecordBatch:
        output = self._conformer.schema
        more = [name for name in result.schema.names if name not in output]
        shape = f"the columns {output.ddl()}"
        if more:
            raise wrong_shape(
                self.spec, self.spec.function, _shown(result), shape, why=f"it has also {', '.join(more)}"
            )
        try:
            return self._conformer.conform(result)
        except SchemaError as error:
            raise wrong_shape(
                self.spec, self.spec.function, _shown(result), shape, why=error.sentence.rstrip(".")
            ) from None


class _shown:  # noqa: N801 (it only stands for a batch in an error)
    def __init__(self, batch: pa.RecordBatch) -> None:
        self.batch = batch

    def __repr__(self) -> str:
        columns = ", ".join(f"{field.name}: {field.type}" for field in self.batch.schema)
        return f"<a batch of {self.batch.num_rows} rows: {columns}>"


class SendTo(Operator[OperatorSpec]):
    """Sends every message to a stream, in the stream's declared schema if it has one."""

    takes_dictionaries = True

    def __init__(self, spec: OperatorSpec, inputs: Schema, declared: Schema, writer: OutputWriter) -> None:
        super().__init__(spec, inputs, None)
        self._sender = Sender(writer, declared, spec.title)

    def process(self, batch: pa.RecordBatch) -> Iterable[pa.RecordBatch]:
        """Send the messages."""
        self._sender.send(batch)
        return ()

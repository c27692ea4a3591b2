"""The columns of an operator's output that are read behind it.

They are known from keys, aggregations and SQL, never from Python callables. A set of columns has their names in lower
case, as Spark's SQL ignores case; None stands for all columns. The compiler of a stage reads and sends by it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from airflow_samza.application.operator_spec import OperatorSpec, RepartitioningSpec
from airflow_samza.application.operator_specs import InputOperatorSpec, ReadTimeSpec
from airflow_samza.application.watermarks import PUNCTUATED
from airflow_samza.schema import Schema
from airflow_samza.task.expressions.column_use import columns_named

Columns = frozenset[str] | None

NONE: Columns = frozenset()


def columns_used(
    operators: Sequence[OperatorSpec], topics: Mapping[str, Columns], *, times: bool = False
) -> dict[str, Columns]:
    """By operator id, the columns of its output that other operators read. ``operators`` come after their inputs.

    ``topics`` are the columns that go through streams; a stream that is not there takes all. ``times``: a chooser of
    the user's asks for the event times of inputs.
    """
    used: dict[str, Columns] = {operator.op_id: _watermarks(operator) for operator in operators}
    for operator in operators if times else ():
        if isinstance(operator, InputOperatorSpec) and operator.stream.timestamp is not None:
            used[operator.op_id] = both(used[operator.op_id], lowered([operator.stream.timestamp]))
    for operator in reversed(operators):
        needed = _needed(operator, used[operator.op_id], topics)
        for source in operator.inputs:
            if source.op_id in used:
                used[source.op_id] = both(used[source.op_id], needed)
        if isinstance(operator, InputOperatorSpec) and (operator.on_error is not None or operator.stream.expect):
            used[operator.op_id] = None  # whether a message fits is a question of all its columns
    return used


def _watermarks(operator: OperatorSpec) -> Columns:
    """The columns of which watermarks are made where messages come in."""
    stream = operator.stream if isinstance(operator, InputOperatorSpec) else None
    if stream is None or stream.bounded or stream.watermarks is None:
        return NONE
    return None if stream.watermarks.kind == PUNCTUATED or stream.timestamp is None else lowered([stream.timestamp])


def both(one: Columns, other: Columns) -> Columns:
    """The columns of two sets."""
    return None if one is None or other is None else one | other


def lowered(names: Iterable[str | None]) -> frozenset[str]:
    """Return names as a set of columns; a None among them names none."""
    return frozenset(name.lower() for name in names if name is not None)


def pruned(schema: Schema, columns: Columns) -> Schema:
    """Return a schema without unused columns; one is always left, to carry the number of rows."""
    if columns is None:
        return schema
    fields = tuple(field for field in schema.fields if field.name.lower() in columns) or schema.fields[:1]
    return schema if fields == schema.fields else Schema(fields)


def _needed(operator: OperatorSpec, used: Columns, topics: Mapping[str, Columns]) -> Columns:
    """Return the columns that an operator needs of its inputs when ``used`` of its output are read."""
    if operator.columns_read is None or (operator.on_error is not None and operator.on_error.stream is not None):
        return None  # a dead letter is the whole message
    if isinstance(operator, RepartitioningSpec):
        used = topics.get(operator.stream.stream_id)
    elif isinstance(operator, ReadTimeSpec) and used is not None:
        used -= lowered([operator.column])
    texts = tuple(text for text in operator.sql if text.strip() != "*")
    named = columns_named(texts) if texts else NONE
    return both(both(lowered(operator.columns_read), named), used if operator.passes_columns else NONE)

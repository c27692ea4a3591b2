"""Which columns of what an operator gives are read behind it.

Known from keys, aggregations and SQL, never from Python callables.

A set of column names in lower case (Spark's SQL does not tell cases apart); None stands for all columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from airflow_samza.application.operator_specs import (
    AggregateSpec,
    BroadcastSpec,
    InputOperatorSpec,
    MergeSpec,
    OperatorSpec,
    PartitionBySpec,
    ReadTimeSpec,
    SelectSpec,
    StreamJoinSpec,
    TableJoinSpec,
    WhereSpec,
    WindowOperatorSpec,
)
from airflow_samza.application.watermark_strategies import PUNCTUATED
from airflow_samza.schema import Schema
from airflow_samza.task.expressions.references import columns_named

Columns = frozenset[str] | None

NONE: Columns = frozenset()


def columns_used(
    operators: Sequence[OperatorSpec], topics: Mapping[str, Columns], *, times: bool = False
) -> dict[str, Columns]:
    """By operator id, the columns of its output that other operators read. ``operators`` come after their inputs.

    ``topics`` are the columns that go through streams; a stream that is not there takes all. ``times``: whoever reads
    inputs (a chooser of the user's) asks for their event times.
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
        if isinstance(operator, InputOperatorSpec) and operator.on_error is not None:
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


def lowered(names: Sequence[str]) -> frozenset[str]:
    """Names as a set of columns."""
    return frozenset(name.lower() for name in names)


def cut(schema: Schema, columns: Columns) -> Schema:
    """A schema without the columns that nobody reads; one is always left, to carry the number of rows."""
    if columns is None:
        return schema
    fields = tuple(field for field in schema.fields if field.name.lower() in columns) or schema.fields[:1]
    return schema if fields == schema.fields else Schema(fields)


def _needed(operator: OperatorSpec, used: Columns, topics: Mapping[str, Columns]) -> Columns:
    """The columns that an operator needs of its inputs when ``used`` of its output are read."""
    if operator.on_error is not None and operator.on_error.stream is not None:
        return None  # a dead letter is the whole message
    if isinstance(operator, WhereSpec):
        return both(used, columns_named((operator.condition,)))
    if isinstance(operator, SelectSpec):
        stars = [text for text in operator.expressions if text.strip() == "*"]
        named = columns_named(tuple(text for text in operator.expressions if text.strip() != "*"))
        return both(named, used if stars else NONE)
    if isinstance(operator, MergeSpec):
        return used
    if isinstance(operator, ReadTimeSpec):
        return None if used is None else used - lowered([operator.column])
    if isinstance(operator, AggregateSpec):
        return lowered([*operator.key, *(a.column for a in operator.aggregations if a.column is not None)])
    if isinstance(operator, WindowOperatorSpec) and operator.fold is None and not operator.side_outputs:
        read = [operator.time_column, *operator.key, *(a.column for a in operator.aggregations)]
        return lowered([column for column in read if column is not None])
    if isinstance(operator, TableJoinSpec) and operator.function is None:
        return both(
            used, lowered([*operator.key, *([operator.time_column] if operator.time_column is not None else [])])
        )
    if isinstance(operator, StreamJoinSpec) and operator.function is None:
        times = [time for time in (operator.left_time, operator.right_time) if time is not None]
        return both(used, lowered([*operator.left_key, *operator.right_key, *times]))
    if isinstance(operator, PartitionBySpec):
        return both(topics.get(operator.stream.stream_id), lowered(operator.key))
    if isinstance(operator, BroadcastSpec):
        return topics.get(operator.stream.stream_id)
    return None  # a callable, a transform, an output: it may look at every column

"""Bounds of single columns of an input by a stage's first conditions, for systems that skip rows by statistics.

Only what holds whatever the other columns are, and only conditions that Spark would evaluate first; everything is
filtered again by the operators, so a bound that is left out costs time and never a row. The plan step skips files by
them, and tasks skip row groups.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from airflow_samza.application.operator_spec import OperatorSpec
from airflow_samza.application.operator_specs import InputOperatorSpec, WhereSpec
from airflow_samza.schema import Schema
from airflow_samza.systems.system import ColumnBound
from airflow_samza.task.expressions.column_use import tree_of
from airflow_samza.task.expressions.reading import conjuncts
from airflow_samza.task.expressions.tree_facts import bare
from airflow_samza.task.program.kinds.operator_kind import CompiledOperator

_WHOLE = re.compile(r"\d{1,18}")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_COMPARED = {"EQ": ("=", "="), "LT": ("<", ">"), "LTE": ("<=", ">="), "GT": (">", "<"), "GTE": (">=", "<=")}
"""A comparison with the column on the left, and the same with the column on the right."""


def input_bounds(
    operators: Sequence[OperatorSpec], compiled: Mapping[str, CompiledOperator], whole: Mapping[str, Schema]
) -> dict[str, tuple[ColumnBound, ...]]:
    """Return, per input stream of a stage, the bounds that its messages must fulfil to be of use.

    Streams of which nothing is known are left out. ``whole`` are the schemas of the inputs by operator id.
    """
    by_stream = {}
    for operator in operators:
        # It would not be known whether a message that is skipped could have been read, or meets what is expected.
        if not isinstance(operator, InputOperatorSpec) or operator.op_id not in whole:
            continue
        if operator.on_error is None and not operator.stream.expect:
            bounds = tuple(_behind(operator, operators, compiled, whole[operator.op_id]))
            if bounds:
                by_stream[operator.stream.stream_id] = bounds
    return by_stream


def _behind(
    source: OperatorSpec, operators: Sequence[OperatorSpec], compiled: Mapping[str, CompiledOperator], schema: Schema
) -> Iterator[ColumnBound]:
    """The bounds of the conditions through which every message goes first."""
    while True:
        readers = [operator for operator in operators if any(read.op_id == source.op_id for read in operator.inputs)]
        if len(readers) != 1 or not isinstance(readers[0], WhereSpec):
            return
        source = readers[0]
        tree = tree_of(source.condition)
        if tree is None:
            return
        ready: Any = compiled[source.op_id].compiled
        some_fail = ready is None or any(expression.fallible for expression in ready)
        for node in conjuncts(tree):
            bounds = list(_bounds(node, schema))
            yield from bounds
            if not bounds and some_fail:
                return  # it may be an error on a row that a bound of what comes behind it would skip


def _bounds(node: Any, schema: Schema) -> Iterator[ColumnBound]:
    """Yield the bounds of one column by one condition; none when it is of another form."""
    from sqlglot import exp

    node = bare(node)
    word = type(node).__name__
    compared: list[tuple[Any, Any, str]] = []
    if word in _COMPARED:
        on_the_left, on_the_right = _COMPARED[word]
        compared = [(node.this, node.expression, on_the_left), (node.expression, node.this, on_the_right)]
    elif isinstance(node, exp.Between):
        compared = [(node.this, node.args["low"], ">="), (node.this, node.args["high"], "<=")]
    for one, other, symbol in compared:
        field = _field(one, schema)
        value = _value(other, field[1]) if field is not None else None
        if field is not None and value is not None:
            yield ColumnBound(field[0], symbol, value)
    if isinstance(node, exp.In) and node.expressions and not node.args.get("query"):
        field = _field(node.this, schema)
        values = [_value(choice, field[1]) if field is not None else None for choice in node.expressions]
        if field is not None and None not in values:
            yield ColumnBound(field[0], "in", tuple(values))
    elif isinstance(node, exp.Is) and isinstance(node.expression, exp.Null):
        field = _field(node.this, schema)
        if field is not None:
            yield ColumnBound(field[0], "is null")
    elif isinstance(node, exp.Not) and isinstance(node.this, exp.Is) and isinstance(node.this.expression, exp.Null):
        field = _field(node.this.this, schema)
        if field is not None:
            yield ColumnBound(field[0], "is not null")


def _field(node: Any, schema: Schema) -> tuple[str, str] | None:
    """The column that a node is, and its type's name."""
    from sqlglot import exp

    if not isinstance(node, exp.Column) or node.args.get("table"):
        return None
    named = [field for field in schema.fields if field.name.lower() == node.name.lower()]
    return (named[0].name, named[0].type.name) if len(named) == 1 else None


def _value(node: Any, kind: str) -> Any:
    """A literal that a column of this type is compared with as it is; None for any other node."""
    from sqlglot import exp

    if isinstance(node, exp.Neg):
        value = _value(node.this, kind)
        return -value if isinstance(value, int) else None
    if isinstance(node, exp.Cast) and kind == "date" and node.to.this.name == "DATE":
        node = node.this
    if not isinstance(node, exp.Literal):
        return None
    text = str(node.this)
    if kind in ("tinyint", "smallint", "int", "bigint") and not node.is_string and _WHOLE.fullmatch(text):
        return int(text)
    if kind == "string" and node.is_string:
        return text
    if kind == "date" and node.is_string and _DATE.fullmatch(text):
        try:
            return datetime.date.fromisoformat(text)
        except ValueError:
            return None
    return None

"""Spark SQL text → compiled expressions (decision 30).

Sqlglot reads, and every node outside the known list is rejected with a reason. Operators with SQL and expectations
compile by it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from airflow_samza.errors import SchemaError
from airflow_samza.schema import Field, Schema
from airflow_samza.task.expressions.coercion import is_numeric
from airflow_samza.task.expressions.expression import BOOLEAN, REPEATED, VOID, Expression, UnsupportedExpression, column
from airflow_samza.task.expressions.nodes import FUNCTIONS, NodeCompiler, UnknownColumn as UnknownColumn
from airflow_samza.task.expressions.predicates import is_not_null
from airflow_samza.task.expressions.reading import brief, conjuncts, only, parsed
from airflow_samza.task.expressions.tree_facts import below

_NULL_IN_NULL_OUT = (
    *("EQ", "NEQ", "LT", "LTE", "GT", "GTE", "Add", "Sub", "Mul", "Div", "Mod", "IntDiv", "Neg", "Not", "Paren"),
    *("Cast", "TryCast"),
)
_NULL_IN_VALUE_OUT = ("NullSafeEQ", "NullSafeNEQ", "Is", "And", "Or", "Case", "If", "In")

_NAME = re.compile(r"[A-Za-z_]\w*|`(?:[^`]|``)+`")


@dataclass(frozen=True)
class Projection:
    """Compiled select expressions: the output schema, and for each column its expression."""

    schema: Schema
    expressions: tuple[Expression, ...]


def compile_condition(text: str, schema: Schema) -> tuple[Expression, ...]:
    """The conjuncts of a condition, in order: Spark evaluates each only on the rows that passed those before.

    Raises :class:`UnsupportedExpression` or :class:`UnknownColumn`.
    """
    compiler = NodeCompiler(schema)
    nodes = conjuncts(parsed(text, alone=True))
    compiled = [compiler.compile(node) for node in nodes]
    for expression in compiled:
        if is_numeric(expression.type):  # Spark rejects it as well, only later
            raise SchemaError(
                f"The condition {brief(text)!r} is of type {expression.type.ddl()}, not boolean.",
                hint="Compare it with something, for example: dwell_ms > 1000.",
                value=brief(text),
            )
        if expression.type != BOOLEAN:
            raise UnsupportedExpression(f"the condition is of type {expression.type.ddl()}")
    if any(expression.fallible for expression in compiled):
        return tuple(_as_catalyst_orders(compiler, nodes, compiled))
    return tuple(compiled)


def _as_catalyst_orders(compiler: NodeCompiler, nodes: list[Any], compiled: list[Expression]) -> Iterator[Expression]:
    """Yield the conjuncts, each that can fail behind the null tests of its columns that Catalyst puts before it."""
    from sqlglot import exp

    if len(compiled) > 1:
        compiler.guard.reject_decided(nodes)
    if compiler.guard.facts.repeats(*nodes):
        raise UnsupportedExpression(REPEATED)
    if len(nodes) > 1 and any(
        isinstance(n, exp.EQ) and isinstance(n.this, exp.Column) and isinstance(n.expression, exp.Column) for n in nodes
    ):
        raise UnsupportedExpression(
            "two columns are equal beside a condition that can fail, from which Catalyst may derive another"
        )
    sure, unknown = _tested_for_null(nodes)
    for node, expression in zip(nodes, compiled, strict=True):
        if expression.fallible:
            names = {str(column.parts[0].name).lower() for column in node.find_all(exp.Column)}
            columns = {name: compiler.named(name) for name in sorted(names)}
            nullable = [name for name, column in columns.items() if column.nullable or column.type.children]
            if len(nullable) > 1:
                if unknown.intersection(nullable):
                    raise UnsupportedExpression("a condition can fail on a row that Catalyst may drop before")
                yield from (is_not_null(compiler.named(name)) for name in nullable if name in sure)
        yield expression


def _tested_for_null(nodes: list[Any]) -> tuple[set[str], set[str]]:
    """Return the columns that Catalyst tests for null before a filter's conditions, and those that it may test."""
    sure: set[str] = set()
    unknown: set[str] = set()
    waiting = [(node, True) for node in nodes]
    while waiting:  # without recursion: a sum may have thousands of terms
        node, certain = waiting.pop()
        kind = type(node).__name__
        if kind == "Column":
            (sure if certain and len(node.parts) == 1 else unknown).add(str(node.parts[0].name).lower())
            continue
        if kind == "Not" and type(node.this).__name__ == "Is":
            kind, node = "NotNull", node.this
        elif kind in _NULL_IN_VALUE_OUT:
            continue
        certain = certain and (kind == "NotNull" or kind in _NULL_IN_NULL_OUT)
        waiting += [(child, certain) for child in node.iter_expressions()]
    return sure, unknown - sure


def compile_projection(texts: Sequence[str], schema: Schema) -> Projection:
    """The columns of a select.

    Raises :class:`UnsupportedExpression`, :class:`UnknownColumn` or a SchemaError (a name twice).
    """
    from sqlglot import exp

    compiler = NodeCompiler(schema)
    nodes: list[Any] = []
    fields: list[Field] = []
    expressions: list[Expression] = []
    earlier: set[str] = set()
    for text in texts:
        node = parsed(text, alone=False)
        if isinstance(node, exp.Star):
            only(node)
            fields.extend(schema.fields)
            expressions.extend(column(place, field.type, field.nullable) for place, field in enumerate(schema.fields))
            continue
        name: str | None = None
        if isinstance(node, exp.Alias):
            only(node, "this", "alias")
            name, node = node.alias, node.this
        elif isinstance(node, exp.Column) and _NAME.fullmatch(text.strip()):
            name = node.name
        try:
            expression = compiler.compile(node)
        except UnknownColumn as unknown:
            if unknown.name.lower() in earlier:
                raise UnsupportedExpression(
                    f"{brief(text)!r} uses {unknown.name!r}, which the same select makes"
                ) from None
            raise
        if not name:
            raise UnsupportedExpression(f"{brief(text)!r} has no name (write … AS name)")
        if expression.type == VOID:
            raise UnsupportedExpression(f"{brief(text)!r} is NULL without a type (write CAST(NULL AS …))")
        earlier.add(name.lower())
        nodes.append(node)
        fields.append(Field(name, expression.type, expression.nullable))
        expressions.append(expression)
    if not fields:
        raise UnsupportedExpression("nothing is selected")
    compiler.guard.reject_evaluated_early(nodes)
    return Projection(
        Schema(tuple(fields), schema.python_class if tuple(fields) == schema.fields else None), tuple(expressions)
    )


def unknown_columns(texts: Sequence[str], schema: Schema) -> list[str]:
    """Columns that expressions name and the schema does not have, as far as that is certain without Catalyst."""
    from sqlglot import exp

    plain: tuple[type, ...] = (
        exp.Binary,
        exp.Paren,
        exp.Not,
        exp.Neg,
        exp.In,
        exp.Between,
        exp.Case,
        exp.If,
        exp.Cast,
        exp.Alias,
        exp.Select,
        exp.Trim,
        exp.Substring,
        exp.StrPosition,
        exp.Like,
        exp.ILike,
        exp.DPipe,
    )

    def is_certain(part: Any, certain: bool, child: Any) -> bool:
        is_function = isinstance(part, exp.Anonymous) and part.name.lower() in FUNCTIONS
        return certain and (is_function or (isinstance(part, plain) and not isinstance(part, exp.Dot)))

    columns = {name.lower() for name in schema.names}
    missing: list[str] = []
    for text in texts:
        try:
            node = parsed(text, alone=False)
        except UnsupportedExpression:
            continue
        if isinstance(node, exp.Alias):
            columns.add(node.alias.lower())  # a later expression of the same select may use it
        for part, certain in below(node, True, is_certain):
            if isinstance(part, exp.Column):
                sure = certain and not part.args.get("table") and not isinstance(part.this, exp.Star)
                if sure and part.name.lower() not in columns:
                    missing.append(part.name)
    return missing

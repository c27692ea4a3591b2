"""The schema of what an operator emits, where the application alone determines it (else it is known at run time).

Operators check columns by it at the call; the planner and the compiler of a stage go on from it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NoReturn

from airflow_samza.application.columns import check_column
from airflow_samza.application.rejections import did_you_mean, listed, reject
from airflow_samza.application.windows import AGGREGATE_FUNCTIONS, Aggregation, WindowSpec
from airflow_samza.schema import DataType, Field, Schema, unquoted

WINDOW_COLUMNS = (
    Field("window_start", DataType("timestamp"), False),
    Field("window_end", DataType("timestamp"), False),
)
"""The columns of a window in its rows, after the key columns: its start, and its end (not part of it)."""

PANE_COLUMNS = (Field("pane", DataType("bigint"), False), Field("is_final", DataType("boolean"), False))
"""Further columns of rows where windows have early results.

Their number in the window, from 0, and whether the window is closed with it.
"""

NAME = r"(?:[A-Za-z_]\w*|`(?:[^`]|``)+`)"
"""The regular expression of a name, quoted or not."""

_PLAIN = re.compile(rf"\s*(\*|{NAME})(?:\s+AS\s+({NAME}))?\s*", re.IGNORECASE)
_PASSED = re.compile(rf"\s*({NAME})(?:\s+(?:AS\s+)?({NAME}))?\s*", re.IGNORECASE)
_LAST_NAME = re.compile(rf"({NAME})\s*$")
_NUMERIC = ("tinyint", "smallint", "int", "bigint", "float", "double", "decimal")


def reject_twice(name: str, where: str, hint: str, why: str = "") -> NoReturn:
    """Reject an output column that would be there twice."""
    reject(f"The output column {name!r} of {where} appears twice{why}", hint=hint, operator=where, column=name)


def named_aggregations(
    aggregations: dict[str, object], schema: Schema | None, taken: Sequence[str], where: str
) -> tuple[Aggregation, ...]:
    """Aggregations with the output columns' names, checked against the input's schema.

    ``taken`` are names already used.
    """
    named = []
    for name, aggregation in aggregations.items():
        if not isinstance(aggregation, Aggregation):
            called = getattr(aggregation, "__name__", None) if callable(aggregation) else None
            reject(
                f"{name}={called or repr(aggregation)} of {where} is not an aggregation",
                hint=f'Call it: {name}={called}("column").'
                if called
                else f'Write for example {name}=count() or {name}=sum_("column").',
                operator=where,
                column=name,
            )
        if name in taken:
            reject_twice(
                name, where, "Give the aggregation another name.", ": it is also a column of the key or of the window"
            )
        if aggregation.function not in AGGREGATE_FUNCTIONS:
            reject(
                f"{name} of {where} asks for {aggregation.function!r}, which is not an aggregation",
                hint=f"{did_you_mean(str(aggregation.function), AGGREGATE_FUNCTIONS)}The aggregations are "
                f"{listed(AGGREGATE_FUNCTIONS)}.",
                operator=where,
            )
        counts_messages = aggregation.function == "count" and aggregation.column is None
        if not counts_messages and not isinstance(aggregation.column, str):
            reject(
                f"{name} of {where} aggregates {aggregation.column!r}, which is not a column's name",
                hint='Name one column, for example sum_("delay").',
                operator=where,
            )
        if aggregation.column is not None:
            check_column(aggregation.column, schema, f"{name} of {where}")
        named.append(replace(aggregation, name=name))
    return tuple(named)


def aggregated_schema(
    schema: Schema | None,
    key: tuple[str, ...],
    between: Sequence[Field],
    aggregations: Sequence[Aggregation],
    where: str,
) -> Schema | None:
    """Key columns, the columns ``between`` (a window's), then the aggregations with the types of SQL."""
    if schema is None:
        return None
    keys = [schema[column] for column in key]
    return Schema((*keys, *between, *(_aggregated(schema, aggregation, where) for aggregation in aggregations)))


def windowed_schema(
    schema: Schema | None,
    window: WindowSpec,
    key: tuple[str, ...],
    aggregations: Sequence[Aggregation],
    folded: Schema | None,
    where: str,
) -> Schema | None:
    """Key columns, the window's, then the aggregations or, where ``folded`` is its schema, what a fold makes."""
    between = window_columns(window)
    if folded is None:
        return aggregated_schema(schema, key, between, aggregations, where)
    if schema is None and key:
        return None
    keys = [schema[column] for column in key] if schema is not None else []
    return Schema((*keys, *between, *folded.fields))


def window_columns(window: WindowSpec) -> tuple[Field, ...]:
    """Return the columns of a row for its window, after the key columns."""
    return (*WINDOW_COLUMNS, *PANE_COLUMNS) if window.is_early else WINDOW_COLUMNS


def _aggregated(schema: Schema, aggregation: Aggregation, where: str) -> Field:
    name, function = aggregation.name, aggregation.function
    if function == "count":
        return Field(name, DataType("bigint"), nullable=False)
    assert aggregation.column is not None
    kind = schema[aggregation.column].type
    if function in ("count_distinct", "approx_count_distinct"):
        if kind.name in ("map", "array", "struct"):
            reject(
                f"{name}={function} of {where} needs plain values, and column {aggregation.column!r} is of type "
                f"{kind.ddl()}",
                hint="Select a column or field of a plain type first.",
                operator=where,
                column=aggregation.column,
            )
        return Field(name, DataType("bigint"), nullable=False)
    if function in ("sum", "avg") and kind.name not in _NUMERIC:
        reject(
            f"{name}={function} of {where} needs numbers, and column {aggregation.column!r} is of type {kind.ddl()}",
            hint="Aggregate a numeric column, or cast it first with select.",
            operator=where,
            column=aggregation.column,
        )
    if function in ("min", "max") and kind.name in ("map", "array", "struct"):
        reject(
            f"{name}={function} of {where} needs values that have an order, and column {aggregation.column!r} is of "
            f"type {kind.ddl()}",
            hint="Aggregate a plain column, or pick a field first with select.",
            operator=where,
            column=aggregation.column,
        )
    if function == "avg" and kind.name == "decimal":
        return Field(name, DataType("decimal", min(38, kind.precision + 4), min(38, kind.scale + 4)))
    if function == "avg":
        return Field(name, DataType("double"))
    if function == "collect":
        return Field(name, DataType("array", children=(kind,)))
    if function != "sum":
        return Field(name, kind)
    if kind.is_integer:
        return Field(name, DataType("bigint"))
    if kind.name == "decimal":
        return Field(name, DataType("decimal", min(38, kind.precision + 10), kind.scale))
    return Field(name, DataType("double"))


def selected_schema(schema: Schema | None, expressions: Sequence[str]) -> Schema | None:
    """Return the schema of plain selections (``*``, ``a``, ``a AS b``); None as soon as one needs a SQL parser."""
    if schema is None:
        return None
    fields: list[Field] = []
    for expression in expressions:
        match = _PLAIN.fullmatch(expression)
        if match is None or (match[1] == "*" and match[2]):
            return None
        if match[1] == "*":
            fields.extend(schema.fields)
            continue
        column = unquoted(match[1])
        if column not in schema:
            return None
        source = schema[column]
        fields.append(Field(unquoted(match[2]) if match[2] else column, source.type, source.nullable))
    names = [field.name for field in fields]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        reject(
            f"The output column {twice[0]!r} of select appears twice",
            hint='Name one of them otherwise: "a AS b".',
            column=twice[0],
        )
    return Schema(tuple(fields), schema.python_class if tuple(fields) == schema.fields else None)


@dataclass(frozen=True)
class PassedOn:
    """The columns that a selection passes on unchanged, by their lower-case names, with the names that they get.

    All others are made by expressions, or left out.
    """

    names: Mapping[str, tuple[str, ...]]
    everything: bool
    new_names: frozenset[str]

    def name(self, column: str) -> str | None:
        """Return the name of a column behind the selection: its own, else the first that it gets; None: it is lost."""
        lower = column.lower()
        aliases = self.names.get(lower, ())
        for name in aliases:
            if name.lower() == lower:
                return name
        if aliases:
            return aliases[0]
        return column if self.everything and lower not in self.new_names else None


def passed_on(expressions: Sequence[str]) -> PassedOn:
    """Return what a selection passes on; it reads names and no SQL.

    >>> found = passed_on(["at AS seen_at", "k", "upper(c) AS c", "b a"])
    >>> [found.name(column) for column in ("at", "K", "c", "a", "b")]
    ['seen_at', 'k', None, None, 'a']
    """
    names: dict[str, tuple[str, ...]] = {}
    new_names: set[str] = set()
    everything = False
    for expression in expressions:
        plain = _PASSED.fullmatch(expression)
        if expression.strip() == "*":
            everything = True
        elif plain is not None:
            column, name = unquoted(plain[1]), unquoted(plain[2] or plain[1])
            names[column.lower()] = (*names.get(column.lower(), ()), name)
            new_names.add(name.lower())
        elif last := _LAST_NAME.search(expression):  # "expr AS name" or "expr name": the column is a new one
            new_names.add(unquoted(last[1]).lower())
    return PassedOn(names, everything, frozenset(new_names))


def joined_schema(
    left: Schema | None, right: Schema | None, right_key: tuple[str, ...], how: str, where: str
) -> Schema | None:
    """Return the left columns, then the right ones without the key; the side that may be missing becomes nullable."""
    if left is None or right is None:
        return None
    added = [field for field in right.fields if field.name not in right_key]
    both = [field.name for field in added if field.name in left]
    if both:
        reject(
            f"{where} would have the output column{'s' if len(both) > 1 else ''} {listed(both)} twice",
            hint="Give the join a function that makes the result, or rename the columns on one side with select.",
            operator=where,
            column=both[0],
        )
    left_fields = [Field(f.name, f.type, f.nullable or how in ("right", "full")) for f in left.fields]
    right_fields = [Field(f.name, f.type, f.nullable or how in ("left", "full")) for f in added]
    return Schema((*left_fields, *right_fields))


def joined_streams_schema(
    left: Schema | None,
    right: Schema | None,
    left_key: tuple[str, ...],
    right_key: tuple[str, ...],
    how: str,
    where: str,
) -> Schema | None:
    """As :func:`joined_schema`.

    Where the left message may be missing, the left key's columns hold the key of the right one.
    """
    if left is None or right is None:
        return None
    joined = joined_schema(left, right, right_key, how, where)
    assert joined is not None
    if how not in ("right", "full"):
        return joined
    keys = {}
    for mine, theirs in zip(left_key, right_key, strict=True):
        if mine in left and theirs in right:
            kind = max(left[mine].type, right[theirs].type, key=_width)
            keys[mine] = Field(mine, kind, right[theirs].nullable or (how == "full" and left[mine].nullable))
    return Schema(tuple(keys.get(field.name, field) for field in joined.fields))


def _width(kind: DataType) -> int:
    return _NUMERIC.index(kind.name) if kind.name in _NUMERIC else 0


def merged_schema(schemas: Sequence[Schema | None], where: str) -> Schema | None:
    """Return the one schema of the merged streams: nullable where any is; None when one is unknown."""
    declared = [schema for schema in schemas if schema is not None]
    for schema in declared[1:]:
        problem = difference(declared[0], schema)
        if problem:
            reject(
                f"{where} needs streams of one schema, and they differ: {problem}",
                hint="Bring them to the same columns and types first, with select or map.",
                operator=where,
            )
    if len(declared) < len(schemas):
        return None
    first = declared[0]
    fields = tuple(
        Field(f.name, f.type, any(s.fields[place].nullable for s in declared)) for place, f in enumerate(first.fields)
    )
    same_class = all(schema.python_class is first.python_class for schema in declared)
    return Schema(fields, first.python_class if same_class else None)


def difference(first: Schema, second: Schema) -> str:
    """Return the first difference in names, order or types of two schemas, as a half sentence; else an empty text."""
    lacking = [name for name in first.names if name not in second]
    more = [name for name in second.names if name not in first]
    if lacking or more:
        parts = [f"only one has {listed(names)}" for names in (lacking, more) if names]
        return " and ".join(parts) if len(parts) == 1 else f"one has {listed(lacking)}, the other {listed(more)}"
    if first.names != second.names:
        return f"the order of the columns is {listed(first.names)} and {listed(second.names)}"
    for one, other in zip(first.fields, second.fields, strict=True):
        if one.type != other.type:
            return f"column {one.name!r} is {one.type.ddl()} and {other.type.ddl()}"
    return ""


def unwritable(declared: Schema, actual: Schema) -> str:
    """Return why messages of ``actual`` cannot be written as ``declared``, by column name, as a half sentence.

    Empty when they can.

    Numbers may widen. Whether a column that may be null has nulls is seen at run time.
    """
    lacking = [field.name for field in declared.fields if field.name not in actual]
    more = [name for name in actual.names if name not in declared]
    if lacking:
        return f"the messages have no column {listed(lacking)}"
    if more:
        return f"the messages have more columns: {listed(more)}"
    for field in declared.fields:
        if not _fits(actual[field.name].type, field.type):
            return f"column {field.name!r} is {actual[field.name].type.ddl()}, declared {field.type.ddl()}"
    return ""


def _fits(actual: DataType, declared: DataType) -> bool:
    if actual == declared:
        return True
    if actual.is_integer and declared.name in _NUMERIC:
        return _NUMERIC.index(actual.name) <= _NUMERIC.index(declared.name)
    if actual.name == "float":
        return declared.name == "double"
    if actual.name == declared.name == "decimal":
        return actual.precision - actual.scale <= declared.precision - declared.scale and actual.scale <= declared.scale
    return False

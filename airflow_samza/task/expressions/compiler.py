"""Spark SQL text → compiled expressions: sqlglot reads, and every node outside the known list is refused with a reason."""

from __future__ import annotations

import datetime
import decimal
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from airflow_samza.errors import SchemaError
from airflow_samza.schema import DataType, Field, Schema
from airflow_samza.task.expressions import arithmetic, predicates
from airflow_samza.task.expressions.casts import cast
from airflow_samza.task.expressions.coercion import is_numeric
from airflow_samza.task.expressions.expression import BIGINT, BOOLEAN, DOUBLE, INT, VOID, Expression, UnsupportedExpression, column, literal

_INTEGER = re.compile(r"\d+")
_DECIMAL = re.compile(r"\d+\.\d*|\.\d+")
_DOUBLE = re.compile(r"(\d+\.?\d*|\.\d+)[eE][+-]?\d+")
_NAME = re.compile(r"[A-Za-z_]\w*|`(?:[^`]|``)+`")


class UnknownColumn(Exception):
    """An expression names a column that its input does not have."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(name)


@dataclass(frozen=True)
class Projection:
    """Compiled select expressions: the output schema, and for each column its expression."""

    schema: Schema
    expressions: tuple[Expression, ...]


def compile_condition(text: str, schema: Schema) -> tuple[Expression, ...]:
    """The conjuncts of a condition, in order: Spark evaluates each only on the rows that passed those before.

    Raises :class:`UnsupportedExpression` or :class:`UnknownColumn`.
    """
    from sqlglot import exp

    compiler = _Compiler(schema)
    waiting, parts = [_parsed(text, alone=True)], []
    while waiting:
        node = waiting.pop(0)
        if isinstance(node, exp.And):
            waiting[:0] = [node.this, node.expression]
        elif isinstance(node, exp.Paren) and isinstance(node.this, exp.And):
            waiting.insert(0, node.this)
        else:
            parts.append(node)
    compiled = []
    for node in parts:
        expression = compiler.compile(node)
        if is_numeric(expression.type):  # Spark refuses it as well, only later
            raise SchemaError(
                f"The condition {text!r} is of type {expression.type.ddl()}, not boolean.",
                hint="Compare it with something, for example: dwell_ms > 1000.",
                value=text,
            )
        if expression.type != BOOLEAN:
            raise UnsupportedExpression(f"the condition is of type {expression.type.ddl()}")
        compiled.append(expression)
    if len(compiled) > 1 and any(e.literal for e in compiled) and any(e.fallible for e in compiled):
        raise UnsupportedExpression("a constant condition stands beside one that can fail, which Catalyst may drop")
    return tuple(compiled)


def compile_projection(texts: Sequence[str], schema: Schema) -> Projection:
    """The columns of a select. Raises :class:`UnsupportedExpression`, :class:`UnknownColumn` or a SchemaError (a name twice)."""
    from sqlglot import exp

    compiler = _Compiler(schema)
    fields: list[Field] = []
    expressions: list[Expression] = []
    earlier: set[str] = set()
    for text in texts:
        node = _parsed(text, alone=False)
        if isinstance(node, exp.Star):
            _only(node)
            fields.extend(schema.fields)
            expressions.extend(column(place, field.type, field.nullable) for place, field in enumerate(schema.fields))
            continue
        name: str | None = None
        if isinstance(node, exp.Alias):
            _only(node, "this", "alias")
            name, node = node.alias, node.this
        elif isinstance(node, exp.Column) and _NAME.fullmatch(text.strip()):
            name = node.name
        try:
            expression = compiler.compile(node)
        except UnknownColumn as unknown:
            if unknown.name.lower() in earlier:
                raise UnsupportedExpression(f"{text!r} uses {unknown.name!r}, which the same select makes") from None
            raise
        if not name:
            raise UnsupportedExpression(f"{text!r} has no name (write {text.strip()} AS name)")
        if expression.type == VOID:
            raise UnsupportedExpression(f"{text!r} is NULL without a type (write CAST(NULL AS …))")
        earlier.add(name.lower())
        fields.append(Field(name, expression.type, expression.nullable))
        expressions.append(expression)
    if not fields:
        raise UnsupportedExpression("nothing is selected")
    return Projection(Schema(tuple(fields), schema.python_class if tuple(fields) == schema.fields else None), tuple(expressions))


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
    )
    plain = (*plain, exp.Coalesce, exp.Upper, exp.Lower, exp.Length, exp.Abs, exp.Concat, exp.Trim)
    known = {name.lower() for name in schema.names}
    missing: list[str] = []
    for text in texts:
        try:
            node = _parsed(text, alone=False)
        except UnsupportedExpression:
            continue
        if isinstance(node, exp.Alias):
            known.add(node.alias.lower())  # a later expression of the same select may use it
        for found in node.find_all(exp.Column):
            ancestor, certain = found.parent, not found.args.get("table")
            while ancestor is not None and certain:
                certain = isinstance(ancestor, plain) and not isinstance(ancestor, exp.Dot | exp.Lambda)
                ancestor = ancestor.parent
            if certain and not isinstance(found.this, exp.Star) and found.name.lower() not in known:
                missing.append(found.name)
    return missing


def _parsed(text: str, *, alone: bool) -> Any:
    import sqlglot
    from sqlglot import exp
    from sqlglot.errors import SqlglotError

    if "\\" in text or "--" in text or "/*" in text or ";" in text:
        raise UnsupportedExpression("it has a backslash, a comment or a semicolon")
    try:
        statement = sqlglot.parse_one(f"SELECT {text}", read="spark")
    except (SqlglotError, RecursionError):
        raise UnsupportedExpression("it cannot be read here") from None
    if not isinstance(statement, exp.Select) or [name for name, value in statement.args.items() if value and name != "expressions"]:
        raise UnsupportedExpression("it is not one expression")
    if len(statement.expressions) != 1 or (alone and isinstance(statement.expressions[0], exp.Alias | exp.Star)):
        raise UnsupportedExpression("it is not one expression")
    return statement.expressions[0]


def _only(node: Any, *known: str) -> None:
    """Refuse a node that says more than we know of."""
    more = [name for name, value in node.args.items() if name not in known and value not in (None, False, [])]
    if more:
        raise UnsupportedExpression(f"{type(node).__name__.upper()} is used with {', '.join(more)}")


_SYMBOLS = {"EQ": "=", "NEQ": "<>", "LT": "<", "LTE": "<=", "GT": ">", "GTE": ">="}
_ARITHMETIC = {"Add": "+", "Sub": "-", "Mul": "*", "Div": "/", "Mod": "%"}
_TYPES = {
    "BOOLEAN": "boolean",
    "TINYINT": "tinyint",
    "SMALLINT": "smallint",
    "INT": "int",
    "BIGINT": "bigint",
    "FLOAT": "float",
    "DOUBLE": "double",
    "TEXT": "string",
}


class _Compiler:
    """Compiles nodes for one input schema."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema

    def compile(self, node: Any) -> Expression:
        from sqlglot import exp

        word = type(node).__name__
        if isinstance(node, exp.Paren):
            _only(node, "this")
            return self.compile(node.this)
        if word in _SYMBOLS:
            _only(node, "this", "expression")
            return predicates.comparison(_SYMBOLS[word], self.compile(node.this), self.compile(node.expression))
        if word in _ARITHMETIC:
            _only(node, "this", "expression", "typed", "safe")
            return arithmetic.arithmetic(_ARITHMETIC[word], self.compile(node.this), self.compile(node.expression))
        method = getattr(self, f"_{word.lower()}", None)
        if method is None:
            raise UnsupportedExpression(f"{_shown(node)} is evaluated by Catalyst")
        found: Expression = method(node)
        return found

    def _column(self, node: Any) -> Expression:
        from sqlglot import exp

        if node.args.get("table") or not isinstance(node.this, exp.Identifier):
            raise UnsupportedExpression(f"{_shown(node)} is a field or a qualified column")
        places = [place for place, field in enumerate(self.schema.fields) if field.name.lower() == node.name.lower()]
        if len(places) > 1:
            raise UnsupportedExpression(f"{node.name!r} is more than one column when case does not count")
        if not places:
            raise UnknownColumn(node.name)
        field = self.schema.fields[places[0]]
        return column(places[0], field.type, field.nullable)

    def _literal(self, node: Any) -> Expression:
        return _constant(node, negative=False)

    def _neg(self, node: Any) -> Expression:
        from sqlglot import exp

        _only(node, "this")
        if isinstance(node.this, exp.Literal) and not node.this.is_string:
            return _constant(node.this, negative=True)  # Spark reads -2147483648 as one int
        if isinstance(node.this, exp.Cast) and isinstance(node.this.this, exp.Literal):
            raise UnsupportedExpression(f"{_shown(node)} may be one literal, which Catalyst tells from a cast")
        return arithmetic.negated(self.compile(node.this))

    def _boolean(self, node: Any) -> Expression:
        return literal(bool(node.this), BOOLEAN)

    def _null(self, node: Any) -> Expression:
        return literal(None, VOID)

    def _nullsafeeq(self, node: Any) -> Expression:
        _only(node, "this", "expression")
        return predicates.null_safe_equal(self.compile(node.this), self.compile(node.expression))

    def _nullsafeneq(self, node: Any) -> Expression:
        _only(node, "this", "expression")
        return predicates.negation(predicates.null_safe_equal(self.compile(node.this), self.compile(node.expression)))

    def _and(self, node: Any) -> Expression:
        _only(node, "this", "expression")
        return predicates.conjunction(self.compile(node.this), self.compile(node.expression))

    def _or(self, node: Any) -> Expression:
        _only(node, "this", "expression")
        return predicates.disjunction(self.compile(node.this), self.compile(node.expression))

    def _not(self, node: Any) -> Expression:
        from sqlglot import exp

        _only(node, "this")
        inner = node.this
        if isinstance(inner, exp.Is) and isinstance(inner.expression, exp.Null):
            _only(inner, "this", "expression")
            return predicates.is_not_null(self.compile(inner.this))
        return predicates.negation(self.compile(inner))

    def _is(self, node: Any) -> Expression:
        from sqlglot import exp

        _only(node, "this", "expression")
        if not isinstance(node.expression, exp.Null):
            raise UnsupportedExpression(f"{_shown(node)} is evaluated by Catalyst")
        return predicates.is_null(self.compile(node.this))

    def _in(self, node: Any) -> Expression:
        _only(node, "this", "expressions")
        return predicates.contained(self.compile(node.this), [self.compile(choice) for choice in node.expressions])

    def _between(self, node: Any) -> Expression:
        _only(node, "this", "low", "high")
        return predicates.between(self.compile(node.this), self.compile(node.args["low"]), self.compile(node.args["high"]))

    def _case(self, node: Any) -> Expression:
        _only(node, "this", "ifs", "default")
        subject = self.compile(node.this) if node.this is not None else None
        branches = []
        for branch in node.args["ifs"]:
            _only(branch, "this", "true")
            test = self.compile(branch.this)
            branches.append((predicates.comparison("=", subject, test) if subject is not None else test, self.compile(branch.args["true"])))
        default = node.args.get("default")
        return predicates.chosen(branches, self.compile(default) if default is not None else None)

    def _if(self, node: Any) -> Expression:
        _only(node, "this", "true", "false")
        if node.args.get("false") is None:
            raise UnsupportedExpression("IF has two arguments")
        return predicates.chosen([(self.compile(node.this), self.compile(node.args["true"]))], self.compile(node.args["false"]))

    def _cast(self, node: Any) -> Expression:
        from sqlglot import exp

        _only(node, "this", "to", "_type")
        name = node.to.this.name if isinstance(node.to.this, exp.DataType.Type) else ""
        if name == "DATE" and isinstance(node.this, exp.Literal) and node.this.is_string:
            return _date(node.this.this)
        if name == "DECIMAL":
            return cast(self.compile(node.this), _decimal_type(node.to))
        if name not in _TYPES or node.to.expressions:
            raise UnsupportedExpression(f"{_shown(node)} is evaluated by Catalyst")
        return cast(self.compile(node.this), DataType(_TYPES[name]))

    def _trycast(self, node: Any) -> Expression:  # sqlglot's name for a CAST of the Spark dialect; a real TRY_CAST says safe
        return self._cast(node)


def _decimal_type(node: Any) -> DataType:
    sizes = [int(parameter.name) for parameter in node.expressions]
    precision, scale = (sizes + [10, 0][len(sizes) :])[:2] if sizes else (10, 0)
    if not 0 < precision <= 38 or not 0 <= scale <= precision:
        raise UnsupportedExpression(f"decimal({precision},{scale}) is no type")
    return DataType("decimal", precision, scale)


def _date(text: str) -> Expression:
    try:
        if not re.fullmatch(r"\d{4}-\d{2}-\d{2}", text):
            raise ValueError(text)
        return literal(datetime.date.fromisoformat(text), DataType("date"))
    except ValueError:
        raise UnsupportedExpression(f"{text!r} is cast to date") from None


def _constant(node: Any, *, negative: bool) -> Expression:
    text = str(node.this)
    if node.is_string:
        return literal(text, DataType("string"))
    sign = "-" if negative else ""
    if _INTEGER.fullmatch(text):
        value = int(sign + text)
        if -(1 << 31) <= value < 1 << 31:
            return literal(value, INT)
        if -(1 << 63) <= value < 1 << 63:
            return literal(value, BIGINT)
    if _INTEGER.fullmatch(text) or _DECIMAL.fullmatch(text):
        number = decimal.Decimal(sign + text)
        _, digits, exponent = number.as_tuple()
        assert isinstance(exponent, int)
        precision = max(len(digits), -exponent)
        if precision > 38:
            raise UnsupportedExpression(f"the number {text} has more than 38 digits")
        return literal(number, DataType("decimal", precision, -exponent))
    if _DOUBLE.fullmatch(text):
        return literal(float(sign + text), DOUBLE)
    raise UnsupportedExpression(f"{text} is no plain number")


def _shown(node: Any) -> str:
    text = str(node.sql(dialect="spark"))
    return text if len(text) <= 60 else text[:57] + "…"

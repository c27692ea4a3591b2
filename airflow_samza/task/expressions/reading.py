"""Spark SQL text → syntax tree and constants; what sqlglot might read otherwise than Spark is rejected.

The compiler of SQL reads by it, and pruning does.
"""

from __future__ import annotations

import decimal
import functools
import re
import sys
import types
from typing import Any

from airflow_samza.schema import DataType
from airflow_samza.task.expressions.expression import BIGINT, DOUBLE, INT, Expression, UnsupportedExpression, literal

_INTEGER = re.compile(r"\d+")
_DECIMAL = re.compile(r"\d+\.\d*|\.\d+")
_DOUBLE = re.compile(r"(\d+\.?\d*|\.\d+)[eE][+-]?\d{1,6}")
_GREATEST = decimal.Decimal(repr(sys.float_info.max))
_GREATEST_FLOAT = decimal.Decimal("3.4028235E38")
_LONGEST_NUMBER = 1000
"""Characters of a number that is read here."""

_WITH_SYNTAX = ("CAST", "TRY_CAST", "TRIM", "EXTRACT", "POSITION", "SUBSTRING", "SUBSTR")


@functools.cache
def _dialect() -> Any:
    """Spark's dialect, with every function call as it was written.

    No synonyms, no rewriting to another dialect's function, but a type that is called is a cast.
    """
    from sqlglot import TokenType
    from sqlglot.dialects.spark import Spark
    from sqlglot.parsers.spark import SparkParser

    syntax = {name: read for name, read in SparkParser.FUNCTION_PARSERS.items() if name in _WITH_SYNTAX}
    casts = {name.upper(): functools.partial(_cast, name) for name in _CASTS}
    own: dict[str, Any] = {"FUNCTIONS": casts, "FUNCTION_PARSERS": syntax, "_build_predicate": _predicate}
    own["UNARY_PARSERS"] = {**SparkParser.UNARY_PARSERS, TokenType.PLUS: _plus}
    parser = types.new_class("WrittenParser", (SparkParser,), exec_body=lambda body: body.update(own))
    return types.new_class(
        "Written", (Spark,), exec_body=lambda body: body.update({"Parser": parser, "parser_class": parser})
    )


_CASTS = ("boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "string", "date", "timestamp")
"""Types whose names are functions, too."""


def _cast(name: str, arguments: list[Any]) -> Any:
    from sqlglot import exp

    if len(arguments) != 1:
        return exp.Anonymous(this=name, expressions=arguments)
    return exp.Cast(this=arguments[0], to=exp.DataType.build(name, dialect="spark"))


def _predicate(parser: Any, kind: Any, this: Any, expression: Any, comments: Any = None, negate: bool = False) -> Any:
    """A predicate without the parentheses that sqlglot adds: they would hide that Spark gives operators other ranks."""
    node = kind(this=this, expression=expression)
    if negate:
        node.set("negate", True)
    return parser.expression(node, comments=comments)


def _plus(parser: Any) -> Any:
    """A plus before a value as the function that it is; sqlglot leaves it out, and +3 is no literal as 3 is."""
    from sqlglot import exp

    return parser.expression(exp.Anonymous(this="positive", expressions=[parser._parse_unary()]))


def parsed(text: str, *, alone: bool) -> Any:
    """The tree of one select expression; ``alone`` rejects an alias and a star."""
    import sqlglot
    from sqlglot import exp
    from sqlglot.errors import SqlglotError

    if "\\" in text or "--" in text or "/*" in text or ";" in text:
        raise UnsupportedExpression("it has a backslash, a comment or a semicolon")
    try:
        statement = sqlglot.parse_one(f"SELECT {text}", read=_dialect())
    except SqlglotError as error:
        raise Unreadable(_place_of(text, error)) from None
    except RecursionError:
        raise UnsupportedExpression("it is nested more deeply than can be read here") from None
    parts = statement.expressions
    more = [name for name, value in statement.args.items() if value and name != "expressions"]
    if (
        not isinstance(statement, exp.Select)
        or more
        or len(parts) != 1
        or (alone and isinstance(parts[0], exp.Alias | exp.Star))
    ):
        raise UnsupportedExpression("it is not one expression")
    return parts[0]


class Unreadable(UnsupportedExpression):
    """The text is no SQL as far as is known here: a syntax error, unless Spark reads it all the same.

    ``place`` is where.
    """

    def __init__(self, place: str) -> None:
        self.place = place
        super().__init__(f"it cannot be read here: {place}")


_PREFIX = len("SELECT ")


def _place_of(text: str, error: Any) -> str:
    """Return the place from which a text cannot be read any further."""
    problem = (getattr(error, "errors", None) or [{}])[0]
    if not problem.get("highlight"):
        opened = _unclosed(text)
        return f"{text[opened]} of character {opened + 1} is not closed" if opened is not None else "it is no SQL"
    line, near = problem["line"], problem["highlight"]
    character = problem["col"] - len(near) + 1 - (_PREFIX if line == 1 else 0)
    at = f"character {character}" if "\n" not in text else f"line {line}, character {character}"
    description = str(problem.get("description", ""))
    token = description.removeprefix("Expecting ")
    expected = f", where {token} is expected" if token != description else ""
    return f"near {near!r:.40} ({at}){expected}"


def _unclosed(text: str) -> int | None:
    """Return the place of a quote that is never closed."""
    opened: int | None = None
    for place, letter in enumerate(text):
        if letter in "'\"`" and opened is None:
            opened = place
        elif opened is not None and letter == text[opened]:
            opened = None
    return opened


def conjuncts(node: Any) -> list[Any]:
    """The conditions that AND joins in a tree, in order; a node that is no AND is one."""
    from sqlglot import exp

    waiting, conditions = [node], []
    while waiting:  # without recursion: a condition may be longer than Python's stack is deep
        node = waiting.pop()
        if isinstance(node, exp.And):
            waiting += [node.expression, node.this]
        elif isinstance(node, exp.Paren) and isinstance(node.this, exp.And | exp.Paren):
            waiting.append(node.this)
        else:
            conditions.append(node)
    return conditions


def only(node: Any, *arguments: str) -> None:
    """Reject a node with arguments that are not known here."""
    more = [name for name, value in node.args.items() if name not in arguments and value not in (None, False, [])]
    if more:
        raise UnsupportedExpression(f"{type(node).__name__.upper()} is used with {', '.join(more)}")


def decimal_type(node: Any) -> DataType:
    """The decimal type of a type node."""
    sizes = [int(parameter.name) for parameter in node.expressions]
    precision, scale = (sizes + [10, 0][len(sizes) :])[:2] if sizes else (10, 0)
    if not 0 < precision <= 38 or not 0 <= scale <= precision:
        raise UnsupportedExpression(f"decimal({precision},{scale}) is no type")
    return DataType("decimal", precision, scale)


def number_or_text(node: Any, *, negative: bool) -> Expression:
    """A literal as Spark types it: int, bigint or decimal by its digits, double by its exponent."""
    text = str(node.this)
    if node.is_string:
        return literal(text, DataType("string"))
    if len(text) > _LONGEST_NUMBER:
        raise UnsupportedExpression(f"a number has {len(text)} characters")
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
        if (
            decimal.Decimal(text) > _GREATEST
        ):  # Spark compares the digits, also where they would be rounded to the greatest double
            raise UnsupportedExpression(f"the number {text:.60} is greater than any double")
        return literal(float(sign + text), DOUBLE)
    raise UnsupportedExpression(f"{text} is no plain number")


def reject_great_float(node: Any) -> None:
    """Reject a number that becomes infinite as a float.

    In the tree ``1e39F``, an error in Spark, looks like a cast.
    """
    text = str(node.this)
    if _DOUBLE.fullmatch(text) and decimal.Decimal(text) > _GREATEST_FLOAT:
        raise UnsupportedExpression(f"the number {text:.60} is greater than any float")


def shown(node: Any) -> str:
    """A node for people."""
    try:
        text = str(node.sql(dialect="spark"))
    except RecursionError:
        return "a part that is nested too deeply"
    return brief(text)


def brief(text: str) -> str:
    """SQL for people: the beginning of what is long."""
    return text if len(text) <= 60 else text[:57] + "…"

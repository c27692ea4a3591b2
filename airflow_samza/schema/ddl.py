"""Reading of DDL: the columns of a schema and their types, as Spark writes them (``id bigint not null``)."""

from __future__ import annotations

import re
from typing import NoReturn

from airflow_samza.errors import SchemaError
from airflow_samza.schema.data_type import SIMPLE_TYPES, DataType, Field, unquoted

_ALIASES = {
    "byte": "tinyint",
    "short": "smallint",
    "integer": "int",
    "long": "bigint",
    "real": "float",
    "bool": "boolean",
}

_TOKEN = re.compile(r"\s*(`(?:[^`]|``)*`?|'[^']*'?|[A-Za-z_][\w]*|\d+|[<>(),:]|\S)")
"""Each branch takes what it began, also a quotation without an end, so that no text is looked through twice."""

_NAME, _NUMBER, _TEXT = r"[A-Za-z_]\w*|`(?:[^`]|``)+`", r"\d{1,9}", "'.*'"

_DEEPEST = 100
"""Types within types; Spark's own parser gives up at about as many."""

_SHOWN = 200
"""Characters of a schema in an error."""


def read_columns(text: str) -> tuple[Field, ...]:
    """Return the columns that a Spark DDL string names, such as ``"id bigint not null, tags array<string>"``."""
    parser = _Parser(text)
    fields: list[Field] = []
    while parser.token:
        if fields:
            parser.take(",")
        fields.append(parser.field())
    if not fields:
        raise SchemaError("The schema is empty.", hint='Write for example "id bigint, name string".', value=text)
    return tuple(fields)


def parse_type(text: str) -> DataType:
    """Return the type that a Spark type string names."""
    parser = _Parser(text)
    kind = parser.type()
    if parser.token:
        parser.fail("the end")
    return kind


class _Parser:
    """A reader of DDL, token by token; behind the last one is an empty one."""

    def __init__(self, text: str) -> None:
        self.text = text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"
        self._depth = 0
        self._tokens: list[str] = [*_TOKEN.findall(text), ""]
        self._place = 0

    @property
    def token(self) -> str:
        return self._tokens[self._place]

    def fail(self, expected: str) -> NoReturn:
        token = repr(self.token[:_SHOWN]) if self.token else "the end"
        raise SchemaError(
            f"The schema {self.text!r} has {token} where {expected} should be.",
            hint="Write name and type of each column, with commas between: member_id bigint, country string. "
            f"Types are {', '.join(SIMPLE_TYPES)}, decimal(p,s), array<t>, map<k,v> and struct<name:t>.",
            value=self.text,
        )

    def maybe(self, *tokens: str) -> bool:
        """Return whether these tokens follow, in any case of letters, and go on behind them then."""
        following = [token.lower() for token in self._tokens[self._place : self._place + len(tokens)]]
        if following == list(tokens):
            self._place += len(tokens)
            return True
        return False

    def take(self, token: str) -> None:
        if not self.maybe(token):
            self.fail(repr(token))

    def taken(self, form: str, expected: str) -> str:
        """Return the next token, which has to have a form."""
        token = self.token
        if not re.fullmatch(form, token, re.DOTALL):
            self.fail(expected)
        self._place += 1
        return token

    def number(self) -> int:
        return int(self.taken(_NUMBER, "a number"))

    def field(self) -> Field:
        name = unquoted(self.taken(_NAME, "a column name"))
        self.maybe(":")
        kind = self.type()
        nullable = not self.maybe("not", "null")
        if self.maybe("comment"):
            self.taken(_TEXT, "a quoted text")
        return Field(name, kind, nullable)

    def type(self) -> DataType:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise SchemaError(
                f"The schema {self.text!r} has types within types, more than {_DEEPEST} deep.",
                hint="Keep nested values as JSON text, or split them into columns.",
                value=self.text,
            )
        kind = self._type()
        self._depth -= 1
        return kind

    def _type(self) -> DataType:
        start = self._place
        name = unquoted(self.taken(_NAME, "a column name")).lower()
        name = _ALIASES.get(name, name)
        if name in SIMPLE_TYPES:
            return DataType(name)
        if name in ("decimal", "dec", "numeric"):
            precision, scale = 10, 0
            if self.maybe("("):
                precision = self.number()
                scale = self.number() if self.maybe(",") else 0
                self.take(")")
            if not 1 <= precision <= 38 or scale > precision:
                raise SchemaError(
                    f"The schema {self.text!r} has decimal({precision},{scale}), which does not exist.",
                    hint="A decimal has 1 to 38 digits, and at most as many of them after the point.",
                    value=self.text,
                )
            return DataType("decimal", precision, scale)
        if name in ("varchar", "char"):  # Spark reads both as strings, and checks the length when a table is written
            self.take("(")
            self.number()
            self.take(")")
            return DataType("string")
        if name in ("array", "map"):
            self.take("<")
            children = [self.type()]
            if name == "map":
                self.take(",")
                children.append(self.type())
            self.take(">")
            return DataType(name, children=tuple(children))
        if name == "struct":
            fields = self._fields().values()
            return DataType("struct", children=tuple(f.type for f in fields), names=tuple(f.name for f in fields))
        self._place = start
        self.fail("a type")

    def _fields(self) -> dict[str, Field]:
        self.take("<")
        fields: dict[str, Field] = {}
        while not self.maybe(">"):
            if fields:
                self.take(",")
            field = self.field()
            if field.name in fields:
                raise SchemaError(
                    f"The field {field.name!r} appears twice in a struct of the schema {self.text!r}.",
                    hint="Give each field a name of its own.",
                    column=field.name,
                )
            fields[field.name] = field
        return fields

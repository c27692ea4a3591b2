"""Reading of DDL: the columns of a schema and their types, as Spark writes them (``id bigint not null``)."""

from __future__ import annotations

import re
from typing import NoReturn

from airflow_samza.errors import SchemaError
from airflow_samza.schema.data_type import SIMPLE_TYPES, DataType, Field

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

_TEXT = re.compile("'.*'", re.DOTALL)

_DEEPEST = 100
"""Types within types; Spark's own parser gives up at about as many."""

_SHOWN = 200
"""Characters of a schema in an error."""


def read_columns(text: str) -> tuple[Field, ...]:
    """Return the columns that a Spark DDL string names, such as ``"id bigint not null, tags array<string>"``."""
    parser = _Parser(text)
    fields: list[Field] = []
    while not parser.at_end():
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
    if not parser.at_end():
        parser.fail("the end")
    return kind


class _Parser:
    """A reader of DDL, token by token."""

    def __init__(self, text: str) -> None:
        self.text = text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"
        self._depth = 0
        self.tokens = _TOKEN.findall(text)
        self.place = 0

    def at_end(self) -> bool:
        return self.place >= len(self.tokens)

    def fail(self, expected: str) -> NoReturn:
        token = "the end" if self.at_end() else repr(self.tokens[self.place][:_SHOWN])
        raise SchemaError(
            f"The schema {self.text!r} has {token} where {expected} should be.",
            hint="Write name and type of each column, with commas between: member_id bigint, country string. "
            f"Types are {', '.join(SIMPLE_TYPES)}, decimal(p,s), array<t>, map<k,v> and struct<name:t>.",
            value=self.text,
        )

    def take(self, token: str) -> None:
        if not self.maybe(token):
            self.fail(repr(token))

    def maybe(self, token: str) -> bool:
        if not self.at_end() and self.tokens[self.place] == token:
            self.place += 1
            return True
        return False

    def maybe_words(self, *words: str) -> bool:
        following = [token.lower() for token in self.tokens[self.place : self.place + len(words)]]
        if following == list(words):
            self.place += len(words)
            return True
        return False

    def identifier(self) -> str:
        if self.at_end():
            self.fail("a column name")
        token = self.tokens[self.place]
        if token.startswith("`"):
            if len(token) < 3 or not token.endswith("`"):
                self.fail("a column name")
            self.place += 1
            return str(token[1:-1].replace("``", "`"))
        if not re.fullmatch(r"[A-Za-z_]\w*", token):
            self.fail("a column name")
        self.place += 1
        return str(token)

    def number(self) -> int:
        if self.at_end() or not self.tokens[self.place].isdecimal() or len(self.tokens[self.place]) > 9:
            self.fail("a number")
        self.place += 1
        return int(self.tokens[self.place - 1])

    def field(self) -> Field:
        name = self.identifier()
        self.maybe(":")
        kind = self.type()
        nullable = not self.maybe_words("not", "null")
        if self.maybe_words("comment"):
            if self.at_end() or not _TEXT.fullmatch(self.tokens[self.place]):
                self.fail("a quoted text")
            self.place += 1
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
        start = self.place
        name = self.identifier().lower()
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
        self.place = start
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

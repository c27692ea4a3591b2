"""Message schemas: a dataclass, a Spark DDL string or an Arrow schema, one value inside.

A :class:`Schema` is pure Python, so that planning loads neither pyarrow nor pyspark; both forms are made on request.
Type names are Spark's (``bigint``, ``array<string>``, ``decimal(10,2)``), as a user writes them in DDL.
"""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import functools
import re
import types
import typing
from collections.abc import Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_samza.errors import SchemaError

if TYPE_CHECKING:
    import pyarrow

SIMPLE_TYPES = (
    "boolean",
    "tinyint",
    "smallint",
    "int",
    "bigint",
    "float",
    "double",
    "string",
    "binary",
    "date",
    "timestamp",
    "timestamp_ntz",
)

_ALIASES = {"byte": "tinyint", "short": "smallint", "integer": "int", "long": "bigint", "real": "float", "bool": "boolean"}

_PYTHON_TYPES: dict[object, str] = {
    bool: "boolean",
    int: "bigint",
    float: "double",
    str: "string",
    bytes: "binary",
    datetime.date: "date",
    datetime.datetime: "timestamp",
}


@dataclass(frozen=True)
class DataType:
    """One column type: a simple name, ``decimal(p,s)``, ``array<t>``, ``map<k,v>`` or ``struct<name:t,…>``.

    ``children`` holds element, key and value, or the struct's fields' types; ``names`` the struct's field names.
    """

    name: str
    precision: int = 0
    scale: int = 0
    children: tuple[DataType, ...] = ()
    names: tuple[str, ...] = ()

    def ddl(self) -> str:
        """The type as Spark writes it.

        >>> parse_type("Map<STRING, array<int>>").ddl()
        'map<string,array<int>>'
        """
        if self.name == "decimal":
            return f"decimal({self.precision},{self.scale})"
        if self.name == "struct":
            inner = ",".join(f"{_quote(name)}:{child.ddl()}" for name, child in zip(self.names, self.children, strict=True))
            return f"struct<{inner}>"
        if self.children:
            return f"{self.name}<{','.join(child.ddl() for child in self.children)}>"
        return self.name

    def to_arrow(self) -> pyarrow.DataType:
        """The Arrow type; timestamps are microseconds in UTC, as Spark exchanges them."""
        import pyarrow as pa

        simple = {
            "boolean": pa.bool_,
            "tinyint": pa.int8,
            "smallint": pa.int16,
            "int": pa.int32,
            "bigint": pa.int64,
            "float": pa.float32,
            "double": pa.float64,
            "string": pa.string,
            "binary": pa.binary,
            "date": pa.date32,
        }
        if self.name in simple:
            return simple[self.name]()
        if self.name == "timestamp":
            return pa.timestamp("us", "UTC")
        if self.name == "timestamp_ntz":
            return pa.timestamp("us")
        if self.name == "decimal":
            return pa.decimal128(self.precision, self.scale)
        if self.name == "array":
            return pa.list_(self.children[0].to_arrow())
        if self.name == "map":
            return pa.map_(self.children[0].to_arrow(), self.children[1].to_arrow())
        return pa.struct([pa.field(n, child.to_arrow()) for n, child in zip(self.names, self.children, strict=True)])

    @property
    def is_integer(self) -> bool:
        """Whether it is an integer of any width."""
        return self.name in ("tinyint", "smallint", "int", "bigint")

    def reads_as(self, declared: DataType) -> bool:
        """Whether a column of this type may be read as another one: the same in another form, or a number that fits.

        >>> parse_type("bigint").reads_as(parse_type("double")), parse_type("string").reads_as(parse_type("int"))
        (True, False)
        """
        if self.name == declared.name and len(self.children) == len(declared.children):
            return all(own.reads_as(other) for own, other in zip(self.children, declared.children, strict=True))
        if self.is_integer:
            return declared.is_integer or declared.name in ("float", "double", "decimal")
        return (self.name, declared.name) in (("float", "double"), ("timestamp", "timestamp_ntz"), ("timestamp_ntz", "timestamp"))


@dataclass(frozen=True)
class Field:
    """One column of a schema."""

    name: str
    type: DataType
    nullable: bool = True


@dataclass(frozen=True)
class Schema:
    """The columns of a stream's messages, in order, and the dataclass that callables get, if one was declared.

    Two schemas are equal when their columns are; the Python class plays no part in it.
    """

    fields: tuple[Field, ...]
    python_class: type | None = dataclasses.field(default=None, compare=False)

    def __post_init__(self) -> None:
        """Refuse a column that appears twice."""
        seen: set[str] = set()
        for field in self.fields:
            if field.name in seen:
                raise SchemaError(
                    f"Column {field.name!r} appears twice in the schema.", hint="Give each column a name of its own.", column=field.name
                )
            seen.add(field.name)

    @classmethod
    def of(cls, declared: object) -> Schema:
        """The schema that a user declared: a :class:`Schema`, a dataclass, a DDL string or a ``pyarrow.Schema``."""
        if isinstance(declared, Schema):
            return declared
        if isinstance(declared, str):
            return parse_ddl(declared)
        if isinstance(declared, type) and dataclasses.is_dataclass(declared):
            return _from_dataclass(declared)
        if type(declared).__module__.partition(".")[0] == "pyarrow" and type(declared).__name__ == "Schema":
            return _from_arrow(typing.cast("pyarrow.Schema", declared))
        raise SchemaError(
            f"A schema is a dataclass, a DDL string or a pyarrow.Schema, not {declared!r}.",
            hint='Write for example schema="id bigint, name string".',
            value=repr(declared),
        )

    @property
    def names(self) -> tuple[str, ...]:
        """The column names, in order."""
        return tuple(field.name for field in self.fields)

    def __contains__(self, name: object) -> bool:
        return any(field.name == name for field in self.fields)

    def __getitem__(self, name: str) -> Field:
        for field in self.fields:
            if field.name == name:
                return field
        raise SchemaError(f"There is no column {name!r}.", hint=f"The columns are {', '.join(self.names)}.", column=name)

    def ddl(self) -> str:
        """The schema as a Spark DDL string; :func:`parse_ddl` reads it back."""
        return ", ".join(f"{_quote(field.name)} {field.type.ddl()}{'' if field.nullable else ' not null'}" for field in self.fields)

    def to_arrow(self) -> pyarrow.Schema:
        """The Arrow schema."""
        import pyarrow as pa

        return pa.schema([pa.field(field.name, field.type.to_arrow(), field.nullable) for field in self.fields])


def parse_ddl(text: str) -> Schema:
    """The schema of a Spark DDL string, such as ``"id bigint not null, tags array<string>"``."""
    parser = _Parser(text)
    fields: list[Field] = []
    while not parser.at_end():
        if fields:
            parser.take(",")
        name = parser.identifier()
        parser.maybe(":")
        kind = parser.type()
        nullable = not parser.maybe_words("not", "null")
        if parser.maybe_words("comment"):
            parser.string()
        fields.append(Field(name, kind, nullable))
    if not fields:
        raise SchemaError("The schema is empty.", hint='Write for example "id bigint, name string".', value=text)
    return Schema(tuple(fields))


def parse_type(text: str) -> DataType:
    """The type that a Spark type string names."""
    parser = _Parser(text)
    kind = parser.type()
    if not parser.at_end():
        parser.fail("the end")
    return kind


def declared_type(declared: object, where: str) -> DataType:
    """The type that a user declared: by its name in DDL, or as a Python type; ``where`` says what it is the type of.

    >>> declared_type("bigint", "the key").ddl(), declared_type(list[str], "the value").ddl()
    ('bigint', 'array<string>')
    """
    if isinstance(declared, str):
        return parse_type(declared)
    return _from_annotation(declared, where)[0]


_TOKEN = re.compile(r"\s*(`(?:[^`]|``)+`|'[^']*'|[A-Za-z_][\w]*|\d+|[<>(),:]|\S)")


class _Parser:
    """Reads DDL token by token."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = _TOKEN.findall(text)
        self.place = 0

    def at_end(self) -> bool:
        return self.place >= len(self.tokens)

    def fail(self, wanted: str) -> typing.NoReturn:
        found = "the end" if self.at_end() else repr(self.tokens[self.place])
        raise SchemaError(
            f"The schema {self.text!r} has {found} where {wanted} should be.",
            hint="Write name and type of each column, with commas between: member_id bigint, country string. "
            f"Types are {', '.join(SIMPLE_TYPES)}, decimal(p,s), array<t>, map<k,v> and struct<name:t>.",
            value=self.text,
        )

    def take(self, token: str) -> None:
        if self.at_end() or self.tokens[self.place] != token:
            self.fail(repr(token))
        self.place += 1

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
            self.place += 1
            return str(token[1:-1].replace("``", "`"))
        if not re.fullmatch(r"[A-Za-z_]\w*", token):
            self.fail("a column name")
        self.place += 1
        return str(token)

    def number(self) -> int:
        if self.at_end() or not self.tokens[self.place].isdigit():
            self.fail("a number")
        self.place += 1
        return int(self.tokens[self.place - 1])

    def string(self) -> None:
        if self.at_end() or not self.tokens[self.place].startswith("'"):
            self.fail("a quoted text")
        self.place += 1

    def type(self) -> DataType:
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
        if name == "array":
            self.take("<")
            child = self.type()
            self.take(">")
            return DataType("array", children=(child,))
        if name == "map":
            self.take("<")
            key = self.type()
            self.take(",")
            value = self.type()
            self.take(">")
            return DataType("map", children=(key, value))
        if name == "struct":
            return self._struct()
        self.place = start
        self.fail("a type")

    def _struct(self) -> DataType:
        self.take("<")
        names: list[str] = []
        children: list[DataType] = []
        while not self.maybe(">"):
            if names:
                self.take(",")
            name = self.identifier()
            if name in names:
                raise SchemaError(
                    f"The field {name!r} appears twice in a struct of the schema {self.text!r}.",
                    hint="Give each field a name of its own.",
                    column=name,
                )
            names.append(name)
            self.maybe(":")
            children.append(self.type())
            self.maybe_words("not", "null")
            if self.maybe_words("comment"):
                self.string()
        return DataType("struct", children=tuple(children), names=tuple(names))


def _quote(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z_]\w*", name) else "`" + name.replace("`", "``") + "`"


@functools.lru_cache(maxsize=1024)  # a class is read once, however many operators say it
def _from_dataclass(declared: type, inside: tuple[type, ...] = ()) -> Schema:
    if declared in inside:
        raise SchemaError(
            f"The dataclass {declared.__name__} contains itself, which no column type does.",
            hint="Keep the id of the other message instead.",
            value=declared.__name__,
        )
    try:
        hints = typing.get_type_hints(declared, include_extras=True)
    except (NameError, TypeError, SyntaxError) as error:
        raise SchemaError(
            f"The annotations of the dataclass {declared.__name__} cannot be resolved: {error}.",
            hint="Define or import what they name at the top of the module, not inside a function or for type checkers only.",
            value=declared.__name__,
        ) from error
    fields = []
    for field in dataclasses.fields(declared):
        if not field.init:
            raise SchemaError(
                f"The field {declared.__name__}.{field.name} is not set by the constructor, so no message can be made with it.",
                hint="Leave out init=False; make a derived value a property.",
                column=field.name,
            )
        kind, nullable = _from_annotation(hints[field.name], f"{declared.__name__}.{field.name}", (*inside, declared))
        fields.append(Field(field.name, kind, nullable))
    if not fields:
        raise SchemaError(f"The dataclass {declared.__name__} has no fields.", hint="Give it one field per column.")
    return Schema(tuple(fields), declared)


def _from_annotation(annotation: Any, where: str, inside: tuple[type, ...] = ()) -> tuple[DataType, bool]:
    origin = typing.get_origin(annotation)
    arguments = typing.get_args(annotation)
    if origin is typing.Annotated:  # Annotated[int, "int"] names the exact width
        names = [extra for extra in arguments[1:] if isinstance(extra, str)]
        if names:
            return parse_type(names[0]), _from_annotation(arguments[0], where, inside)[1]
        return _from_annotation(arguments[0], where, inside)
    if origin in (typing.Union, types.UnionType):
        members = [member for member in arguments if member is not type(None)]
        if len(members) == 1 and len(members) < len(arguments):
            return _from_annotation(members[0], where, inside)[0], True
    if isinstance(annotation, Hashable) and annotation in _PYTHON_TYPES:
        return DataType(_PYTHON_TYPES[annotation]), False
    if annotation is decimal.Decimal:
        return DataType("decimal", 38, 18), False
    if origin is list or (origin is tuple and len(arguments) == 2 and arguments[1] is Ellipsis):
        return DataType("array", children=(_from_annotation(arguments[0], where, inside)[0],)), False
    if origin is dict:
        return DataType("map", children=tuple(_from_annotation(part, where, inside)[0] for part in arguments)), False
    if isinstance(annotation, type) and dataclasses.is_dataclass(annotation):
        inner = _from_dataclass(annotation, inside)
        return DataType("struct", children=tuple(f.type for f in inner.fields), names=inner.names), False
    raise SchemaError(
        f"The type {annotation!r} of {where} has no column type.",
        hint='Use bool, int, float, str, bytes, date, datetime, Decimal, list, dict, a dataclass, or Annotated[int, "smallint"].',
        column=where,
    )


def _from_arrow(declared: pyarrow.Schema) -> Schema:
    return Schema(tuple(Field(field.name, type_from_arrow(field.type), field.nullable) for field in declared))


def type_from_arrow(kind: pyarrow.DataType) -> DataType:
    """The column type of an Arrow type; unsigned integers take the next wider signed type, dictionaries their values'."""
    import pyarrow as pa

    simple = {
        pa.bool_(): "boolean",
        pa.int8(): "tinyint",
        pa.int16(): "smallint",
        pa.uint8(): "smallint",
        pa.int32(): "int",
        pa.uint16(): "int",
        pa.int64(): "bigint",
        pa.uint32(): "bigint",
        pa.float16(): "float",
        pa.float32(): "float",
        pa.float64(): "double",
        pa.string(): "string",
        pa.large_string(): "string",
        pa.string_view(): "string",
        pa.binary(): "binary",
        pa.large_binary(): "binary",
        pa.date32(): "date",
        pa.date64(): "date",
    }
    if kind in simple:
        return DataType(simple[kind])
    if pa.types.is_dictionary(kind):
        return type_from_arrow(kind.value_type)
    if pa.types.is_timestamp(kind):
        return DataType("timestamp" if kind.tz else "timestamp_ntz")
    if pa.types.is_fixed_size_binary(kind):
        return DataType("binary")
    if pa.types.is_decimal(kind) and kind.precision <= 38 and 0 <= kind.scale <= kind.precision:
        return DataType("decimal", kind.precision, kind.scale)
    if pa.types.is_uint64(kind):
        return DataType("decimal", 20, 0)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return DataType("array", children=(type_from_arrow(kind.value_type),))
    if pa.types.is_map(kind):
        return DataType("map", children=(type_from_arrow(kind.key_type), type_from_arrow(kind.item_type)))
    if pa.types.is_struct(kind):
        parts = [kind.field(place) for place in range(kind.num_fields)]
        return DataType("struct", children=tuple(type_from_arrow(p.type) for p in parts), names=tuple(p.name for p in parts))
    raise SchemaError(f"The Arrow type {kind} has no column type here.", hint="Cast the column to a supported type first.", value=str(kind))

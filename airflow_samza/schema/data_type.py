"""One column: its name, its type, and whether it may be null. A type is written as in DDL, and has an Arrow type."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

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
        """Return the type as Spark writes it.

        >>> from airflow_samza.schema import parse_type
        >>> parse_type("Map<STRING, array<int>>").ddl()
        'map<string,array<int>>'
        """
        if self.name == "decimal":
            return f"decimal({self.precision},{self.scale})"
        if self.name == "struct":
            inner = ",".join(
                f"{quoted(name)}:{child.ddl()}" for name, child in zip(self.names, self.children, strict=True)
            )
            return f"struct<{inner}>"
        if self.children:
            return f"{self.name}<{','.join(child.ddl() for child in self.children)}>"
        return self.name

    def to_arrow(self) -> pyarrow.DataType:
        """Return the Arrow type; timestamps are microseconds in UTC, as Spark exchanges them."""
        import pyarrow as pa

        simple = {
            "boolean": pa.bool_(),
            "tinyint": pa.int8(),
            "smallint": pa.int16(),
            "int": pa.int32(),
            "bigint": pa.int64(),
            "float": pa.float32(),
            "double": pa.float64(),
            "string": pa.string(),
            "binary": pa.binary(),
            "date": pa.date32(),
            "timestamp": pa.timestamp("us", "UTC"),
            "timestamp_ntz": pa.timestamp("us"),
        }
        if self.name in simple:
            return simple[self.name]
        if self.name == "decimal":
            return pa.decimal128(self.precision, self.scale)
        if self.name == "array":
            return pa.list_(self.children[0].to_arrow())
        if self.name == "map":
            return pa.map_(self.children[0].to_arrow(), self.children[1].to_arrow())
        return pa.struct([pa.field(n, child.to_arrow()) for n, child in zip(self.names, self.children, strict=True)])

    @property
    def is_integer(self) -> bool:
        """Return whether it is an integer of any width."""
        return self.name in ("tinyint", "smallint", "int", "bigint")

    def reads_as(self, declared: DataType) -> bool:
        """Return whether a column of this type may be read as another one: another form of it, or a number that fits.

        >>> from airflow_samza.schema import parse_type
        >>> parse_type("bigint").reads_as(parse_type("double")), parse_type("string").reads_as(parse_type("int"))
        (True, False)
        """
        if self.name == declared.name and len(self.children) == len(declared.children):
            return all(own.reads_as(other) for own, other in zip(self.children, declared.children, strict=True))
        if self.is_integer:
            return declared.is_integer or declared.name in ("float", "double", "decimal")
        return (self.name, declared.name) in (
            ("float", "double"),
            ("timestamp", "timestamp_ntz"),
            ("timestamp_ntz", "timestamp"),
        )


@dataclass(frozen=True)
class Field:
    """One column of a schema."""

    name: str
    type: DataType
    nullable: bool = True


def quoted(name: str) -> str:
    """Return the name of a column or field as DDL has it, in backticks where it needs them."""
    return name if re.fullmatch(r"[A-Za-z_]\w*", name) else "`" + name.replace("`", "``") + "`"


def unquoted(name: str) -> str:
    """Return a name without its quotes.

    >>> unquoted("a"), unquoted("`my ``a```")
    ('a', 'my `a`')
    """
    return name[1:-1].replace("``", "`") if name.startswith("`") else name


@functools.lru_cache(maxsize=1024)
def type_from_arrow(kind: pyarrow.DataType) -> DataType:
    """Return the column type of an Arrow type.

    Unsigned integers take the next wider signed type, dictionaries their values'.
    """
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
        return DataType(
            "struct", children=tuple(type_from_arrow(p.type) for p in parts), names=tuple(p.name for p in parts)
        )
    raise SchemaError(
        f"The Arrow type {kind} has no column type here.",
        hint="Cast the column to a supported type first.",
        value=str(kind),
    )


def key_type(kind: DataType) -> str:
    """The name under which a key column's type is compared and hashed: equal names hash equal values alike.

    >>> from airflow_samza.schema import parse_type
    >>> key_type(parse_type("int")), key_type(parse_type("float")), key_type(parse_type("decimal(10,2)"))
    ('bigint', 'double', 'decimal(10,2)')
    """
    if kind.is_integer:
        return "bigint"
    if kind.name in ("float", "double"):
        return "double"
    if kind.name in ("array", "map", "struct"):
        raise SchemaError(
            f"A column of type {kind.ddl()} cannot be a key.",
            hint="Key by a column of a simple type, or make one first with map or select.",
            type=kind.ddl(),
        )
    return kind.ddl()

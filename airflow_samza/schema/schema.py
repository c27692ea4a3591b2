"""The columns of a stream's messages: declared as a dataclass, a DDL string or an Arrow schema, one value inside."""

from __future__ import annotations

import dataclasses
import functools
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from airflow_samza.errors import SchemaError
from airflow_samza.schema.annotations import dataclass_columns
from airflow_samza.schema.data_type import Field, quoted, type_from_arrow
from airflow_samza.schema.ddl import read_columns

if TYPE_CHECKING:
    import pyarrow


@dataclass(frozen=True)
class Schema:
    """The columns of a stream's messages, in order, and the dataclass that callables get.

    Two schemas are equal if their columns are; the dataclass plays no part.

    >>> Schema.of("member_id bigint not null, country string").names
    ('member_id', 'country')

    :param fields: The columns, each with name, type and nullability.
    :param python_class: The dataclass of a message. Without one callables get a ``Row``.
    """

    fields: tuple[Field, ...]
    python_class: type | None = dataclasses.field(default=None, compare=False)

    def __post_init__(self) -> None:
        """Reject a column that appears twice."""
        for name, times in Counter(self.names).items():
            if times > 1:
                raise SchemaError(
                    f"Column {name!r} appears twice in the schema.",
                    hint="Give each column a name of its own.",
                    column=name,
                )

    @classmethod
    def of(cls, declared: object) -> Schema:
        """Return the schema of a declaration.

        :param declared: A :class:`Schema`, a dataclass, a DDL string or a ``pyarrow.Schema``.
        """
        if isinstance(declared, Schema):
            return declared
        if isinstance(declared, str):
            return parse_ddl(declared)
        if isinstance(declared, type) and dataclasses.is_dataclass(declared):
            return _of_dataclass(declared)
        if type(declared).__module__.partition(".")[0] == "pyarrow" and type(declared).__name__ == "Schema":
            columns = cast("pyarrow.Schema", declared)
            return Schema(tuple(Field(field.name, type_from_arrow(field.type), field.nullable) for field in columns))
        raise SchemaError(
            f"A schema is a dataclass, a DDL string or a pyarrow.Schema, not {declared!r}.",
            hint='Write for example schema="id bigint, name string".',
            value=repr(declared),
        )

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the columns, in order."""
        return tuple(field.name for field in self.fields)

    def __contains__(self, name: object) -> bool:
        return any(field.name == name for field in self.fields)

    def __getitem__(self, name: str) -> Field:
        for field in self.fields:
            if field.name == name:
                return field
        raise SchemaError(
            f"There is no column {name!r}.", hint=f"The columns are {', '.join(self.names)}.", column=name
        )

    def ddl(self) -> str:
        """Return the schema as a DDL string of Spark, which :meth:`of` reads."""
        return ", ".join(
            f"{quoted(field.name)} {field.type.ddl()}{'' if field.nullable else ' not null'}" for field in self.fields
        )

    def to_arrow(self) -> pyarrow.Schema:
        """Return the schema as a ``pyarrow.Schema``."""
        import pyarrow as pa

        return pa.schema([pa.field(field.name, field.type.to_arrow(), field.nullable) for field in self.fields])


@functools.lru_cache(maxsize=1024)
def parse_ddl(text: str) -> Schema:
    """Return the schema of a Spark DDL string, such as ``"id bigint not null, tags array<string>"``."""
    return Schema(read_columns(text))


@functools.lru_cache(maxsize=1024)  # a class is read once, however many operators say it
def _of_dataclass(declared: type) -> Schema:
    return Schema(dataclass_columns(declared), declared)

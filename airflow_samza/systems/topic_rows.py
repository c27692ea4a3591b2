"""The form rows have in a topic: plain column types, in the topic's order, checked when they are written.

The log and topics in memory write by it.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from airflow_samza.errors import SchemaError
from airflow_samza.schema import Schema

if TYPE_CHECKING:
    import pyarrow as pa


@lru_cache(maxsize=1024)
def arrow_schema(ddl: str | None) -> pa.Schema | None:
    """Return the Arrow schema of a topic's DDL; None when it has none yet."""
    return None if ddl is None else Schema.of(ddl).to_arrow()


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """Return the schema that rows of an undeclared topic take.

    Dictionaries become their values, every column may be null.
    """
    import pyarrow as pa

    declared = Schema.of(schema).to_arrow()
    return pa.schema([field.with_nullable(True) for field in declared])


def to_schema(batch: pa.RecordBatch, schema: pa.Schema, stream: str) -> pa.RecordBatch:
    """Return the batch in the topic's schema, without copying what fits.

    What does not fit is a SchemaError naming the column.
    """
    import pyarrow as pa

    if batch.schema.equals(schema):
        _reject_nulls(batch.columns, schema, stream)
        return batch
    extra = [name for name in batch.schema.names if schema.get_field_index(name) < 0]
    missing = [name for name in schema.names if batch.schema.get_field_index(name) < 0]
    if extra or missing or batch.num_columns != len(schema):
        said = " and ".join(
            part
            for part in (
                f"lack the column{'s' if len(missing) > 1 else ''} {', '.join(missing)}" if missing else "",
                f"have the column{'s' if len(extra) > 1 else ''} {', '.join(extra)} that it does not have"
                if extra
                else "",
                "" if missing or extra else "name a column twice",
            )
            if part
        )
        raise SchemaError(
            f"Rows written to {stream!r} {said}.",
            hint=f"The columns of the stream are {', '.join(schema.names)}; "
            "select them before, or declare another schema.",
            stream=stream,
            missing=", ".join(missing),
            extra=", ".join(extra),
        )
    columns = []
    for field in schema:
        column = batch.column(batch.schema.get_field_index(field.name))
        if not column.type.equals(field.type):
            try:
                # Only fractions of a microsecond may be lost: a timestamp has none in a topic.
                column = column.cast(field.type, safe=not pa.types.is_timestamp(field.type))
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
                raise SchemaError(
                    f"Column {field.name!r} of {stream!r} is {field.type}, and {column.type} cannot be written to it: "
                    f"{error}.",
                    hint="Cast the column before it is sent, or declare the type that it has.",
                    stream=stream,
                    column=field.name,
                ) from error
        columns.append(column)
    _reject_nulls(columns, schema, stream)
    return pa.RecordBatch.from_arrays(columns, schema=schema) if columns else batch


def _reject_nulls(columns: list[pa.Array], schema: pa.Schema, stream: str) -> None:
    for field, column in zip(schema, columns, strict=True):
        if not field.nullable and column.null_count:
            raise SchemaError(
                f"Column {field.name!r} of {stream!r} is declared not null, and {column.null_count} of {len(column)} "
                "rows have none.",
                hint="Declare the column nullable (T | None in a dataclass), or filter those rows first.",
                stream=stream,
                column=field.name,
            )

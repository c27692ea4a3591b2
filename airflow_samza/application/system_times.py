"""``timestamp=system_time("read_at")``.

The event time of an input is when the task reads it, in a column that the task fills.
"""

from __future__ import annotations

from dataclasses import dataclass

from airflow_samza.application.checked_calls import checked_call
from airflow_samza.application.rejections import reject
from airflow_samza.schema import DataType, Field, Schema

READ_TIME = DataType("timestamp")


@dataclass(frozen=True)
class SystemTime:
    """The column that holds the time at which a message was read."""

    column: str


@checked_call
def system_time(column: str = "read_at") -> SystemTime:
    """Make the time at which a task reads a message its event time; for ``timestamp=``.

    ```python
    app.input_stream("raw-views", schema="page string", timestamp=system_time("read_at"))
    ```

    :param column: The column for the time, of type ``timestamp``. It is added to the messages, or filled where the
        schema has it.
    """
    if not isinstance(column, str) or not column.strip():
        reject(f"system_time got {column!r}", hint='Name the column that holds the time: system_time("read_at").')
    return SystemTime(column)


def read_schema(schema: Schema | None, column: str) -> Schema | None:
    """Return the columns that are read: the declared ones without the one that the task fills."""
    if schema is None or column not in schema:
        return schema
    return Schema(tuple(field for field in schema.fields if field.name != column))


def stamped_schema(schema: Schema | None, column: str, where: str) -> Schema | None:
    """Return the columns of the messages then; None where the system knows them."""
    if schema is None:
        return None
    if column in schema:
        if schema[column].type != READ_TIME:
            reject(
                f"Column {column!r} of {where} is of type {schema[column].type.ddl()}, and is to hold the time of "
                "reading",
                hint="Declare it as a timestamp (a datetime), or name another column.",
                column=column,
            )
        return schema
    if schema.python_class is not None:
        reject(
            f"{schema.python_class.__name__} of {where} has no field {column!r} for the time of reading",
            hint=f"Add {column}: datetime to it, or name the field that is there.",
            column=column,
        )
    return Schema((*schema.fields, Field(column, READ_TIME, nullable=False)))

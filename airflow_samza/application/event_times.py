"""Event times: the column that a user declares, the time of reading, and what operators leave of them.

``timestamp=system_time("read_at")`` makes the time at which a task reads a message its event time. Behind operators
that make columns anew the event time is kept, declared anew, or lost for windows and joins. Watermarks follow the event
time of the input. A selection that passes its column on keeps it, also under another name. An expression makes other
times, which have to be declared with how far they may lie before the former ones; what a callable makes is checked
while it runs. Declarations and operators check by it; tasks find by it the column of a message's time.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from airflow_samza.application.columns import check_column
from airflow_samza.application.operator_spec import EventTime, OperatorSpec
from airflow_samza.application.output_schemas import PassedOn
from airflow_samza.application.rejections import checked_call, reject
from airflow_samza.application.stream import Stream, placed
from airflow_samza.application.times import duration_ms
from airflow_samza.application.watermarks import is_watermark_function
from airflow_samza.schema import DataType, Field, Schema

READ_TIME = DataType("timestamp")
EVENT_TIMES = "An event-time column is a timestamp, a date, or a bigint of milliseconds since 1970."


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
                f"Column {column!r} of {where} is of type {schema[column].type.ddl()}, "
                "and is to hold the time of reading",
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


def time_column(timestamp: object, schema: Schema | None, where: str) -> str:
    """Return the column that ``timestamp=`` names, if it holds times as far as the schema is known."""
    if not isinstance(timestamp, str) or not timestamp.strip():
        reject(f"{where} has timestamp={timestamp!r}", hint='Name the event-time column: timestamp="at".')
    check_column(timestamp, schema, f"the timestamp of {where}")
    if schema is not None and schema[timestamp].type.name not in ("timestamp", "timestamp_ntz", "date", "bigint"):
        reject(
            f"Column {timestamp!r} of {where} is of type {schema[timestamp].type.ddl()}, which holds no time",
            hint=EVENT_TIMES,
            column=timestamp,
        )
    return timestamp


def declared_time(
    stream: Stream[Any],
    timestamp: str | None,
    max_delay: str | int | timedelta | None,
    shape: Schema | None,
    where: str,
) -> EventTime | None:
    """Return the event time that ``timestamp=`` of an operator declares for its results; None: it declares none."""
    if timestamp is None:
        if max_delay is not None:
            reject(f"{where} has max_delay and no timestamp", hint='Name the event-time column: timestamp="at".')
        return None
    column = time_column(timestamp, shape, where)
    if stream._event_time is None and not stream._time_change:
        reject(
            f"{where} has timestamp={timestamp!r}, and its messages had no event time so far",
            hint='Declare one on the input, timestamp="at", from which watermarks are made.',
            operator=where,
        )
    if max_delay is None:
        reject(
            f"{where} has timestamp={timestamp!r} without max_delay",
            hint='Say how far it may lie before the event time of the message that it is made of: max_delay="1 day", '
            'or "0 seconds" if it never does.',
            operator=where,
        )
    return EventTime(column, max_delay_ms=duration_ms(max_delay, zero=True))


def kept_time(stream: Stream[Any], shape: Schema | None, function: object = None) -> EventTime | None:
    """Return the event time of a callable's results, whose column has its name still; None: there is none to check.

    A callable that makes watermarks of its own answers for its times.
    """
    column = stream._event_time
    if column is None or stream._time_change or (shape is not None and column not in shape):
        return None
    return None if is_watermark_function(function) else EventTime(column)


def time_behind(stream: Stream[Any], spec: OperatorSpec, names: PassedOn) -> tuple[str | None, str]:
    """Return the column of the event time behind a selection, and why windows and joins cannot go by it."""
    if spec.event_time is not None:
        return spec.event_time.column, ""
    column = stream._event_time
    if column is None:
        return None, ""
    name = names.name(column)
    if name is not None:
        return name, stream._time_change
    if column.lower() not in names.new_names:
        return None, ""
    return column, f"{placed(spec)} makes its column {column!r} by an expression, and watermarks follow the former one"

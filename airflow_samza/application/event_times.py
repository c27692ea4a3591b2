"""The event time behind operators that make columns anew: kept, declared anew, or lost for windows and joins.

Watermarks follow the event time of the input. A selection that passes its column on keeps it, also under another name.
An expression makes other times, which have to be declared with how far they may lie before the former ones; what a
callable makes is checked while it runs.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow_samza.application.operator_spec import EventTime, OperatorSpec
from airflow_samza.application.output_schemas import PassedOn
from airflow_samza.application.rejections import located, reject
from airflow_samza.application.stream import Stream
from airflow_samza.application.stream_declarations import time_column
from airflow_samza.application.watermark_functions import is_watermark_function
from airflow_samza.application.windows import duration_ms
from airflow_samza.schema import Schema

Delay = str | int | timedelta
"""A length of time: ms, a ``timedelta``, or a text such as ``"5 minutes"``."""


def declared_time(
    stream: Stream[Any], timestamp: str | None, max_delay: Delay | None, shape: Schema | None, where: str
) -> EventTime | None:
    """Return the event time that ``timestamp=`` of an operator declares for its results; None: it declares none."""
    if timestamp is None:
        if max_delay is not None:
            reject(f"{where} has max_delay and no timestamp", hint='Name the event-time column: timestamp="at".')
        return None
    column = time_column(timestamp, shape, where)
    if stream._event_time is None and not stream._made_anew:
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
    with located():
        return EventTime(column, max_delay_ms=duration_ms(max_delay, zero=True))


def kept_time(stream: Stream[Any], shape: Schema | None, function: object = None) -> EventTime | None:
    """Return the event time of a callable's results, whose column has its name still; None: there is none to check.

    A callable that makes watermarks of its own answers for its times.
    """
    column = stream._event_time
    if column is None or stream._made_anew or (shape is not None and column not in shape):
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
        return name, stream._made_anew
    if column.lower() not in names.made:
        return None, ""
    return column, f"{_placed(spec)} makes its column {column!r} by an expression, and watermarks follow the former one"


def _placed(spec: OperatorSpec) -> str:
    return f"{spec.title} ({spec.location})" if spec.location is not None else spec.title

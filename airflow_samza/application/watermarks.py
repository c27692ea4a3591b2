"""Watermarks as users make them: strategies of inputs, and callables that decide about watermarks themselves.

A watermark promises that later messages are not older. An input's is made per partition by its strategy
(``bounded_delay``, ``punctuated``, or a user's), and only where the input is not bounded; a bounded one ends, and
nothing of it is ever late. A callable of ``filter``, ``map`` or ``flat_map`` may change watermarks on their way. Users
write them; the run loop and the operators that call a user's Python apply them.
Source: Samza's WatermarkFunction; control-messages, "InputWatermark = min { OutputWatermark(task) … }" (decision 19).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Protocol, TypeGuard, runtime_checkable

from airflow_samza.application.callables import check_callable, name_of, reject_async_methods
from airflow_samza.application.rejections import checked_call, reject
from airflow_samza.application.times import duration_ms

BOUNDED_DELAY, PUNCTUATED, OWN = "bounded delay", "punctuated", "own"

_STRATEGY_METHODS = ("on_event_time", "on_batch")
_FUNCTION_METHODS = ("process_watermark", "get_output_watermark")


@dataclass(frozen=True)
class WatermarkStrategy:
    """``kind`` is one of the constants above.

    ``delay_ms`` belongs to a bounded delay, ``function`` to the other two.
    """

    kind: str
    delay_ms: int = 0
    function: Any = None


@checked_call
def bounded_delay(delay: str | int | timedelta) -> WatermarkStrategy:
    """Return a strategy whose watermark is the greatest event time so far, minus a delay; for ``watermarks=``.

    Messages may come out of order by that much. ``max_delay=`` of an input is short for it.

    ```python
    strategy = bounded_delay("5 minutes")
    app.input_stream("live-views", schema="page string, at timestamp", timestamp="at", watermarks=strategy)
    ```

    :param delay: The delay: ms, a ``timedelta`` or a text such as ``"5 minutes"``.
    """
    return WatermarkStrategy(BOUNDED_DELAY, delay_ms=duration_ms(delay, zero=True))


@checked_call
def punctuated(function: Callable[[Any], Any]) -> WatermarkStrategy:
    """Return a strategy that takes watermarks from messages; for ``watermarks=``.

    ```python
    strategy = punctuated(lambda message: message.at if message.page == "end-of-minute" else None)
    ```

    :param function: A callable that gets a message, and returns a time (a ``datetime``, or ms since 1970), or None for
        a message that carries no watermark.
    """
    check_callable(
        function,
        "punctuated",
        1,
        hint="punctuated takes a callable: lambda message: message.at if message.is_marker else None",
    )
    return WatermarkStrategy(PUNCTUATED, function=function)


def watermark_strategy(watermarks: object, where: str) -> WatermarkStrategy:
    """Return the checked strategy of ``watermarks=``.

    Beside a strategy it may be a function of one event time (ms), or a class: an object of it for each partition, with
    ``on_event_time(ms)``, called for every message, or ``on_batch(earliest_ms, latest_ms)``, once for all that are read
    together. They return a time (a datetime, or ms since 1970) or None.
    """
    if isinstance(watermarks, WatermarkStrategy):
        return watermarks
    hint = (
        'Write watermarks=bounded_delay("5 minutes"), punctuated(function), a function of an event time, or a '
        "class with on_event_time."
    )
    if isinstance(watermarks, type):
        if not any(callable(getattr(watermarks, method, None)) for method in _STRATEGY_METHODS):
            reject(
                f"{where} makes watermarks by {name_of(watermarks)}, which has no method on_event_time or on_batch",
                hint=hint,
            )
        check_callable(watermarks, f"watermarks of {where}", 0, hint=hint)
        reject_async_methods(watermarks, f"watermarks of {where}", *_STRATEGY_METHODS)
        if inspect.isabstract(watermarks):
            reject(f"{where} makes watermarks by {name_of(watermarks)}, which is abstract", hint=hint)
        return WatermarkStrategy(OWN, function=watermarks)
    if not callable(watermarks):
        reject(f"{where} has watermarks={watermarks!r}, which is no strategy", hint=hint, value=repr(watermarks))
    check_callable(watermarks, f"watermarks of {where}", 1, hint=hint)
    return WatermarkStrategy(OWN, function=watermarks)


@runtime_checkable
class WatermarkFunction(Protocol):
    """A callable of ``filter``, ``map`` or ``flat_map`` that changes watermarks before it passes them on.

    Each task works with a copy of the object, which is made when an epoch begins. The output watermark is kept from
    epoch to epoch.
    """

    def process_watermark(self, timestamp: int) -> Iterable[Any] | None:
        """Handle a new input watermark, and return messages to send, or None.

        :param timestamp: The watermark, in ms since 1970 (UTC).
        """

    def get_output_watermark(self) -> int | None:
        """Return the watermark of what this operator has sent, in ms since 1970 (UTC).

        None, or a value below the former one, leaves it where it is. It is called after :meth:`process_watermark`, and
        after messages.
        """


def is_watermark_function(function: object) -> TypeGuard[WatermarkFunction]:
    """Return whether a callable decides about watermarks itself."""
    return all(_has_methods(function)) and not isinstance(function, type)


def _has_methods(function: object) -> list[bool]:
    """Return which of the two methods a callable has; a proxy that has whatever it is asked for has none."""
    has_any = hasattr(function, f"{_FUNCTION_METHODS[0]}_of_no_such_name")
    return [hasattr(function, method) and not has_any for method in _FUNCTION_METHODS]


def check_watermark_function(function: object, where: str) -> None:
    """Reject a callable that has one method of the two."""
    has = _has_methods(function)
    if any(has) and not all(has):
        reject(
            f"{where} got {name_of(function)}, which has {_FUNCTION_METHODS[has.index(True)]} and no "
            f"{_FUNCTION_METHODS[has.index(False)]}",
            hint="A callable with its own word on watermarks has both.",
            operator=where,
        )
    reject_async_methods(function, where, *_FUNCTION_METHODS)

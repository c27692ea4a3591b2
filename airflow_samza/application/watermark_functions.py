"""Callables of ``filter``, ``map`` and ``flat_map`` that decide about watermarks themselves.

Source: Samza's WatermarkFunction; control-messages, "InputWatermark = min { OutputWatermark(task) … }".
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol, TypeGuard, runtime_checkable

from airflow_samza.application.callables import name_of, reject_async_methods
from airflow_samza.application.rejections import reject


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
        ...

    def get_output_watermark(self) -> int | None:
        """Return the watermark of what this operator has sent, in ms since 1970 (UTC).

        None, or a value below the former one, leaves it where it is. It is called after :meth:`process_watermark`, and
        after messages.
        """
        ...


def is_watermark_function(function: object) -> TypeGuard[WatermarkFunction]:
    """Return whether a callable decides about watermarks itself."""
    return isinstance(function, WatermarkFunction) and not isinstance(function, type)


def check_watermark_function(function: object, where: str) -> None:
    """Reject a callable that has one method of the two."""
    has = [hasattr(function, method) for method in _METHODS]
    if any(has) and not all(has):
        reject(
            f"{where} got {name_of(function)}, which has {_METHODS[has.index(True)]} and no "
            f"{_METHODS[has.index(False)]}",
            hint="A callable with its own word on watermarks has both.",
            operator=where,
        )
    reject_async_methods(function, where, *_METHODS)


_METHODS = ("process_watermark", "get_output_watermark")

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
    """A callable that does more with a watermark than to pass it on.

    Each task works with a copy of the object, made when an epoch begins; how far its output has come is kept from epoch
    to epoch.
    """

    def process_watermark(self, timestamp: int) -> Iterable[Any] | None:
        """Called when the operator's input watermark has reached ``timestamp`` (ms since the epoch, UTC).

        May return messages.
        """
        ...

    def get_output_watermark(self) -> int | None:
        """Return how far time has come for the operators behind; None, or less than before, leaves it where it is.

        Asked after :meth:`process_watermark`, and after messages, which may move it as well.
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

"""Checks of coroutine functions and of the options for their calls."""

from __future__ import annotations

import inspect
from datetime import timedelta
from typing import Any

from airflow_samza.application.callables import innermost, name_of, reject_yielding, takes_values
from airflow_samza.application.rejections import located, reject
from airflow_samza.application.windows import duration_ms


def check_coroutine_function(function: object, where: str, takes: int) -> None:
    """Reject what is no ``async def`` (function, or object with such a ``__call__``) of ``takes`` values."""
    hint = f"{where} takes a coroutine function: async def enrich(message): …; plain ones go to map."
    if not callable(function):
        shown = f"the text {function!r}" if isinstance(function, str) else repr(function)
        reject(f"{where} takes a coroutine function, not {shown}", hint=hint, operator=where, value=repr(function))
    inner = innermost(function)
    if inspect.isasyncgenfunction(inner):
        reject_yielding(function, where, "Return one message; many messages for one go to flat_map, behind it.")
    if not inspect.iscoroutinefunction(inner):
        reject(
            f"{where} got {name_of(function)}, which is not async: it would block all other calls",
            hint=hint,
            operator=where,
        )
    takes_values(function, where, takes)


def async_options(concurrency: object, ordered: object, timeout: str | int | timedelta | None) -> dict[str, Any]:
    """Return the fields of a MapAsyncSpec for the calls of its function."""
    if not isinstance(concurrency, int) or isinstance(concurrency, bool) or concurrency < 1:
        reject(
            f"map_async has concurrency={concurrency!r}",
            hint="Give the number of calls that may be in flight at a time, from 1.",
        )
    if not isinstance(ordered, bool):
        reject(
            f"map_async has ordered={ordered!r}",
            hint="Write True (the order of the messages) or False (as the calls end).",
        )
    with located():
        return {
            "concurrency": concurrency,
            "ordered": ordered,
            "timeout_ms": None if timeout is None else duration_ms(timeout),
        }

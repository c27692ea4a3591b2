"""Options for the calls of a remote table's functions, checked: batches, rate, retries, time-outs, cache.

Declarations and operators check these options; tasks limit their calls by them.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, NoReturn, TypedDict

from airflow_samza.application.callables import check_callable, check_coroutine_function, innermost
from airflow_samza.application.rejections import reject
from airflow_samza.application.times import duration_ms

_UNITS = {"second": 1.0, "minute": 60.0, "hour": 3600.0}
_RATE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(?:/|per)\s*(second|minute|hour)\s*")
_DEFAULT_TTL_MS = 5 * 60_000
"""The time for which a cached row is used, unless it is set: changes elsewhere are seen within minutes."""


GIVE_READER = "Give app.remote_table(…, reader=…), a callable from key to row."
GIVE_WRITER = "Give app.remote_table(…, writer=…), a callable that takes key and row."


class RemoteAccessOptions(TypedDict, total=False):
    """Arguments for the calls of a remote table's functions; see :class:`RemoteAccess`."""

    batch_reads: int | None
    """If set, the reader gets a list of at most so many keys. It returns a mapping from key to row, or a list of rows
    in the order of the keys.
    """
    batch_writes: int | None
    """If set, the writer gets a list of at most so many pairs of key and row."""
    rate: str | None
    """The greatest rate of calls of all tasks of a stage together: ``"100/second"``, ``"600/minute"``,
    ``"5000/hour"``. By default there is no limit.
    """
    concurrency: int
    """The number of calls that may be in flight at a time; for coroutine functions. Default: ``1``"""
    timeout: str | int | timedelta | None
    """The longest time that a try may take; for coroutine functions. By default there is no limit."""
    retries: int
    """The number of times that a failed call is repeated. Default: ``3``"""
    backoff: str | int | timedelta
    """The pause before the first repetition, which doubles each time, up to 10 s, and varies at random. Default:
    ``"100 ms"``
    """
    retry_on: type[BaseException] | tuple[type[BaseException], ...]
    """The exceptions after which a call is repeated; others fail at once. Default: ``Exception``"""
    cache_rows: int | None
    """The number of rows that a process keeps of those that it read. By default none."""
    cache_ttl: str | int | timedelta | None
    """The time for which a row of the cache is used. Default: ``"5 minutes"``"""


@dataclass(frozen=True)
class RemoteAccess:
    """The way in which the functions of a remote table are called.

    ``batch_reads``: the reader takes a list of at most so many keys (None: one key). ``batch_writes``: the writer takes
    a list of at most so many pairs of key and row. ``calls_per_second`` bounds all tasks of a stage together. A call
    that raises one of ``retry_on`` is made again up to ``retries`` times, after ``backoff_ms`` and twice as long each
    time. ``concurrency`` and ``timeout_ms`` (of a try) are for coroutine functions. ``cache_rows`` rows that were read
    are kept, each for ``cache_ttl_ms`` (None: no cache).
    """

    batch_reads: int | None = None
    batch_writes: int | None = None
    calls_per_second: float | None = None
    concurrency: int = 1
    timeout_ms: int | None = None
    retries: int = 3
    backoff_ms: int = 100
    retry_on: tuple[type[BaseException], ...] = (Exception,)
    cache_rows: int | None = None
    cache_ttl_ms: int = _DEFAULT_TTL_MS


def remote_access(where: str, reader: Any, writer: Any, options: RemoteAccessOptions) -> RemoteAccess:
    """Return the checked options. ``where`` names the table."""
    _check_function(reader, f"the reader of {where}", 1, "Give a callable from key to row or None.")
    _check_function(
        writer,
        f"the writer of {where}",
        1 if options.get("batch_writes") else 2,
        "Give a callable that takes key and row.",
    )
    coroutines = [function for function in (reader, writer) if function is not None and is_coroutine_function(function)]
    if not coroutines:
        for word in ("concurrency", "timeout"):
            if options.get(word) is not None:
                _reject(
                    where,
                    f"{word}={options.get(word)!r} and no coroutine function",
                    f"Leave {word}= out, or make the functions coroutine functions: async def.",
                )
    if options.get("cache_ttl") is not None and options.get("cache_rows") is None:
        _reject(where, "cache_ttl= and no cache", "Say how many rows it keeps: cache_rows=10_000.")
    return RemoteAccess(
        batch_reads=_count(where, "batch_reads", options.get("batch_reads"), 1),
        batch_writes=_count(where, "batch_writes", options.get("batch_writes"), 1),
        calls_per_second=_rate(where, options.get("rate")),
        concurrency=_count(where, "concurrency", options.get("concurrency"), 1) or 1,
        timeout_ms=_duration(options.get("timeout")),
        retries=_count(where, "retries", options.get("retries", 3), 0) or 0,
        backoff_ms=_duration(options.get("backoff")) or RemoteAccess.backoff_ms,
        retry_on=_errors(where, options.get("retry_on", Exception)),
        cache_rows=_count(where, "cache_rows", options.get("cache_rows"), 1),
        cache_ttl_ms=_duration(options.get("cache_ttl")) or _DEFAULT_TTL_MS,
    )


def is_coroutine_function(function: object) -> bool:
    """Return whether it is an ``async def``, or an object with such a ``__call__``."""
    return inspect.iscoroutinefunction(innermost(function))


def _check_function(function: Callable[..., Any] | None, where: str, takes: int, hint: str) -> None:
    if function is None:
        return
    if callable(function) and is_coroutine_function(function):
        check_coroutine_function(function, where, takes)
    else:
        check_callable(function, where, takes, hint=hint)


def _duration(length: str | int | timedelta | None) -> int | None:
    return None if length is None else duration_ms(length)


def _count(where: str, word: str, number: object, least: int) -> int | None:
    if number is None:
        return None
    if isinstance(number, bool) or not isinstance(number, int) or number < least:
        _reject(where, f"{word}={number!r}", f"Write a whole number from {least}.")
    return number


def _rate(where: str, rate: object) -> float | None:
    if rate is None:
        return None
    match = _RATE.fullmatch(rate) if isinstance(rate, str) else None
    if match is None or float(match[1]) <= 0:
        _reject(
            where,
            f"rate={rate!r}, which is no rate",
            'Write calls per second, minute or hour, of all tasks together: rate="100/second".',
        )
    return float(match[1]) / _UNITS[match[2]]


def _errors(where: str, declared: object) -> tuple[type[BaseException], ...]:
    kinds = declared if isinstance(declared, tuple) else (declared,)
    if not kinds or not all(isinstance(kind, type) and issubclass(kind, BaseException) for kind in kinds):
        _reject(
            where,
            f"retry_on={declared!r}",
            "Name exceptions after which another try is worth it: retry_on=(OSError, TimeoutError).",
        )
    return kinds


def _reject(where: str, what: str, hint: str) -> NoReturn:
    reject(f"{where[0].upper()}{where[1:]} has {what}", hint=hint, table=where)

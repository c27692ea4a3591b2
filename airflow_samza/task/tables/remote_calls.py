"""Calls of one function of a remote table.

They go out at a bounded rate, are tried again, and run several at a time where it is a coroutine function. The rate is
held by a leaky bucket on the task's event loop, for plain functions too; a plain function itself runs on the task's
thread, where clients and connections that belong to a thread are at home.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from aiolimiter import AsyncLimiter
from tenacity import (
    AsyncRetrying,
    RetryCallState,
    Retrying,
    retry_if_exception_type,
    stop_after_attempt,
    wait_exponential,
    wait_random,
)

from airflow_samza.application.declarations.remote_access import RemoteAccess, is_coroutine_function
from airflow_samza.application.rejections import USER_ERRORS
from airflow_samza.task.tables.async_calls import AsyncCalls, CallFailed, TaskLoop, within

_LONGEST_WAIT_S = 10.0
"""Between two tries: a service that is down for longer fails the stage, and Airflow's retry waits."""

_BURST_S = 0.1
"""Seconds whose calls may go out at once.

They are enough that timers need not be exact, and too few to matter.
"""


class GaveUp(Exception):
    """A call that failed for good: what it was called with, and how often it was tried."""

    def __init__(self, item: Any, error: BaseException, tries: int) -> None:
        self.item = item
        self.error = error
        self.tries = tries
        super().__init__(str(error))


def rate_limit(calls_per_second: float) -> AsyncLimiter:
    """Return a bound of calls per second; it belongs to the loop on which it is first waited for."""
    burst = max(1.0, calls_per_second * _BURST_S)
    return AsyncLimiter(burst, burst / calls_per_second)


class RemoteCalls:
    """Calls of ``function``; each item is what it is called with, by ``call``.

    ``counts`` are those of the table: calls with their retries, and the seconds that the task waited for them.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        call: Callable[[Callable[..., Any], Any], Any],
        access: RemoteAccess,
        loop: TaskLoop,
        rate: AsyncLimiter | None,
        counts: dict[str, Any],
    ) -> None:
        self._function = function
        self._call = call
        self._access = access
        self._loop = loop
        self._rate = rate
        self._counts = counts
        self._policy: dict[str, Any] = {
            "retry": retry_if_exception_type(access.retry_on),
            "stop": stop_after_attempt(access.retries + 1),
            "wait": wait_exponential(access.backoff_ms / 1000, _LONGEST_WAIT_S)
            + wait_random(0, access.backoff_ms / 1000),
            "reraise": True,
            "before_sleep": self._before_retry,
        }
        self._is_coroutine = is_coroutine_function(function)

    def run(self, items: Sequence[Any], *, tolerant: bool) -> list[Any]:
        """Return the result for each item, in order.

        The first that fails for good is raised as :class:`GaveUp`, and no further one is called; ``tolerant``: it
        stands in its place.
        """
        started = time.perf_counter()
        try:
            if not self._is_coroutine:
                return [self._plain(item, tolerant) for item in items]
            # of their own for each run: what failed before, and is perhaps in flight yet, is none of this one
            calls = AsyncCalls(self._loop, self._awaited, self._access.concurrency)
            calls.keeps_failures = tolerant
            calls.submit(items)
            calls.wait_ended()
            return [result.error if isinstance(result, CallFailed) else result for _, result in calls.take()]
        except CallFailed as failed:
            raise failed.error from failed.error.__cause__
        finally:
            self._counts["seconds"] += time.perf_counter() - started

    def _plain(self, item: Any, tolerant: bool) -> Any:
        retrying = Retrying(**self._policy)
        try:
            return retrying(self._tried, item)
        except USER_ERRORS as error:
            gave_up = GaveUp(item, error, _tries(retrying))
            if tolerant:
                return gave_up
            raise gave_up from error

    def _tried(self, item: Any) -> Any:
        if self._rate is not None:
            self._loop.run(self._rate.acquire())
        self._counts["calls"] += 1
        return self._call(self._function, item)

    async def _awaited(self, item: Any) -> Any:
        retrying = AsyncRetrying(**self._policy)
        try:
            return await retrying(self._tried_async, item)
        except USER_ERRORS as error:
            raise GaveUp(item, error, _tries(retrying)) from error

    async def _tried_async(self, item: Any) -> Any:
        if self._rate is not None:
            await self._rate.acquire()
        self._counts["calls"] += 1
        return await within(self._call(self._function, item), self._access.timeout_ms)

    def _before_retry(self, _: RetryCallState) -> None:
        self._counts["retries"] += 1


def _tries(retrying: Retrying | AsyncRetrying) -> int:
    return int(retrying.statistics.get("attempt_number", 1))

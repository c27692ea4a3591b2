"""Calls of coroutine functions, several at a time, on an event loop that belongs to the task.

The loop runs on a thread of its own (decision 28): calls go on while the task reads and converts, and it does not
matter whether the task's own thread has a loop (a notebook's has). Results and failures come back to the task's thread.
Retries are the callable's business. Operators and low-level tasks with coroutines call by it.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any

from airflow_samza.application.times import duration_text

_LEAVE_AFTER_S = 10.0
"""Seconds that a task that ends waits for calls that it has cancelled.

One that blocks its thread must not block the task for ever.
"""

_HELD = 2048
"""Results that wait for an earlier one: about as many as a batch of messages as Python objects."""


class CallFailed(Exception):
    """A call that raised ``error``, or took too long; ``item`` is what it was called with."""

    def __init__(self, item: Any, error: BaseException) -> None:
        self.item = item
        self.error = error
        super().__init__(item)


_ENDING = (SystemExit, KeyboardInterrupt)
"""Errors that would end the loop's thread and be lost there; a coroutine raises them only on its own account."""


async def ended_with(call: Awaitable[Any]) -> tuple[Any, BaseException | None]:
    """The result of a call, or what it raised to end the process."""
    try:
        return await call, None
    except _ENDING as error:
        return None, error


def result_of(ended: tuple[Any, BaseException | None]) -> Any:
    """The result of what :func:`ended_with` gave, or what it raised."""
    result, error = ended
    if error is not None:
        raise error
    return result


async def within(call: Awaitable[Any], timeout_ms: int | None) -> Any:
    """Return the result of a call, which is cancelled when it takes longer; None: it may take as long as it likes."""
    if timeout_ms is None:
        return await call
    ending = asyncio.ensure_future(ended_with(call))
    try:
        done, _ = await asyncio.wait({ending}, timeout=timeout_ms / 1000)
    finally:
        ending.cancel()  # without effect on one that has ended
    if not done:
        raise TimeoutError(f"it gave no result within {duration_text(timeout_ms)}")
    return result_of(ending.result())


class TaskLoop:
    """An event loop on a thread of its own; it starts when it is first needed."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The running loop."""
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(target=self._loop.run_forever, name=f"{self._name}-calls", daemon=True)
            self._thread.start()
        return self._loop

    def run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        """Runs one coroutine to its end, and gives what it returns."""
        return result_of(asyncio.run_coroutine_threadsafe(ended_with(coroutine), self.loop).result())

    def close(self) -> None:
        """Cancels what is in flight, and ends the thread."""
        loop, thread = self._loop, self._thread
        self._loop = self._thread = None
        if loop is None or thread is None:
            return
        asyncio.run_coroutine_threadsafe(_cancel_all(), loop)
        thread.join(_LEAVE_AFTER_S)
        if not thread.is_alive():
            loop.close()


async def _cancel_all() -> None:
    loop = asyncio.get_running_loop()
    left = [task for task in asyncio.all_tasks(loop) if task is not asyncio.current_task()]
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)
    await loop.shutdown_asyncgens()
    loop.call_soon(loop.stop)


class AsyncCalls:
    """Calls ``function`` with items given one after another, at most ``concurrency`` of them at a time.

    They begin in the order of the items. Results come in that order too (``ordered``), or as the calls end.
    ``timeout_ms`` bounds each call. With :attr:`keeps_failures` a call that failed has its :class:`CallFailed` for a
    result. ``stop`` is asked before each
    call begins: when it is true, what has not begun is given up, and counted in :attr:`unstarted`.
    """

    def __init__(
        self,
        loop: TaskLoop,
        function: Callable[[Any], Awaitable[Any]],
        concurrency: int,
        *,
        ordered: bool = True,
        timeout_ms: int | None = None,
        stop: Callable[[], bool] | None = None,
    ) -> None:
        self.unstarted = 0
        self.keeps_failures = False
        self._loop = loop
        self._function = function
        self._concurrency = concurrency
        self._ordered = ordered
        self._timeout_ms = timeout_ms
        self._stop = stop
        self._workers = 0
        self._changed = threading.Condition()
        # Below is what both threads see, under that condition. Items are numbered as they are given.
        self._submitted = 0
        self._todo: deque[tuple[int, Any]] = deque()
        self._open = 0  # given, and the call has not ended
        self._done: dict[int, tuple[Any, Any]] = {}  # ended, and not taken; as they ended
        self._all_done = 0  # every item before this one has ended
        self._taken = 0  # in order: every item before this one has been taken
        self._failure: CallFailed | None = None

    # -- on the task's thread ------------------------------------------------------------------------------------------

    def submit(self, items: Sequence[Any]) -> None:
        """Gives more items; returns at once."""
        with self._changed:
            self._todo.extend(enumerate(items, self._submitted))
            self._submitted += len(items)
            self._open += len(items)
        self._loop.loop.call_soon_threadsafe(self._spawn)

    def wait_begun(self) -> None:
        """Waits until every call has begun, and not too many results wait for an earlier one."""
        most = max(_HELD, self._concurrency)
        with self._changed:
            self._changed.wait_for(
                lambda: (
                    self._failure or not (self._todo or (self._ordered and self._submitted - self._all_done > most))
                ),
            )

    def wait_ended(self) -> None:
        """Waits until nothing is in flight."""
        with self._changed:
            self._changed.wait_for(lambda: self._failure or not self._open)

    def take(self) -> list[tuple[Any, Any]]:
        """The items that are ready, each with its result; a call that failed is raised as :class:`CallFailed`."""
        with self._changed:
            if self._failure is not None:
                raise self._failure
            if not self._ordered:
                ready, self._done = list(self._done.values()), {}
                return ready
            ready = [self._done.pop(number) for number in range(self._taken, self._all_done)]
            self._taken = self._all_done
            return ready

    # -- on the loop's thread ------------------------------------------------------------------------------------------

    def _spawn(self) -> None:
        for _ in range(min(self._concurrency - self._workers, len(self._todo))):
            self._workers += 1
            worker = asyncio.get_running_loop().create_task(self._work())
            _WORKERS.add(worker)
            worker.add_done_callback(_WORKERS.discard)

    async def _work(self) -> None:
        while self._todo:
            if self._stop is not None and self._stop():
                self._give_up()
                break
            with self._changed:
                number, item = self._todo.popleft()
                self._changed.notify_all()
            try:
                result = await within(self._function(item), self._timeout_ms)
            except (Exception, *_ENDING) as error:
                if not self.keeps_failures:
                    self._failed(item, error)
                    break
                result = CallFailed(item, error)
            except BaseException as error:  # of whatever kind: the task's thread is where it belongs
                self._failed(item, error)
                break
            self._ended(number, item, result)
        self._workers -= 1  # nothing is awaited between the look at the items and this, or one could be left lying

    def _ended(self, number: int, item: Any, result: Any) -> None:
        with self._changed:
            self._open -= 1
            self._done[number] = (item, result)
            if self._ordered:
                while self._all_done in self._done:
                    self._all_done += 1
            self._changed.notify_all()

    def _failed(self, item: Any, error: BaseException) -> None:
        with self._changed:
            self._failure = self._failure or CallFailed(item, error)
            self._todo.clear()
            self._changed.notify_all()

    def _give_up(self) -> None:
        with self._changed:
            left = len(self._todo)
            self._todo.clear()
            self.unstarted += left
            self._submitted -= left
            self._open -= left
            self._changed.notify_all()


_WORKERS: set[asyncio.Task[None]] = set()
"""A loop holds its tasks only weakly."""

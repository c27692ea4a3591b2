"""Wait of a trigger until Airflow's scheduler knows that the process which deferred the task has ended (decision 69).

The scheduler learns of that end one to three seconds later, and on a busy host the process itself goes on for seconds
after the deferral. If the task is queued again before the scheduler knows, it assumes that the process died, and fails
or retries the task.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar

from airflow.triggers.base import BaseTrigger

from airflow_samza.provider.triggers import class_path
from airflow_samza.runs.records.liveness import identity, place, process_is_there

SETTLE_SECONDS = 5.0
"""Seconds between the start of a trigger, or the end of the process as seen from here, and the trigger's event."""

ENDING_SECONDS = 60.0
"""Seconds for which that end is awaited: a process that hangs holds up nothing for longer."""

_LOOK_SECONDS = 0.5

Result = TypeVar("Result")


@dataclass(kw_only=True, eq=False, repr=False)
class SettlingTrigger(BaseTrigger):
    """Trigger that looks again and again, and says what is new; it knows who has deferred.

    :param poll_interval: Seconds between two checks.
    :param deferred_by: Identity of the process that defers. Default: this process.
    """

    poll_interval: float
    deferred_by: Mapping[str, Any] = field(default_factory=identity)
    _said: str = field(default="", init=False)

    def __post_init__(self) -> None:
        """Begin as Airflow's triggers do."""
        super().__init__()  # type: ignore[no-untyped-call]  # Airflow has not annotated it

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return class path and arguments, for another process."""
        return class_path(type(self)), {each.name: getattr(self, each.name) for each in fields(self) if each.init}

    def say(self, text: str) -> None:
        """Log what there is, if that is something new."""
        if text != self._said:
            self._said = text
            self.log.info("%s", text)


async def settled(work: Coroutine[Any, Any, Result], deferred_by: Mapping[str, Any]) -> Result:
    """Return what work finds, or raise its error, no sooner than the scheduler knows that a process has ended.

    ``deferred_by`` is the process's ``identity``. A cancellation keeps its message, by which Airflow's triggerer knows
    that a user has acted on the task: work that waits for a thread of asgiref's would lose it.
    """
    working, settling = asyncio.ensure_future(work), asyncio.ensure_future(_settle(deferred_by))
    try:
        await asyncio.wait({working, settling})
        return working.result()
    finally:
        for task in (working, settling):
            task.cancel()
            task.add_done_callback(_let_go)


def _let_go(task: asyncio.Future[Any]) -> None:
    """Take the error of a task that nobody waits for any more."""
    if not task.cancelled():
        task.exception()


async def _settle(deferred_by: Mapping[str, Any]) -> None:
    """Return when the scheduler knows; of a process on another host nothing is seen, and it counts as ended."""
    is_own = (deferred_by.get("place"), deferred_by.get("pid")) == (place(), os.getpid())
    began = seen_at = time.monotonic()
    while (now := time.monotonic()) - seen_at < SETTLE_SECONDS:
        if not is_own and now - began < ENDING_SECONDS and process_is_there(deferred_by):
            seen_at = now
        await asyncio.sleep(min(_LOOK_SECONDS, SETTLE_SECONDS))

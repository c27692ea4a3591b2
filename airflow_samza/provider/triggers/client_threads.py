"""Threads of a triggerer in which clients of servers wait, so that servers that are away hold up nobody else.

The event loop's own threads are few, and every trigger's looks at a root go through them. Triggers and the connections
to Kafka wait in them.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from airflow.triggers.base import TriggerEvent

from airflow_samza.errors import SamzaError
from airflow_samza.provider.triggers.settling import SettlingTrigger, settled

Result = TypeVar("Result")

CLIENT_THREADS = ThreadPoolExecutor(16, thread_name_prefix="samza-clients")


async def in_client_thread(work: Callable[[], Result]) -> Result:
    """Return the result of work that may wait for servers; Airflow's comforts are there, as in the caller's context."""
    from asgiref.sync import sync_to_async  # comes with Airflow

    # In a thread of this kind Airflow 3.1 can be asked: its answers belong to the triggerer's event loop.
    return await sync_to_async(work, thread_sensitive=False, executor=CLIENT_THREADS)()


class Look(NamedTuple):
    """Result of a look: a text for the log, whether nothing more is waited for, and the value of the sensor."""

    said: str
    is_all: bool
    value: Any = None


@dataclass(kw_only=True, eq=False, repr=False)
class ClientTrigger(SettlingTrigger):
    """Waits until a server says what a sensor waits for, or an error lasts: the task looks again then.

    :param poll_interval: Seconds between two checks.
    :param deferred_by: Identity of the process that defers. Default: this process.
    """

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Yield one event, without content, when it is time for the task to look."""
        await settled(self._is_time(), self.deferred_by)
        yield TriggerEvent(None)

    @abstractmethod
    def look(self) -> Look:
        """Return what there is now. May wait for servers."""

    async def _is_time(self) -> None:
        is_time = False
        while not is_time:
            try:
                said, is_time, _ = await in_client_thread(self.look)
                pauses = not is_time
            except Exception as error:  # the task looks again; it may not meet the error, and defer at once
                said, is_time = str(error), not (isinstance(error, SamzaError) and error.retryable)
                pauses = True
            self.say(said)
            if pauses:
                await asyncio.sleep(self.poll_interval)

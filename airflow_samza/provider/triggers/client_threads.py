"""Threads of a triggerer in which clients of servers wait, so that servers that are away hold up nobody else.

The event loop's own threads are few, and every trigger's looks at a root go through them. Triggers and the connections
to Kafka wait in them.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar

from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_samza.errors import SamzaError
from airflow_samza.provider.triggers import class_path
from airflow_samza.provider.triggers.settling import settled
from airflow_samza.runs.records.liveness import identity

Result = TypeVar("Result")

CLIENT_THREADS = ThreadPoolExecutor(16, thread_name_prefix="samza-clients")


async def in_client_thread(work: Callable[[], Result]) -> Result:
    """Return the result of work that may wait for servers; Airflow's comforts are there, as in the caller's context."""
    from asgiref.sync import sync_to_async  # comes with Airflow

    # In a thread of this kind Airflow 3.1 can be asked: its answers belong to the triggerer's event loop.
    return await sync_to_async(work, thread_sensitive=False, executor=CLIENT_THREADS)()


@dataclass(kw_only=True, eq=False, repr=False)
class ClientTrigger(BaseTrigger):
    """Waits until a server says what a sensor waits for, or an error lasts: the task looks again then.

    :param poll_interval: Seconds between two checks.
    :param deferred_by: Identity of the process that defers. Default: this process.
    """

    poll_interval: float
    deferred_by: Mapping[str, Any] = field(default_factory=identity)

    def __post_init__(self) -> None:
        """Begin as Airflow's triggers do."""
        super().__init__()  # type: ignore[no-untyped-call]  # Airflow has not annotated it

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return class path and arguments, for another process."""
        return class_path(type(self)), {each.name: getattr(self, each.name) for each in fields(self)}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Yield one event, without content, when it is time for the task to look."""
        await settled(self._is_time(), self.deferred_by)
        yield TriggerEvent(None)

    @abstractmethod
    async def look(self) -> tuple[str, bool]:
        """Return what there is, for the log, and whether the sensor waits for no more than that."""

    async def _is_time(self) -> None:
        said, is_time = "", False
        while not is_time:
            try:
                says, is_time = await self.look()
            except SamzaError as error:
                says, is_time = str(error), not error.retryable
            if says != said:
                said = says
                self.log.info("%s", said)
            if not is_time:
                await asyncio.sleep(self.poll_interval)

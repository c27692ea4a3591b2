"""A trigger that fails, in a module that a triggerer can load."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from airflow.triggers.base import TriggerEvent

from airflow_samza.provider.triggers import SETTLE_SECONDS, SamzaStageTrigger


class FailingTrigger(SamzaStageTrigger):
    """Waits until Airflow knows that the task has deferred, and fails.

    One that cannot be loaded would do more harm on SQLite: the next trigger gets its id, and Airflow 3.1 does not start
    it.
    """

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Raise an error before any event."""
        await asyncio.sleep(SETTLE_SECONDS)
        if self.stages:
            raise RuntimeError("This trigger fails.")
        yield TriggerEvent({})

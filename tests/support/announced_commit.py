"""A watcher that announces one commit of a table, as the trigger of Airflow's provider of Iceberg does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from airflow.triggers.base import BaseEventTrigger, TriggerEvent


class AnnouncedCommit(BaseEventTrigger):
    """Yields the payload of ``IcebergTableSnapshotTrigger`` for a snapshot, once."""

    def __init__(self, *, table: str, snapshot_id: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # Airflow has not annotated it
        self.table = table
        self.snapshot_id = snapshot_id

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return class path and arguments."""
        return f"{type(self).__module__}.{type(self).__name__}", {
            "table": self.table,
            "snapshot_id": self.snapshot_id,
        }

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Yield one event, and watch on."""
        payload = {"table": self.table, "branch": "main", "snapshot_id": self.snapshot_id, "previous_snapshot_id": None}
        yield TriggerEvent(payload)
        while True:
            await asyncio.sleep(3600)

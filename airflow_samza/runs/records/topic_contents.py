"""What of its messages goes through each of a run's own topics.

Decided once, by the run's plan, and followed by writer and readers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from airflow_samza.records import decoder


@dataclass(frozen=True)
class TopicContent:
    """What goes through one topic instead of whole messages.

    ``columns`` are those that a later operator reads, and the key; None: all. ``combined_for`` is the id of the
    aggregation whose partial results go through instead of messages; ``schema`` (DDL) is then the schema of the
    messages.
    """

    columns: tuple[str, ...] | None = None
    combined_for: str | None = None
    schema: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        columns = list(self.columns) if self.columns is not None else None
        return {"columns": columns, "combined_for": self.combined_for, "schema": self.schema}

    @classmethod
    @decoder
    def from_dict(cls, data: Mapping[str, Any]) -> TopicContent:
        """What :meth:`to_dict` described."""
        columns = tuple(data["columns"]) if data["columns"] is not None else None
        return cls(columns, data["combined_for"], data["schema"])

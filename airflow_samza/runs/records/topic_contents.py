"""The parts of messages that go through each of a run's own topics.

Decided once, by the run's plan, and followed by writer and readers.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TopicContent:
    """The content of one topic instead of whole messages.

    ``columns`` are those that a later operator reads, and the key; None: all. ``combined_for`` is the id of the
    aggregation whose partial results go through instead of messages; ``schema`` (DDL) is then the schema of the
    messages.
    """

    columns: tuple[str, ...] | None = None
    combined_for: str | None = None
    schema: str | None = None

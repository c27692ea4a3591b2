"""Stands in for the brokers of Kafka where a test says which topics they have, and what a group has committed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from airflow_samza.systems.kafka import group_offsets
from airflow_samza.systems.kafka.brokers import Topic
from airflow_samza.systems.kafka.failures import missing


@dataclass
class KnownTopics:
    """Brokers that answer from what a test says: ends and beginnings by topic, offsets by group and topic.

    ``failing`` are errors with which they answer the next questions.
    """

    ends: dict[str, list[int]] = field(default_factory=dict)
    oldest_offsets: dict[str, list[int]] = field(default_factory=dict)
    committed: dict[tuple[str, str], dict[int, int]] = field(default_factory=dict)
    failing: list[Exception] = field(default_factory=list)

    def topic(self, name: str) -> Topic:
        if self.failing:
            raise self.failing.pop(0)
        if name not in self.ends:
            raise missing(name, "kafka_default")
        return Topic(name, f"{name}-1", len(self.ends[name]))

    def latest_stable(self, topic: Topic) -> list[int]:
        return list(self.ends[topic.name])

    def oldest(self, topic: Topic) -> list[int]:
        return self.oldest_offsets.get(topic.name, [0] * topic.partitions)

    def answer_for_groups(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Have questions about offsets of groups answered from here."""

        def committed_offsets(brokers: Any, group: str, topic: str, partitions: Any) -> dict[int, int]:
            return self.committed.get((group, topic), {})

        monkeypatch.setattr(group_offsets, "committed_offsets", committed_offsets)

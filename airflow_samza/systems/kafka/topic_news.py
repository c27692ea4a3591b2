"""News of a topic: the committed messages behind those that were announced, as plain values that can be kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from airflow_samza.systems.kafka.brokers import Brokers


@dataclass(frozen=True)
class TopicNews:
    """Offsets [from, to) per partition of the topic with this identity, which nobody was told of yet.

    ``messages`` counts offsets: markers of transactions, and what compaction has deleted, among them.
    """

    topic: str
    identity: str
    offsets: tuple[tuple[int, int], ...]

    @property
    def messages(self) -> int:
        """The number of offsets."""
        return sum(end - start for start, end in self.offsets)

    @property
    def position(self) -> dict[str, Any]:
        """The position behind the news, from which the next ones are asked for; JSON."""
        return {"topic_id": self.identity, "ends": [end for _, end in self.offsets]}

    def to_dict(self) -> dict[str, Any]:
        """Return the news for an event; JSON."""
        offsets = [list(bounds) for bounds in self.offsets]
        return {"topic": self.topic, "topic_id": self.identity, "messages": self.messages, "offsets": offsets}


def topic_news(brokers: Brokers, name: str, position: Mapping[str, Any] | None) -> TopicNews:
    """Return the news of a topic behind a position of it; of all that it has, where there is no such position.

    Messages of open transactions are no news yet. A topic that was created again is another one.
    """
    topic = brokers.topic(name)
    ends, oldest = brokers.latest_stable(topic), brokers.oldest(topic)
    known = list(position["ends"]) if position is not None and position["topic_id"] == topic.identity else []
    known += [0] * (topic.partitions - len(known))  # partitions that were added
    starts = [max(start, first) for start, first in zip(known, oldest, strict=True)]
    return TopicNews(
        name, topic.identity, tuple((min(start, end), end) for start, end in zip(starts, ends, strict=True))
    )

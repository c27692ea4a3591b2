"""The own topics of runs in a system of kind ``kafka``: the log's bookkeeping, over messages at the brokers.

The Kafka system passes such streams on to it.
"""

from __future__ import annotations

from airflow_samza.system_kinds import EMBEDDED
from airflow_samza.systems.capabilities import ExpiringTopic
from airflow_samza.systems.filesystems.filesystem import Filesystem
from airflow_samza.systems.kafka.brokers import Brokers
from airflow_samza.systems.kafka.own_topics.store import MessageSegments
from airflow_samza.systems.log.system import LogSystem
from airflow_samza.systems.log.topic import find_topic
from airflow_samza.systems.system import StreamSpec, SystemBinding


class OwnTopics(LogSystem):
    """Topics between stages: their commits lie under the root, their messages at the brokers."""

    kind = "kafka"
    store: MessageSegments

    def __init__(self, brokers: Brokers, root: str | None, filesystem: Filesystem | None = None) -> None:
        super().__init__(brokers.system, SystemBinding(EMBEDDED), root, filesystem)
        self.store = MessageSegments(brokers, self.filesystem)

    def expiring(self, name: str) -> ExpiringTopic | None:  # type: ignore[override]  # its leftovers are no topic of the log
        """Return the topic of this name, if its messages lie here, or what is left of it here; else None."""
        topic = super().expiring(name)
        if topic is not None:
            return topic if self.store.holds(topic.topic) else None
        return self.store.left(name)

    def topics(self) -> list[str]:
        """Return the names of the topics whose messages lie here."""
        topics = (find_topic(self.filesystem, self.name, name) for name in super().topics())
        return [topic.name for topic in topics if topic is not None and self.store.holds(topic)]


def is_own(stream: StreamSpec) -> bool:
    """Return whether a stream is a run's own topic: no topic of the brokers has such a name."""
    return "/" in stream.name

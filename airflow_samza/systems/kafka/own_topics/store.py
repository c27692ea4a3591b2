"""The own topics of runs in a system of kind ``kafka``: the log's bookkeeping, over one topic at the brokers for each.

A note under the root stands before a topic is made at the brokers, and goes after it was deleted there: a run that died
leaves none that nobody knows of (decision 92). The Kafka system passes such streams on to it.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import pyarrow as pa

from airflow_samza.control.messages import ControlMessage
from airflow_samza.errors import TopicError
from airflow_samza.system_kinds import EMBEDDED
from airflow_samza.systems.capabilities import ExpiringTopic
from airflow_samza.systems.filesystems.filesystem import Filesystem, root_identity
from airflow_samza.systems.kafka.access_check import check_brokers, check_own_topic
from airflow_samza.systems.kafka.brokers import Brokers, Topic as BrokersTopic
from airflow_samza.systems.kafka.connection_failures import TOPIC, missing_right
from airflow_samza.systems.kafka.own_topics.frames import OVERHEAD
from airflow_samza.systems.kafka.own_topics.reading import MessageSegmentReaders
from airflow_samza.systems.kafka.own_topics.writing import MessageSegmentWriter, send_control
from airflow_samza.systems.log.records import Segment
from airflow_samza.systems.log.segment_store import CLEAR_ITS_WRITER, SegmentStore
from airflow_samza.systems.log.system import LogSystem
from airflow_samza.systems.log.topic import Topic, find_topic, topic_directory
from airflow_samza.systems.system import StreamSpec, SystemBinding

BEGINNING = "samza."
"""Beginning of all names by which brokers know the own topics of runs, for the rights of a user."""

_LONGEST = 249
_DIGEST = 16


def broker_topic(root: str, name: str) -> str:
    """Return the name of a topic of a run at the brokers: what it is of, and a digest that no other topic has.

    ``root`` is the identity of the root: several roots may have runs of one name, and the same brokers.

    >>> broker_topic("4f", "views-1-by-member/run 1/1.1")
    'samza.views-1-by-member.run_1.1.1.c9a53b0f3d82d6d8'
    """
    digest = hashlib.sha256(f"{root}\0{name}".encode()).hexdigest()[:_DIGEST]
    shown = re.sub(r"[^A-Za-z0-9._-]", "_", BEGINNING + ".".join(name.split("/")))
    return f"{shown[: _LONGEST - _DIGEST - 1]}.{digest}"


_NOTES = "kafka"
_KEPT = {"retention.ms": "-1", "retention.bytes": "-1", "cleanup.policy": "delete"}
"""Settings of a run's own topic: it keeps its messages until it is deleted."""


@dataclass(frozen=True)
class LeftTopic:
    """A topic at the brokers whose record was deleted while they were away: it may go at once."""

    remove: Callable[[], None]
    expires_at: int | None = 0

    def expire(self, at: int | None) -> None:
        """Do nothing: its messages can no longer be read."""

    def delete(self, is_held: Callable[[], bool] = lambda: False) -> bool:
        """Delete it."""
        if is_held():
            return False
        self.remove()
        return True


class MessageSegments(SegmentStore):
    """Store of the own topics of runs in one system, whose records lie under a root."""

    def __init__(self, brokers: Brokers, files: Filesystem) -> None:
        self.brokers = brokers
        self._files = files

    def holds(self, topic: Topic) -> bool:
        """Return whether the messages of a topic lie in this system."""
        return topic.messages is not None and topic.messages.get("system") == self.brokers.system

    def check(self) -> None:
        """Reject brokers that cannot be asked."""
        check_brokers(self.brokers.access)

    def make(self, name: str, partitions: int) -> Mapping[str, Any]:
        """Make the topic at the brokers; one of its name that is there must have its partition count."""
        at_brokers = broker_topic(root_identity(self._files), name)
        self._files.put(self._note(at_brokers), json.dumps({"version": 1, "topic": name}).encode())
        topic = self._create(at_brokers, partitions)
        self.brokers.check_count(topic, partitions)
        return {
            "system": self.brokers.system,
            "topic": at_brokers,
            "id": topic.identity,
            "largest": max(self.brokers.largest_message(at_brokers), 2 * OVERHEAD),
        }

    def _create(self, at_brokers: str, partitions: int) -> BrokersTopic:
        """Make the topic at the brokers, if it may be written, read and deleted, too, by this user; return it."""
        access = self.brokers.access
        try:
            topic = self.brokers.create(at_brokers, partitions, _KEPT)
        except TopicError as error:
            if "denied" not in error.facts:
                raise
            raise missing_right(access, TOPIC, at_brokers, str(error.facts["denied"]), BEGINNING) from error
        check_own_topic(access, at_brokers, BEGINNING)
        return topic

    def is_there(self, topic: Topic) -> bool:
        """Return whether the brokers still have the topic that was made."""
        at_brokers, identity, _ = _place(topic)
        standing = self.brokers.find(at_brokers)
        return standing is not None and standing.identity == identity and standing.partitions == topic.partitions

    def delete(self, topic: Topic) -> None:
        """Delete the topic at the brokers."""
        if topic.messages is not None:
            self._delete(_place(topic)[0])

    def left(self, name: str) -> LeftTopic | None:
        """Return what lies at the brokers of a topic whose record is gone; None when nothing does."""
        if not self._files.list(self._folder):
            return None
        at_brokers = broker_topic(root_identity(self._files), name)
        return LeftTopic(lambda: self._delete(at_brokers)) if self._files.exists(self._note(at_brokers)) else None

    def sweep(self, filesystem: Filesystem, before: float, *, dry: bool) -> Iterator[str]:
        """Delete topics at the brokers that were made before a time and have no record any more; yield their names."""
        folder = self._folder
        for file in filesystem.list(folder):
            path = f"{folder}/{file}"
            try:
                name = str(json.loads(filesystem.read(path))["topic"])
                if filesystem.modified(path) >= before or filesystem.exists(f"{topic_directory(name)}/topic.json"):
                    continue
            except FileNotFoundError:  # another sweep took it meanwhile
                continue
            if not dry:
                self._delete(file.removesuffix(".json"))
            yield name

    def writer(self, topic: Topic, name: str, schema: pa.Schema | None, *, durable: bool) -> MessageSegmentWriter:
        """Return a writer of the messages of one try, which the brokers keep as durably as they keep any."""
        at_brokers, _, largest = _place(topic)
        return MessageSegmentWriter(topic, name, schema, self.brokers, at_brokers, largest)

    def readers(self, topic: Topic) -> MessageSegmentReaders:
        """Return a reader of a topic's messages."""
        return MessageSegmentReaders(topic, self.brokers, _place(topic)[0], self.is_there)

    def discard(self, topic: Topic, segment: str) -> None:
        """Do nothing: single messages cannot be deleted, and nobody reads these."""

    def as_committed(self, segments: Sequence[Segment]) -> list[Segment]:
        """Return all messages of an epoch as one segment, partition by partition in the order of their offsets.

        So a reader goes through a partition once, however the tasks that wrote it took turns.
        """
        if not segments:
            return []
        batches = sorted(
            entry
            for segment in segments
            for entry in zip(segment.partitions, segment.ends, segment.rows, segment.checksums, strict=False)
        )
        partitions, offsets, rows, checksums = zip(*batches, strict=True)
        return [
            Segment(
                segments[0].name,
                sum(segment.bytes for segment in segments),
                partitions,
                rows,
                (*offsets, 0),
                (*checksums, 0),
            )
        ]

    def before_commit(self, topic: Topic, segments: Sequence[Segment], control: Sequence[ControlMessage]) -> None:
        """Reject messages that the brokers do not have, and send the control messages behind them."""
        at_brokers, _, largest = _place(topic)
        sent = [place for segment in segments for place in zip(segment.partitions, segment.ends, strict=False)]
        if not self.is_there(topic):
            raise self._not_committed(topic, "was deleted, or created again")
        heads = self.brokers.latest_stable(self.brokers.topic(at_brokers))
        if any(offset >= heads[partition] for partition, offset in sent):
            raise self._not_committed(topic, "no longer has what tasks have sent")
        send_control(self.brokers, at_brokers, largest, topic.partitions, control)

    def _not_committed(self, topic: Topic, what: str) -> TopicError:
        return TopicError(
            f"The topic {_place(topic)[0]!r} of the system {self.brokers.system!r}, in which the messages of "
            f"{topic.name!r} lie, {what}.",
            hint=CLEAR_ITS_WRITER,
            stream=topic.name,
            system=self.brokers.system,
        )

    def _delete(self, at_brokers: str) -> None:
        self.brokers.delete(at_brokers)
        self._files.delete(self._note(at_brokers))

    @property
    def _folder(self) -> str:
        return f"{_NOTES}/{quote(self.brokers.system, safe='-_~')}"

    def _note(self, at_brokers: str) -> str:
        return f"{self._folder}/{at_brokers}.json"


def _place(topic: Topic) -> tuple[str, str, int]:
    """Return the name of a topic at the brokers, its identity there, and the bytes that a message may have."""
    messages = topic.messages or {}
    try:
        return str(messages["topic"]), str(messages["id"]), int(messages["largest"])
    except (KeyError, TypeError, ValueError) as error:
        raise topic.damaged(
            f"{topic.directory}/topic.json", f"does not say where its messages lie ({error!r})"
        ) from None


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

"""Clients of Kafka of this process: kept warm between tasks, never used behind a fork.

A client of librdkafka has threads, which a fork does not copy: what the parent made neither works in the child nor can
be closed there. So idle ones are closed before a fork, and parent and child make new ones.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from airflow_samza.systems.kafka.access import KafkaAccess
from airflow_samza.systems.kafka.client_log import CLIENT_LOG
from airflow_samza.systems.kafka.forks import closed_before_forks, guarded, released

_GROUP = "airflow-samza"
"""The name of a group, which a consumer has to have: it neither joins one nor commits to it."""

_READING = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    # An offset that is gone is reported, never replaced by another.
    "auto.offset.reset": "error",
    "enable.partition.eof": True,
    "isolation.level": "read_committed",
    # A second by default: a reader that keeps up with the brokers would wait most of the time.
    "fetch.queue.backoff.ms": 5,
    # How long the end of a partition waits for more before it is reported.
    "fetch.wait.max.ms": 100,
    "fetch.message.max.bytes": 4 * 2**20,
    # What one consumer holds in memory, ahead of who reads.
    "queued.min.messages": 200_000,
    "queued.max.messages.kbytes": 32 * 2**10,
    # After a broker was away, it is tried again every second at least.
    "reconnect.backoff.max.ms": 1000,
}

_NO_WAITING = {"fetch.wait.max.ms": 5}
"""For whoever reads only what is there: a client turns to another partition when its last request was answered."""

PASSING = frozenset(
    {
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._TRANSPORT,
        KafkaError._RESOLVE,
        KafkaError._TIMED_OUT,
        # Nobody needs the right to a group whose name is a formality.
        KafkaError.GROUP_AUTHORIZATION_FAILED,
    }
)
"""Codes of a consumer's reports behind which messages may still come."""


_MEETING_SECONDS = 5.0


class WarmConsumer:
    """Consumer of one partition at a time; ``trouble`` is the newest error of its connections, until messages come."""

    def __init__(self, access: KafkaAccess, *, waits: bool = True) -> None:
        self.trouble: KafkaError | None = None
        self._met: set[str] = set()
        settings: dict[str, Any] = {"group.id": _GROUP, **access.settings, **_READING}
        settings |= {**({} if waits else _NO_WAITING), "error_cb": self._take_trouble}
        self.client = guarded(Consumer(settings, logger=CLIENT_LOG))

    def read_from(self, topic: str, partition: int, position: int) -> None:
        """Read this partition and no other, from a position on."""
        if topic not in self._met:
            # A client asks for a topic that it has not met in its next round of questions, up to a second later.
            with suppress(KafkaException):  # the reading says what is wrong
                self.client.list_topics(topic, _MEETING_SECONDS)
                self._met.add(topic)
        self.client.assign([TopicPartition(topic, partition, position)])

    def close(self) -> None:
        """Close its connections."""
        self.client.close()
        released(self.client)

    def _take_trouble(self, error: KafkaError) -> None:
        self.trouble = error


@dataclass
class _Warm:
    """The clients that a process keeps, by their access."""

    process: int = field(default_factory=os.getpid)
    admins: dict[KafkaAccess, AdminClient] = field(default_factory=dict)
    idle: dict[tuple[KafkaAccess, bool], list[WarmConsumer]] = field(default_factory=dict)


_LOCK = threading.Lock()
_warm = _Warm()


def _own() -> _Warm:
    """Return the clients of this process; the caller has the lock."""
    global _warm
    if _warm.process != os.getpid():
        _warm = _Warm()
    return _warm


def _after_fork() -> None:
    """Take a lock that no other thread can hold: threads are not copied."""
    global _LOCK
    _LOCK = threading.Lock()


os.register_at_fork(after_in_child=_after_fork)


@closed_before_forks
def _close_idle() -> None:
    with _LOCK:
        closing = _own()
        idle = [consumer for consumers in closing.idle.values() for consumer in consumers]
        closing.idle.clear()
        for client in closing.admins.values():
            released(client)
        closing.admins.clear()
    for consumer in idle:
        consumer.close()


def admin(access: KafkaAccess) -> AdminClient:
    """Return the process's admin client."""
    with _LOCK:
        admins = _own().admins
        if access not in admins:
            admins[access] = guarded(
                AdminClient({**access.settings, "reconnect.backoff.max.ms": 1000}, logger=CLIENT_LOG)
            )
        return admins[access]


@contextmanager
def consumer(access: KafkaAccess, *, waits: bool = True) -> Iterator[WarmConsumer]:
    """Lend a consumer, which goes back to the process's idle ones; one that failed is closed instead.

    ``waits`` False: it reads only what is there.
    """
    key = access, waits
    with _LOCK:
        idle = _own().idle.get(key)
        found = idle.pop() if idle else None
    found = found or WarmConsumer(access, waits=waits)
    process = os.getpid()
    try:
        yield found
    except GeneratorExit:  # whoever read had enough
        _give_back(key, found, process)
        raise
    except BaseException:
        if process == os.getpid():
            found.close()
        raise
    _give_back(key, found, process)


def _give_back(key: tuple[KafkaAccess, bool], found: WarmConsumer, process: int) -> None:
    if process != os.getpid():
        return
    found.client.unassign()
    found.trouble = None
    with _LOCK:
        _own().idle.setdefault(key, []).append(found)

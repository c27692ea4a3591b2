"""Consumers and admin clients of this process, kept warm between tasks, and the log that they write.

Readers of inputs and of runs' own topics take them.
"""

from __future__ import annotations

import logging
import re
import time
from contextlib import AbstractContextManager, suppress
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from airflow_samza.systems.kafka.access import KafkaAccess
from airflow_samza.systems.kafka.pools import Pool, Shared, guarded, released

SECONDS = 60.0
"""Time between two lines that differ in numbers only."""

_MOST_LINES = 1000


class Sparing(logging.Filter):
    """Filter that passes a line, and those that differ from it in numbers only once a minute.

    A client that finds no broker writes several lines a second for as long as that lasts.
    """

    def __init__(self) -> None:
        super().__init__()
        self._passed: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether no such line has come for a minute."""
        line, now = re.sub(r"\d+", "", record.getMessage()), time.monotonic()
        if now - self._passed.get(line, now - SECONDS) < SECONDS:
            return False
        if len(self._passed) >= _MOST_LINES:
            self._passed.clear()
        self._passed[line] = now
        return True


CLIENT_LOG = logging.getLogger("airflow_samza.kafka.client")
"""The logger for clients of librdkafka."""

CLIENT_LOG.addFilter(Sparing())


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
    # Nobody waits for more than there is, and a client turns to another partition when its last request was answered.
    "fetch.wait.max.ms": 5,
    # The first messages of an answer come when all of it is unpacked.
    "fetch.message.max.bytes": 2**20,
    # What one consumer holds in memory, ahead of who reads; few enough to be in a cache still.
    "queued.min.messages": 20_000,
    "queued.max.messages.kbytes": 32 * 2**10,
    # After a broker was away, it is tried again every second at least.
    "reconnect.backoff.max.ms": 1000,
}

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

_PASSING_AFTER_LOGIN = PASSING | {KafkaError._AUTHENTICATION}


_MEETING_SECONDS = 5.0

_REPEATED_SECONDS = 30.0
"""Time for which librdkafka keeps an error to itself that is equal to the last one of its connection."""


class WarmConsumer:
    """Consumer of one partition at a time; ``trouble`` is the error that says the most of why no messages come.

    Messages do not end it at once: they may have been in memory when the connection failed, and the error is not
    reported again.

    ``passing`` are the codes of reports behind which messages may still come. A rejected login is one of them once
    messages have come: brokers end the session of an old token, and the client logs in again with the next one.
    """

    def __init__(self, access: KafkaAccess) -> None:
        self.trouble: KafkaError | None = None
        self.passing = PASSING
        self._noted_at = 0.0
        self._met: set[str] = set()
        settings: dict[str, Any] = {"group.id": _GROUP, **access.settings, **_READING}
        settings["error_cb"] = self.note
        self.client = guarded(Consumer(settings, logger=CLIENT_LOG))

    def read_from(self, topic: str, partition: int, position: int) -> None:
        """Read this partition and no other, from a position on."""
        if topic not in self._met:
            # A client asks for a topic that it has not met in its next round of questions, up to a second later.
            with suppress(KafkaException):  # the reading says what is wrong
                self.client.list_topics(topic, _MEETING_SECONDS)
                self._met.add(topic)
        self.client.assign([TopicPartition(topic, partition, position)])

    def rest(self) -> bool:
        """Read no further. Whoever is lent it next may meet the same trouble, which is not reported again so soon."""
        self.client.unassign()
        self._forget_what_is_old()
        return True

    def close(self) -> None:
        """Close its connections."""
        self.client.close()
        released(self.client)

    def came(self) -> None:
        """Note that messages came: the login was accepted, and what was reported too long ago is over."""
        self.passing = _PASSING_AFTER_LOGIN
        self._forget_what_is_old()

    def _forget_what_is_old(self) -> None:
        if self.trouble is not None and self._is_old:
            self.trouble = None

    def note(self, error: KafkaError) -> None:
        """Note an error, unless the one before says more of why no messages come."""
        if self.trouble is None or self._is_old or _says(error) >= _says(self.trouble):
            self.trouble, self._noted_at = error, time.monotonic()

    @property
    def _is_old(self) -> bool:
        """Return True if the client would have reported the noted error again by now."""
        return time.monotonic() - self._noted_at > _REPEATED_SECONDS


def _says(error: KafkaError) -> int:
    """Return how much an error says of why no messages come."""
    if error.code() == KafkaError._AUTHENTICATION:
        return 2
    return int(error.code() != KafkaError._ALL_BROKERS_DOWN)


def close_producer(client: Producer) -> None:
    """Close the connections of a producer; what it has not sent is thrown away."""
    with suppress(KafkaException, SystemError):  # what has failed before fails once more
        client.purge()
        client.flush(0)
    released(client)


_admins: Shared[KafkaAccess, AdminClient] = Shared()
_consumers: Pool[KafkaAccess, WarmConsumer] = Pool()


def admin(access: KafkaAccess) -> AdminClient:
    """Return the process's admin client."""
    settings: dict[str, Any] = {**access.settings, "reconnect.backoff.max.ms": 1000}
    return _admins.get(access, lambda: guarded(AdminClient(settings, logger=CLIENT_LOG)))


def renew_admin(access: KafkaAccess) -> None:
    """Have the next question asked by a new admin client, which knows nothing of former leaders."""
    _admins.drop(access)


def consumer(access: KafkaAccess) -> AbstractContextManager[WarmConsumer]:
    """Lend a consumer, which goes back to the process's idle ones; one that failed is closed instead."""
    return _consumers.lent(access, lambda: WarmConsumer(access))

"""Producers of this process for runs' own topics: kept warm between task attempts, never used behind a fork."""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer

from airflow_samza.systems.kafka.access import KafkaAccess
from airflow_samza.systems.kafka.brokers import Brokers
from airflow_samza.systems.kafka.client_log import CLIENT_LOG
from airflow_samza.systems.kafka.forks import closed_before_forks, guarded, released

_WRITING = {
    "enable.idempotence": True,
    "acks": "all",
    "compression.type": "none",  # Arrow has compressed what is in the messages
    "linger.ms": 5,
    "queue.buffering.max.kbytes": 32 * 2**10,
    "reconnect.backoff.max.ms": 1000,
}


_Key = tuple[KafkaAccess, int, float]


class WarmProducer:
    """Producer for topics that take messages of ``largest`` bytes; behind the error ``fatal`` it sends no more."""

    def __init__(self, key: _Key) -> None:
        access, largest, patience = key
        self.key = key
        self.process = os.getpid()
        self.fatal: KafkaError | None = None
        settings: dict[str, Any] = {
            **access.settings,
            **_WRITING,
            "message.max.bytes": largest,
            "batch.size": min(1_000_000, largest),
            "message.timeout.ms": int(patience * 1000),
            "error_cb": self._take_error,
        }
        self.client = guarded(Producer(settings, logger=CLIENT_LOG))

    def close(self) -> None:
        """Throw away what is not sent, and close its connections; what a parent process has made is left alone."""
        if self.process != os.getpid():
            return
        with suppress(KafkaException, SystemError):  # what has failed before fails once more
            self.client.purge()
            self.client.flush(0)
        released(self.client)

    def _take_error(self, error: KafkaError) -> None:
        if error.fatal():
            self.fatal = error


_LOCK = threading.Lock()
_idle: dict[_Key, list[WarmProducer]] = {}


def _after_fork() -> None:
    """Take a lock that no other thread can hold, and no producers: threads are not copied."""
    global _LOCK
    _LOCK = threading.Lock()
    _idle.clear()


os.register_at_fork(after_in_child=_after_fork)


@closed_before_forks
def _close_idle() -> None:
    with _LOCK:
        found = [producer for producers in _idle.values() for producer in producers]
        _idle.clear()
    for producer in found:
        producer.close()


def take_producer(brokers: Brokers, largest: int) -> WarmProducer:
    """Return a producer that nobody else uses until it is given back, or closed."""
    key = (brokers.access, largest, brokers.patience)
    with _LOCK:
        idle = _idle.get(key)
        found = idle.pop() if idle else None
    return found or WarmProducer(key)


def give_back_producer(producer: WarmProducer) -> None:
    """Keep a producer that has sent all it was given for the next one who needs it."""
    if producer.process != os.getpid() or producer.fatal is not None:
        producer.close()
        return
    with _LOCK:
        _idle.setdefault(producer.key, []).append(producer)

"""Producers of this process for runs' own topics, kept warm between task attempts."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer

from airflow_samza.systems.kafka.access import KafkaAccess
from airflow_samza.systems.kafka.brokers import Brokers
from airflow_samza.systems.kafka.client_log import CLIENT_LOG
from airflow_samza.systems.kafka.forks import guarded, released
from airflow_samza.systems.kafka.pools import Pool

_WRITING = {
    "enable.idempotence": True,
    "acks": "all",
    "compression.type": "none",  # Arrow has compressed what is in the messages
    "linger.ms": 5,
    "queue.buffering.max.kbytes": 32 * 2**10,
    "reconnect.backoff.max.ms": 1000,
}


class WarmProducer:
    """Producer for topics that take messages of ``largest`` bytes; behind the error ``fatal`` it sends no more."""

    def __init__(self, access: KafkaAccess, largest: int, patience: float) -> None:
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

    def rest(self) -> bool:
        """Return whether it sends more; it has sent all that it was given."""
        return self.fatal is None

    def close(self) -> None:
        """Throw away what is not sent, and close its connections."""
        with suppress(KafkaException, SystemError):  # what has failed before fails once more
            self.client.purge()
            self.client.flush(0)
        released(self.client)

    def _take_error(self, error: KafkaError) -> None:
        if error.fatal():
            self.fatal = error


producers: Pool[tuple[KafkaAccess, int, float], WarmProducer] = Pool()


def take_producer(brokers: Brokers, largest: int) -> WarmProducer:
    """Return a producer that nobody else uses until it is given back to :data:`producers`, or discarded."""
    key = (brokers.access, largest, brokers.patience)
    return producers.take(key, lambda: WarmProducer(*key))

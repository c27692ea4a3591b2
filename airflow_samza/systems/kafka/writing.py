"""A client that writes messages: in transactions, or one by one in order (idempotent), with the marker behind them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import pyarrow as pa
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from airflow_samza.systems.kafka.brokers import Brokers, Waiting
from airflow_samza.systems.kafka.clients import CLIENT_LOG, close_producer
from airflow_samza.systems.kafka.failures import FENCED, cause_of, error_of, write_failed
from airflow_samza.systems.kafka.output import IN_TRANSACTIONS, ONE_BY_ONE
from airflow_samza.systems.kafka.pools import guarded

T = TypeVar("T")

TRANSACTION_SECONDS = 60.0
"""Time for which a transaction may be open, and for which the death of its publisher holds readers up at most."""

_AT_A_TIME = 500
"""Messages that are objects at a time: thousands cost twice as much each, in memory that is new every time."""

_WRITING = {
    "enable.idempotence": True,
    "acks": "all",
    # Successful deliveries are counted by nobody: a transaction, or a flush, says that all came.
    "delivery.report.only.error": True,
    "compression.type": "lz4",
    # The client goes through its messages several times: those that are on their way have to be in a cache still.
    "linger.ms": 5,
    "batch.size": 256 * 2**10,
    "queue.buffering.max.messages": 50_000,
    "queue.buffering.max.kbytes": 128 * 2**10,
    # As Kafka's own producer: by the key's murmur2.
    "partitioner": "murmur2_random",
    "reconnect.backoff.max.ms": 1000,
}


class Fenced(Exception):
    """Another publisher has taken the place of this one: its transaction is aborted, and it may write no more."""


class _Failures:
    """The first message that did not come, and why: held by the client, which would outlive a writer that it held."""

    first: tuple[KafkaError, bytes | None] | None = None

    def note(self, error: KafkaError | None, message: Message) -> None:
        if error is not None and self.first is None:
            key = message.key()
            self.first = error, key if isinstance(key, bytes) else None


class Writer:
    """Writer to one output; ``transactional_id`` None: without transactions.

    A failure of any kind leaves it unusable: a new one finds by the marker what has come.
    """

    def __init__(self, brokers: Brokers, topic: str, transactional_id: str | None, largest: int) -> None:
        self._brokers = brokers
        self._topic = topic
        self._transactional = transactional_id is not None
        self._failures = _Failures()
        settings: dict[str, Any] = {**_WRITING, **brokers.access.settings, "message.max.bytes": largest}
        settings["on_delivery"] = self._failures.note
        if transactional_id is not None:
            settings["transactional.id"] = transactional_id
            settings["transaction.timeout.ms"] = int(TRANSACTION_SECONDS * 1000)
        settings["message.timeout.ms"] = int(min(brokers.patience, TRANSACTION_SECONDS) * 1000)
        self._client = guarded(Producer(settings, logger=CLIENT_LOG))
        if self._transactional:
            try:
                self._call(self._client.init_transactions)
            except BaseException:
                self.close()
                raise

    def begin(self) -> None:
        """Begin a transaction."""
        if self._transactional:
            self._checked(self._client.begin_transaction)

    def write(self, rows: pa.RecordBatch) -> None:
        """Send messages: rows of ``output.STAGED``."""
        simple = rows.column(3).null_count == rows.column(4).null_count == rows.num_rows
        for first in range(0, rows.num_rows, _AT_A_TIME):
            self._send(rows.slice(first, _AT_A_TIME), simple)
            self._checked(lambda: self._client.poll(0))

    def _send(self, rows: pa.RecordBatch, simple: bool) -> None:
        """Send few messages; ``simple`` ones have neither times nor headers."""
        keys, values, partitions = (column.to_pylist() for column in rows.columns[:3])
        times, lists = ([], []) if simple else (column.to_pylist() for column in rows.columns[3:])
        produce, topic = self._client.produce, self._topic
        at, places = 0, iter(range(rows.num_rows))
        # The client takes messages one by one; its own batch call is slower, and has no headers.
        while at < rows.num_rows:
            try:
                if simple:
                    for at in places:
                        produce(topic, values[at], keys[at], partitions[at])
                else:
                    for at in places:
                        headers = None if lists[at] is None else [(pair["key"], pair["value"]) for pair in lists[at]]
                        produce(topic, values[at], keys[at], partitions[at], timestamp=times[at] or 0, headers=headers)
                break
            except BufferError:  # the queue is full
                self._checked(lambda: self._client.poll(0.05))
                places = iter(range(at, rows.num_rows))
            except KafkaException as error:
                raise self._failed(error_of(error), keys[at]) from error

    def commit(self, topic: str, partition: int, markers: dict[str, bytes]) -> None:
        """Wait until all that was sent has come, write the markers, and commit."""
        self._flush()
        for key, value in markers.items():
            self._checked(partial(self._client.produce, topic, value, key, partition))
        if self._transactional:
            self._call(self._client.commit_transaction)
        else:
            self._flush()

    def close(self) -> None:
        """Give the client up; what is in flight is thrown away, and an open transaction is aborted by the next one."""
        close_producer(self._client)

    def _flush(self) -> None:
        waiting = self._waiting("Receipts for messages")
        while (left := self._checked(lambda: self._client.flush(1.0))) and self._failures.first is None:
            waiting.still(f"{left:,} messages are on their way")
            if waiting.is_over:
                raise self._failed(KafkaError(KafkaError._TIMED_OUT, "no answer came"))
        if self._failures.first is not None:
            raise self._failed(*self._failures.first)
        waiting.over()

    def _call(self, function: Callable[[float], Any]) -> None:
        """Call a function of transactions, which may be repeated while it says so."""
        waiting = self._waiting("Answers about the transaction")
        while True:
            try:
                function(5.0)
                waiting.over()
                return
            except (KafkaException, SystemError) as error:
                cause = cause_of(error)
                if not cause.retriable() or waiting.is_over:
                    raise self._failed(cause) from error
                waiting.still(cause.str())

    def _waiting(self, what: str) -> Waiting:
        return self._brokers.waiting(f"{what} for {self._topic!r}")

    def _checked(self, function: Callable[[], T]) -> T:
        try:
            return function()
        except (KafkaException, SystemError) as error:
            raise self._failed(cause_of(error)) from error

    def _failed(self, error: KafkaError, key: bytes | None = None) -> Exception:
        """Return the cause: of a transaction that has to be aborted, the failure of a message says more."""
        purged = (KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT)
        first = self._failures.first
        if first is not None and not error.fatal() and first[0].code() not in purged:
            error, key = first
        if error.code() in FENCED:
            return Fenced(error.str())
        delivery = IN_TRANSACTIONS if self._transactional else ONE_BY_ONE
        return write_failed(error, topic=self._topic, access=self._brokers.access, delivery=delivery, key=key)

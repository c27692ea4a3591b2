"""Writing to a run's own topic: a try at a task sends its messages at once, and describes where they came to lie.

The producers of this process are kept warm between attempts.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from airflow_samza.control.messages import ControlMessage, encode
from airflow_samza.systems.capabilities import PUBLISHED_ONCE
from airflow_samza.systems.kafka.access import KafkaAccess
from airflow_samza.systems.kafka.brokers import Brokers
from airflow_samza.systems.kafka.clients import CLIENT_LOG, close_producer
from airflow_samza.systems.kafka.failures import cause_of, error_of, write_failed
from airflow_samza.systems.kafka.own_topics.frames import OVERHEAD, PART, WRITER, frames
from airflow_samza.systems.kafka.pools import Pool, guarded
from airflow_samza.systems.log.records import Segment
from airflow_samza.systems.log.segments import SegmentWriter
from airflow_samza.systems.log.topic import Topic

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
        close_producer(self.client)

    def _take_error(self, error: KafkaError) -> None:
        if error.fatal():
            self.fatal = error


producers: Pool[tuple[KafkaAccess, int, float], WarmProducer] = Pool()


class Sender:
    """Sender of messages to one topic of the brokers, which notes at which offsets they came to lie."""

    def __init__(self, brokers: Brokers, topic: str, largest: int) -> None:
        self._brokers = brokers
        self._topic = topic
        self._largest = largest
        self._lent: WarmProducer | None = None
        self._failure: KafkaError | None = None
        self.offsets: list[int] = []
        """Offset of each message, by its number; -1 until the brokers have it."""

    def send(self, partition: int, value: bytes, headers: Sequence[tuple[str, bytes]] = ()) -> int:
        """Send a message, and return its number."""
        lent = self._lent
        if lent is None:
            key = (self._brokers.access, self._largest, self._brokers.patience)
            lent = self._lent = producers.take(key, lambda: WarmProducer(*key))
        number = len(self.offsets)
        self.offsets.append(-1)

        def delivered(error: KafkaError | None, message: Message) -> None:
            offset = message.offset() if error is None else None
            if offset is not None:
                self.offsets[number] = int(offset)
                return
            # Without an error, too: a broker that has started again has the message, and has forgotten where.
            unknown = KafkaError(KafkaError._INCONSISTENT, "a message came twice, and nobody says where it lies")
            self._failure = self._failure or error or unknown

        deadline = time.monotonic() + self._brokers.patience
        while True:
            try:
                lent.client.produce(
                    self._topic, value, partition=partition, headers=list(headers), on_delivery=delivered
                )
                break
            except BufferError:  # the queue is full
                if time.monotonic() > deadline:
                    raise self._failed(KafkaError(KafkaError._TIMED_OUT, "no answer came")) from None
                self._call(lent, lent.client.poll, 0.05)
            except KafkaException as error:
                raise self._failed(error_of(error)) from error
        self._call(lent, lent.client.poll, 0)
        return number

    def finish(self) -> None:
        """Wait until the brokers have all; what they did not take is an error."""
        lent = self._lent
        if lent is None:
            return
        deadline = time.monotonic() + self._brokers.patience
        while self._call(lent, lent.client.flush, 1.0):
            if time.monotonic() > deadline:
                raise self._failed(KafkaError(KafkaError._TIMED_OUT, "no answer came"))
        producers.give_back(lent)
        self._lent = None

    def abort(self) -> None:
        """Give up what is not sent yet; what the brokers have stays there, and nobody reads it."""
        if self._lent is not None:
            producers.discard(self._lent)
            self._lent = None

    def _call(self, lent: WarmProducer, serve: Callable[[float], int], seconds: float) -> int:
        """Return what the client returns when it has served its reports; a fatal one is raised by the client itself."""
        try:
            left = serve(seconds)
        except (KafkaException, SystemError) as raised:
            raise self._failed(lent.fatal or cause_of(raised)) from raised
        error = self._failure or lent.fatal
        if error is not None:
            raise self._failed(error)
        return left

    def _failed(self, error: KafkaError) -> Exception:
        self.abort()
        return write_failed(error, topic=self._topic, access=self._brokers.access, delivery=PUBLISHED_ONCE)


class MessageSegmentWriter(SegmentWriter):
    """Writer of the messages of one try at a task.

    In its description ``ends`` are the offsets of the first messages of batches; the last entries of ``ends`` and
    ``checksums``, which files have for their footers, are 0.
    """

    takes_dictionaries = False  # each message would hold the dictionary once more

    def __init__(
        self, topic: Topic, name: str, schema: pa.Schema | None, brokers: Brokers, at_brokers: str, largest: int
    ) -> None:
        super().__init__(topic, name, schema)
        self._bound_of_message = largest - OVERHEAD
        self._sender = Sender(brokers, at_brokers, largest)
        self._numbers: list[int] = []
        self._checksums: list[int] = []
        self._bytes = 0

    def _write_batch(self, partition: int, batch: pa.RecordBatch) -> None:
        for rows, parts in frames(batch, self._bound_of_message):
            checksum = 0
            for place, value in enumerate(parts, 1):
                headers = [(WRITER, self._name.encode())]
                if len(parts) > 1:
                    headers.append((PART, f"{place}/{len(parts)}".encode()))
                number = self._sender.send(partition, value, headers)
                if place == 1:
                    self._numbers.append(number)
                checksum = zlib.crc32(value, checksum)
                self._bytes += len(value)
            self._partitions.append(partition)
            self._rows.append(rows)
            self._checksums.append(checksum)

    def _closed(self) -> Segment | None:
        self._sender.finish()
        if not self._rows:
            return None
        offsets = [self._sender.offsets[number] for number in self._numbers]
        return Segment(
            self._name,
            self._bytes,
            tuple(self._partitions),
            tuple(self._rows),
            (*offsets, 0),
            (*self._checksums, 0),
        )

    def _discard(self) -> None:
        self._sender.abort()


def send_control(
    brokers: Brokers, at_brokers: str, largest: int, partitions: int, control: Sequence[ControlMessage]
) -> None:
    """Send control messages in their wire form to every partition, and wait until the brokers have them."""
    sender = Sender(brokers, at_brokers, largest)
    try:
        for message in control:
            value = encode(message)
            for partition in range(partitions):
                sender.send(partition, value)
        sender.finish()
    except BaseException:
        sender.abort()
        raise

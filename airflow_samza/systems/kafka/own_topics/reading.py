"""Reading of a run's own topic: the messages that commits name, partition by partition, in the order of their offsets.

What dead attempts have left between these messages is not read.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Sequence
from contextlib import ExitStack

import pyarrow as pa
from confluent_kafka import KafkaError, Message

from airflow_samza.errors import TopicError
from airflow_samza.systems.kafka.brokers import Brokers
from airflow_samza.systems.kafka.clients import PASSING, consumer
from airflow_samza.systems.kafka.failures import UNKNOWN_TOPIC, failed, silent
from airflow_samza.systems.kafka.own_topics.frames import PART, WRITER, unframed
from airflow_samza.systems.log.records import Segment
from airflow_samza.systems.log.segments import SegmentReader
from airflow_samza.systems.log.topic import Topic

_NEAR = 64
"""Messages that are read and passed by, in place of a new request to the brokers for what lies behind them."""

_NOTHING = UNKNOWN_TOPIC | {KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE, KafkaError._PARTITION_EOF}
"""Codes of a position at which there is nothing: for good, or for a replica that lags behind."""


class MessageSegmentReaders(SegmentReader):
    """Reader of the messages of a topic, with a client per partition that is being read.

    ``is_there`` asks whether the brokers still have the topic that was made.
    """

    def __init__(self, topic: Topic, brokers: Brokers, at_brokers: str, is_there: Callable[[Topic], bool]) -> None:
        self._topic = topic
        self._brokers = brokers
        self._at_brokers = at_brokers
        self._is_there = is_there
        self._open: dict[int, _Partition] = {}

    def read(self, segment: Segment, batch: int, columns: Sequence[str] | None = None) -> pa.RecordBatch:
        """Return one record batch, checked."""
        partition, offset = segment.partitions[batch], segment.ends[batch]
        if partition not in self._open:
            if not self._open:
                self._check_topic()
            self._open[partition] = _Partition(self._brokers, self._at_brokers, partition)
        try:
            value = self._open[partition].value(offset)
        except _Lost as lost:
            self.close()
            self._check_topic()
            raise self._lost(partition, offset, lost) from None
        except BaseException:
            self.close()
            raise
        if zlib.crc32(value) != segment.checksums[batch]:
            raise self._damaged(partition, offset, "is not what was written: its checksum is wrong")
        try:
            rows = unframed(value, columns, self._topic.name)
        except (pa.ArrowInvalid, OSError, StopIteration) as error:
            raise self._damaged(partition, offset, f"cannot be read ({error})") from None
        if rows.num_rows != segment.rows[batch]:
            raise self._damaged(partition, offset, f"has {rows.num_rows} rows, not {segment.rows[batch]}")
        return rows

    def leave(self, partition: int) -> None:
        """Give the client of a partition back."""
        client = self._open.pop(partition, None)
        if client is not None:
            client.close()

    def close(self) -> None:
        """Give all clients back."""
        for partition in list(self._open):
            self.leave(partition)

    def _check_topic(self) -> None:
        if not self._is_there(self._topic):
            raise TopicError(
                f"The topic {self._at_brokers!r} of the system {self._topic.system!r}, in which the messages of "
                f"{self._topic.name!r} lie, was deleted, or created again.",
                hint="Clear the stage that writes it: its next generation writes a topic of its own.",
                stream=self._topic.name,
                system=self._topic.system,
            )

    def _lost(self, partition: int, offset: int, lost: _Lost) -> TopicError:
        return TopicError(
            f"The topic {self._at_brokers!r} of the system {self._topic.system!r} has lost messages of "
            f"{self._topic.name!r}: partition {partition} no longer has the one at offset {offset} ({lost}).",
            hint="Clear the stage that writes it, and look who deletes messages there: runs' own topics keep them "
            "(retention.ms=-1) until the run is over.",
            stream=self._topic.name,
            system=self._topic.system,
            partition=partition,
            offset=offset,
        )

    def _damaged(self, partition: int, offset: int, what: str) -> TopicError:
        return TopicError(
            f"The topic {self._topic.name!r} is damaged: the message at offset {offset} of partition {partition} of "
            f"{self._at_brokers!r} in the system {self._topic.system!r} {what}.",
            hint="Clear the stage that writes it, and look who else writes there.",
            stream=self._topic.name,
            path=f"{self._at_brokers}/{partition}",
            what=f"at offset {offset} {what}",
        )


class _Lost(Exception):
    """A message that a commit names is not there."""


class _Partition:
    """Position in one partition, with the client that reads it."""

    def __init__(self, brokers: Brokers, topic: str, partition: int) -> None:
        self._brokers = brokers
        self._topic = topic
        self._partition = partition
        self._position: int | None = None
        self._held = ExitStack()
        self._lent = self._held.enter_context(consumer(brokers.access))

    def close(self) -> None:
        """Give the client back."""
        self._held.close()

    def value(self, offset: int) -> bytes:
        """Return the value of the message at an offset, and of its further parts, where it has some."""
        if self._position is None or not 0 <= offset - self._position <= _NEAR:
            self._lent.read_from(self._topic, self._partition, offset)
            self._position = offset
        while True:
            message = self._next()
            if message.offset() == offset:
                break
            if (message.offset() or 0) > offset:
                raise _Lost(f"the next one has {message.offset()}")
        pieces = [message.value() or b""]
        whose, part, parts = _part(message)
        while part < parts:
            message = self._next()
            same_place, number, _ = _part(message)
            if same_place == whose and number == part + 1:
                pieces.append(message.value() or b"")
                part = number
        return b"".join(pieces)

    def _next(self) -> Message:
        """Return the next message; a partition that has none, or stays silent for too long, is an error."""
        since = time.monotonic()
        while True:
            message = self._lent.client.poll(0.5)
            error = message.error() if message is not None else None
            if message is not None and error is None:
                self._position = int(message.offset() or 0) + 1
                self._lent.came()
                return message
            if error is not None:
                if error.code() in _NOTHING:
                    self._reject_lost(error)
                elif error.code() not in PASSING and not error.retriable():
                    raise failed(self._brokers.access, error, self._topic, self._brokers.patience)
                self._lent.note(error)
            waited = time.monotonic() - since
            if waited > self._brokers.patience:
                raise silent(
                    system=self._brokers.system,
                    brokers=self._brokers.access.addresses,
                    stream=self._topic,
                    partition=self._partition,
                    position=self._position or 0,
                    seconds=waited,
                    why=self._lent.trouble.str() if self._lent.trouble is not None else "no answer came",
                )

    def _reject_lost(self, error: KafkaError) -> None:
        """Raise, unless the brokers say that they have what the position names; then it is asked for again."""
        topic = self._brokers.find(self._topic)
        if topic is None or self._partition >= topic.partitions:
            raise _Lost(error.str())
        oldest, head = self._brokers.oldest(topic)[self._partition], self._brokers.latest_stable(topic)[self._partition]
        if self._position is None or not oldest <= self._position < head:
            raise _Lost(f"it has those from {oldest} to {head}")
        if error.code() != KafkaError._PARTITION_EOF:
            self._lent.read_from(self._topic, self._partition, self._position)


def _part(message: Message) -> tuple[str | bytes | None, int, int]:
    """Return the writer of a message, which part of a record batch it is, and of how many."""
    headers = dict(message.headers() or ())
    said = headers.get(PART) or b"1/1"
    part, parts = (said.decode() if isinstance(said, bytes) else said).split("/")
    return headers.get(WRITER), int(part), int(parts)

"""Reading of input ranges: partition by partition, up to the range's end, whatever lies there.

Offsets may hold nothing: compaction deletes messages, transactions leave markers, and what was aborted is left out. So
the end of a range is known by the position: a message at or behind the end, or the client's report that a partition has
no more, at or behind the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from functools import partial
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import KafkaError, Message

from airflow_samza.control.messages import EndOfStreamMessage
from airflow_samza.systems.kafka.brokers import Brokers
from airflow_samza.systems.kafka.clients import consumer
from airflow_samza.systems.kafka.column_reader import ColumnReader, offset_of, taken
from airflow_samza.systems.kafka.columns import HEADERS, OFFSET, TIMESTAMP, VALUE, MessageColumns
from airflow_samza.systems.kafka.failures import UNKNOWN_TOPIC, failed, missing, other_count, silent
from airflow_samza.systems.kafka.input_range import TIMES, pass_by
from airflow_samza.systems.serdes.serde import cannot_read
from airflow_samza.systems.serdes.wire import as_text, headers_text
from airflow_samza.systems.system import (
    ColumnBound,
    ControlEnvelope,
    Envelope,
    MessageRun,
    OffsetRange,
    StreamSpec,
    SystemStreamPartition,
    UnreadableRun,
)
from airflow_samza.systems.topic_rejections import check_partition

_BATCH = 16_384
_BATCH_BYTES = 16 * 2**20
"""Bounds of one batch."""

_AT_A_TIME = 500
"""Messages that are objects at a time: thousands cost three times as much each, in memory that is new every time."""

_WAIT_SECONDS = 0.1
"""Time for which messages are waited for: as many as are asked for have to come."""

_LAST_SECONDS = 0.01
"""The same for the last ones of a range, which are fewer than its offsets where these have holes."""

_EXPIRED = frozenset({KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE})


def messages_up_to(
    brokers: Brokers,
    topic: str,
    partition: int,
    position: int,
    end: int,
    behind_gap: Callable[[int], int] | None = None,
    *,
    reason: str = "no answer came",
    too_silent: Callable[[], Exception] | None = None,
) -> Iterator[list[Message]]:
    """Yield the messages of a partition from a position up to an end; some, each time.

    ``behind_gap`` returns where reading goes on when the message of a position is gone. A partition that stays silent
    for too long, for this ``reason`` unless the client has reported another, is an error.
    """
    what = f"Messages of {topic!r}, partition {partition},"
    waiting = brokers.waiting(what)
    with consumer(brokers.access) as lent:
        lent.read_from(topic, partition, position)
        while position < end:
            left = end - position
            came = lent.client.consume(min(_AT_A_TIME, left), _WAIT_SECONDS if left > _AT_A_TIME else _LAST_SECONDS)
            reports = (
                [message for message in came if message.error() is not None] if any(map(Message.error, came)) else []
            )
            messages = [message for message in came if message.error() is None] if reports else came
            if messages:
                waiting.over()
                lent.came()
                position = offset_of(messages[-1]) + 1
                if position > end:
                    messages = [message for message in messages if offset_of(message) < end]
                if messages:
                    yield messages
                waiting = brokers.waiting(what)  # the time that its user takes is no silence
            for report in reports:
                error = cast("KafkaError", report.error())
                if error.code() == KafkaError._PARTITION_EOF:
                    position = max(position, offset_of(report))
                elif error.code() in _EXPIRED and behind_gap is not None:
                    position = behind_gap(position)
                    lent.read_from(topic, partition, position)
                elif error.code() in lent.passing:
                    lent.note(error)
                elif error.code() in UNKNOWN_TOPIC:
                    raise missing(topic, brokers.system)
                elif not error.retriable():
                    raise failed(brokers.access, error, topic, brokers.patience)
            if not messages and position < end:
                why = lent.trouble.str() if lent.trouble is not None else reason
                waiting.still(why)
                if waiting.is_over:
                    if too_silent is not None:
                        raise too_silent()
                    raise silent(
                        system=brokers.system,
                        brokers=brokers.access.addresses,
                        stream=topic,
                        partition=partition,
                        position=position,
                        seconds=waiting.seconds,
                        why=why,
                    )


class KafkaConsumer:
    """Consumer of an input range of a topic."""

    def __init__(
        self, brokers: Brokers, stream: StreamSpec, slice: Mapping[str, Any], serde_options: Mapping[str, Any]
    ) -> None:
        self._brokers = brokers
        self._serde_options = serde_options
        self._stream = stream
        self._slice = slice
        self._columns = MessageColumns.of(stream)
        times = slice.get(TIMES)
        self._times = (int(times[0]), int(times[1])) if times is not None else None

    def read(
        self,
        ssp: SystemStreamPartition,
        offsets: OffsetRange | None = None,
        columns: Sequence[str] | None = None,
        bounds: Sequence[ColumnBound] = (),
        *,
        dictionaries: bool = False,
    ) -> Iterator[Envelope]:
        """Yield the messages of a partition's range in offset order, a batch in memory at a time.

        ``offsets`` None reads the consumer's range, and ends with an end-of-stream of the source (rule C2).
        """
        check_partition(self._stream.name, int(self._slice["partitions"]), ssp.partition)
        start, end = offsets or OffsetRange(*self._slice["offsets"][ssp.partition])
        reader = ColumnReader.of(self._columns, columns, self._brokers.system, self._serde_options)
        if start < end:
            self._check_topic()
            for batch in self._batches(ssp.partition, start, end, self._facts(reader)):
                yield from self._runs(ssp, batch, reader)
            self._check_topic()  # what was read may be of a topic that was created again meanwhile
        if offsets is None:
            yield ControlEnvelope(ssp, end, EndOfStreamMessage(None, 1, None, self._stream.name))

    def close(self) -> None:
        """Do nothing: a client is held only while it reads."""

    def _check_topic(self) -> None:
        self._brokers.check_same(self._stream.name, self._slice.get("topic"))

    def _batches(self, partition: int, start: int, end: int, facts: Set[str]) -> Iterator[pa.RecordBatch]:
        """Yield what is taken of the messages of a range, in batches."""
        parts: list[pa.RecordBatch] = []
        size = 0
        behind_gap = partial(self._behind_gap, partition, end)
        for messages in messages_up_to(self._brokers, self._stream.name, partition, start, end, behind_gap):
            part = taken(messages, facts)
            del messages  # the next ones take their place in memory
            parts.append(part)
            size += part.nbytes
            if len(part) < _AT_A_TIME or len(parts) * _AT_A_TIME >= _BATCH or size >= _BATCH_BYTES:
                yield pa.concat_batches(parts)
                parts, size = [], 0
        if parts:
            yield pa.concat_batches(parts)

    def _behind_gap(self, partition: int, end: int, position: int) -> int:
        """Return the first offset that is left, when that of the position is gone and the stream goes on then."""
        topic = self._brokers.topic(self._stream.name)
        self._check_topic()
        if partition >= topic.partitions:
            raise other_count(topic.name, self._brokers.system, topic.partitions, int(self._slice["partitions"]))
        oldest = min(self._brokers.oldest(topic)[partition], end)
        if oldest <= position:  # it was deleted and is there again: nobody but the brokers knows why
            return position
        pass_by(self._stream, partition, position, oldest)
        return oldest

    # -- from messages to batches --------------------------------------------------------------------------------------

    def _facts(self, reader: ColumnReader) -> frozenset[str]:
        """Return the facts of messages that reading takes: of bad ones it tells value and headers."""
        by_time = {TIMESTAMP} if self._times is not None else set()
        return reader.needed_facts | by_time | ({VALUE, HEADERS} if self._stream.tolerant else set())

    def _runs(self, ssp: SystemStreamPartition, batch: pa.RecordBatch, reader: ColumnReader) -> Iterator[MessageRun]:
        """Yield the messages that are of the interval, if there is one, in runs of consecutive offsets."""
        if self._times is not None:
            millis = batch.column(TIMESTAMP)
            batch = batch.filter(pc.and_(pc.greater_equal(millis, self._times[0]), pc.less(millis, self._times[1])))
        if not len(batch):
            return
        decoded, offsets = reader.read(batch), batch.column(OFFSET).to_numpy()
        if decoded.bad and not self._stream.tolerant:
            bad = decoded.bad[0]
            at = int(offsets[bad.place])
            raise cannot_read(bad, stream=ssp.stream, partition=ssp.partition, offset=at) from bad
        for place, piece in decoded.pieces():
            if isinstance(piece, list):
                for bad in piece:
                    headers = headers_text([tuple(pair.values()) for pair in batch.column(HEADERS)[bad.place].as_py()])
                    text = as_text(batch.column(VALUE)[bad.place].as_py())
                    yield UnreadableRun.of(ssp, int(offsets[bad.place]), [text], [str(bad)], [headers])
            else:
                yield from _consecutive(ssp, piece, offsets[place : place + piece.num_rows])


def _consecutive(
    ssp: SystemStreamPartition, batch: pa.RecordBatch, offsets: np.ndarray[Any, Any]
) -> Iterator[MessageRun]:
    """Yield a batch in runs without holes among their offsets."""
    if not batch.num_rows:
        return
    ends = [*(np.flatnonzero(np.diff(offsets) != 1) + 1).tolist(), len(offsets)]
    first = 0
    for end in ends:
        yield MessageRun(ssp, int(offsets[first]), batch.slice(first, end - first))
        first = end

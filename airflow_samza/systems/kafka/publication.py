"""Publishing of staged messages, each once: in transactions with markers, and on from where a death has left it.

A publisher first takes its turn: ``init_transactions`` fences whoever published for this run and output before, and
ends its open transaction. The marker that is there then is final until this publisher writes a new one, each in the
transaction of the messages that it counts. So whatever died, and however often, the next one goes on behind the
marker.
"""

from __future__ import annotations

import hashlib
import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone

import pyarrow as pa

from airflow_samza.errors import StorageUnavailable
from airflow_samza.systems.capabilities import Delivery
from airflow_samza.systems.generations import parse_generation
from airflow_samza.systems.kafka.failures import TRANSACTIONAL_IDS, contended, markers_missing, superseded
from airflow_samza.systems.kafka.markers import Marker, MarkerKeys, Markers, marker_of
from airflow_samza.systems.kafka.pools import closed_before_forks
from airflow_samza.systems.kafka.writing import TRANSACTION_SECONDS, Fenced, Writer
from airflow_samza.systems.system import Publication

log = logging.getLogger("airflow_samza.kafka")

CHUNK_ROWS = 250_000
CHUNK_BYTES = 64 * 2**20
CHUNK_SECONDS = TRANSACTION_SECONDS / 6
"""Bounds of one transaction: far below the time after which brokers abort it, and large against its fixed cost."""

_TURNS = 5
"""Turns that a publisher that is fenced takes: only two runners of one attempt fence each other so often."""

Rows = Callable[[int], Iterator[pa.RecordBatch]]
"""Returns the staged messages of an epoch, in an order that never changes, behind the first ``n``."""


@dataclass(frozen=True)
class Place:
    """The output of a run: its topic, and the producer (``<application>/<run>/<stage>``)."""

    keys: MarkerKeys
    producer: str

    @property
    def transactional_id(self) -> str:
        """The id by which brokers know who published for this output of the run before."""
        digest = hashlib.sha256(self.keys.of_run(self.producer).encode()).hexdigest()[:24]
        return f"{TRANSACTIONAL_IDS}.{self.keys.application}.{digest}"


class Publisher:
    """Publisher of one output of a run; a process keeps it from epoch to epoch."""

    def __init__(self, markers: Markers, place: Place, largest: int, delivery: Delivery) -> None:
        self._markers = markers
        self.place = place
        self._largest = largest
        self._delivery = delivery
        self._partition = markers.partition(place.keys)
        self._key = place.keys.of_run(place.producer)
        self._writer: Writer | None = None
        self.marker: Marker | None = None
        self.values: Mapping[str, bytes] = {}
        self.busy = threading.Lock()
        """Held by whoever uses the publisher: one that is idle is closed before this process forks."""
        closed_before_forks(self)

    def take_turn(self) -> None:
        """Fence former publishers, and read the markers that now stand."""
        self.close()
        transactional_id = self.place.transactional_id if self._delivery.exactly_once else None
        self._writer = Writer(self._markers.brokers, self.place.keys.topic, transactional_id, self._largest)
        self.values = self._markers.read(self.place.keys)
        self.marker = marker_of(self.values, self._key)

    def begin_generation(self, generation: str, more: Mapping[str, bytes]) -> None:
        """Write the marker of a generation before it has published anything, so that lower ones publish no more."""
        assert self._writer is not None
        messages = self.marker.messages if self.marker is not None else 0
        self._writer.begin()
        self._commit(Marker(generation, messages=messages), more)

    def publish(self, publication: Publication, count: int, rows: Rows, begun: Callable[[], bool]) -> Marker:
        """Publish the ``count`` staged messages of an epoch, or what is left of them; return the marker behind them.

        ``begun`` returns whether this generation's marker has ever been written.
        """
        deadline = time.monotonic() + self._markers.brokers.patience
        turns = 0
        while turns < _TURNS:
            try:
                if self._writer is None:
                    self.take_turn()
                return self._publish(publication, count, rows, begun)
            except Fenced:
                log.warning("another process published to %s; looking how far it is", self.place.keys.topic)
                self.close()
                turns += 1
            except StorageUnavailable as error:
                self.close()
                if time.monotonic() > deadline:
                    raise
                left = timedelta(seconds=max(0.0, deadline - time.monotonic()))
                until = datetime.now(timezone.utc) + left
                log.warning("%s Trying again until %s UTC", error.sentence, f"{until:%H:%M:%S}")
            except BaseException:
                self.close()
                raise
        raise self.contended(publication.generation)

    def contended(self, generation: str) -> Exception:
        """Return the error of a publisher whose turn another takes again and again."""
        self.close()
        return contended(self.place.keys.topic, generation, self._delivery)

    def close_idle(self) -> None:
        """Give the client up if nobody uses it: this process forks."""
        if self.busy.acquire(blocking=False):
            try:
                self.close()
            finally:
                self.busy.release()

    def forget(self) -> None:
        """Leave the client to the parent, in a child of the process that made it."""
        self.busy, self._writer = threading.Lock(), None

    def close(self) -> None:
        """Give the client up; the next use takes a turn."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def _publish(self, publication: Publication, count: int, rows: Rows, begun: Callable[[], bool]) -> Marker:
        """Publish in this publisher's turn."""
        mine, marker = parse_generation(publication.generation), self.marker
        if marker is None and begun():
            raise markers_missing(self._markers.name, self._markers.brokers.system, self.place.keys.topic)
        if marker is None or marker.number < mine:
            marker = Marker(publication.generation, messages=marker.messages if marker is not None else 0)
        if marker.number > mine:
            raise superseded(self.place.keys.topic, publication.generation, marker.generation)
        if marker.has(publication.epoch):
            return marker
        done = marker.rows if marker.epoch == publication.epoch else 0
        for end in self._send(publication.epoch, count, rows, done):
            marker = marker.moved(publication.epoch, end, done=end == count)
            self._commit(marker, {})
        return marker

    def _send(self, epoch: int, count: int, rows: Rows, done: int) -> Iterator[int]:
        """Send messages; yield, whenever a transaction is to be committed, how many of the epoch's have been sent."""
        assert self._writer is not None
        sent, size, since = done, 0, time.monotonic()
        self._writer.begin()
        for batch in _pieces(rows(done)):
            self._writer.write(batch)
            sent, size = sent + batch.num_rows, size + batch.nbytes
            full = sent - done >= CHUNK_ROWS or size >= CHUNK_BYTES or time.monotonic() - since > CHUNK_SECONDS
            if full and self._delivery.exactly_once and sent < count:
                yield sent
                done, size, since = sent, 0, time.monotonic()
                self._writer.begin()
        yield sent

    def _commit(self, marker: Marker, more: Mapping[str, bytes]) -> None:
        assert self._writer is not None
        self._writer.commit(self._markers.name, self._partition, {**more, self._key: marker.encode()})
        self.marker = marker


def _pieces(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield batches in pieces that fit into one transaction."""
    for batch in batches:
        for first in range(0, batch.num_rows, CHUNK_ROWS):
            yield batch.slice(first, CHUNK_ROWS)

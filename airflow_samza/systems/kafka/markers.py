"""Markers (decision 88): how far each run has published, on a compacted topic of their own beside the outputs.

A marker is written in the transaction of the messages that it counts, so that after a death the two agree. A key names
the root, the application, the output's topic and the run (or the data interval); all keys of one application and output
lie in one partition, so that a look reads that partition alone.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial

from airflow_samza.errors import StorageUnavailable, TopicError
from airflow_samza.systems.generations import parse_generation
from airflow_samza.systems.kafka.brokers import Brokers
from airflow_samza.systems.kafka.failures import markers_missing
from airflow_samza.systems.kafka.reading import messages_up_to

TOPIC = "airflow-samza-publications"
"""The name of the topic of markers, unless the system's option ``publications.topic`` gives another."""

PARTITIONS = 16
"""Neighbours in a partition wait for each other's open transactions, which end with their marker: milliseconds."""

_CONFIG = {"cleanup.policy": "compact"}


@dataclass(frozen=True)
class Marker:
    """Marker of what a run has published to an output.

    ``generation`` is the newest that has begun, ``epoch`` its newest one that has messages, of which the first ``rows``
    are published; ``done``: all of them. ``messages`` counts those of all generations and epochs.
    """

    generation: str
    epoch: int = -1
    rows: int = 0
    done: bool = True
    messages: int = 0

    @property
    def number(self) -> tuple[int, ...]:
        """The generation in numbers."""
        return parse_generation(self.generation)

    def has(self, epoch: int) -> bool:
        """Return whether an epoch of this generation is published; epochs come in order."""
        return self.epoch > epoch or (self.epoch == epoch and self.done)

    def moved(self, epoch: int, rows: int, *, done: bool) -> Marker:
        """Return the marker when the first ``rows`` messages of an epoch are published."""
        before = self.rows if epoch == self.epoch else 0
        return replace(self, epoch=epoch, rows=rows, done=done, messages=self.messages + rows - before)

    def encode(self) -> bytes:
        """Return the value of the message on the topic."""
        return json.dumps({"version": 1, **asdict(self)}, sort_keys=True).encode()

    @classmethod
    def decode(cls, value: bytes) -> Marker:
        """Return it from what :meth:`encode` wrote; keys that are not known are left out."""
        record = json.loads(value)
        return cls(**{name: record[name] for name in cls.__dataclass_fields__ if name in record})


@dataclass(frozen=True)
class MarkerKeys:
    """The keys of one application and output of one root."""

    root: str
    application: str
    topic: str

    @property
    def scope(self) -> str:
        """The beginning that the keys share, and no other key has."""
        return json.dumps([self.root, self.application, self.topic])[:-1] + ", "

    def of_run(self, producer: str) -> str:
        """Return the key of what a run's stage has published."""
        return json.dumps([self.root, self.application, self.topic, "run", producer])

    def of_interval(self, stage: str, interval: tuple[str, ...]) -> str:
        """Return the key of the run that has published a data interval or partition."""
        return json.dumps([self.root, self.application, self.topic, "interval", stage, *interval])


class Markers:
    """The topic of markers of a system; the count of its partitions must stay as it is."""

    def __init__(self, brokers: Brokers, name: str) -> None:
        self.brokers = brokers
        self.name = name
        self._count: int | None = None

    def create(self) -> None:
        """Make the topic if it is missing."""
        if self.brokers.find(self.name) is None:
            self.brokers.create(self.name, PARTITIONS, _CONFIG)

    def partition(self, keys: MarkerKeys) -> int:
        """Return the partition in which these keys lie."""
        if self._count is None:
            topic = self.brokers.find(self.name)
            if topic is None:
                raise markers_missing(self.name, self.brokers.system, keys.topic)
            self._count = topic.partitions
        return zlib.crc32(keys.scope.encode()) % self._count

    def read(self, keys: MarkerKeys) -> dict[str, bytes]:
        """Return the newest committed value of each key of the application and output.

        Everything whose transaction had begun when it was called is waited for: what it shows, is so.
        """
        place, scope, values = self.partition(keys), keys.scope.encode(), dict[str, bytes]()
        position, end = self.brokers.bounds(self.name, place)
        for messages in messages_up_to(
            self.brokers,
            self.name,
            place,
            position,
            end,
            reason="a publication is open there",
            too_silent=partial(self._unread, keys),
        ):
            for message in messages:
                key, value = message.key(), message.value()
                if key is not None and value is not None and key.startswith(scope):
                    values[key.decode()] = value
        return values

    def _unread(self, keys: MarkerKeys) -> StorageUnavailable:
        return StorageUnavailable(
            f"The markers in {self.name!r} of the system {self.brokers.system!r} could not be read up to their end for "
            f"{self.brokers.patience:.0f} s.",
            hint="Check that its brokers run; another publication that died there holds readers up for "
            "a minute at most.",
            stream=keys.topic,
            system=self.brokers.system,
        )


def marker_of(values: Mapping[str, bytes], key: str) -> Marker | None:
    """Return the marker under a key."""
    value = values.get(key)
    if value is None:
        return None
    try:
        return Marker.decode(value)
    except (ValueError, TypeError) as error:
        raise TopicError(
            f"The marker {key} is damaged: {error}.",
            hint="The topic of markers is written by airflow_samza alone; see who else writes to it.",
            key=key,
        ) from error

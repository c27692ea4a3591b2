"""Outputs of a system of kind ``kafka``: their topics, what is staged for them, and what runs have published.

The Kafka system derives from it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import pyarrow as pa

from airflow_samza.errors import TopicError
from airflow_samza.schema import Schema
from airflow_samza.system_kinds import EMBEDDED
from airflow_samza.systems.capabilities import OutputClaim
from airflow_samza.systems.filesystems.filesystem import root_identity
from airflow_samza.systems.generations import parse_generation
from airflow_samza.systems.kafka.access_check import check_readable, check_transactional_id, check_writable
from airflow_samza.systems.kafka.brokers import Brokers
from airflow_samza.systems.kafka.failures import TRANSACTIONAL_IDS, published_before, superseded
from airflow_samza.systems.kafka.markers import TOPIC, Marker, MarkerKeys, Markers, marker_of
from airflow_samza.systems.kafka.output import STAGED, KafkaProducer, MessageEncoder, OutputOptions
from airflow_samza.systems.kafka.publication import Place, Publisher
from airflow_samza.systems.kafka.writing import Fenced
from airflow_samza.systems.log.records import Segment
from airflow_samza.systems.log.segments import SegmentReaders, SegmentWriter
from airflow_samza.systems.log.system import LogSystem
from airflow_samza.systems.log.topic import Topic, create_topic
from airflow_samza.systems.serdes.binding import bind_serde
from airflow_samza.systems.serdes.serde import Serde
from airflow_samza.systems.system import Publication, StreamSpec, SystemBinding
from airflow_samza.systems.topic_rejections import CLEAR_STAGE

MARKERS_OPTION = "publications.topic"
"""The option of a system that names the topic of markers."""


class KafkaOutputs:
    """Outputs of one system, whose options are ``settings``. ``root``: where runs keep what they stage."""

    def __init__(self, brokers: Brokers, settings: Mapping[str, Any], root: str | None) -> None:
        self.brokers = brokers
        self._settings = settings
        self._markers = Markers(brokers, str(settings.get(MARKERS_OPTION) or TOPIC))
        self._root = root
        self._largest: dict[str, int] = {}
        self._publishers: dict[Place, Publisher] = {}

    @cached_property
    def log(self) -> LogSystem:
        """The log under the root, in whose topics messages are staged."""
        return LogSystem(self.brokers.system, SystemBinding(EMBEDDED), self._root)

    def staging_identity(self, stream: StreamSpec) -> str | None:
        """Return what tells the topic in which messages wait from another one of its name."""
        return self.log.identity(StreamSpec(_staging_name(stream)))

    def create(self, streams: Sequence[StreamSpec]) -> None:
        """Make the topics of outputs that are missing, and that of the markers; another partition count is rejected."""
        topics = self.brokers.find_all([stream.name for stream in streams]) if streams else {}
        for stream in streams:
            topic = topics.get(stream.name)
            if topic is None:
                self.brokers.create(stream.name, stream.partitions or 1)
            else:
                self.brokers.check_count(topic, stream.partitions)
            if stream.through is not None:
                self._staging(stream)
        if streams:
            self._markers.create()

    def check_writable(self, stream: StreamSpec) -> None:
        """Reject columns that cannot be messages, and a user who may not publish."""
        options = OutputOptions.of(stream)
        if stream.schema:
            self.value_serde(stream)
        check_writable(self.brokers.access, [stream.name])
        check_writable(self.brokers.access, [self._markers.name])
        check_readable(self.brokers.access, [self._markers.name])
        if options.delivery.exactly_once:
            check_transactional_id(self.brokers.access, TRANSACTIONAL_IDS)

    def producer(self, stream: StreamSpec, writer: str) -> SegmentWriter | KafkaProducer:
        """Return a producer that stages the messages of one try at a task."""
        return KafkaProducer(
            self._staging(stream),
            stream,
            writer,
            lambda schema: self._encoder(stream, schema),
            lambda: self._bound(stream.name),
        )

    def value_serde(self, stream: StreamSpec) -> Serde:
        """Return the serde of an output's values; columns that cannot be messages are rejected."""
        if stream.schema is None:  # columns are known when they are sent
            name, system = stream.name, self.brokers.system
            return bind_serde(str(stream.serde), pa.schema([]), name, options=self._settings, system=system)
        return self._encoder(stream, Schema.of(stream.schema).to_arrow()).serde

    def discard(self, stream: StreamSpec, staged: Mapping[str, Any]) -> None:
        """Delete what a producer staged."""
        self.log.discard(StreamSpec(_staging_name(stream)), staged)

    def describe_output(self, stream: StreamSpec, claim: OutputClaim) -> str:
        """Return what readers of an output will see, for the plan; a rerun that is not permitted is rejected."""
        text = f"published to {stream.name!r} {OutputOptions.of(stream).delivery}"
        marked = self.brokers.find(self._markers.name) is not None
        rerun = self._rerun(stream, claim, self._markers.read(self._keys(stream, claim.producer)) if marked else {})
        return text if rerun is None else f"{text}; {rerun}: readers will see these and the new ones"

    def claim(self, stream: StreamSpec, claim: OutputClaim) -> None:
        """Begin a generation of a run's output: from now on no lower one publishes."""
        publisher = self._publisher(stream, claim.producer)
        try:
            with publisher.busy:
                self._claim(publisher, stream, claim)
        except Fenced as error:
            raise publisher.contended(claim.generation) from error
        except BaseException:
            publisher.close()
            raise
        self.log.filesystem.put_if_absent(self._claimed(stream), b"{}")

    def publish(self, stream: StreamSpec, publication: Publication) -> dict[str, Any]:
        """Publish what an epoch has staged, and delete it; what is published already is not published again."""
        staged = publication.staged
        segments = [Segment.from_json(staged[task]) for task in sorted(staged) if staged[task].get("segment")]
        count = sum(sum(segment.rows) for segment in segments)
        if count:
            topic = self._staging(stream)
            publisher = self._publisher(stream, publication.producer)
            with publisher.busy:
                publisher.publish(
                    publication,
                    count,
                    lambda behind: _read(topic, stream.name, segments, behind),
                    lambda: self.log.filesystem.exists(self._claimed(stream)),
                )
            for segment in segments:
                self.log.filesystem.delete(topic.segment_path(segment.name))
        if publication.final:
            self._close(stream, publication.producer)
        size = sum(int(task.get("bytes", 0)) for task in staged.values())
        return {"topic": stream.name, "rows": count, "bytes": size}

    def waiting(self, stream: StreamSpec, staged: Iterable[Mapping[str, Any]]) -> int:
        """Return how many messages of the tasks of an epoch are staged still: what is published is deleted."""
        if self.staging_identity(stream) is None:
            return 0
        topic = self.log.topic(_staging_name(stream))
        segments = [Segment.from_json(one) for one in staged if one.get("segment")]
        exists = self.log.filesystem.exists
        return sum(sum(segment.rows) for segment in segments if exists(topic.segment_path(segment.name)))

    def has_begun(self, stream: StreamSpec) -> bool:
        """Return whether a generation has begun its output, so that no lower one publishes."""
        return self.staging_identity(stream) is not None and self.log.filesystem.exists(self._claimed(stream))

    def standing(self, stream: StreamSpec, producer: str) -> str | None:
        """Return the newest generation of a producer that has published to an output; None when none has."""
        if self.brokers.find(self._markers.name) is None:
            return None
        keys = self._keys(stream, producer)
        marker = marker_of(self._markers.read(keys), keys.of_run(producer))
        return marker.generation if marker is not None and marker.messages else None

    def _claim(self, publisher: Publisher, stream: StreamSpec, claim: OutputClaim) -> None:
        publisher.take_turn()
        marker, mine = publisher.marker, parse_generation(claim.generation)
        if marker is not None and marker.number > mine:
            raise superseded(stream.name, claim.generation, marker.generation)
        if marker is not None and marker.number == mine:
            return
        self._rerun(stream, claim, publisher.values)
        more = {}
        if claim.interval is not None:
            key = publisher.place.keys.of_interval(claim.stage, claim.interval)
            runs = [*_runs(publisher.values.get(key)), claim.producer]
            more[key] = json.dumps({"version": 1, "runs": list(dict.fromkeys(runs))}).encode()
        publisher.begin_generation(claim.generation, more)

    def _rerun(self, stream: StreamSpec, claim: OutputClaim, values: Mapping[str, bytes]) -> str | None:
        """Return what this run, or another one of its data interval, has published before; None: nothing."""
        keys = self._keys(stream, claim.producer)
        runs = [claim.producer]
        if claim.interval is not None:
            runs += _runs(values.get(keys.of_interval(claim.stage, claim.interval)))
        markers: dict[str, Marker] = {}
        for run in dict.fromkeys(runs):
            marker = marker_of(values, keys.of_run(run))
            mine = run == claim.producer and marker is not None and marker.number >= parse_generation(claim.generation)
            if marker is not None and marker.messages and not mine:
                markers[run] = marker
        if not markers:
            return None
        messages = sum(marker.messages for marker in markers.values())
        who = " and ".join(
            f"generation {marker.generation} of this run" if run == claim.producer else f"the run {run.split('/')[1]!r}"
            for run, marker in markers.items()
        )
        if not OutputOptions.of(stream).appends:
            raise published_before(stream.name, messages, who)
        return f"{messages:,} messages are published already by {who}"

    def _publisher(self, stream: StreamSpec, producer: str) -> Publisher:
        place = Place(self._keys(stream, producer), producer)
        if place not in self._publishers:
            self._markers.create()
            topic, options = self.brokers.topic(stream.name), OutputOptions.of(stream)
            self.brokers.check_count(topic, stream.partitions)
            self._publishers[place] = Publisher(self._markers, place, self._bound(stream.name), options.delivery)
        return self._publishers[place]

    def _close(self, stream: StreamSpec, producer: str) -> None:
        publisher = self._publishers.pop(Place(self._keys(stream, producer), producer), None)
        if publisher is not None:
            publisher.close()

    def _keys(self, stream: StreamSpec, producer: str) -> MarkerKeys:
        return MarkerKeys(self._root_identity, producer.partition("/")[0], stream.name)

    @cached_property
    def _root_identity(self) -> str:
        return root_identity(self.log.filesystem)

    def _staging(self, stream: StreamSpec) -> Topic:
        return create_topic(self.log.filesystem, self.log.name, _staging_name(stream), 1, STAGED, stream.owner)

    def _claimed(self, stream: StreamSpec) -> str:
        return self.log.topic(_staging_name(stream)).staging_note

    def _encoder(self, stream: StreamSpec, schema: pa.Schema) -> MessageEncoder:
        return MessageEncoder(stream, schema, self.brokers.system, self._settings)

    def _bound(self, topic: str) -> int:
        """Return how many bytes a message of a topic may have, which is asked once."""
        if topic not in self._largest:
            self._largest[topic] = self.brokers.largest_message(topic)
        return self._largest[topic]


def _staging_name(stream: StreamSpec) -> str:
    """Return the name of the topic under the root in which a stream's messages are staged."""
    return stream.through if stream.through is not None else f"kafka/{stream.name}"


def _runs(value: bytes | None) -> list[str]:
    return [] if value is None else [str(run) for run in json.loads(value)["runs"]]


def _read(topic: Topic, stream: str, segments: Sequence[Segment], behind: int) -> Iterator[pa.RecordBatch]:
    """Yield the staged messages behind the first ones, always in one order: by task, as each has written them."""
    readers = SegmentReaders(topic)
    for segment in segments:
        for place, rows in enumerate(segment.rows):
            if behind >= rows:
                behind -= rows
                continue
            try:
                batch = readers.read(segment, place)
            except FileNotFoundError as error:
                raise TopicError(
                    f"The staged messages {segment.name} for {stream!r} are gone before they were published.",
                    hint=CLEAR_STAGE,
                    stream=stream,
                ) from error
            yield batch.slice(behind)
            behind = 0

"""The topics of a run: those between its stages, and those that it reads and writes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_samza.application.rejections import did_you_mean, listed
from airflow_samza.errors import SamzaError, UnknownName
from airflow_samza.provider.page.answer import Answer, NotFound, sentence_on
from airflow_samza.provider.page.opened_run import OpenedRun
from airflow_samza.runs.records.run_plan import BoundStream
from airflow_samza.runs.stages.newest_stages import newest_handle
from airflow_samza.runs.stages.stage_state import written_by
from airflow_samza.system_kinds import traits_of
from airflow_samza.systems.bindings import log_of
from airflow_samza.systems.capabilities import ShowsTopics

if TYPE_CHECKING:
    from airflow_samza.systems.log.system import LogSystem
    from airflow_samza.systems.system import StreamMetadata, StreamSpec, System

COMMITS_SHOWN = 50


class Topic(Answer):
    """A stream of the run that is a topic; None where a figure is not known."""

    stream_id: str
    role: str
    system: str
    kind: str
    """``log`` or ``kafka`` …"""
    topic: str
    partitions: int | None
    messages: int | None
    offsets: int | None
    """In place of messages, where a system counts offsets only: markers of transactions have some, too."""
    control: int | None
    bytes: int | None
    last_commit: float | None
    expires: float | None
    note: str | None


class Topics(Answer):
    """The topics of a run."""

    topics: list[Topic]


class TopicPartition(Answer):
    """The offsets of a partition: the oldest and the next."""

    partition: int
    oldest: int
    next: int
    messages: int | None
    control: int | None


class TopicCommit(Answer):
    """A commit that readers of a topic see."""

    commit: int
    at: float | None
    messages: int
    bytes: int
    control: int
    generation: str
    epoch: int
    producer: str


class TopicDetail(Answer):
    """A topic: schema, offsets of every partition, the newest commits."""

    topic: Topic
    columns: str | None
    partitions: list[TopicPartition]
    commits: list[TopicCommit]
    commits_total: int


@dataclass(frozen=True)
class RunTopic:
    """A stream of a run as a topic: in its system, by its name there."""

    opened: OpenedRun
    bound: BoundStream
    role: str
    kind: str
    system: System | None
    log: LogSystem | None
    """The log that has its commits; None of other people's topics, which tell their offsets alone."""
    partitions: int

    @property
    def spec(self) -> StreamSpec:
        """The stream as all of its messages are read."""
        return self.system.browsed(self.bound.spec) if isinstance(self.system, ShowsTopics) else self.bound.spec

    def index(self) -> Any:
        """Return the index of a topic of ours; None of other people's."""
        if self.log is None:
            return None
        from airflow_samza.systems.log.index import LogIndex

        return LogIndex(self.log.topic(self.bound.spec.name))

    def asking(self) -> AbstractContextManager[None]:
        """Ask the system in the body, unless its servers have just been away."""
        return self.opened.asking(self.bound.system)

    def metadata(self) -> StreamMetadata:
        """Return partitions, offsets and columns, as the system knows them now."""
        if self.system is None:
            raise NotFound(f"The system {self.bound.system!r} cannot be opened here.", rule="storage")
        with self.asking():
            metadata = self.system.metadata([self.spec]).get(self.spec.name)
        if metadata is None:
            raise NotFound(
                f"The topic {self.spec.name!r} is not there.",
                hint="It has not been written yet, or has expired.",
                rule="gone",
            )
        return metadata


def run_topics(opened: OpenedRun) -> Iterator[RunTopic]:
    """Yield the topics of a run, in the order of the plan."""
    run = opened.run
    systems, _ = opened.bound
    for stream in run.plan.streams:
        bound = run.streams.get(stream.stream_id)
        if bound is None:
            continue
        kind = str(run.systems.get(bound.system, {}).get("kind") or bound.system)
        traits = traits_of(kind)
        if not (traits.carries_control or traits.own_topics):
            continue
        own = run.is_own(stream.stream_id)
        if own:
            writer = run.writer_stage(stream.stream_id)
            newest = newest_handle(opened.files, run, writer)
            bound = run.intermediate(stream.stream_id, written_by(opened.files, newest))
        system = systems.get(bound.system)
        with opened.opening():
            log = log_of(system, own=own)
        yield RunTopic(opened, bound, stream.role, kind, system, log, stream.partitions)


def find_topic(opened: OpenedRun, stream_id: str) -> RunTopic:
    """Return the topic of a stream; a stream that is none is an error."""
    opened.run.plan.stream(stream_id)
    topics = {topic.bound.stream_id: topic for topic in run_topics(opened)}
    if stream_id not in topics:
        hint = f"{did_you_mean(stream_id, topics)}Topics of this run are: {listed(topics)}."
        raise UnknownName(f"The stream {stream_id!r} is no topic.", hint=hint, name=stream_id)
    return topics[stream_id]


def topic_answer(topic: RunTopic) -> Topic:
    """Return the figures of a topic; why there are none, in its note."""
    facts: dict[str, Any] = {}
    note = None
    try:
        facts = _figures(topic)
    except (NotFound, SamzaError) as error:
        note = sentence_on(error)
    return Topic(
        stream_id=topic.bound.stream_id,
        role=topic.role,
        system=topic.bound.system,
        kind=topic.kind,
        topic=topic.bound.spec.name,
        partitions=facts.get("partitions", topic.partitions),
        messages=facts.get("messages"),
        offsets=facts.get("offsets"),
        control=facts.get("control"),
        bytes=facts.get("bytes"),
        last_commit=_seconds(facts.get("last_commit")),
        expires=_seconds(facts.get("expires")),
        note=note,
    )


def _figures(topic: RunTopic) -> dict[str, Any]:
    from airflow_samza.systems.log.topic_facts import topic_facts

    index = topic.index()
    if index is not None:
        return topic_facts(index)
    metadata = topic.metadata()
    return {
        "partitions": metadata.partitions,
        "offsets": sum(head - oldest for head, oldest in zip(metadata.head, metadata.oldest, strict=True)),
    }


def topic_detail(topic: RunTopic) -> TopicDetail:
    """Return a topic with its schema, partitions and newest commits."""
    from airflow_samza.systems.log.topic_facts import commit_facts, partition_facts

    index = topic.index()
    answer = topic_answer(topic)
    if index is None:
        metadata = topic.metadata()
        offsets = enumerate(zip(metadata.oldest, metadata.head, strict=True))
        partitions = [
            TopicPartition(partition=number, oldest=oldest, next=head, messages=None, control=None)
            for number, (oldest, head) in offsets
        ]
        schema = metadata.schema or topic.bound.spec.schema
        return TopicDetail(topic=answer, columns=schema, partitions=partitions, commits=[], commits_total=0)
    commits = list(index.live_commits())
    return TopicDetail(
        topic=answer,
        columns=None if index.schema is None else str(index.schema),
        partitions=[TopicPartition.model_validate(facts) for facts in partition_facts(index)],
        commits=[
            TopicCommit.model_validate({**facts, "at": _seconds(facts["at"])})
            for facts in (commit_facts(commit, topic.partitions) for commit in reversed(commits[-COMMITS_SHOWN:]))
        ],
        commits_total=len(commits),
    )


def _seconds(milliseconds: int | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1000

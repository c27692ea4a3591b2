"""The topics of a run: those between its stages, and those that it reads and writes; their messages."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_samza.control.messages import to_json
from airflow_samza.errors import SamzaError, UnknownName
from airflow_samza.provider.page.answers.data import Message, Messages, Topic, TopicCommit, TopicDetail, TopicPartition
from airflow_samza.provider.page.opened_run import OpenedRun
from airflow_samza.provider.page.problems import NotFound, problem_of
from airflow_samza.provider.page.shown import masked_columns, shown_row
from airflow_samza.runs.progress.stage_progress import newest_generation
from airflow_samza.runs.records.run_plan import BoundStream
from airflow_samza.secrecy import HIDDEN
from airflow_samza.system_kinds import traits_of
from airflow_samza.systems.bindings import log_of
from airflow_samza.systems.system import MessageRun, OffsetRange, SystemStreamPartition, UnreadableRun

if TYPE_CHECKING:
    from airflow_samza.systems.system import System

COMMITS_SHOWN = 50

CONTROL_SHOWN = 500
"""Control messages among the messages of one answer, of which there may be as many as there are producers."""


@dataclass(frozen=True)
class RunTopic:
    """A stream of a run as a topic: in its system, by its name there."""

    bound: BoundStream
    role: str
    kind: str
    system: System | None
    partitions: int
    own: bool

    def index(self) -> Any:
        """Return the index of a topic of ours; None of other people's, which tell their offsets alone."""
        log = log_of(self.system, own=self.own)
        if log is None:
            return None
        from airflow_samza.systems.log.index import LogIndex

        return LogIndex(log.topic(self.bound.spec.name))


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
            bound = run.intermediate(stream.stream_id, newest_generation(opened.files, run, writer))
        yield RunTopic(bound, stream.role, kind, systems.get(bound.system), stream.partitions, own)


def find_topic(opened: OpenedRun, stream_id: str) -> RunTopic:
    """Return the topic of a stream; a stream that is none is an error."""
    opened.run.plan.stream(stream_id)
    known = list(run_topics(opened))
    for topic in known:
        if topic.bound.stream_id == stream_id:
            return topic
    names = ", ".join(topic.bound.stream_id for topic in known) or "none"
    raise UnknownName(
        f"The stream {stream_id!r} is no topic.", hint=f"Topics of this run are: {names}.", name=stream_id
    )


def topic_answer(topic: RunTopic) -> Topic:
    """Return the figures of a topic; why there are none, in its note."""
    facts: dict[str, Any] = {}
    note = None
    try:
        facts = _figures(topic)
    except NotFound as error:
        note = error.problem.sentence
    except SamzaError as error:
        note = problem_of(error).sentence
    return Topic(
        stream_id=topic.bound.stream_id,
        role=topic.role,
        system=topic.bound.system,
        kind=topic.kind,
        topic=topic.bound.spec.name,
        partitions=facts.get("partitions", topic.partitions),
        messages=facts.get("messages"),
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
    found = _metadata(topic)
    return {
        "partitions": found.partitions,
        "messages": sum(head - oldest for head, oldest in zip(found.head, found.oldest, strict=True)),
    }


def topic_detail(topic: RunTopic) -> TopicDetail:
    """Return a topic with its schema, partitions and newest commits."""
    from airflow_samza.systems.log.topic_facts import partition_facts

    index = topic.index()
    answer = topic_answer(topic)
    if index is None:
        found = _metadata(topic)
        offsets = enumerate(zip(found.oldest, found.head, strict=True))
        partitions = [
            TopicPartition(partition=number, oldest=oldest, next=head, messages=None, control=None)
            for number, (oldest, head) in offsets
        ]
        schema = found.schema or topic.bound.spec.schema
        return TopicDetail(topic=answer, columns=schema, partitions=partitions, commits=[], commits_total=0)
    commits = list(index.live_commits())
    return TopicDetail(
        topic=answer,
        columns=None if index.schema is None else str(index.schema),
        partitions=[TopicPartition.model_validate(facts) for facts in partition_facts(index)],
        commits=[
            TopicCommit(
                commit=commit.number,
                at=_seconds(commit.at),
                messages=commit.rows,
                bytes=commit.bytes,
                control=len(commit.control),
                generation=str(commit.generation),
                epoch=commit.epoch,
                producer=commit.producer,
            )
            for commit in reversed(commits[-COMMITS_SHOWN:])
        ],
        commits_total=len(commits),
    )


def read_messages(topic: RunTopic, partition: int, first: int | None, most: int, control: bool) -> Messages:
    """Return messages of a partition from an offset on, or the last ones; nothing is consumed."""
    found = _metadata(topic)
    if partition >= found.partitions:
        raise NotFound(f"The topic has {found.partitions} partitions; there is no partition {partition}.")
    oldest, head = found.oldest[partition], found.head[partition]
    begin = max(head - most, oldest) if first is None else min(max(first, oldest), head)
    note = None
    if first is not None and first < oldest:
        note = f"What is before offset {oldest} is expired."
    read, after = _read(topic, partition, begin, head, most, control)
    masked = sorted({name for message in read for name, value in message.value.items() if value == HIDDEN})
    return Messages(
        stream_id=topic.bound.stream_id,
        partition=partition,
        oldest=oldest,
        head=head,
        next_offset=after,
        messages=read,
        masked=masked,
        note=note,
    )


def _read(
    topic: RunTopic, partition: int, begin: int, head: int, most: int, control: bool
) -> tuple[list[Message], int]:
    """Return messages and the offset behind the last of them."""
    read: list[Message] = []
    if begin >= head or topic.system is None:
        return read, begin
    users, controls, after, masked = 0, 0, begin, masked_columns()
    ssp = SystemStreamPartition(topic.bound.system, topic.bound.spec.name, partition)
    with closing(topic.system.consumer(topic.bound.spec)) as consumer:
        for envelope in consumer.read(ssp, OffsetRange(begin, head)):
            if isinstance(envelope, MessageRun):
                rows = envelope.slice(0, min(envelope.messages, most - users))
                for place, row in enumerate(rows.batch.to_pylist()):
                    value = _unreadable(row, bool(masked)) if isinstance(envelope, UnreadableRun) else row
                    offset = envelope.offset + place
                    read.append(
                        Message(partition=partition, offset=offset, control=None, value=shown_row(value, masked))
                    )
                users += rows.messages
                after = envelope.offset + rows.messages
                if users >= most:
                    break
                continue
            after = envelope.offset + 1
            if control:
                kind = type(envelope.message).__name__.removesuffix("Message")
                value = {str(name): part for name, part in to_json(envelope.message).items()}
                read.append(Message(partition=partition, offset=after - 1, control=kind, value=value))
                controls += 1
                if controls >= CONTROL_SHOWN:
                    break
        else:
            after = head
    return read, after


def _unreadable(row: dict[str, Any], masked: bool) -> dict[str, Any]:
    """Return a message that cannot be read; its text is hidden where columns are masked, as it may hold them."""
    return {"error": row.get("error"), "text": HIDDEN if masked else row.get("text")}


def _metadata(topic: RunTopic) -> Any:
    if topic.system is None:
        raise NotFound(f"The system {topic.bound.system!r} cannot be opened here.", rule="storage")
    found = topic.system.admin.metadata([topic.bound.spec]).get(topic.bound.spec.name)
    if found is None:
        raise NotFound(
            f"The topic {topic.bound.spec.name!r} is not there.",
            hint="It has not been written yet, or has expired.",
            rule="gone",
        )
    return found


def _seconds(milliseconds: int | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1000

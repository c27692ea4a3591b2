"""The commit records of a topic: one file each, numbered without gaps, written by *put if absent*.

A try at a task stages one segment, and what tasks have staged is published as one commit. A commit is visible as a
whole or not at all, because it is one file. Its base offsets are computed against all commits before it.

The race is between attempts A and B that publish at once. Both have read the commits up to n, and both write n + 1. The
record of one is put, say that of A. B then reads it: if it is the publication that B was to make, B is done; if it is
of a higher generation of B's producer, B is rejected; otherwise B computes its base offsets again, and writes n + 2.
"""

from __future__ import annotations

import json
import random
import time
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import msgspec

from airflow_samza.control.messages import ControlMessage
from airflow_samza.errors import RecordUnreadable, StorageFull, TopicError
from airflow_samza.schema import Schema
from airflow_samza.systems.log.records import Commit, Segment, control_entry, parse_commit
from airflow_samza.systems.log.segment_store import store_of
from airflow_samza.systems.log.tails import TAIL_CACHE, Tail, read_commit
from airflow_samza.systems.log.topic import VERSION, Topic
from airflow_samza.systems.output_slots import OutputSlot
from airflow_samza.systems.producers_seen import ProducersSeen
from airflow_samza.systems.topic_rows import arrow_schema

if TYPE_CHECKING:
    from airflow_samza.systems.log.segments import SegmentWriter

SNAPSHOT_EVERY = 100
"""Commits per snapshot: opening a topic reads one file per so many commits, and at most so many records one by one."""


def load_tail(topic: Topic, up_to: int | None = None, parts: Collection[str] | None = None) -> Tail:
    """Return the tail of a topic as of commit ``up_to`` (None: now).

    A snapshot, then the commits after it. ``parts`` are the names in the topic's folder, where they are known.
    """
    recent = TAIL_CACHE.find(topic, up_to)
    if recent is not None:
        recent.advance(up_to)
        TAIL_CACHE.keep(recent)
        return recent
    parts = topic.parts() if parts is None else parts
    snapshots = record_numbers(topic, "snapshots", parts)
    last = max((last for last in snapshots if up_to is None or last <= up_to), default=-1)
    tail = tail_of_snapshot(topic, last)
    tail.advance(up_to)
    TAIL_CACHE.keep(tail)
    return tail


def tail_of_snapshot(topic: Topic, last: int) -> Tail:
    """Return the tail as it was after commit ``last``, from its snapshot; −1: as it was before any commit."""
    if last < 0:
        return Tail(topic, next=[0] * topic.partitions, schema=topic.schema)
    path = topic.snapshot_path(last)
    record = topic.read_json(path)
    try:
        state = record["state"]
        offsets = [int(offset) for offset in state["next"]]
        seen = ProducersSeen.from_json(state)
        schema = state["schema"]
    except (KeyError, ValueError, TypeError, AttributeError, RecordUnreadable) as error:
        raise topic.damaged(path, f"cannot be understood ({error!r})") from None
    if len(offsets) != topic.partitions:
        raise topic.of_other_count(path, len(offsets))
    return Tail(topic, last + 1, offsets, seen, schema, last + 1)


def record_numbers(topic: Topic, kind: str, parts: Collection[str] | None = None) -> list[int]:
    """Return the numbers of all commits or snapshots, sorted.

    ``parts`` are the names in the topic's folder, where they are known: no folder, no records.
    """
    if parts is not None and kind not in parts:
        return []
    stems = (
        name.removesuffix(".json")
        for name in topic.filesystem.list(f"{topic.directory}/{kind}")
        if name.endswith(".json")
    )
    return [int(stem) for stem in stems if stem.isdigit()]


def append_commit(
    topic: Topic,
    producer: str,
    generation: str,
    epoch: int,
    segments: Sequence[Segment],
    control: Iterable[ControlMessage] = (),
    *,
    once: bool = False,
    schema: str | None = None,
    check: Callable[[], None] | None = None,
    slot: OutputSlot | None = None,
    root: str = "",
) -> Commit | None:
    """Add a commit and return it; None when this producer has published this epoch of this generation already.

    A generation older than one seen is rejected (TopicError, facts: ``winner``). Racing writers each get a number of
    their own. ``check`` is asked once, before anything new is written. With a ``slot`` it replaces what another run has
    written of it (rule O1), and with a ``root`` it is rejected where a run of its name under another one has committed.
    """
    entries = tuple(control_entry(message) for message in control)
    tail = load_tail(topic)
    losses = 0
    while True:
        tail.seen.reject_namesake(topic.name, producer, root)
        if not once and tail.seen.is_published(topic.name, producer, generation, epoch, slot):
            return None
        if slot is not None:
            tail.seen.reject_meeting(topic.name, producer, generation, slot)
        if check is not None:
            check()
            check = None
        if schema is not None and tail.schema is not None and not same_columns(schema, tail.schema):
            raise TopicError(
                f"The rows for {topic.name!r} have the columns ({schema}), and the topic has ({tail.schema}).",
                hint="Write the columns that the topic has, or write to another topic.",
                stream=topic.name,
                schema=tail.schema,
                wanted=schema,
            )
        base = Commit(
            tail.number,
            producer,
            generation,
            epoch,
            time.time_ns() // 1_000_000,
            tuple(segments),
            entries,
            tuple(tail.next),
            once,
            schema or tail.schema,
            slot,
            root,
        )
        offsets = tuple(
            before + rows + len(entries) for before, rows in zip(tail.next, base.rows_by_partition, strict=True)
        )
        commit = msgspec.structs.replace(base, next=offsets)
        data = _encode(commit.to_json())
        if topic.filesystem.put_if_absent(topic.commit_path(commit.number), data):
            tail.take(commit)
            tail.data = data
            # The commit stands whether or not there is room for a snapshot.
            with suppress(StorageFull, TopicError):
                _write_snapshot(tail)
            TAIL_CACHE.keep(tail)
            return commit
        losses += 1
        # Many writers at once would otherwise all try for the same number again, and all but one in vain.
        time.sleep(random.uniform(0, 0.002 * min(losses, 20)))
        tail.advance()


def same_columns(one: str, other: str) -> bool:
    """Return whether two schemas (DDL) have the same columns, nulls aside."""
    if one == other:
        return True
    first, second = Schema.of(one), Schema.of(other)
    return [(field.name, field.type) for field in first.fields] == [(field.name, field.type) for field in second.fields]


def _write_snapshot(tail: Tail) -> None:
    """Write a snapshot of what no other covers, once that is due; one that its writer has left out is due at once."""
    if tail.number - tail.snapshot < SNAPSHOT_EVERY:
        return
    record = {
        "version": VERSION,
        "from": tail.snapshot,
        "to": tail.number - 1,
        "state": tail.state(),
        "commits": [commit.to_json() for commit in tail.recent],
    }
    tail.topic.filesystem.put_if_absent(tail.topic.snapshot_path(tail.number - 1), _encode(record))
    tail.snapshot, tail.recent = tail.number, []


def read_commits(
    topic: Topic, first: int, up_to: int | None = None, parts: Collection[str] | None = None
) -> Iterator[Commit]:
    """Return the commits from ``first`` to ``up_to`` (included; None: all), from snapshots where there are some.

    ``parts`` are the names in the topic's folder, where they are known.
    """
    return islice(_commits_from(topic, first, parts), None if up_to is None else max(up_to + 1 - first, 0))


def _commits_from(topic: Topic, number: int, parts: Collection[str] | None) -> Iterator[Commit]:
    for last in record_numbers(topic, "snapshots", parts):
        if last < number:
            continue
        path = topic.snapshot_path(last)
        record = topic.read_json(path)
        start, commits = record.get("from"), record.get("commits")
        if not isinstance(start, int) or not isinstance(commits, list) or len(commits) != last - start + 1:
            raise topic.damaged(path, "does not hold the commits that it is named after")
        while number < start:
            commit = read_commit(topic, number)
            if commit is None:
                raise topic.without_commit(number)
            yield commit
            number += 1
        for data in commits[number - start :]:
            yield parse_commit(topic, path, data, number)
            number += 1
    while True:
        commit = read_commit(topic, number)
        if commit is None:
            return
        yield commit
        number += 1


def _encode(record: Mapping[str, Any]) -> bytes:
    return json.dumps(record, separators=(",", ":"), ensure_ascii=False).encode()


def stage(topic: Topic, writer: str, schema: str | None = None, *, durable: bool = False) -> SegmentWriter:
    """Return a producer that stages the output of one try at a task in one segment."""
    # A try that starts anew under its old name must not write into a file that may be committed.
    name = f"{quote(writer, safe='-_.~+=@,:')[:180]}-{uuid.uuid4().hex[:8]}"
    return store_of(topic).writer(topic, name, arrow_schema(topic.schema or schema), durable=durable)


def publish_segments(
    topic: Topic,
    producer: str,
    generation: str,
    epoch: int,
    staged: Sequence[Mapping[str, Any]],
    control: Sequence[Any] = (),
    *,
    once: bool = False,
    slot: OutputSlot | None = None,
    root: str = "",
) -> dict[str, Any]:
    """Commit what producers staged.

    Facts: ``commit`` (its number), ``rows``, ``bytes``, ``control``, ``offsets`` ([from, to) per partition),
    ``duplicate``.
    """
    store = store_of(topic)
    segments = store.as_committed([Segment.from_json(one) for one in staged if one.get("segment")])
    schema = next((str(description["schema"]) for description in staged if description.get("schema")), None)
    for description in staged:
        if description.get("schema") and not same_columns(str(description["schema"]), str(schema)):
            raise TopicError(
                f"Tasks wrote different columns to {topic.name!r}: ({schema}) and ({description['schema']}).",
                hint="Declare the stream's schema, so that every task writes the same.",
                stream=topic.name,
            )
    commit = append_commit(
        topic,
        producer,
        generation,
        epoch,
        segments,
        control,
        once=once,
        schema=schema,
        check=lambda: store.before_commit(topic, segments, control),
        slot=slot,
        root=root,
    )
    duplicate = commit is None
    if commit is None:
        commit = _published(topic, producer, generation, epoch)
    added = commit.rows_by_partition
    return {
        "topic": topic.name,
        "commit": commit.number,
        "rows": commit.rows,
        "bytes": commit.bytes,
        "control": len(commit.control),
        "offsets": [[end - rows - len(commit.control), end] for end, rows in zip(commit.next, added, strict=True)],
        "duplicate": duplicate,
    }


def _published(topic: Topic, producer: str, generation: str, epoch: int) -> Commit:
    for commit in reversed(list(read_commits(topic, 0))):
        if (commit.producer, commit.generation, commit.epoch) == (producer, generation, epoch):
            return commit
    raise topic.damaged(
        topic.commit_path(0), f"and its followers do not hold epoch {epoch} of {producer}, which is published"
    )

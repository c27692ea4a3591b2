"""Index of a topic: the rows of segments by their offsets, as readers see them when they open it.

Commits of a superseded generation, and those before the retention floor, are left out; their offsets become gaps. What
replaces a commit that is hidden comes at new offsets: a reader that goes on by offsets alone would read the same rows
twice. The commits say so, also those that have expired: their records stay.

Consumers and tails of the log look up in it; the page and the command line do for a topic's messages.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Collection, Iterator, Sequence
from itertools import chain
from typing import NamedTuple

from cachetools import LRUCache

from airflow_samza.control.messages import ControlMessage, ProducerEnds
from airflow_samza.systems.capabilities import Superseded
from airflow_samza.systems.log.commits import load_tail, read_commits, record_numbers, tail_of_snapshot
from airflow_samza.systems.log.records import Commit, Segment
from airflow_samza.systems.log.topic import Topic


class Run(NamedTuple):
    """Run of user messages: the ``rows`` rows of one record batch of a segment."""

    offset: int
    segment: Segment
    batch: int
    rows: int

    @property
    def end(self) -> int:
        """The offset after the last one."""
        return self.offset + self.rows


class Control(NamedTuple):
    """Control message at its offset: entry ``number`` of ``commit``.

    ``ends``: it and those behind it, where they are ends of different tasks that are taken together.
    """

    offset: int
    commit: Commit
    number: int
    ends: ProducerEnds | None = None

    @property
    def end(self) -> int:
        """The offset after it."""
        return self.offset + (1 if self.ends is None else len(self.ends.messages))

    def message(self, topic: Topic, partition: int) -> ControlMessage:
        """Return the message itself."""
        return self.commit.control_message(self.number, topic, partition, self.offset)


Entry = Run | Control


class Floor(NamedTuple):
    """Floor of a topic: the commits below ``commit`` are expired, and so the offsets below ``offsets``.

    The whole topic after ``expires_at`` (ms).
    """

    commit: int = 0
    offsets: tuple[int, ...] = ()
    expires_at: int | None = None

    def offset(self, partition: int) -> int:
        """Return the first offset of a partition that is not expired."""
        return self.offsets[partition] if self.offsets else 0


def read_floor(topic: Topic, parts: Collection[str] | None = None) -> Floor:
    """Return what is expired of a topic; ``parts`` are the names in its folder, where they are known."""
    if parts is not None and topic.expired_path.rpartition("/")[2] not in parts:
        return Floor()
    try:
        record = topic.read_json(topic.expired_path)
    except FileNotFoundError:
        return Floor()
    try:
        offsets = tuple(int(offset) for offset in record["offsets"])
        at = record["expires_at"]
        floor = Floor(int(record["commit"]), offsets, None if at is None else int(at))
    except (KeyError, ValueError, TypeError) as error:
        raise topic.damaged(topic.expired_path, f"cannot be understood ({error!r})") from None
    if floor.offsets and len(floor.offsets) != topic.partitions:
        raise topic.of_other_count(topic.expired_path, len(floor.offsets))
    return floor


class Owned(NamedTuple):
    """Entries of one partition that belong to one producer's generation (decision 21); None: they stay."""

    owner: tuple[str, str] | None
    entries: list[Entry]


class LogIndex:
    """View of a topic as of its commit ``number - 1``: all that a reader sees. Threads may share one."""

    def __init__(self, topic: Topic, up_to: int | None = None) -> None:
        self.topic = topic
        # One list says which records there are none of, as of most topics.
        self._parts = topic.parts()
        self.floor = read_floor(topic, self._parts)
        tail = load_tail(topic, up_to, self._parts)
        self.seen = tail.seen
        self.schema = tail.schema
        self.number = tail.number
        self.head = tuple(tail.next)
        self._loaded: list[Commit] = []
        self._lock = threading.Lock()
        self._tail = tail
        self._rest = self._read(self.floor.commit)

    def commits(self) -> Iterator[Commit]:
        """Yield the commits after the floor, read only as far as they are asked for."""
        place = 0
        while True:
            with self._lock:
                if place == len(self._loaded):
                    commit = next(self._rest, None)
                    if commit is None:
                        return
                    self._loaded.append(commit)
            yield self._loaded[place]
            place += 1

    def _read(self, first: int) -> Iterator[Commit]:
        """Return the commits from one on; those behind the last snapshot were read with the tail."""
        before = read_commits(self.topic, first, self._tail.snapshot - 1, self._parts)
        return chain(before, (commit for commit in self._tail.recent if commit.number >= first))

    def is_live(self, commit: Commit) -> bool:
        """Return whether readers still see a commit."""
        return commit.number >= self.floor.commit and (
            commit.once or not self.seen.turns.is_superseded(commit.producer, commit.generation)
        )

    def live_commits(self) -> Iterator[Commit]:
        """Return the commits that readers see."""
        return (commit for commit in self.commits() if self.is_live(commit))

    def oldest(self, partition: int) -> int:
        """Return the offset of the first message that can be read; the head when there is none."""
        for commit in self.live_commits():
            first = first_offset(commit, partition)
            if first < commit.next[partition]:
                return first
        return self.head[partition]

    def owned_slice(self, partition: int, start: int, end: int, *, together: bool = False) -> Iterator[Owned]:
        """Yield the entries that overlap ``[start, end)`` with their owners.

        Commits that lie before or after it are not read. ``together`` puts the ends of a commit's tasks into one entry.
        """
        if start >= end:
            return
        for commit in self._commits_from(partition, start):
            if commit.next[partition] > start and self.is_live(commit):
                control = self._control(commit, partition, start, end, together=together)
                entries: list[Entry] = [*_runs(commit, partition), *control]
                yield Owned(_owner(commit), [entry for entry in entries if entry.end > start and entry.offset < end])
            if commit.next[partition] >= end:
                return

    def _control(self, commit: Commit, partition: int, start: int, end: int, *, together: bool) -> list[Control]:
        """Return the control messages of a commit, behind its rows; ``together``: as one entry where that can be."""
        first = commit.next[partition] - len(commit.control)
        if together and len(commit.control) > 1 and start <= first and commit.next[partition] <= end:
            ends = commit.ends(self.topic, partition, first)
            if ends is not None:
                return [Control(first, commit, 0, ends)]
        return [Control(first + number, commit, number) for number in range(len(commit.control))]

    def entries(self, partition: int) -> list[Entry]:
        """Return all entries of a partition that readers see, in offset order."""
        whole = self.owned_slice(partition, 0, self.head[partition])
        return [entry for owned in whole for entry in owned.entries]

    def _commits_from(self, partition: int, start: int) -> Iterator[Commit]:
        """Return the commits from one that ends before ``start`` on, found by the offsets in the snapshots."""
        numbers = record_numbers(self.topic, "snapshots", self._parts) if start else []
        snapshots = [last for last in numbers if last < self.number]
        # The first snapshot that reaches beyond start.
        place = bisect_right(snapshots, start, key=lambda last: tail_of_snapshot(self.topic, last).next[partition])
        if place == 0:
            return self.commits()
        return self._read(max(snapshots[place - 1] + 1, self.floor.commit))

    def live_segments(self) -> list[Segment]:
        """Return all segments that a reader of this index may open."""
        return [segment for commit in self.live_commits() for segment in commit.segments]

    def segments(self) -> set[str]:
        """Return their names."""
        return {segment.name for segment in self.live_segments()}


_fixed: LRUCache[tuple[str, str, int], LogIndex] = LRUCache(8)
_fixed_lock = threading.Lock()


def index_of(topic: Topic, up_to: int | None) -> LogIndex:
    """Return the view of a topic as of a commit.

    That of a run's own topic is one for all tasks of a process. Nobody else writes to such a topic, or makes it anew.
    """
    if up_to is None or not (topic.is_runs_own and topic.identity):
        return LogIndex(topic, up_to)
    key = topic.filesystem.location(topic.directory), topic.identity, up_to
    with _fixed_lock:
        index = _fixed.get(key)
    if index is None:
        index = LogIndex(topic, up_to)
        if index.number > up_to:
            with _fixed_lock:
                _fixed[key] = index
    return index


def first_offset(commit: Commit, partition: int) -> int:
    """Return the offset of the first message that a commit adds to a partition; the next one's when it adds none."""
    return commit.next[partition] - len(commit.control) - commit.rows_by_partition[partition]


def _runs(commit: Commit, partition: int) -> Iterator[Run]:
    """Yield the rows of a commit's segments in a partition, in task order."""
    offset = first_offset(commit, partition)
    for segment, batch in commit.places.get(partition, ()):
        yield Run(offset, segment, batch, segment.rows[batch])
        offset += segment.rows[batch]


def _owner(commit: Commit) -> tuple[str, str] | None:
    return None if commit.once else (commit.producer, commit.generation)


def superseded_since(topic: Topic, commits: int, first: Sequence[int], read: Sequence[int]) -> list[Superseded]:
    """Return what lies between ``first`` and ``read`` as of the first ``commits`` commits, and is superseded now.

    Oldest first, one of each producer. Control messages alone do not count: reading them again changes nothing
    new.
    """
    if commits == 0 or tuple(first) == tuple(read):
        return []
    then = load_tail(topic, commits - 1).seen
    now = load_tail(topic).seen
    gone = {owner[0] for owner in then.generations().items() if now.turns.is_superseded(*owner)}
    newest = now.generations()
    replaced: dict[str, Superseded] = {}
    for commit in read_commits(topic, 0, commits - 1) if gone else ():
        producer = commit.producer
        if (
            commit.once
            or producer not in gone
            or producer in replaced
            or then.turns.is_superseded(producer, commit.generation)
        ):
            continue
        for partition, rows in enumerate(commit.rows_by_partition[: len(read)]):
            offset = max(first_offset(commit, partition), first[partition])
            if offset < min(read[partition], first_offset(commit, partition) + rows):
                successor = now.turns.successor(producer)
                by, generation = (producer, newest[producer]) if successor is None else successor[1].owner
                replaced[producer] = Superseded(producer, commit.generation, generation, partition, offset, by)
                break
    return list(replaced.values())


def written_ends(topic: Topic) -> dict[str, tuple[int, ...]]:
    """Return by producer where its last rows end in each partition, of rows that readers still see."""
    seen = load_tail(topic).seen
    ends: dict[str, tuple[int, ...]] = {}
    for commit in read_commits(topic, 0):
        if commit.rows and not commit.once and not seen.turns.is_superseded(commit.producer, commit.generation):
            rows = commit.rows_by_partition
            former = ends.get(commit.producer, (0,) * topic.partitions)
            own = (end - len(commit.control) if count else 0 for end, count in zip(commit.next, rows, strict=True))
            ends[commit.producer] = tuple(max(one, other) for one, other in zip(own, former, strict=True))
    return ends

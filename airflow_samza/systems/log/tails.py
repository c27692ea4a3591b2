"""The tails of topics: what a writer has to know of one, and those that this process has seen last.

A known tail saves reading all commits of a topic again. It is used only when the last commit that it knows is still
what it was: a topic may be deleted and made again under its name.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from cachetools import LRUCache

from airflow_samza.systems.log.records import Commit, parse_commit, reject_gap
from airflow_samza.systems.log.topic import Topic
from airflow_samza.systems.producers_seen import ProducersSeen


@dataclass
class Tail:
    """Tail of a topic: what a writer has to know of it.

    The next commit's number, the next offset per partition, and the producers that have published.
    """

    topic: Topic
    number: int = 0
    next: list[int] = field(default_factory=list)
    seen: ProducersSeen = field(default_factory=ProducersSeen)
    schema: str | None = None
    snapshot: int = 0
    """Commits below this number are covered by a snapshot."""
    recent: list[Commit] = field(default_factory=list)
    """The commits from ``snapshot`` on."""
    data: bytes | None = None
    """The last commit as it is written; None when there is none after the snapshot."""

    def copy(self, topic: Topic) -> Tail:
        """Return a copy that can be moved on by itself."""
        return Tail(
            topic,
            self.number,
            list(self.next),
            self.seen.copy(),
            self.schema,
            self.snapshot,
            list(self.recent),
            self.data,
        )

    def take(self, commit: Commit) -> None:
        """Move past one more commit."""
        self.recent.append(commit)
        self.number = commit.number + 1
        self.next = list(commit.next)
        self.schema = self.schema or commit.schema
        if not commit.once:
            self.seen.add(commit.producer, commit.generation, commit.epoch, commit.slot, commit.root)

    def advance(self, up_to: int | None = None) -> None:
        """Read the commits that were added since."""
        while up_to is None or self.number <= up_to:
            commit = read_commit(self.topic, self.number, self.next, self)
            if commit is None:
                break
            self.take(commit)

    def state(self) -> dict[str, Any]:
        """Return what a snapshot keeps of it."""
        return {"next": self.next, "schema": self.schema, **self.seen.to_json()}


def read_commit(
    topic: Topic, number: int, before: Sequence[int] | None = None, tail: Tail | None = None
) -> Commit | None:
    """Read one commit; None when there is none of this number (yet). ``before``: the offsets that it must start from.

    ``tail`` gets the bytes.
    """
    path = topic.commit_path(number)
    try:
        data = topic.filesystem.read(path)
    except FileNotFoundError:
        if topic.filesystem.exists(topic.commit_path(number + 1)):
            # It may have been written between the two questions.
            if topic.filesystem.exists(path):
                return read_commit(topic, number, before, tail)
            raise topic.without_commit(number) from None
        return None
    commit = parse_commit(topic, path, topic.parse_json(path, data), number)
    if before is not None:
        reject_gap(topic, path, commit, before)
    if tail is not None:
        tail.data = data
    return commit


_Key = tuple[str, str, int, str | None]


class TailCache:
    """Tails by topic. What is given out is a copy, which its taker may move on."""

    def __init__(self, most: int = 64, most_commits: int = 100) -> None:
        self._most_commits = most_commits
        self._tails: LRUCache[_Key, Tail] = LRUCache(most)
        self._lock = threading.Lock()

    def find(self, topic: Topic, up_to: int | None) -> Tail | None:
        """Return the tail of a topic as it was known last, if it does not reach beyond commit ``up_to``."""
        with self._lock:
            tail = self._tails.get(_key(topic))
        if tail is None or (up_to is not None and tail.number > up_to + 1):
            return None
        try:
            same = topic.filesystem.read(topic.commit_path(tail.number - 1)) == tail.data
        except FileNotFoundError:
            same = False
        if not same:
            with self._lock:
                self._tails.pop(_key(topic), None)
            return None
        return tail.copy(topic)

    def keep(self, tail: Tail) -> None:
        """Remember a tail by its last commit; one that goes far beyond its last snapshot is better read anew."""
        if tail.data is None:
            return
        key = _key(tail.topic)
        with self._lock:
            former = self._tails.get(key)
            if tail.number - tail.snapshot >= self._most_commits:
                self._tails.pop(key, None)
            elif former is None or former.number <= tail.number:
                self._tails[key] = tail.copy(tail.topic)

    def forget(self, topic: Topic) -> None:
        """Forget a topic, so that every file of it is read anew."""
        with self._lock:
            self._tails.pop(_key(topic), None)


def _key(topic: Topic) -> _Key:
    return topic.filesystem.location(topic.directory), topic.name, topic.partitions, topic.schema


TAIL_CACHE = TailCache()

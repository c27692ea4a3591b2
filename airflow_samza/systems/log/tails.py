"""The tails of topics that this process has seen last, so that who writes or reads a topic again need not read all its commits again.

A tail is taken from here only when the last commit that it knows is still what it was: a topic may be deleted and made again under its
name, and compacted.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING

from airflow_samza.systems.log.topic import Topic

if TYPE_CHECKING:
    from airflow_samza.systems.log.commits import Tail

_Key = tuple[str, str, int, str | None]


class KnownTails:
    """Tails by topic, each with the bytes of its last commit.

    What is given out is a copy, which its taker may move on.
    """

    def __init__(self, most: int = 64, most_commits: int = 100) -> None:
        self._most = most
        self._most_commits = most_commits
        self._known: OrderedDict[_Key, tuple[Tail, bytes]] = OrderedDict()
        self._lock = threading.Lock()

    def find(self, topic: Topic, up_to: int | None) -> Tail | None:
        """The tail of a topic as it was known last, if it does not reach beyond commit ``up_to``."""
        with self._lock:
            known = self._known.get(_key(topic))
        if known is None:
            return None
        tail, data = known
        if up_to is not None and tail.number > up_to + 1:
            return None
        try:
            same = topic.filesystem.read(topic.commit_path(tail.number - 1)) == data
        except FileNotFoundError:
            same = False
        if not same:
            with self._lock:
                self._known.pop(_key(topic), None)
            return None
        return tail.copy(topic)

    def keep(self, tail: Tail, data: bytes) -> None:
        """Remembers a tail and the bytes of its last commit.

        One that goes far beyond its last snapshot is better read anew.
        """
        topic = tail.topic
        with self._lock:
            former = self._known.pop(_key(topic), None)
            if tail.number - tail.snapshot >= self._most_commits:
                return
            if former is not None and former[0].number > tail.number:
                self._known[_key(topic)] = former
                return
            self._known[_key(topic)] = (tail.copy(topic), data)
            while len(self._known) > self._most:
                self._known.popitem(last=False)

    def forget(self, topic: Topic) -> None:
        """Has every file of a topic read anew."""
        with self._lock:
            self._known.pop(_key(topic), None)


def _key(topic: Topic) -> _Key:
    return topic.filesystem.location(topic.directory), topic.name, topic.partitions, topic.schema


KNOWN_TAILS = KnownTails()

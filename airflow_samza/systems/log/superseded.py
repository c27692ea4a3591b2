"""Output that a reader has read, and a newer generation of its writer, or another run of its slot, has replaced since.

A commit of what is superseded is hidden, and what replaces it comes at new offsets. A reader that goes on by
offsets alone would read the same rows twice; the commits say so, also those that have expired: their
records stay.
"""

from __future__ import annotations

from collections.abc import Sequence

from airflow_samza.systems.capabilities import Superseded
from airflow_samza.systems.log.commits import load_tail, read_commits
from airflow_samza.systems.log.index import first_offset
from airflow_samza.systems.log.topic import Topic


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

"""Facts of the topics of a log: sizes, offsets of partitions, commits that readers see.

The command ``topics`` and the page show them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from airflow_samza.errors import SamzaError
from airflow_samza.systems.log.index import LogIndex, Run

if TYPE_CHECKING:
    from airflow_samza.systems.log.records import Commit
    from airflow_samza.systems.log.system import LogSystem


def list_facts(log: LogSystem, matching: str = "") -> Iterator[dict[str, Any]]:
    """Yield a topic after the other: partitions, messages, bytes, the last commit and the expiry (ms since 1970).

    A damaged topic has ``damaged``, and none of the figures.
    """
    for name in log.topics():
        if matching not in name:
            continue
        try:
            yield topic_facts(LogIndex(log.topic(name)))
        except SamzaError as error:
            yield {"topic": name, "damaged": error.sentence}


def topic_facts(index: LogIndex) -> dict[str, Any]:
    """Return the sizes of one topic, as :func:`list_facts` has them."""
    partitions = partition_facts(index)
    commits = list(index.live_commits())
    return {
        "topic": index.topic.name,
        "partitions": len(partitions),
        "messages": sum(facts["messages"] for facts in partitions),
        "control": sum(facts["control"] for facts in partitions),
        "bytes": _bytes(index),
        "last_commit": commits[-1].at if commits else None,
        "expires": index.floor.expires_at,
    }


def show_facts(log: LogSystem, name: str) -> dict[str, Any]:
    """Return the description of one topic as ``topics show --json`` has it; ``commits`` are those that readers see.

    Moments are in milliseconds since 1970.
    """
    topic = log.topic(name)
    index = LogIndex(topic)
    return {
        "topic": name,
        "path": topic.filesystem.location(topic.directory),
        "schema": None if index.schema is None else str(index.schema),
        "number": index.number,
        "bytes": _bytes(index),
        "expires": index.floor.expires_at,
        "partitions": partition_facts(index),
        "commits": [commit_facts(commit, index.topic.partitions) for commit in index.live_commits()],
    }


def commit_facts(commit: Commit, partitions: int) -> dict[str, Any]:
    """Return what a commit has added to all partitions: each of them shows its control messages."""
    return {
        "commit": commit.number,
        "at": commit.at,
        "messages": commit.rows,
        "bytes": commit.bytes,
        "control": len(commit.control) * partitions,
        "generation": commit.generation,
        "epoch": commit.epoch,
        "producer": commit.producer,
    }


def partition_facts(index: LogIndex) -> list[dict[str, int]]:
    """Return the offsets and messages of every partition."""
    facts = []
    for partition in range(index.topic.partitions):
        entries = index.entries(partition)
        users = [entry for entry in entries if isinstance(entry, Run)]
        facts.append(
            {
                "partition": partition,
                "oldest": index.oldest(partition),
                "next": index.head[partition],
                "messages": sum(entry.rows for entry in users),
                "control": len(entries) - len(users),
            }
        )
    return facts


def _bytes(index: LogIndex) -> int:
    """Return the bytes of the segments that readers may open."""
    return sum({segment.name: segment.bytes for segment in index.live_segments()}.values())

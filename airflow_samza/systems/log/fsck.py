"""Checks of every file of a topic for damaged, missing and left-behind data. They change nothing.

The command ``fsck`` shows them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from airflow_samza.errors import SamzaError, StorageUnavailable, TopicError
from airflow_samza.systems.log.commits import record_numbers
from airflow_samza.systems.log.index import Control, LogIndex
from airflow_samza.systems.log.records import Commit
from airflow_samza.systems.log.segment_store import FILES, elsewhere, store_of
from airflow_samza.systems.log.tails import TAIL_CACHE, read_commit
from airflow_samza.systems.log.topic import Topic


@dataclass(frozen=True)
class Finding:
    """Finding about one file. ``serious``: rows are lost or cannot be read; else it only takes room."""

    path: str
    what: str
    remedy: str
    serious: bool = True

    def __str__(self) -> str:
        return f"{self.path} {self.what}. {self.remedy}"


@dataclass(frozen=True)
class Published:
    """Publication that a run's record names: the last epoch of a producer's generation.

    ``record`` says where it stands.
    """

    producer: str
    generation: str
    epoch: int
    record: str


def fsck(topic: Topic, published: Sequence[Published] = ()) -> list[Finding]:
    """Return all findings on a topic; none when it is sound. Reads every byte of every segment.

    ``published``: what the records of runs say that it holds. The last commits of a topic leave no gap when they are
    deleted. Of what is staged for another system only the records of runs tell.
    """
    if topic.is_staging:
        return []
    TAIL_CACHE.forget(topic)
    commits, findings = _commits(topic)
    findings += _snapshots(topic, commits)
    findings += _emptied(topic)
    try:
        index = LogIndex(topic)
    except TopicError as error:
        if not any(finding.serious for finding in findings):
            findings.append(_finding(topic, error))
        return findings
    findings += _control(topic, index)
    findings += _missing(topic, index, published)
    findings += _segments(topic, index)
    return findings


def _emptied(topic: Topic) -> Iterator[Finding]:
    """Yield a topic with segments and without a commit or snapshot: somebody wrote, and nobody sees it."""
    written = [name for name in topic.filesystem.list(f"{topic.directory}/segments") if name.endswith(".arrow")]
    if written and not any(record_numbers(topic, kind) for kind in ("commits", "snapshots")):
        yield Finding(
            topic.filesystem.location(f"{topic.directory}/commits"),
            f"holds no commit, and {len(written)} segments are there: the commits were deleted, or the first writer "
            "died before it had any",
            "Restore the commits, or clear the stage that wrote the topic; if that has not ended yet, nothing is to "
            "be done.",
        )


def _control(topic: Topic, index: LogIndex) -> Iterator[Finding]:
    """Return findings about control messages that no reader could understand.

    Every partition has the same ones, so the first stands for all.
    """
    start = index.floor.offset(0)
    for _, entries in index.owned_slice(0, start, index.head[0]):
        for entry in entries:
            if not isinstance(entry, Control):
                continue
            try:
                entry.message(topic, 0)
            except SamzaError as error:
                what = (
                    f"holds a control message that cannot be read (offset {entry.offset} of partition 0): "
                    f"{error.sentence}"
                )
                yield _finding(topic, topic.damaged(topic.commit_path(entry.commit.number), what))


def _missing(topic: Topic, index: LogIndex, published: Sequence[Published]) -> Iterator[Finding]:
    for said in published:
        if index.seen.turns.is_superseded(said.producer, said.generation):
            continue
        if not index.seen.is_published(topic.name, said.producer, said.generation, said.epoch):
            yield Finding(
                topic.filesystem.location(f"{topic.directory}/commits"),
                f"lacks epoch {said.epoch} of {said.producer} (generation {said.generation}), which {said.record} "
                "says was published",
                f"Restore the commits, or clear the stage: {topic.name!r} lacks messages without it.",
            )


def _finding(topic: Topic, error: TopicError) -> Finding:
    path, what = error.facts.get("path"), error.facts.get("what")
    remedy = f"Clear the stage that wrote it (or restore the file): {topic.name!r} cannot be read whole without it."
    return Finding(str(path or topic.filesystem.location(topic.directory)), str(what or error.sentence), remedy)


def _commits(topic: Topic) -> tuple[dict[int, Commit], list[Finding]]:
    findings: list[Finding] = []
    commits: dict[int, Commit] = {}
    numbers = record_numbers(topic, "commits")
    before: tuple[int, ...] | None = (0,) * topic.partitions
    for number in range(numbers[-1] + 1 if numbers else 0):
        try:
            commit = read_commit(topic, number, before)
            if commit is None:
                raise topic.without_commit(number)
            commits[number], before = commit, commit.next
        except TopicError as error:
            findings.append(_finding(topic, error))
            before = None
    return commits, findings


def _snapshots(topic: Topic, commits: dict[int, Commit]) -> Iterator[Finding]:
    for number in record_numbers(topic, "snapshots"):
        path = topic.snapshot_path(number)
        remedy = "Delete it: it is made again from the commits, which hold all that it says."
        try:
            record = topic.read_json(path)
            held = [Commit.from_json(data) for data in record["commits"]]
        except TopicError as error:
            yield Finding(topic.filesystem.location(path), str(error.facts.get("what", error.sentence)), remedy)
            continue
        except (KeyError, ValueError, TypeError) as error:
            yield Finding(topic.filesystem.location(path), f"cannot be understood ({error!r})", remedy)
            continue
        if any(commit.number in commits and commits[commit.number] != commit for commit in held):
            yield Finding(topic.filesystem.location(path), "differs from the commits that it was made from", remedy)


def _segments(topic: Topic, index: LogIndex) -> Iterator[Finding]:
    if topic.messages is not None and (topic.store or FILES) is FILES:
        yield without_messages(topic, elsewhere(topic))
        return
    readers = store_of(topic).readers(topic)
    for segment in index.live_segments():
        try:
            readers.verify(segment)
        except FileNotFoundError:
            yield _finding(topic, topic.damaged(topic.segment_path(segment.name), "is missing"))
        except StorageUnavailable as error:
            yield without_messages(topic, error)
            break
        except TopicError as error:
            yield _finding(topic, error)
    readers.close()
    needed = index.segments()
    for file in topic.filesystem.list(f"{topic.directory}/segments"):
        if file.removesuffix(".arrow") not in needed:
            yield Finding(
                topic.filesystem.location(f"{topic.directory}/segments/{file}"),
                "belongs to no commit that readers see (a dead or replaced attempt, "
                "or one that is still being written)",
                "Nothing to do: the sweep deletes it when it is old enough.",
                serious=False,
            )


def without_messages(topic: Topic, error: SamzaError) -> Finding:
    """Return the finding on a topic whose messages cannot be looked at from here, or not now."""
    where = topic.filesystem.location(topic.directory)
    return Finding(
        where, f"was checked without its messages: {error.sentence.rstrip('.')}", error.hint or "", serious=False
    )


def is_sound(findings: list[Finding]) -> bool:
    """Return whether nothing serious was found."""
    return not any(finding.serious for finding in findings)

"""Maintenance of a log: expiring, sweeping what is expired or left behind, and deleting topics.

None of it changes an offset, and none of it needs a lock: a reader that opened before finds what it needs for the grace
time. Retention of a root does it, and the system of Spark for the topics that it goes through.
"""

from __future__ import annotations

import functools
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from airflow_samza.errors import TopicError
from airflow_samza.systems.filesystems.filesystem import Filesystem
from airflow_samza.systems.filesystems.trash import YOUNG_SECONDS, empty_trash, move_to_trash, trash_place
from airflow_samza.systems.log.commits import read_commits
from airflow_samza.systems.log.index import LogIndex, read_floor
from airflow_samza.systems.log.segment_store import FILES, SegmentStore, store_of, with_store
from airflow_samza.systems.log.topic import (
    DELETING,
    SEGMENT,
    VERSION,
    Topic,
    find_topic,
    forget_topic,
    list_half_deleted,
    list_topics,
    open_topic,
    own_files,
    topic_directory,
)

GRACE_MS = 3_600_000
"""Files that no record names any more are kept for so long: readers that are at work may still need them."""

STAGED_GRACE_MS = 7 * 24 * GRACE_MS
"""Files that no commit has ever named are kept for so long: a stage may be waiting for its slowest task."""


def mark_expired(topic: Topic, at: int | None) -> None:
    """Mark a whole topic to be deleted by the first sweep after ``at`` (ms since 1970, UTC); None takes the mark away.

    Marking again sets a new time.
    """
    floor = read_floor(topic)
    _write_floor(topic, floor.commit, floor.offsets, at)


def expire(topic: Topic, older_than: int) -> int:
    """Expire the commits from before ``older_than`` (ms since 1970, UTC), up to the first younger one.

    Returns how many are expired now.

    Their offsets are gone for readers that open after; the files go with the next sweep. Head and later offsets stay.
    """
    index = LogIndex(topic)
    commit, offsets = index.floor.commit, index.floor.offsets
    for candidate in index.commits():
        if candidate.at >= older_than:
            break
        if candidate.number >= commit:
            commit, offsets = candidate.number + 1, candidate.next
    if commit > index.floor.commit:
        _write_floor(topic, commit, offsets, index.floor.expires_at)
    return commit


def _write_floor(topic: Topic, commit: int, offsets: tuple[int, ...], expires_at: int | None) -> None:
    record = {"version": VERSION, "commit": commit, "offsets": list(offsets), "expires_at": expires_at}
    topic.filesystem.put(topic.expired_path, json.dumps(record).encode())


@dataclass
class Swept:
    """Result of a sweep: whole topics that it deleted, and files and bytes of topics that stay."""

    topics: list[str] = field(default_factory=list)
    files: int = 0
    bytes: int = 0
    damaged: dict[str, TopicError] = field(default_factory=dict)
    later: list[str] = field(default_factory=list)
    """Sentences on what could not be deleted, and is by the next sweep: where messages lie, nobody answers."""

    def delete(self, topic: Topic, is_held: Callable[[], bool] = lambda: False, *, dry: bool) -> None:
        """Delete a topic that is not held, and note it; ``dry``: only note it."""
        with self.noting_later():
            if dry or delete_topic(topic, is_held):
                self.topics.append(topic.name)

    @contextmanager
    def noting_later(self) -> Iterator[None]:
        """Note what a store does not delete within the block: it is for the next sweep."""
        try:
            yield
        except TopicError as error:
            if error.sentence not in self.later:
                self.later.append(error.sentence)


def sweep(
    filesystem: Filesystem,
    system: str,
    now: int | None = None,
    grace_ms: int = GRACE_MS,
    staged_grace_ms: int = STAGED_GRACE_MS,
    is_held: Callable[[str], bool] = lambda name: False,
    dry: bool = False,
    store: SegmentStore = FILES,
) -> Swept:
    """Delete expired topics, and the files that no reader can need.

    Of expired or superseded commits, and of dead attempts.

    A topic that cannot be read is left alone and reported (``damaged``): what fsck might still save is not deleted.
    Neither is an expired one that a run may still need, as ``is_held`` answers by its name. ``dry`` only reports
    what would be deleted. Topics whose messages lie in another store than the given one are left to that.
    """
    now = time.time_ns() // 1_000_000 if now is None else now
    swept = Swept()
    if not dry:
        empty_trash(filesystem)
    for name in list_topics(filesystem):
        try:
            topic = with_store(open_topic(filesystem, system, name), store)
            if not store.holds(topic):
                continue
            floor = read_floor(topic)
            if floor.expires_at is not None and floor.expires_at <= now and not is_held(name):
                swept.delete(topic, functools.partial(is_held, name), dry=dry)
                continue
            if topic.is_staging:  # what waits there may be committed by its run, and goes when it is published
                continue
            _sweep_segments(topic, now, grace_ms, staged_grace_ms, swept, dry=dry)
            for part in ("", "/commits", "/snapshots") if not dry else ():
                filesystem.delete_temporary(f"{topic.directory}{part}", (now - max(grace_ms, staged_grace_ms)) / 1000)
        except FileNotFoundError:
            continue  # another sweep took it meanwhile
        except TopicError as error:
            if error.facts.get("link") or filesystem.exists(f"{topic_directory(name)}/topic.json"):
                swept.damaged[name] = error
    with swept.noting_later():
        for name in store.sweep(filesystem, (now - grace_ms) / 1000, dry=dry):
            swept.topics.append(name)  # what comes before an error is deleted
    if not dry:
        for name in list_half_deleted(filesystem):
            half = Topic(filesystem, system, name, 1, None)
            try:
                (_delete_parts if filesystem.renames_folders else finish_in_place)(half)
            except TopicError as error:
                swept.damaged[name] = error
    return swept


def delete_topic(topic: Topic, is_held: Callable[[], bool] = lambda: False) -> bool:
    """Delete a topic; False when it was found to be held, and given back, or another process was quicker.

    It goes out of sight as a whole, and ``is_held`` is asked after that: a process that opens a run again notes that
    first, and looks for its topics then. So either the topic is given back, or the run sees that it is gone. Topics
    that lie below it (a/b under a) stay.
    """
    filesystem, parts, store = topic.filesystem, topic.directory.split("/"), store_of(topic)
    forget_topic(topic)
    if not filesystem.renames_folders:
        is_deleted = delete_in_place(topic, is_held)
        if is_deleted:
            store.delete(topic)
        return is_deleted
    if own_files(topic)[1]:
        place = move_to_trash(filesystem, topic.directory)
        if place is None:
            return False
        if is_held():
            filesystem.rename(place, topic.directory)
            return False
        filesystem.delete_tree(place)
    else:
        if is_held():
            return False
        _delete_parts(topic)
    for end in range(len(parts), 1, -1):
        filesystem.delete_empty("/".join(parts[:end]))
    store.delete(topic)
    return True


def delete_in_place(topic: Topic, is_held: Callable[[], bool]) -> bool:
    """Delete a topic in its place, where the storage renames no folder in one step; returns as :func:`delete_topic`.

    A note stands before anything is deleted, and goes last: until then nobody makes a topic of this name, and whoever
    finds the note when its writer has long stopped goes on. The topic's record goes next, so that nobody opens the
    topic any more, and the topic is given back by it. Of the rest the segments go first: who has opened the topic
    before finds one missing, never fewer messages.
    """
    filesystem, path, note = topic.filesystem, f"{topic.directory}/topic.json", f"{topic.directory}/{DELETING}"
    filesystem.put(note, json.dumps({"version": VERSION, "at": time.time()}).encode())
    standing = find_topic(filesystem, topic.system, topic.name)
    if standing is None or standing.identity != topic.identity:
        if standing is not None or not set(own_files(topic)[0]) - {DELETING}:
            filesystem.delete(note)
        return False
    record = filesystem.read(path)
    filesystem.delete(path)
    if is_held():
        filesystem.put_if_absent(path, record)
        filesystem.delete(note)
        return False
    _delete_rest(topic)
    return True


def finish_in_place(topic: Topic) -> None:
    """Finish a deletion that was interrupted, unless the process that has begun it may still be at it."""
    with suppress(FileNotFoundError):  # nobody has begun one
        begun = topic.filesystem.modified(f"{topic.directory}/{DELETING}")
        if begun <= time.time() - YOUNG_SECONDS:
            _delete_rest(topic)


def _delete_rest(topic: Topic) -> None:
    names = own_files(topic)[0]
    for name in ("segments", "expired.json", "snapshots", "written", "commits"):
        if name in names:
            path = f"{topic.directory}/{name}"
            (topic.filesystem.delete if name.endswith(".json") else topic.filesystem.delete_tree)(path)
    topic.filesystem.delete(f"{topic.directory}/{DELETING}")


@dataclass(frozen=True)
class ExpiringLogTopic:
    """A topic that can be marked to expire, and be deleted."""

    topic: Topic

    @property
    def expires_at(self) -> int | None:
        """The time (ms since 1970) after which it may be deleted; None: it has no mark."""
        return read_floor(self.topic).expires_at

    def expire(self, at: int | None) -> None:
        """Mark it to be deleted after a time (ms since 1970); None takes the mark away."""
        mark_expired(self.topic, at)

    def delete(self, is_held: Callable[[], bool] = lambda: False) -> bool:
        """Delete it; return False when it is held, and given back, or another process was quicker."""
        return delete_topic(self.topic, is_held)


def _delete_parts(topic: Topic) -> None:
    """Delete a topic beside topics below it: its record first, so that no reader opens half a topic.

    A later process finishes it.
    """
    place = trash_place()
    for name in own_files(topic)[0]:
        move_to_trash(topic.filesystem, f"{topic.directory}/{name}", f"{place}/{name}")
    topic.filesystem.delete_tree(place)


def _sweep_segments(topic: Topic, now: int, grace_ms: int, staged_grace_ms: int, swept: Swept, *, dry: bool) -> None:
    directory = f"{topic.directory}/segments"
    # Listed before the commits are read: whatever is committed in between is then not in the list, or among the
    # commits.
    names = topic.filesystem.list(directory)
    if not names:
        return
    index = LogIndex(topic)
    commits = list(index.commits() if index.floor.commit == 0 else read_commits(topic, 0))
    committed = {segment.name for commit in commits for segment in commit.segments}
    needed = index.segments()
    old = max((commit.number for commit in commits if commit.at < now - grace_ms), default=-1)
    if old >= 0:  # what was superseded a moment ago may still be read
        needed |= LogIndex(topic, old).segments()
    for file in names:
        path = f"{directory}/{file}"
        name = file.removesuffix(SEGMENT)
        if name == file or name in needed:  # what is no segment has been put there by somebody else
            continue
        grace = grace_ms if name in committed else max(grace_ms, staged_grace_ms)
        try:
            if topic.filesystem.modified(path) * 1000 >= now - grace:
                continue
            size = topic.filesystem.size(path)
        except FileNotFoundError:
            continue
        if not dry:
            topic.filesystem.delete(path)
        swept.files += 1
        swept.bytes += size

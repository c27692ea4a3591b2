"""Deletion of a topic in its place, where the storage renames no folder in one step.

A note stands before anything is deleted, and goes last: until then nobody makes a topic of this name, and whoever finds
the note when its writer has long stopped goes on. The topic's record goes next, so that nobody opens the topic any
more, and the topic is given back by it. Of the rest the segments go first: who has opened the topic before finds one
missing, never fewer messages.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import suppress

from airflow_samza.systems.filesystems.trash import YOUNG_SECONDS
from airflow_samza.systems.log.topic import DELETING, VERSION, Topic, find_topic, own_files

_ORDER = ("segments", "expired.json", "snapshots", "written", "commits")


def delete_in_place(topic: Topic, is_held: Callable[[], bool]) -> bool:
    """Delete a topic; False when it was found to be held, and given back, or another process was quicker."""
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
    for name in _ORDER:
        if name in names:
            path = f"{topic.directory}/{name}"
            (topic.filesystem.delete if name.endswith(".json") else topic.filesystem.delete_tree)(path)
    topic.filesystem.delete(f"{topic.directory}/{DELETING}")

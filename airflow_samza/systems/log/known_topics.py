"""Topics that runs have made for themselves, as this process has opened them last, where opening one is charged.

Such a topic is named after its run and the generation of the stage that writes it, and goes with them: its record is
not read again for a minute. Topics of anybody else may be deleted and made anew at any time, and are always looked at.
"""

from __future__ import annotations

import threading

from cachetools import TTLCache

from airflow_samza.systems.filesystems.filesystem import Filesystem
from airflow_samza.systems.log.topic import Topic, open_topic, topic_directory

_known: TTLCache[tuple[str, str], Topic] = TTLCache(256, 60.0)
_lock = threading.Lock()


def known_topic(filesystem: Filesystem, system: str, name: str) -> Topic:
    """Return the topic of this name; one that is missing is a TopicError."""
    if filesystem.pace.is_free:
        return open_topic(filesystem, system, name)
    key = (system, filesystem.location(topic_directory(name)))
    with _lock:
        topic = _known.get(key)
    if topic is None:
        topic = open_topic(filesystem, system, name)
        if topic.is_runs_own:
            with _lock:
                _known[key] = topic
    return topic


def forget_topic(topic: Topic) -> None:
    """Forget a topic that this process deletes."""
    with _lock:
        _known.pop((topic.system, topic.filesystem.location(topic.directory)), None)

"""Topics that runs have made for themselves, as this process has opened them last, where opening one is charged.

Such a topic is named after its run and the generation of the stage that writes it, and goes with them: its record is
not read again for a minute. Topics of anybody else may be deleted and made anew at any time, and are always looked at.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict

from airflow_samza.systems.filesystems.filesystem import Filesystem
from airflow_samza.systems.log.topic import Topic, open_topic, topic_directory

_KEPT_SECONDS = 60.0
_MOST = 256

_known: OrderedDict[tuple[str, str], tuple[float, Topic]] = OrderedDict()
_lock = threading.Lock()


def known_topic(filesystem: Filesystem, system: str, name: str) -> Topic:
    """Return the topic of this name; one that is missing is a TopicError."""
    if filesystem.pace.is_free:
        return open_topic(filesystem, system, name)
    key = (system, filesystem.location(topic_directory(name)))
    with _lock:
        since, topic = _known.get(key, (0.0, None))
    if topic is not None and time.monotonic() - since < _KEPT_SECONDS:
        return topic
    topic = open_topic(filesystem, system, name)
    if topic.is_runs_own:
        with _lock:
            _known.pop(key, None)
            _known[key] = (time.monotonic(), topic)
            if len(_known) > _MOST:
                _known.popitem(last=False)
    return topic


def forget_topic(topic: Topic) -> None:
    """Forget a topic that this process deletes."""
    with _lock:
        _known.pop((topic.system, topic.filesystem.location(topic.directory)), None)

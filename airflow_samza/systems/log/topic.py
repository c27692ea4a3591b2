"""A topic of the log: where its files lie, and what is known of it before anything is written.

Layout under the root (docs/reference/layout.md): ``topics/<name>/`` with ``topic.json``, ``commits/``, ``snapshots/``,
``segments/`` and ``expired.json``. Systems with the log's bookkeeping open them, and upkeep finds them.
"""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any
from urllib.parse import quote, unquote

from cachetools import TTLCache

from airflow_samza.config import MAX_PARTITIONS
from airflow_samza.errors import TopicError
from airflow_samza.schema import Schema
from airflow_samza.systems.filesystems.filesystem import Filesystem

VERSION = 1
ROOT = "topics"
SEGMENT = ".arrow"
DELETING = "deleting.json"
"""The note in a topic's folder that the topic is being deleted, on a storage that renames no folder in one step."""

_OWN_NAMES = frozenset({"commits", "snapshots", "segments", "topic.json", "expired.json", DELETING})


@dataclass(frozen=True)
class Topic:
    """Topic of a log: its files, its partition count and the schema (DDL) it was declared with.

    ``schema`` None: the first rows decide. ``identity`` is made with the topic: one that was deleted and made again
    under its name has another. Empty where the record was written before there were identities. ``owner``: the run
    whose own topic it is (:attr:`StreamSpec.owner`), () for anybody's. ``messages``: where another system keeps them,
    by its record; None: they are segments in the topic's folder. ``store`` reads and writes them
    (``segment_store.py``). ``created`` is when it was made, in ms since 1970; None: its record does not say so.
    """

    filesystem: Filesystem
    system: str
    name: str
    partitions: int
    schema: str | None
    identity: str = ""
    owner: tuple[str, ...] = ()
    messages: Mapping[str, Any] | None = field(default=None, hash=False)
    store: Any = field(default=None, compare=False)
    created: int | None = field(default=None, compare=False)

    @property
    def is_runs_own(self) -> bool:
        """Return True for a topic between stages of one run.

        Its reader wrote it, and asks for it by a name that no input has.
        """
        return bool(self.owner) and self.name.count("/") >= 2

    @property
    def staging_note(self) -> str:
        """Return the note of a topic in which messages for another system are staged."""
        return f"{self.directory}/claimed.json"

    @property
    def is_staging(self) -> bool:
        """Return whether messages for another system are staged in it: a run's records name its segments, no commit."""
        return self.filesystem.exists(self.staging_note)

    @property
    def directory(self) -> str:
        """The topic's folder, relative to the root."""
        return topic_directory(self.name)

    def commit_path(self, number: int) -> str:
        """Return the record of one commit."""
        return f"{self.directory}/commits/{number:020d}.json"

    def snapshot_path(self, last: int) -> str:
        """Return the snapshot that ends with this commit."""
        return f"{self.directory}/snapshots/{last:020d}.json"

    def segment_path(self, segment: str) -> str:
        """Return a segment file."""
        return f"{self.directory}/segments/{segment}{SEGMENT}"

    @property
    def expired_path(self) -> str:
        """Path of the record of what is expired."""
        return f"{self.directory}/expired.json"

    def parts(self) -> frozenset[str]:
        """Return the names in the topic's folder: of records, and of folders with records."""
        return frozenset(self.filesystem.list(self.directory))

    def read_json(self, path: str) -> dict[str, Any]:
        """Return a record of this topic; a damaged one is a TopicError that names the file.

        A missing one is FileNotFoundError.
        """
        return self.parse_json(path, self.filesystem.read(path))

    def parse_json(self, path: str, data: bytes) -> dict[str, Any]:
        """Return a record of this topic from the bytes of its file."""
        try:
            record = json.loads(data)
        except ValueError as error:
            raise self.damaged(path, f"is not JSON ({error})" if data else "is empty") from None
        except RecursionError:
            raise self.damaged(path, "is nested too deeply") from None
        if not isinstance(record, dict) or record.get("version") != VERSION:
            version = record.get("version") if isinstance(record, dict) else None
            raise self.damaged(path, f"has the version {version!r} where {VERSION} is known")
        return record

    def damaged(self, path: str, what: str) -> TopicError:
        """Return the error for a file that is not as it was written."""
        location = self.filesystem.location(path)
        return TopicError(
            f"The topic {self.name!r} is damaged: {location} {what}.",
            hint=f"Run 'airflow-samza topics fsck {self.name}' to see all that is damaged, then clear the stage that "
            "writes the topic.",
            stream=self.name,
            path=location,
            what=what,
        )

    def of_other_count(self, path: str, partitions: int) -> TopicError:
        """Return the error for a record of a topic with another partition count."""
        return self.damaged(path, f"is for {partitions} partitions, and the topic has {self.partitions}")

    def without_commit(self, number: int) -> TopicError:
        """Return the error for a commit that is not there while later ones are."""
        return self.damaged(self.commit_path(number), "is missing, and later commits are there")


@lru_cache(maxsize=1024)
def topic_directory(name: str) -> str:
    """Return the folder of a topic.

    Each part of the name keeps its letters; what a file name cannot hold is percent-encoded.

    >>> topic_directory("views/run 1/1.1"), topic_directory("a/commits")
    ('topics/views/run%201/1.1', 'topics/a/%63ommits')
    """
    parts = name.split("/")
    if not all(parts):
        raise TopicError(
            f"{name!r} is not a topic's name.", hint="A name is one or more parts with / between them.", stream=name
        )
    encoded = [quote(part, safe="-_.~+=@,:") for part in parts]
    encoded = [f"%{ord(part[0]):02X}{part[1:]}" if part in _OWN_NAMES or part[0] == "." else part for part in encoded]
    return "/".join([ROOT, *encoded])


def find_topic(filesystem: Filesystem, system: str, name: str) -> Topic | None:
    """Return the topic of this name; None when there is none."""
    topic = Topic(filesystem, system, name, 0, None)
    path = f"{topic.directory}/topic.json"
    try:
        record = topic.read_json(path)
    except FileNotFoundError:
        return None
    partitions: Any = record.get("partitions")
    schema = record.get("schema")
    is_count = isinstance(partitions, int) and not isinstance(partitions, bool)
    if not is_count or not 1 <= partitions <= MAX_PARTITIONS or not isinstance(schema, str | None):
        raise topic.damaged(path, f"has {partitions!r} as its partition count and {schema!r} as its schema")
    identity = record.get("id", "")
    if not isinstance(identity, str):
        raise topic.damaged(path, f"has {identity!r} as its identity")
    owner = record.get("owner", [])
    if not isinstance(owner, list) or not all(isinstance(part, str) for part in owner):
        raise topic.damaged(path, f"has {owner!r} as its owner")
    messages = record.get("messages")
    if not isinstance(messages, dict | None):
        raise topic.damaged(path, f"has {messages!r} as the place of its messages")
    created = record.get("created")
    return replace(
        topic,
        partitions=partitions,
        schema=schema,
        identity=identity,
        owner=tuple(owner),
        messages=messages,
        created=created if isinstance(created, int) else None,
    )


def open_topic(filesystem: Filesystem, system: str, name: str) -> Topic:
    """Return the topic of this name; one that is missing is a TopicError."""
    topic = find_topic(filesystem, system, name)
    if topic is None:
        raise TopicError(
            f"There is no topic {name!r} in system {system!r} ({filesystem.location(topic_directory(name))}).",
            hint="Check the name with 'airflow-samza topics list'; a run's own topics are made by its plan task and "
            "expire after the run.",
            stream=name,
            system=system,
        )
    return topic


def create_topic(
    filesystem: Filesystem,
    system: str,
    name: str,
    partitions: int,
    schema: str | None,
    owner: Sequence[str] = (),
    make: Callable[[str, int], Mapping[str, Any] | None] = lambda name, partitions: None,
) -> Topic:
    """Make a topic, or return the one that is there when it fits and has no other owner.

    The first of two racing creators wins. ``make`` makes the place of its messages, where another system keeps them,
    and returns what the record says of it.
    """
    if not 1 <= partitions <= MAX_PARTITIONS:
        raise TopicError(
            f"The topic {name!r} cannot have {partitions} partitions.",
            hint=f"Declare 1 to {MAX_PARTITIONS:,}.",
            stream=name,
        )
    declared = None if schema is None else Schema.of(schema).ddl()
    record: dict[str, Any] = {
        "version": VERSION,
        "name": name,
        "id": uuid.uuid4().hex,
        "partitions": partitions,
        "schema": declared,
        "created": time.time_ns() // 1_000_000,
        **({"owner": list(owner)} if owner else {}),
    }
    path = f"{topic_directory(name)}/topic.json"
    topic = find_topic(filesystem, system, name)
    if topic is None and _is_half_deleted(filesystem, name) and not filesystem.exists(path):
        raise TopicError(
            f"The topic {name!r} cannot be made: the deletion of a former one was interrupted, and its commits are "
            "still there.",
            hint="Finish it with: airflow-samza gc",
            stream=name,
        )
    if topic is None:
        messages = make(name, partitions)
        record |= {"messages": messages} if messages is not None else {}
        if filesystem.put_if_absent(path, json.dumps(record).encode()):
            return Topic(
                filesystem,
                system,
                name,
                partitions,
                declared,
                record["id"],
                tuple(owner),
                messages,
                created=record["created"],
            )
    topic = topic or open_topic(filesystem, system, name)
    check_owner(name, topic.owner, owner)
    if topic.partitions != partitions:
        raise TopicError(
            f"The topic {name!r} of system {system!r} has {topic.partitions} partitions, not {partitions}.",
            hint="Use the count it has, or another name: a topic's count never changes.",
            stream=name,
            partitions=topic.partitions,
            wanted=partitions,
        )
    if topic.schema is not None and declared is not None and topic.schema != declared:
        raise TopicError(
            f"The topic {name!r} of system {system!r} has the schema ({topic.schema}), not ({declared}).",
            hint="Declare the schema it has, or use another name.",
            stream=name,
            schema=topic.schema,
            wanted=declared,
        )
    return topic


def check_owner(topic: str, owner: Sequence[str], caller: Sequence[str]) -> None:
    """Reject a run's own topic to anybody else.

    Topics without an owner, and callers that name none, are not checked.
    """
    if owner and caller and tuple(owner) != tuple(caller):
        raise TopicError(
            f"The topic {topic!r} belongs to {_owner_text(owner)}, not to {_owner_text(caller)}.",
            hint="Give one of the two another name, id (app_id=) or run id, so that their topics have different names.",
            stream=topic,
            owner=_owner_text(owner),
        )


def _owner_text(owner: Sequence[str]) -> str:
    parts = zip(("application", "with the id", "stream", "run"), owner, strict=False)
    return ", ".join(f"{word} {part!r}" for word, part in parts).replace(", with", " with")


def _is_half_deleted(filesystem: Filesystem, name: str) -> bool:
    """Return whether a former topic of this name, which has no record any more, is still being deleted."""
    if not filesystem.renames_folders:
        return filesystem.exists(f"{topic_directory(name)}/{DELETING}")
    return bool(filesystem.list(f"{topic_directory(name)}/commits"))


def reject_other(topic: Topic, identity: object, hint: str = "") -> None:
    """Reject a topic that is not the one of which a reader or writer has a checkpoint.

    Records without an identity are not compared.

    ``identity``: that of the topic which was read or written before; ``hint``: the remedy of who is no run.
    """
    if identity and topic.identity and identity != topic.identity:
        raise other_topic(topic.name, hint=hint)


def other_topic(name: str, what: str = "it was deleted and made anew", hint: str = "") -> TopicError:
    """Return the error for a topic that is gone, or another one than before.

    Offsets of the former one mean nothing in it.
    """
    return TopicError(
        f"The topic {name!r} is not the one that was read or written before: {what}.",
        hint=hint
        or "If it belongs to a run, clear the run from its plan on; an application that has read it forgets it with "
        "'airflow-samza state reset'.",
        stream=name,
    )


def own_files(topic: Topic) -> tuple[list[str], bool]:
    """Return the names in a topic's folder that are its own, the record first, and whether there are no others.

    ``written`` are the records of what Spark has written out, unless that is a topic below this one.
    """
    names = topic.filesystem.list(topic.directory)
    own = [name for name in names if name in _OWN_NAMES]
    if "written" in names and not topic.filesystem.exists(f"{topic.directory}/written/topic.json"):
        own.append("written")
    return sorted(own, key=lambda name: name != "topic.json"), len(own) == len(names)


def list_topics(filesystem: Filesystem) -> Iterator[str]:
    """Yield the names of all topics under the root, sorted."""
    yield from sorted(_walk(filesystem, ROOT, ()))


def list_half_deleted(filesystem: Filesystem) -> list[str]:
    """Return the names of topics whose deletion was interrupted.

    Their record is gone, and commits or a note of the deletion are there.
    """
    return sorted(_walk(filesystem, ROOT, (), half_deleted=True))


def _walk(
    filesystem: Filesystem, directory: str, parts: tuple[str, ...], *, half_deleted: bool = False
) -> Iterator[str]:
    try:
        names = filesystem.list(directory)
    except TopicError as error:
        if not error.facts.get("link"):
            raise
        names = [] if half_deleted else ["topic.json"]  # who opens it as a topic is told
    left = "topic.json" not in names and ("commits" in names or DELETING in names)
    if parts and ("topic.json" in names if not half_deleted else left):
        yield "/".join(unquote(part) for part in parts)
    for name in names:
        if name in _OWN_NAMES:  # a topic of such a name is percent-encoded
            continue
        yield from _walk(filesystem, f"{directory}/{name}", (*parts, name), half_deleted=half_deleted)


_topics: TTLCache[tuple[str, str], Topic] = TTLCache(256, 60.0)
_lock = threading.Lock()


def cached_topic(filesystem: Filesystem, system: str, name: str) -> Topic:
    """Return the topic of this name; one that is missing is a TopicError.

    Where a look is charged, the record of a run's own topic is not read again for a minute: such a topic is named after
    its run and the generation of the stage that writes it, and goes with them. Topics of anybody else may be deleted
    and made anew at any time, and are always looked at.
    """
    if filesystem.pace.is_free:
        return open_topic(filesystem, system, name)
    key = (system, filesystem.location(topic_directory(name)))
    with _lock:
        topic = _topics.get(key)
    if topic is None:
        topic = open_topic(filesystem, system, name)
        if topic.is_runs_own:
            with _lock:
                _topics[key] = topic
    return topic


def forget_topic(topic: Topic) -> None:
    """Forget a topic that this process deletes."""
    with _lock:
        _topics.pop((topic.system, topic.filesystem.location(topic.directory)), None)

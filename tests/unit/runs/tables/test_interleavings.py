"""Retention of a pushed table, its readers, rollbacks and compactions in every order of their steps.

What is listed can be read.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_samza.errors import NoSuchVersion, SamzaError, TopicError
from airflow_samza.records import plain
from airflow_samza.runs.records.folders import write_once
from airflow_samza.runs.tables import retention as table_retention, versions as table_versions
from airflow_samza.runs.tables.compacting import CompactionPart, compact, staged_path
from airflow_samza.runs.tables.folder import TableFolder
from airflow_samza.runs.tables.retention import GIVEN_UP, expire_versions
from airflow_samza.runs.tables.table_version import FULL, INCREMENTAL, ROLLBACK, TableVersion, now
from airflow_samza.runs.tables.versions import pin, rollback
from airflow_samza.systems.system import Publication, StreamSpec
from tests.support import interleavings
from tests.support.budgets import extended_but, nightly_but
from tests.support.interleavings import MemoryFilesystem, explore

PLACE = ("log", "profiles-push")
FOLDER = TableFolder(*PLACE)
AT = now()


class Log:
    """Of a log just what retention does to it: a generation takes the place of another, at once."""

    def __init__(self, files: Any) -> None:
        self.files = files

    def publish(self, stream: StreamSpec, publication: Publication) -> dict[str, Any]:
        path = f"log/{publication.producer.replace('/', '~')}/{publication.generation}"
        if publication.generation != GIVEN_UP and self.files.exists(f"{path.rpartition('/')[0]}/{GIVEN_UP}"):
            raise TopicError("A newer generation has taken over.", hint="", winner=GIVEN_UP)
        self.files.put(path, b"")
        return {"commit": 9, "offsets": [[0, 1]]}

    def standing(self, stream: StreamSpec, producer: str) -> str | None:
        return max(self.files.list(f"log/{producer.replace('/', '~')}"), default=None)

    def lost(self, stream: StreamSpec, producer: str, generation: str) -> str | None:
        return None


def is_live(files: MemoryFilesystem, section: tuple[str, str]) -> bool:
    producer, generation = section
    return Log(files).standing(StreamSpec("x"), producer) == generation


def version(number: int, kind: str, base: TableVersion | None = None) -> TableVersion:
    own = (f"pushes/profiles/p{number}", "1.1")
    sections = (*base.sections, own) if base is not None else (own,)
    return TableVersion(
        number, f"p{number}", kind, sections, ((0, 1),), number, 1, 1, "id bigint", ("id",), AT, AT, None,
        base.number if base is not None else None, table="profiles",
    )  # fmt: skip


def pushed(*kinds: str) -> dict[str, bytes]:
    """The files of a table of which these pushes were made, one after the other."""
    files: dict[str, bytes] = {}
    former: TableVersion | None = None
    for number, kind in enumerate(kinds, 1):
        former = version(number, kind, former if kind == INCREMENTAL else None)
        files[FOLDER.version(number)] = json.dumps(plain(former)).encode()
        files[f"log/pushes~profiles~p{number}/1.1"] = b""
    return files


@functools.cache
def sections_of(record: bytes) -> tuple[tuple[str, str], ...]:
    return tuple((producer, generation) for producer, generation in json.loads(record)["sections"])


def what_is_listed_can_be_read(files: MemoryFilesystem) -> None:
    """Read from the files alone, by the rule.

    A version without a mark has its sections, or the one that they were compacted to.
    """
    for path, record in files.files.items():
        if not path.startswith(f"{FOLDER.versions}/") or f"{FOLDER.expired}/{path.rpartition('/')[2]}" in files.files:
            continue
        found = json.loads(record) if len(sections_of(record)) > 1 else {}
        reads = (
            found["base"] if found and found["kind"] == ROLLBACK else int(path.rpartition("/")[2].removesuffix(".json"))
        )
        compacted = files.files.get(FOLDER.compaction(reads)) if found else None
        sections = (tuple(json.loads(compacted)["section"]),) if compacted is not None else sections_of(record)
        for producer, generation in sections:
            lies = f"log/{producer.replace('/', '~')}"
            assert f"{lies}/{generation}" in files.files, f"{path} is listed, and {producer} was never written"
            assert f"{lies}/{GIVEN_UP}" not in files.files, f"{path} is listed, and {producer} is given up"


def reader(number: int) -> Any:
    return lambda files: pin(files, *PLACE, number, "app/run")


def expirer(keep: int) -> Any:
    return lambda files: expire_versions(files, Log(files), *PLACE, keep)  # type: ignore[arg-type]


def back_to(number: int) -> Any:
    return lambda files: rollback(files, *PLACE, number, "undo", Log(files))  # type: ignore[arg-type]


def compaction(number: int) -> Any:
    def run(files: Any) -> Any:
        found = table_versions.by_number(files, *PLACE, number)

        def stage(tasks: list[int]) -> None:
            for section in found.sections:
                if Log(files).standing(StreamSpec("x"), section[0]) != section[1]:
                    raise TopicError("What this slice covers is gone.", hint="")
            for task in tasks:
                write_once(files, staged_path(FOLDER, number, task), CompactionPart(1, {"bytes": 0}))

        return compact(files, Log(files), FOLDER, found, stage)[0]  # type: ignore[arg-type]

    return run


def nobody_loses(files: MemoryFilesystem, ended: Mapping[str, Any]) -> None:
    """Check the properties of every outcome.

    Listed versions are whole, who was let in can read, and whoever failed was told a sentence.
    """
    for name, result in ended.items():
        assert not isinstance(result, BaseException) or isinstance(result, SamzaError), f"{name}: {result!r}"
    what_is_listed_can_be_read(files)
    pinned = ended.get("reader")
    if isinstance(pinned, TableVersion):
        assert all(is_live(files, section) for section in pinned.read_sections), (
            "a reader was let in, and its rows are gone"
        )
    else:
        assert pinned is None or isinstance(pinned, NoSuchVersion)
    current = table_versions.newest(files, *PLACE)  # type: ignore[arg-type]
    assert current is not None
    assert all(is_live(files, section) for section in current.read_sections), "the current version cannot be read"


@pytest.fixture(autouse=True)
def the_same_names_in_every_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def uuid4() -> Any:
        return SimpleNamespace(hex=interleavings.acting)  # no actor is at two marks at once

    monkeypatch.setattr(table_versions, "now", lambda: AT)
    monkeypatch.setattr(table_retention, "now", lambda: AT)
    monkeypatch.setattr("airflow_samza.runs.tables.marks.uuid.uuid4", uuid4)


def compacted(number: int, *kinds: str) -> dict[str, bytes]:
    start = MemoryFilesystem(pushed(*kinds))
    compaction(number)(start)
    return start.files


SCENARIOS: dict[str, Any] = {
    "a reader and two expirers": (2, pushed(FULL, FULL), {"reader": reader(1), "one": expirer(1), "other": expirer(1)}),
    "a rollback and two expirers": (
        1,
        pushed(FULL, FULL),
        {"rollback": back_to(1), "one": expirer(1), "other": expirer(1)},
    ),
    "a reader, a rollback and an expirer": (
        2,
        pushed(FULL, FULL),
        {"reader": reader(1), "rollback": back_to(1), "one": expirer(1)},
    ),
    "a compaction, a reader and an expirer": (
        1,
        pushed(FULL, INCREMENTAL, FULL),
        {"compaction": compaction(2), "reader": reader(2), "one": expirer(1)},
    ),
    "a compaction of what is current and two expirers": (
        1,
        pushed(FULL, INCREMENTAL, INCREMENTAL),
        {"compaction": compaction(3), "one": expirer(1), "other": expirer(1)},
    ),
    "a rollback to what is compacted and two expirers": (
        1,
        compacted(2, FULL, INCREMENTAL, FULL),
        {"rollback": back_to(2), "one": expirer(1), "other": expirer(1)},
    ),
}
"""Per scenario how often actors may interrupt each other where every build looks, the files at the start, and the actors."""


@pytest.mark.parametrize("name", extended_but(["a reader, a rollback and an expirer"], SCENARIOS))
@pytest.mark.few(0, 2)
def test_what_is_listed_can_be_read_whoever_is_interrupted_where(name: str) -> None:
    interruptions, start, actors = SCENARIOS[name]
    assert explore(start, actors, what_is_listed_can_be_read, nobody_loses, interruptions).states > 300


@pytest.mark.parametrize("actor", nightly_but(["reader", "other"], ["reader", "rollback", "other"]))
def test_two_actors_in_every_order_whatsoever(actor: str) -> None:
    actors = {"reader": reader(1), "rollback": back_to(1), "other": expirer(1)}
    assert (
        explore(
            pushed(FULL, FULL), {actor: actors[actor], "one": expirer(1)}, what_is_listed_can_be_read, nobody_loses
        ).states
        > 100
    )


@pytest.mark.nightly
@pytest.mark.parametrize("name", SCENARIOS)
def test_what_is_listed_can_be_read_with_one_interruption_more(name: str) -> None:
    interruptions, start, actors = SCENARIOS[name]
    assert explore(start, actors, what_is_listed_can_be_read, nobody_loses, interruptions + 1).states > 300

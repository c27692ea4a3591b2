"""Tables of side inputs in the folder of their host: which are written again, and who reads while others wait."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from airflow_samza.engine.tables import warm_tables
from airflow_samza.storage.key_index import make_index
from airflow_samza.storage.local_store import LocalStores
from airflow_samza.task.tables.store import TableStore
from tests.support.runs_here import Here
from tests.support.side_input_apps import PROFILES
from tests.unit.prepare.test_side_inputs import read_of, send, views

APPS = "tests.support.side_input_apps:"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Here:
    monkeypatch.setattr(warm_tables, "_WARM", warm_tables.WarmTables())  # nothing of another test
    return Here(tmp_path)


def changes(here: Here, table: str, members: range, tier: str) -> None:
    send(here, f"{table}-changes", PROFILES, [{"member_id": member, "tier": tier} for member in members])


def test_of_several_tables_those_are_written_again_of_which_much_is_new(here: Here) -> None:
    for table in ("first", "second"):
        changes(here, table, range(100), "gold")
    views(here, 1, 2)
    here.whole(APPS + "twice_scored_views", "run-1")
    changes(here, "first", range(1), "silver")
    changes(here, "second", range(100), "silver")
    run = here.whole(APPS + "twice_scored_views", "run-2")
    assert [read_of(here, run, f"{table}-changes") for table in ("first", "second")] == [1, 100]
    run = here.whole(APPS + "twice_scored_views", "run-3")
    assert [read_of(here, run, f"{table}-changes") for table in ("first", "second")] == [1, 0]


def test_a_new_host_makes_the_index_once_and_the_task_then_reads_what_lies_there(
    here: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes(here, "profile", range(100), "gold")
    views(here, 1, 2)
    indexed, kept, read = [], [], []
    keep, start = LocalStores.kept, TableStore.start_from

    def making(keys: Any) -> Any:
        indexed.append(len(keys[0]))
        return make_index(keys)

    def keeping(self: LocalStores, *names: Any) -> Any:
        kept.append(keep(self, *names))
        return kept[-1]

    def starting(self: TableStore, base: Any) -> None:
        read.append(base)
        start(self, base)

    for user in ("storage.columnar", "task.tables.parts"):
        monkeypatch.setattr(f"airflow_samza.{user}.make_index", making)
    monkeypatch.setattr(LocalStores, "kept", keeping)
    monkeypatch.setattr(TableStore, "start_from", starting)
    here.whole(APPS + "scored_views", "run-1")
    assert sum(indexed) == 100
    assert len(kept) == 2
    assert all(one is other for one, other in zip(kept, read, strict=True))
    assert sorted((row["member_id"], row["tier"]) for row in here.rows("scored")) == [(1, "gold"), (2, "gold")]


def test_a_task_that_has_waited_for_another_one_takes_what_that_has_read(
    here: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    send(here, "profile-changes", PROFILES, [{"member_id": n, "tier": "gold"} for n in range(100)], partitions=1)
    views(here, 1, 2)
    as_it_is = LocalStores.locked
    others: list[str] = []

    @contextmanager
    def locked(self: LocalStores, *names: Any) -> Iterator[None]:
        if not others:
            others.append("another run has the lock")
            assert read_of(here, here.whole(APPS + "toured_views", "run-0")) == 100
        with as_it_is(self, *names):
            yield

    monkeypatch.setattr(LocalStores, "locked", locked)
    assert read_of(here, here.whole(APPS + "toured_views", "run-1")) == 0
    assert others

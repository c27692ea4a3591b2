"""All versions of a pushed table, which the host of a task keeps from run to run."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from airflow_samza.engine.tables import warm_tables
from airflow_samza.errors import StoreError
from airflow_samza.runs.records.run_plan import RunPlan
from airflow_samza.runs.tables.versions import rollback
from airflow_samza.schema import Schema
from airflow_samza.storage import host_files
from airflow_samza.storage.local_store import LocalStores
from airflow_samza.storage.timed_rows import RowVersions, VersionChange
from tests.support.pushes import TOPIC, Pushes, Rows
from tests.support.runs_here import Here
from tests.support.side_input_apps import TIMED_VIEWS
from tests.unit.prepare.test_side_inputs import read_of, stored

APPS = "tests.support.side_input_apps:"
AS_OF, INNER = APPS + "views_as_of", APPS + "known_views_as_of"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Here:
    monkeypatch.setattr(warm_tables, "_WARM", warm_tables.WarmTables())  # nothing of another test
    monkeypatch.setattr(host_files, "_checksums", {})
    return Here(tmp_path)


def day(number: int) -> datetime:
    return datetime(2026, 1, 1, tzinfo=timezone.utc) + timedelta(days=number)


def push(pushes: Pushes, number: int, rows: Rows, mode: str = "incremental") -> None:
    interval = (day(number - 1).isoformat(), day(number).isoformat())
    pushes.push(f"push-{number}", rows, mode=mode if number else "full", interval=interval)


def pushed(here: Here, count: int) -> Pushes:
    """Versions of a table, each of which changes one member, and one of which deletes another."""
    pushes = Pushes(here.root)
    push(pushes, 0, dict.fromkeys(range(20), "v0"))
    for number in range(1, count):
        push(pushes, number, {3: f"v{number}", 4: None if number == 2 else "v0"})
    return pushes


def views(here: Here) -> None:
    rows = [{"id": id_, "n": 10 * id_ + at, "at": day(at)} for id_ in (3, 4) for at in range(4)]
    table = pa.Table.from_pylist(rows, Schema.of(TIMED_VIEWS).to_arrow())
    here.log.append("views", table, key=["id"], partitions=2)


def in_order(rows: Iterable[Any]) -> list[Any]:
    return sorted(rows, key=str)


def scored(here: Here) -> list[Any]:
    return in_order((row["n"], row["tier"]) for row in here.rows("scored"))


def read(here: Here, plan: RunPlan) -> int:
    return read_of(here, plan, TOPIC.name)


THREE = [(30, "v0"), (31, "v1"), (32, "v2"), (33, "v2"), (40, "v0"), (41, "v0"), (42, None), (43, None)]


def test_the_next_run_finds_the_same_versions_on_the_host(here: Here, caplog: pytest.LogCaptureFixture) -> None:
    pushed(here, 3)
    views(here)
    with caplog.at_level(logging.INFO):
        assert read(here, here.whole(AS_OF, "run-1")) == 24
    first = [line for line in caplog.messages if "as of event times" in line]
    assert len(first) == 2
    assert all(
        line.startswith("The table 'profiles' is joined as of event times: it has 3 versions (1 to 3), read ")
        for line in first
    )
    caplog.clear()
    with caplog.at_level(logging.INFO):
        assert read(here, here.whole(AS_OF, "run-2")) == 0
    again = [line for line in caplog.messages if "as of event times" in line]
    assert [line.rpartition(", ")[2] for line in again] == ["which the host keeps."] * 2
    assert scored(here) == in_order(THREE * 2)


def test_another_application_finds_them_too(here: Here) -> None:
    pushed(here, 3)
    views(here)
    here.whole(AS_OF, "run-1")
    assert read(here, here.whole(INNER, "run-2")) == 0


def test_a_new_version_is_not_found_in_what_was_kept_before(here: Here) -> None:
    pushes = pushed(here, 3)
    views(here)
    here.whole(AS_OF, "run-1")
    push(pushes, 3, {3: "v3"})
    assert read(here, here.whole(AS_OF, "run-2")) == 25
    assert scored(here) == in_order([*THREE, *THREE[:3], (33, "v3"), *THREE[4:]])


def test_a_rollback_a_late_version_and_an_older_one_have_names_of_their_own(here: Here) -> None:
    pushes = pushed(here, 3)
    views(here)
    here.whole(AS_OF, "run-1")
    pushes.push("late", {3: "late"}, mode="full", interval=(day(0).isoformat(), day(1).isoformat()))
    here.whole(AS_OF, "run-2")
    rollback(pushes.files, "log", TOPIC.name, 1, "back")
    here.whole(AS_OF, "run-3")
    late = [(30, "v0"), (31, "late"), (32, "v2"), (33, "v2"), (40, "v0"), (41, None), (42, None), (43, None)]
    assert scored(here) == in_order([*THREE, *late, *late])
    assert len(stored(here, "*/versions.arrow")) == 6
    assert read(here, here.whole(AS_OF, "run-4", tables={"profiles": "push-2"})) == 0  # the versions of the first run


def test_a_plain_join_of_the_same_table_keeps_rows_of_its_own(here: Here) -> None:
    pushed(here, 3)
    views(here)
    here.whole(AS_OF, "run-1")
    assert read(here, here.whole(APPS + "views_now", "run-2")) > 0
    assert read(here, here.whole(APPS + "views_now", "run-3")) == 0
    assert {row["tier"] for row in here.rows("scored") if row["n"] == 30} == {"v0", "v2"}


def test_a_damaged_copy_is_made_again_with_a_warning(
    here: Here, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    pushed(here, 3)
    views(here)
    here.whole(AS_OF, "run-1")
    for file in stored(here, "*/versions.arrow"):
        content = bytearray(file.read_bytes())
        content[len(content) // 2] ^= 0xFF
        file.write_bytes(content)
    monkeypatch.setattr(host_files, "_checksums", {})  # as another process finds it
    assert read(here, here.whole(AS_OF, "run-2")) == 24
    assert "the checksum of versions.arrow is not what was written. It is built again." in caplog.text
    assert read(here, here.whole(AS_OF, "run-3")) == 0
    assert scored(here) == in_order(THREE * 3)


def test_the_bound_of_a_host_is_about_them_too(here: Here) -> None:
    pushed(here, 3)
    views(here)
    with pytest.raises(StoreError, match=r"takes \d+ bytes, and .* allows 100 for all of a host"):
        here.whole(AS_OF, "run-1", config={"job.store.local.max.bytes": "100"})


def test_former_versions_are_swept_as_those_of_plain_tables_are(tmp_path: Path) -> None:
    stores = LocalStores(str(tmp_path), now=lambda: 10_000_000.0)
    for version in range(4):
        stores.kept("t", 0, str(version), RowVersions, made)
    assert len(list(tmp_path.glob("t/0/*/versions.arrow"))) == 4
    later = LocalStores(str(tmp_path), now=lambda: 10_000_000.0 + 4_000)
    later.sweep()
    assert len(list(tmp_path.glob("t/0/*/versions.arrow"))) == 2


def made() -> RowVersions:
    schema = pa.schema([pa.field("id", pa.string(), nullable=False), ("x", pa.list_(pa.float64()))])
    batches = [
        pa.record_batch({"id": ["a", "b"], "x": [[0.5], None]}, schema),
        pa.record_batch({"id": ["b", "c"], "x": [[float("nan")], []]}, schema),
        pa.record_batch({"id": ["a"], "x": [None]}, schema),
    ]
    gone = [np.zeros(2, bool), np.zeros(2, bool), np.ones(1, bool)]
    changes = [VersionChange(n, batch, g) for n, (batch, g) in enumerate(zip(batches, gone, strict=True))]
    return RowVersions.of(changes, [0, 0, 0], ["id"], schema)


@pytest.mark.parametrize("empty", [False, True])
def test_what_is_opened_is_what_was_written(tmp_path: Path, empty: bool) -> None:
    schema = pa.schema([("id", pa.string()), ("x", pa.float64())])
    one = RowVersions.of([], [0, 1], ["id"], schema) if empty else made()
    one.write(str(tmp_path))
    other = RowVersions.open(str(tmp_path))
    assert other.rows.schema.equals(one.rows.schema)
    assert str(other.rows.to_pydict()) == str(one.rows.to_pydict())
    keys = [pa.array(["a", "b", "c", "d", None] * 4)]
    versions = np.repeat(np.arange(-1, 3), 5)
    assert other.find(keys, versions).tolist() == one.find(keys, versions).tolist()
    assert (other.count, len(other)) == (one.count, len(one))

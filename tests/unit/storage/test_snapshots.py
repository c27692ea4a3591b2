"""A task's state on disk.

What was written is read again, unchanged tables are not written twice, and damage is named.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from airflow_samza.errors import StoreError
from airflow_samza.storage.snapshots import TableCache, read_snapshot, snapshot_files, write_snapshot
from airflow_samza.systems.filesystems.local import LocalFilesystem

WINDOWS = pa.table({"key": ["nl", "de"], "views": [3, None]})
TIMERS = pa.table({"at": pa.array([], pa.int64())})


@pytest.fixture
def files(tmp_path: Path) -> LocalFilesystem:
    return LocalFilesystem(tmp_path)


def test_reads_what_was_written(files: LocalFilesystem) -> None:
    state = {"per-minute": {"panes": WINDOWS, "timers": TIMERS}, "by/name %": {"panes": TIMERS}}
    described = write_snapshot(files, "state/0/first", state)
    assert read_snapshot(files, described) == state


def test_no_state_needs_no_file(files: LocalFilesystem) -> None:
    assert write_snapshot(files, "state/0/first", {}) is None
    assert read_snapshot(files, None) == {}
    assert files.list("state") == []


def test_a_table_that_has_not_changed_names_the_former_file(files: LocalFilesystem) -> None:
    first = write_snapshot(files, "state/0/first", {"a": {"panes": WINDOWS}, "b": {"panes": WINDOWS}})
    changed = pa.concat_tables([WINDOWS, WINDOWS])
    second = write_snapshot(files, "state/1/second", {"a": {"panes": WINDOWS}, "b": {"panes": changed}}, first)
    assert first is not None
    assert second is not None
    assert second["a"] == first["a"]
    assert files.list("state/1/second") == ["b.panes.arrow"]
    assert read_snapshot(files, second) == {"a": {"panes": WINDOWS}, "b": {"panes": changed}}
    assert snapshot_files(second) == {"state/0/first/a.panes.arrow", "state/1/second/b.panes.arrow"}


def test_ids_that_differ_in_odd_characters_have_files_of_their_own(files: LocalFilesystem) -> None:
    state = {"a.b": {"x": WINDOWS}, "a": {"b.x": TIMERS}, "a/b": {"x": TIMERS}}
    described = write_snapshot(files, "state/0/first", state)
    assert len(snapshot_files(described)) == 3
    assert read_snapshot(files, described) == state


def test_what_a_process_has_written_or_read_it_does_not_read_again(files: LocalFilesystem) -> None:
    known = TableCache()
    written = write_snapshot(files, "state/0/first", {"a": {"panes": WINDOWS}}, cache=known)
    for path in snapshot_files(written):
        files.put(path, b"")
    assert read_snapshot(files, written, known)["a"]["panes"] is WINDOWS
    assert write_snapshot(files, "state/1/second", {"a": {"panes": WINDOWS}}, written, known) == written


def test_known_tables_are_forgotten_when_they_take_too_much(files: LocalFilesystem) -> None:
    known = TableCache(most_bytes=WINDOWS.nbytes)
    known.keep("first", WINDOWS)
    known.keep("second", WINDOWS)
    assert known.find("first") is None
    assert known.find("second") is WINDOWS


@pytest.mark.parametrize("damage", ["changed", "cut", "gone"])
def test_damage_is_named(files: LocalFilesystem, damage: str) -> None:
    described = write_snapshot(files, "state/0/first", {"a": {"panes": WINDOWS}})
    path = "state/0/first/a.panes.arrow"
    data = files.read(path)
    files.delete(path)
    if damage != "gone":
        files.put(path, data[:-1] if damage == "cut" else data[:-9] + b"x" + data[-8:])
    with pytest.raises(StoreError, match=r"state of the operator 'a' is damaged.*a\.panes\.arrow"):
        read_snapshot(files, described)

"""Copies of state on a host's disk: they are found, checked, given up when newer ones come, and never needed."""

from __future__ import annotations

import os
import time
import zlib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from airflow_samza.storage.host_files import UNUSED_SECONDS, HostFiles, sweep_host
from airflow_samza.storage.snapshots import (
    Restored,
    TableCache,
    prefetch,
    read_snapshot,
    snapshot_files,
    write_snapshot,
)
from airflow_samza.systems.filesystems.local import LocalFilesystem

ROWS = pa.table({"key": ["nl", "de"], "views": [3, None]})
MORE = pa.table({"key": ["fr"], "views": [1]})


@pytest.fixture
def files(tmp_path: Path) -> LocalFilesystem:
    return LocalFilesystem(tmp_path / "root")


def on(tmp_path: Path, name: str) -> HostFiles:
    return HostFiles(str(tmp_path / name), "root", "stage/0")


def restored(files: LocalFilesystem, described: Any, host: HostFiles, known: TableCache | None = None) -> Restored:
    counts = Restored()
    assert read_snapshot(files, described, known, host, counts) == {"a": {"rows": ROWS}}
    return counts


def test_what_a_host_has_written_is_read_there_and_elsewhere_from_the_root(
    files: LocalFilesystem, tmp_path: Path
) -> None:
    here, there, known = on(tmp_path, "here"), on(tmp_path, "there"), TableCache()
    described = write_snapshot(files, "state/0/x", {"a": {"rows": ROWS}}, cache=known, host=here)
    assert restored(files, described, here, known).facts().keys() >= {"restored_from_memory_bytes", "restore_seconds"}
    assert restored(files, described, here, known).memory > 0
    near, far, again = (
        restored(files, described, here),
        restored(files, described, there),
        restored(files, described, there),
    )
    assert (near.host > 0, near.root) == (True, 0)
    assert (far.host, far.root) == (0, near.host)
    assert (again.host, again.root) == (near.host, 0)


def test_a_prefetched_copy_is_all_that_is_needed(files: LocalFilesystem, tmp_path: Path) -> None:
    there = on(tmp_path, "there")
    described = write_snapshot(files, "state/0/x", {"a": {"rows": ROWS}})
    assert prefetch(files, described, there) == restored(files, described, there).host > 0
    assert prefetch(files, described, there) == 0


@pytest.mark.parametrize("damage", ["shorter", "other"])
def test_a_damaged_copy_is_read_from_the_root_again_with_a_warning(
    files: LocalFilesystem, tmp_path: Path, caplog: pytest.LogCaptureFixture, damage: str
) -> None:
    here = on(tmp_path, "here")
    described = write_snapshot(files, "state/0/x", {"a": {"rows": ROWS}}, host=here)
    (copy,) = here.place.iterdir()
    content = copy.read_bytes()
    copy.unlink()
    copy.write_bytes(content[:-8] if damage == "shorter" else content[:-8] + b"damaged!")
    assert restored(files, described, here).root == len(content)
    assert "is damaged: it is read from the root again" in caplog.text
    assert restored(files, described, here).host == len(content)


def forged(content: bytes, like: bytes) -> bytes:
    """Other bytes of the same length and CRC-32: four of them are free, and CRC-32 is linear in them."""
    target, place = zlib.crc32(like), len(content) - 4
    start = zlib.crc32(content[:place] + b"\0" * 4)
    columns = [zlib.crc32(content[:place] + (1 << bit).to_bytes(4, "little")) ^ start for bit in range(32)]
    rows = [(column, 1 << bit) for bit, column in enumerate(columns)]
    wanted, free = target ^ start, 0
    for bit in range(32):
        pivot = next((row for row in rows if row[0] >> bit & 1), None)
        assert pivot is not None
        rows = [
            (row[0] ^ pivot[0], row[1] ^ pivot[1]) if row[0] >> bit & 1 else row for row in rows if row is not pivot
        ]
        if wanted >> bit & 1:
            wanted, free = wanted ^ pivot[0], free ^ pivot[1]
    return content[:place] + free.to_bytes(4, "little")


def test_a_planted_copy_of_the_same_checksum_is_not_believed(files: LocalFilesystem, tmp_path: Path) -> None:
    here = on(tmp_path, "here")
    described = write_snapshot(files, "state/0/x", {"a": {"rows": ROWS}}, host=here)
    (copy,) = here.place.iterdir()
    content = copy.read_bytes()
    planted = forged(content.replace(b"nlde", b"usuk") + b"", content)
    assert (len(planted), zlib.crc32(planted), planted == content) == (len(content), zlib.crc32(content), False)
    copy.unlink()
    copy.write_bytes(planted)
    assert restored(files, described, here).root == len(content)


def test_state_of_a_former_version_is_read_by_its_checksum(files: LocalFilesystem, tmp_path: Path) -> None:
    here = on(tmp_path, "here")
    described: Any = write_snapshot(files, "state/0/x", {"a": {"rows": ROWS}}, host=here)
    assert len(described["a"]["rows"].pop("sha256")) == 64
    assert restored(files, described, here).host > 0


def test_a_disk_that_takes_nothing_costs_only_what_it_would_have_saved(
    files: LocalFilesystem, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "full").write_text("a file stands in the way of the folder")
    full = on(tmp_path, "full")
    described = write_snapshot(files, "state/0/x", {"a": {"rows": ROWS}}, host=full)
    assert restored(files, described, full).root > 0
    assert "No copy of the state file state/0/x/a.rows.arrow is left on this host" in caplog.text


def test_a_host_keeps_what_the_last_two_epochs_need(files: LocalFilesystem, tmp_path: Path) -> None:
    here = on(tmp_path, "here")
    described: Any = None
    for epoch in range(5):
        former, state = described, {"a": {"rows": pa.concat_tables([MORE] * (epoch + 1))}}
        described = write_snapshot(files, f"state/{epoch}/x", state, former, host=here)
        here.keep_only(snapshot_files(former) | snapshot_files(described))
    assert len(list(here.place.iterdir())) == 2


def test_an_unchanged_table_is_not_written_again_although_the_process_has_forgotten_it(files: LocalFilesystem) -> None:
    few = TableCache(most_bytes=1)
    described = write_snapshot(files, "state/0/x", {"a": {"rows": ROWS}}, cache=few)
    former_state = read_snapshot(files, described, few)
    assert write_snapshot(files, "state/1/y", former_state, described, few, former_state=former_state) == described
    assert files.list("state/1") == []


def test_copies_that_nobody_came_back_to_are_swept_away(tmp_path: Path) -> None:
    old, new = HostFiles(str(tmp_path), "root", "old"), HostFiles(str(tmp_path), "root", "new")
    for host in (old, new):
        host.write("a", b"state")
    before = time.time() - UNUSED_SECONDS - 10
    os.utime(old.place, (before, before))
    sweep_host(str(tmp_path))
    assert (old.place.exists(), new.place.exists()) == (False, True)

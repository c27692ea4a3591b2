"""A full disk as the reason for which a runner is silent: only a silence that is long for its storage is explained."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from airflow_samza.runs.records.folders import RunFolder, replace, write_once
from airflow_samza.runs.stages import disk_room
from airflow_samza.runs.stages.stage_runners import Claim, Heartbeat, RunnerFolder
from airflow_samza.systems.filesystems.local import LocalFilesystem
from airflow_samza.systems.filesystems.pace import Pace


@pytest.mark.parametrize("free", [0, 1 << 40])
@pytest.mark.parametrize(
    ("beat", "silent", "is_long"), [(0.0, 1.0, False), (0.0, 7.0, True), (5.0, 7.0, False), (5.0, 20.0, True)]
)
def test_a_full_disk_explains_a_silence_of_seconds_and_of_three_signs_of_life(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free: int, beat: float, silent: float, is_long: bool
) -> None:
    monkeypatch.setattr(disk_room, "_free_bytes", lambda path: free)
    files, runner = LocalFilesystem(tmp_path), RunnerFolder(RunFolder("app", f"run-{tmp_path.name}"), "key", 1)
    files.pace = Pace(beat=beat)
    write_once(files, runner.claim, Claim(host="worker-7", place="elsewhere", pid=7, claimed_at=1.0))
    replace(files, runner.heartbeat, Heartbeat(time.time() - silent))
    assert runner.full_disk(files) is None  # nobody has looked yet
    runner.is_alive(files)
    full = runner.full_disk(files)
    assert (full is not None) is (is_long and free == 0)
    if full is not None:
        assert full.sentence == (
            f"The disk of the root {tmp_path} is full (0 B free), and the stage runner (worker-7, process 7) can report "
            "nothing."
        )


def test_the_folder_for_temporary_files_counts_where_the_work_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files, temporary = LocalFilesystem(tmp_path / "root"), str(tmp_path)
    monkeypatch.setattr(tempfile, "gettempdir", lambda: temporary)
    monkeypatch.setattr(disk_room, "_free_bytes", lambda path: 1 << 40 if path.endswith("root") else 5)
    assert disk_room.full_disk(files, is_here=False) is None
    full = disk_room.full_disk(files, is_here=True)
    assert full is not None
    assert full.sentence == f"The disk of the folder for temporary files {temporary} is full (5 B free)."


@pytest.mark.parametrize(
    ("free", "is_full"), [(None, False), (disk_room.LEAST_BYTES - 1, True), (disk_room.LEAST_BYTES, False)]
)
def test_a_disk_is_full_that_has_less_than_a_mebibyte(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free: int | None, is_full: bool
) -> None:
    monkeypatch.setattr(disk_room, "_free_bytes", lambda path: free)
    assert (disk_room.full_disk(LocalFilesystem(tmp_path), is_here=False) is not None) is is_full


@pytest.mark.parametrize(
    ("free", "files_free", "full"), [((1 << 20) - 1, 1, True), (1 << 20, 1, False), (1 << 20, 0, True)]
)
def test_a_disk_is_full_with_less_than_a_mebibyte_or_no_file_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free: int, files_free: int, full: bool
) -> None:
    disk = SimpleNamespace(
        f_blocks=9, f_frsize=1, f_files=9, f_ffree=files_free, f_favail=files_free, f_bfree=free, f_bavail=free
    )
    monkeypatch.setattr("os.statvfs", lambda path: disk)
    assert (disk_room.full_disk(LocalFilesystem(tmp_path), is_here=False) is not None) is full


def test_a_disk_whose_size_is_not_told_is_not_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.statvfs", lambda path: SimpleNamespace(f_blocks=0))
    assert disk_room.full_disk(LocalFilesystem(tmp_path), is_here=True) is None

"""A disk that is full while an output is staged under it: the try fails by name, and the next one publishes each message once."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from airflow_samza.errors import StorageFull
from airflow_samza.runs import finish
from airflow_samza.systems.filesystems.local import LocalFilesystem
from tests.kafka.test_output_runs import Publishing
from tests.support.kafka_topics import Topics
from tests.support.without_spark import run_stage

if TYPE_CHECKING:
    from demo.kafka import Kafka

pytestmark = [pytest.mark.extended, pytest.mark.kafka, pytest.mark.timeout(300)]

LINES = 20_000
"""Some hundred kilobytes as they lie in the log, and more than a megabyte when they are staged."""


SIZE = 16 << 20
"""Bytes of the small disk."""


@dataclass(frozen=True)
class Disk:
    """A small disk: a filesystem of its own where this process may mount one, else a quota of the local filesystem."""

    folder: Path
    is_mounted: bool

    @property
    def free(self) -> int:
        if self.is_mounted:
            return shutil.disk_usage(self.folder).free
        used = 0
        for path in self.folder.rglob("*"):
            with suppress(FileNotFoundError):  # deleted meanwhile
                used += path.stat().st_size
        return SIZE - used

    def fill(self, left: int) -> Path:
        """Fill the disk but for so many bytes; delete the file that is returned, and there is room again."""
        filler = self.folder / "filler"
        size = self.free - left
        with open(filler, "wb") as file:
            if self.is_mounted:
                os.posix_fallocate(file.fileno(), 0, size)
            else:
                file.truncate(size)
        return filler


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Disk]:
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", str(folder)]
    found = Disk(folder, subprocess.run(mount, capture_output=True, check=False).returncode == 0)
    if not found.is_mounted:

        def step(files: LocalFilesystem, operation: str, path: str) -> None:
            if operation in ("create", "write") and found.free <= 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        monkeypatch.setattr(LocalFilesystem, "step", step)
    yield found
    if found.is_mounted:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def published(place: Publishing) -> list[int]:
    """All that is published, when no transaction is open any more."""
    Topics(place.address).await_markers(place.topic)
    return place.published()


@pytest.mark.parametrize("left", [0, 32 << 10, 128 << 10], ids="{} bytes left".format)
@pytest.mark.parametrize("delivery", ["exactly_once", "at_least_once"])
def test_a_full_disk_is_one_sentence_and_the_next_try_publishes_each_message_once(
    kafka: Kafka, tmp_path: Path, code: Path, disk: Disk, left: int, delivery: str
) -> None:
    place = Publishing(disk.folder, kafka.address, code, delivery=delivery)
    place.send(0, LINES)
    planned = place.plan("bounded", "staged")
    filler = disk.fill(left)
    with pytest.raises(StorageFull, match="There is no room left to write"):
        run_stage(place.runtime, planned, "lines", 1, {})
    assert place.published() == []
    filler.unlink()
    run_stage(place.runtime, planned, "lines", 1, {})
    assert published(place) == place.all()


def test_a_disk_that_is_full_behind_the_commit_holds_up_no_publication(
    kafka: Kafka, tmp_path: Path, code: Path, disk: Disk
) -> None:
    """Publishing itself writes nothing under the root; what follows does."""
    place = Publishing(disk.folder, kafka.address, code)
    place.send(0, LINES)
    planned = place.plan("bounded", "staged")
    fillers: list[Path] = []

    def reach(step: str) -> None:
        if step == "after-commit":
            fillers.append(disk.fill(0))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(finish, "reach", reach)
        run_stage(
            place.runtime, planned, "lines", 1, {}
        )  # what is published is deleted, which makes room for the result
    assert published(place) == place.all()
    fillers[0].unlink()
    run_stage(place.runtime, planned, "lines", 1, {})
    assert published(place) == place.all()

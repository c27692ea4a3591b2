"""A disk that is full while an output is staged under it: the try fails by name, and the next one publishes each message once."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from airflow_samza.errors import StorageFull
from airflow_samza.runs import finish
from tests.kafka.test_output_runs import Publishing
from tests.support.kafka_topics import Topics
from tests.support.without_spark import run_stage

if TYPE_CHECKING:
    from demo.kafka import Kafka

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]

LINES = 20_000
"""Some hundred kilobytes as they lie in the log, and more than a megabyte when they are staged."""


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A small filesystem of its own."""
    found = tmp_path / "disk"
    found.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", str(found)]
    if subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("mounting is not allowed here")
    yield found
    subprocess.run(["umount", "-l", str(found)], check=True)


def fill(disk: Path, left: int) -> Path:
    """Fill the disk but for so many bytes; delete the file that is returned, and there is room again."""
    filler = disk / "filler"
    with open(filler, "wb", buffering=0) as file:
        try:
            while True:
                file.write(b"x" * (1 << 16))
        except OSError:
            file.truncate(max(0, file.tell() - left))
    return filler


def published(place: Publishing) -> list[int]:
    """All that is published, when no transaction is open any more."""
    Topics(place.address).await_markers(place.topic)
    return place.published()


@pytest.mark.parametrize("left", [0, 32 << 10, 128 << 10], ids="{} bytes left".format)
@pytest.mark.parametrize("delivery", ["exactly_once", "at_least_once"])
def test_a_full_disk_is_one_sentence_and_the_next_try_publishes_each_message_once(
    kafka: Kafka, tmp_path: Path, code: Path, disk: Path, left: int, delivery: str
) -> None:
    place = Publishing(disk, kafka.address, code, delivery=delivery)
    place.send(0, LINES)
    planned = place.plan("bounded", "staged")
    filler = fill(disk, left)
    with pytest.raises(StorageFull, match="There is no room left to write"):
        run_stage(place.runtime, planned, "lines", 1, {})
    assert place.published() == []
    filler.unlink()
    run_stage(place.runtime, planned, "lines", 1, {})
    assert published(place) == place.all()


def test_a_disk_that_is_full_behind_the_commit_holds_up_no_publication(
    kafka: Kafka, tmp_path: Path, code: Path, disk: Path
) -> None:
    """Publishing itself writes nothing under the root; what follows does."""
    place = Publishing(disk, kafka.address, code)
    place.send(0, LINES)
    planned = place.plan("bounded", "staged")
    fillers: list[Path] = []

    def reach(step: str) -> None:
        if step == "after-commit":
            fillers.append(fill(disk, 0))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(finish, "reach", reach)
        run_stage(
            place.runtime, planned, "lines", 1, {}
        )  # what is published is deleted, which makes room for the result
    assert published(place) == place.all()
    fillers[0].unlink()
    run_stage(place.runtime, planned, "lines", 1, {})
    assert published(place) == place.all()

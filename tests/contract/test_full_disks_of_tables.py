"""A full disk under a table of a lake: one sentence, nothing of an epoch in the table, and all of it once there is room."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_samza.errors import StorageFull
from airflow_samza.systems.system import Publication
from tests.support import delta_outputs, iceberg_outputs
from tests.support.small_disks import filled, small_disk
from tests.support.table_outputs import ids, output_stream

SCHEMA = "id bigint, part string"
KIB = 1024
Output = delta_outputs.Output | iceberg_outputs.Output


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path, 24) as mounted:
        if not mounted:
            pytest.skip("no disk can be mounted here")
        yield tmp_path


@pytest.fixture(params=["iceberg", "delta"])
def output(request: pytest.FixtureRequest, disk: Path) -> Output:
    """An output to a table of one row, on a small disk."""
    if request.param == "delta":
        found: Output = delta_outputs.made_output(disk / "lake", SCHEMA)
    else:
        found = iceberg_outputs.Output(disk / "lake", output_stream(schema=SCHEMA, create="true"))
        found.system.create([found.spec])
    found.publish(ids([1]))
    return found


def staged(output: Output) -> Publication:
    return output.publication(ids(range(10, 2000)), epoch=1)


def test_a_task_without_room_for_its_files_says_so(output: Output, disk: Path) -> None:
    with filled(disk, 0), pytest.raises(StorageFull, match="There is no room left to write "):
        staged(output)
    assert output.ids() == [1]
    output.publish(ids([2]), epoch=1)
    assert output.ids() == [1, 2]


def test_a_commit_without_room_changes_nothing_and_lands_once_there_is(output: Output, disk: Path) -> None:
    work = staged(output)
    for free in (0, 8 * KIB, 24 * KIB) if isinstance(output, iceberg_outputs.Output) else (0,):  # of files of a commit
        with filled(disk, free), pytest.raises(StorageFull, match="no room left"):
            output.system.publish(output.spec, work)
        assert output.ids() == [1]
    output.system.publish(output.spec, work)
    output.publish(ids([5000]), epoch=2)
    assert output.ids() == [1, *range(10, 2000), 5000]

"""Files that keep coming on a real HDFS: what each look finds, and that rewritten files are known."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from airflow_samza.errors import StateError
from airflow_samza.systems.files.location import open_location
from airflow_samza.systems.files.system import FilesSystem
from airflow_samza.systems.system import MessageRun, OffsetRange, StreamSpec, SystemBinding, SystemStreamPartition

if TYPE_CHECKING:
    from demo.hdfs import Hdfs

pytestmark = [pytest.mark.extended, pytest.mark.hdfs]

STREAM = StreamSpec("in", partitions=1, schema="id bigint", format="json", path="in", options=(("marker", "*.done"),))


def arrived(files: FilesSystem, known: Any) -> tuple[Any, list[int]]:
    found = files.arrived(STREAM, known)
    envelopes = files.consumer(STREAM, found).read(
        SystemStreamPartition("lake", "in", 0), OffsetRange(*found["offsets"][0])
    )
    rows = [row["id"] for run in envelopes if isinstance(run, MessageRun) for row in run.batch.to_pylist()]
    return found["known"], rows


def test_each_look_at_hdfs_finds_the_files_that_are_new_and_complete(cluster: Hdfs, place: str) -> None:
    url = f"{cluster.webhdfs}{place}"
    files = FilesSystem("lake", SystemBinding("files", {"root": url}))

    def put(name: str, *ids: int) -> None:
        there = open_location(url) / f"in/{name}"
        there.filesystem.create_dir(there.path.rpartition("/")[0], recursive=True)
        with there.filesystem.open_output_stream(there.path) as sink:
            sink.write("".join(f'{{"id": {number}}}\n' for number in ids).encode())

    put("day=1/a.json", 1, 2)
    put("day=1/b.json", 3)
    put("day=1/a.json.done")
    known, rows = arrived(files, None)
    assert rows == [1, 2]
    put("day=1/b.json.done")
    known, rows = arrived(files, known)
    assert rows == [3]
    assert arrived(files, known)[1] == []
    put("day=1/a.json", 4)
    with pytest.raises(StateError, match=r"in/day=1/a\.json of stream 'in' was written again"):
        arrived(files, known)

"""Files in a bucket: the formats, listings and outputs that files of a disk have, by the client of roots."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest

from airflow_samza.errors import ConfigError, StateError, TopicError
from airflow_samza.systems.files.formats.options import FORMATS
from airflow_samza.systems.files.location import Location, open_location
from airflow_samza.systems.files.system import FilesSystem
from airflow_samza.systems.filesystems.object_store import requests
from airflow_samza.systems.system import (
    MessageRun,
    OffsetRange,
    Publication,
    StreamSpec,
    SystemBinding,
    SystemStreamPartition,
)
from demo.store_servers import S3Server

SCHEMA = "id bigint, name string"


@pytest.fixture
def url(s3: S3Server, tmp_path: Path) -> str:
    return s3.url(f"files/{tmp_path.parent.name}/{tmp_path.name}")


def system(url: str, **options: Any) -> FilesSystem:
    return FilesSystem("lake", SystemBinding("files", {"root": url, **options}))


def publish(files: FilesSystem, stream: StreamSpec, first: int, generation: str = "1.1") -> dict[str, Any]:
    writer = files.producer(stream, f"attempt-{first}")
    ids = list(range(first, first + 3))
    writer.write(0, pa.record_batch({"id": pa.array(ids, pa.int64()), "name": [f"n{i}" for i in ids]}))
    return files.publish(stream, Publication("app/run/stage", generation, 0, {0: writer.finish()}))


def read(files: FilesSystem, stream: StreamSpec) -> list[dict[str, Any]]:
    fixed = files.slice(stream)
    found: list[dict[str, Any]] = []
    for partition in range(fixed["partitions"]):
        consumer = files.consumer(stream, fixed)
        place = SystemStreamPartition("lake", stream.name, partition)
        whole: OffsetRange | None = None
        found += [
            row for run in consumer.read(place, whole) if isinstance(run, MessageRun) for row in run.batch.to_pylist()
        ]
    return found


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.few(1)
def test_what_is_published_in_a_bucket_is_read_back(url: str, kind: str) -> None:
    files, out = system(url), StreamSpec("out", partitions=1, schema=SCHEMA, format=kind, written=True)
    files.check_writable(out)
    publish(files, out, 0)
    publish(files, out, 3, "2.1")  # a later generation takes the place of the one before
    assert [row["id"] for row in read(files, StreamSpec("out", schema=SCHEMA, format=kind))] == [3, 4, 5]


def test_a_glob_finds_folders_of_partitions_in_a_bucket(url: str) -> None:
    place = open_location(url)
    for day in ("2026-11-01", "2026-11-02", "2026-12-01"):
        with place.filesystem.open_output_stream((place / f"in/day={day}/part.parquet").path) as sink:
            pq.write_table(pa.table({"id": [int(day[-2:])]}), sink)
    rows = read(system(url), StreamSpec("in", path="in/day=2026-11-*", schema="id bigint, day string"))
    assert rows == [{"id": 1, "day": "2026-11-01"}, {"id": 2, "day": "2026-11-02"}]


def test_a_stream_may_name_another_bucket_by_its_url(url: str, s3: S3Server) -> None:
    publish(system(url), StreamSpec("out", partitions=1, schema=SCHEMA, written=True), 0)
    elsewhere = system(s3.url("nothing/there"))
    assert len(read(elsewhere, StreamSpec("x", path=f"{url}/out/*.parquet", schema=SCHEMA))) == 3


def test_the_footer_of_a_large_file_is_one_request_and_a_column_costs_its_own_bytes(url: str) -> None:
    place = open_location(url) / "wide.parquet"
    table = pa.table({f"c{i}": list(range(i, 200_000 + i)) for i in range(12)})
    with place.filesystem.open_output_stream(place.path) as sink:
        pq.write_table(table, sink, row_group_size=50_000, use_dictionary=False, compression="none")
    before = requests.snapshot()
    with place.filesystem.open_input_file(place.path) as source:
        assert pq.ParquetFile(source).metadata.num_rows == 200_000
    assert requests.since(before) == {"GET": 1}
    before = requests.snapshot()
    with place.filesystem.open_input_file(place.path) as source:
        assert pq.ParquetFile(source).read(columns=["c3"]).num_columns == 1
    assert requests.since(before)["GET"] <= 1 + 4


def test_a_folder_is_there_as_long_as_an_object_lies_below_it(url: str) -> None:
    place = open_location(url)
    files = place.filesystem
    kind = pafs.FileType
    with files.open_output_stream((place / "a/b/c.txt").path) as sink:
        sink.write(b"x")
    found = files.get_file_info([(place / name).path for name in ("a", "a/b/c.txt", "z")])
    assert [info.type for info in found] == [kind.Directory, kind.File, kind.NotFound]
    below = files.get_file_info(pafs.FileSelector(place.path, recursive=True))
    assert {str(info.path)[len(place.path) :]: info.type for info in below} == {
        "/a": kind.Directory,
        "/a/b": kind.Directory,
        "/a/b/c.txt": kind.File,
    }
    with pytest.raises(NotADirectoryError):
        files.get_file_info(pafs.FileSelector((place / "a/b/c.txt").path))
    with pytest.raises(FileNotFoundError):
        files.get_file_info(pafs.FileSelector((place / "z").path))
    files.delete_file((place / "a/b/c.txt").path)
    assert files.get_file_info((place / "a").path).type == kind.NotFound


def test_a_filesystem_of_a_bucket_travels_to_another_process(url: str) -> None:
    place = open_location(url)
    assert pickle.loads(pickle.dumps(place.filesystem)) == place.filesystem


def test_files_take_the_options_of_a_root_and_show_none_of_them(url: str, s3: S3Server) -> None:
    options = {"endpoint": s3.endpoint, "access_key_id": "AKIA", "secret_access_key": "hush", "format": "json"}
    files = system(url, **options)
    publish(files, StreamSpec("out", partitions=1, schema=SCHEMA, written=True), 0)
    place: Location = open_location(url, {name: value for name, value in options.items() if name != "format"})
    assert str(place / "out") == f"{url}/out"
    assert "hush" not in repr(place)


def test_rejects_an_option_that_the_store_does_not_know(url: str) -> None:
    with pytest.raises(ConfigError, match=r"S3 has no option 'key'.*\n.*access_key_id"):
        system(url, key="AKIA").slice(StreamSpec("in", schema=SCHEMA))


def test_rejects_a_url_that_holds_a_secret_without_showing_it() -> None:
    with pytest.raises(ConfigError, match="The URL s3://bucket/x holds credentials") as caught:
        system("s3://key:hush@bucket/x").slice(StreamSpec("in", schema=SCHEMA))
    assert "hush" not in str(caught.value)


def test_rejects_a_bucket_that_does_not_exist(s3: S3Server) -> None:
    with pytest.raises(TopicError, match="there is no bucket 'nowhere-at-all'"):
        system(s3.url("x", bucket="nowhere-at-all")).slice(StreamSpec("in", schema=SCHEMA))


def put(url: str, name: str, *ids: int) -> None:
    place = open_location(url) / name
    with place.filesystem.open_output_stream(place.path) as sink:
        sink.write("".join(f'{{"id": {number}}}\n' for number in ids).encode())


ARRIVING = StreamSpec("in", partitions=2, schema="id bigint", format="json", path="in")


def arrived(files: FilesSystem, known: Any, **more: str) -> tuple[dict[str, Any], list[int]]:
    stream = StreamSpec("in", partitions=2, schema="id bigint", format="json", path="in", options=tuple(more.items()))
    found = files.arrived(stream, known)
    consumer = files.consumer(stream, found)
    rows = [
        row["id"]
        for partition, (first, end) in enumerate(found["offsets"])
        for run in consumer.read(SystemStreamPartition("lake", "in", partition), OffsetRange(first, end))
        if isinstance(run, MessageRun)
        for row in run.batch.to_pylist()
    ]
    return found["known"], sorted(rows)


def test_each_look_at_a_bucket_finds_the_files_that_are_new_by_one_list(url: str) -> None:
    files, known = system(url), None
    for day in range(3):
        for hour in range(4):
            put(url, f"in/day={day}/hour={hour}/part.json", day * 4 + hour)
        before = requests.snapshot()
        files.arrived(ARRIVING, known)
        assert requests.since(before)["LIST"] == 1
        assert "HEAD" not in requests.since(before)
        known, rows = arrived(files, known)
        assert rows == [day * 4 + hour for hour in range(4)]
    assert arrived(files, known)[1] == []


def test_an_object_that_was_written_again_is_known_by_its_etag(url: str) -> None:
    put(url, "in/a.json", 1)
    files = system(url)
    known, _ = arrived(files, None)
    put(url, "in/a.json", 1)  # the same bytes
    assert arrived(files, known)[1] == []
    put(url, "in/a.json", 2)  # as many bytes
    with pytest.raises(StateError, match="written again after it had been read"):
        files.arrived(ARRIVING, known)
    known, rows = arrived(files, known, on_rewrite="read")
    assert rows == [2]


def test_rejects_an_object_that_is_written_again_between_plan_and_read(url: str) -> None:
    put(url, "in/a.json", 1)
    files = system(url)
    found = files.arrived(ARRIVING, None)
    put(url, "in/a.json", 2)
    place = SystemStreamPartition("lake", "in", 1)
    with pytest.raises(TopicError, match=r"a\.json of stream 'in' changed since the plan: it was written again"):
        list(files.consumer(ARRIVING, found).read(place, OffsetRange(*found["offsets"][1])))


def test_a_marker_in_a_bucket_says_that_a_folder_is_complete(url: str) -> None:
    files = system(url)
    put(url, "in/day=1/a.json", 1)
    put(url, "in/day=2/b.json", 2)
    put(url, "in/day=1/_SUCCESS")
    known, rows = arrived(files, None, marker="_SUCCESS")
    assert rows == [1]
    put(url, "in/day=2/_SUCCESS")
    assert arrived(files, known, marker="_SUCCESS")[1] == [2]


@pytest.mark.parametrize("path", ["in", "in/*.json", "in/**"])
def test_rejects_an_object_that_is_written_again_within_a_second_of_the_plan(url: str, path: str) -> None:
    files, stream = system(url), StreamSpec("in", partitions=1, schema="id bigint", format="json", path=path)
    place = open_location(url) / "in/a.json"
    put(url, "in/a.json", 1)
    fixed = json.loads(json.dumps(files.slice(stream)))
    before = place.filesystem.get_file_info(place.path).mtime_ns
    put(url, "in/a.json", 2)  # as many bytes
    fixed["files"][0]["mtime"] = place.filesystem.get_file_info(place.path).mtime_ns or before
    with pytest.raises(TopicError, match=r"a\.json of stream 'in' changed since the plan: it was written again"):
        list(files.consumer(stream, fixed).read(SystemStreamPartition("lake", "in", 0), None))


def test_an_object_below_a_glob_is_known_by_its_etag_too(url: str) -> None:
    put(url, "in/day=1/a.json", 1)
    stream = StreamSpec("in", partitions=2, schema="id bigint", format="json", path="in/day=*/*.json")
    known = system(url).arrived(stream, None)["known"]
    assert [version is not None for _, _, version in known["names"].values()] == [True]

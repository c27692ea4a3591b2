"""Files that somebody writes while they are read: no row of another file than the plan's is read unnoticed."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_samza.errors import TopicError
from airflow_samza.systems.files.formats.file_format import InputFile
from airflow_samza.systems.files.location import object_store_of, open_location
from airflow_samza.systems.files.system import FilesSystem
from airflow_samza.systems.filesystems.contents import WrittenAgain
from airflow_samza.systems.filesystems.object_store import requests
from airflow_samza.systems.system import (
    Envelope,
    MessageRun,
    OffsetRange,
    StreamSpec,
    SystemBinding,
    SystemStreamPartition,
)
from demo.store_servers import S3Server

ROWS = 300_000
PAST = 1_700_000_000 * 10**9
WHILE_READ = "changed since the plan: it was written again while it was read"
PLACE = SystemStreamPartition("lake", "in", 0)


def parquet(first: int) -> bytes:
    """Content that takes several requests to a bucket; of each ``first`` it has as many bytes."""
    sink = pa.BufferOutputStream()
    ids = pa.array(range(first, first + ROWS), pa.int64())
    pq.write_table(pa.table({"id": ids}), sink, row_group_size=50_000, use_dictionary=False, compression="none")
    content: bytes = sink.getvalue().to_pybytes()
    return content


def json_lines(first: int) -> bytes:
    return b"".join(b'{"id": %d}\n' % number for number in range(10**6 + first, 10**6 + first + ROWS))


CONTENTS = {"parquet": parquet, "json": json_lines}
kinds = pytest.mark.parametrize("kind", sorted(CONTENTS))


def reading(root: str, kind: str, offsets: OffsetRange | None = None) -> Iterator[Envelope]:
    """The reading of the one file, planned."""
    system = FilesSystem("lake", SystemBinding("files", {"root": root}))
    stream = StreamSpec("in", path=f"in.{kind}", schema="id bigint", format=kind)
    fixed = json.loads(json.dumps(system.slice(stream)))
    return iter(system.consumer(stream, fixed).read(PLACE, offsets))


def on_disk(folder: Path, kind: str) -> Path:
    path = folder / f"in.{kind}"
    path.write_bytes(CONTENTS[kind](0))
    os.utime(path, ns=(PAST, PAST))
    return path


def write_in_place(path: Path, content: bytes) -> None:
    with path.open("r+b") as file:
        file.write(content)


@kinds
def test_rejects_a_file_that_is_written_again_while_it_is_read(tmp_path: Path, kind: str) -> None:
    path = on_disk(tmp_path, kind)
    rows = reading(str(tmp_path), kind)
    next(rows)
    write_in_place(path, CONTENTS[kind](ROWS))
    with pytest.raises(TopicError, match=WHILE_READ) as caught:
        next(rows)
    assert f"File {path} of stream 'in'" in caught.value.sentence


@kinds
def test_no_row_of_the_new_content_comes_before_the_error(tmp_path: Path, kind: str) -> None:
    path = on_disk(tmp_path, kind)
    rows = reading(str(tmp_path), kind)
    runs = [next(rows), next(rows)]
    write_in_place(path, CONTENTS[kind](ROWS))
    with pytest.raises(TopicError, match=WHILE_READ):
        runs += rows
    found = [number for run in runs if isinstance(run, MessageRun) for number in run.batch.column("id").to_pylist()]
    first = found[0]
    assert found == list(range(first, first + len(found)))


@kinds
def test_rejects_a_file_that_another_of_its_size_and_time_replaces_while_it_is_read(tmp_path: Path, kind: str) -> None:
    path = on_disk(tmp_path, kind)
    rows = reading(str(tmp_path), kind)
    next(rows)
    other = tmp_path / "other"
    other.write_bytes(CONTENTS[kind](0))
    os.utime(other, ns=(PAST, PAST))
    os.replace(other, path)
    with pytest.raises(TopicError, match=WHILE_READ):
        list(rows)


def test_rejects_a_file_that_is_written_again_behind_its_last_row(tmp_path: Path) -> None:
    path = on_disk(tmp_path, "parquet")
    rows = reading(str(tmp_path), "parquet")
    read = 0
    while read < ROWS:
        run = next(rows)
        assert isinstance(run, MessageRun)
        read += run.messages
    write_in_place(path, parquet(ROWS))
    with pytest.raises(TopicError, match=WHILE_READ):
        next(rows)


def test_a_file_that_is_half_written_again_is_not_reported_as_damaged(tmp_path: Path) -> None:
    path = on_disk(tmp_path, "parquet")
    rows = reading(str(tmp_path), "parquet")
    next(rows)
    write_in_place(path, b"\xff" * path.stat().st_size)
    with pytest.raises(TopicError, match=WHILE_READ):
        list(rows)


def test_rejects_a_file_that_is_written_again_when_only_its_beginning_is_read(tmp_path: Path) -> None:
    path = on_disk(tmp_path, "parquet")
    rows = reading(str(tmp_path), "parquet", OffsetRange(0, 10))
    assert isinstance(run := next(rows), MessageRun)
    assert run.messages == 10
    write_in_place(path, parquet(ROWS))
    with pytest.raises(TopicError, match=WHILE_READ):
        next(rows)


def test_a_file_that_is_removed_while_it_is_read_is_read_to_its_end(tmp_path: Path) -> None:
    path = on_disk(tmp_path, "parquet")
    rows = reading(str(tmp_path), "parquet")
    found = [next(rows)]
    path.unlink()
    found += rows
    assert sum(run.messages for run in found if isinstance(run, MessageRun)) == ROWS


def test_rejects_a_file_elsewhere_that_is_written_again_while_it_is_read(tmp_path: Path) -> None:
    """Elsewhere, here by fsspec, is a storage without versions that is no disk of ours: one look follows behind the end."""
    path = on_disk(tmp_path, "parquet")
    rows = reading(f"local://{tmp_path}", "parquet")
    next(rows)
    write_in_place(path, parquet(ROWS))
    with pytest.raises(TopicError, match=WHILE_READ):
        list(rows)


@pytest.fixture
def url(s3: S3Server, tmp_path: Path) -> str:
    return s3.url(f"unchanged/{tmp_path.parent.name}/{tmp_path.name}")


def put(url: str, name: str, content: bytes) -> None:
    place = open_location(url) / name
    with place.filesystem.open_output_stream(place.path, compression=None) as sink:
        sink.write(content)


def test_rejects_an_object_that_is_written_again_while_it_is_read(url: str) -> None:
    put(url, "in.json", json_lines(0))
    rows = reading(url, "json")
    found = [next(rows)]
    put(url, "in.json", json_lines(ROWS))
    with pytest.raises(TopicError, match=WHILE_READ):
        found += rows
    read = [row["id"] for run in found if isinstance(run, MessageRun) for row in run.batch.to_pylist()]
    assert read == list(range(read[0], read[0] + len(read)))  # nothing of the new content


def input_file(url: str, name: str) -> InputFile:
    place = open_location(url) / name
    storage = object_store_of(place.filesystem)
    assert storage is not None
    info, version = storage.info_and_version(place.path)
    return InputFile(place.filesystem, place.path, info.size, str(place), "in", version=version)


def test_rejects_a_compressed_object_that_is_written_again_while_it_is_read(url: str) -> None:
    put(url, "in.json.gz", gzip.compress(json_lines(0), 0))
    with input_file(url, "in.json.gz").sequential() as source:
        assert source.read(14) == json_lines(0)[:14]
        put(url, "in.json.gz", gzip.compress(json_lines(ROWS), 0))
        with pytest.raises(WrittenAgain):
            source.read()


def test_rejects_an_object_that_is_written_again_behind_its_footer(url: str) -> None:
    put(url, "in.parquet", parquet(0))
    with input_file(url, "in.parquet").random_access() as source:
        opened = pq.ParquetFile(source)
        put(url, "in.parquet", parquet(ROWS))
        with pytest.raises(WrittenAgain):
            opened.read()


def test_rejects_an_object_that_has_another_version_when_it_is_opened(url: str) -> None:
    put(url, "in.parquet", parquet(0))
    file = input_file(url, "in.parquet")
    put(url, "in.parquet", parquet(ROWS))
    with pytest.raises(WrittenAgain):
        file.random_access()


def test_that_an_object_stays_the_same_costs_no_request(url: str) -> None:
    put(url, "in.parquet", parquet(0))
    rows = reading(url, "parquet")
    before = requests.snapshot()
    assert sum(run.messages for run in rows if isinstance(run, MessageRun)) == ROWS
    assert requests.since(before)["HEAD"] == 1
    assert requests.since(before)["GET"] <= 4

"""Data that a format cannot hold, or Arrow cannot read, is rejected with a sentence.

What is written is on the disk before a record says so.
"""

from __future__ import annotations

import bz2
import datetime as dt
import gc
import lzma
import os
import subprocess
import sys
import zlib
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_samza.errors import SchemaError, TopicError
from airflow_samza.schema import Schema
from airflow_samza.systems.files.formats.avro_blocks import unpacked
from airflow_samza.systems.files.formats.avro_types import AvroTypes
from airflow_samza.systems.files.formats.options import FORMATS
from airflow_samza.systems.files.formats.parquet_checks import check_columns
from airflow_samza.systems.files.system import FilesSystem
from airflow_samza.systems.system import (
    MessageRun,
    Publication,
    StreamSpec,
    SystemBinding,
    SystemStreamPartition,
    UnreadableRun,
)

MICROS = 1_000_000


def system(root: Path) -> FilesSystem:
    return FilesSystem("lake", SystemBinding("files", {"root": str(root)}))


def written(root: Path, stream: StreamSpec, batch: pa.RecordBatch) -> None:
    producer = system(root).producer(stream, "task-0")
    producer.write(0, batch)
    system(root).publish(stream, Publication("stage", "1.1", 0, {0: producer.finish()}))


def rows(root: Path, stream: StreamSpec) -> list[pa.RecordBatch]:
    consumer = system(root).consumer(stream, system(root).slice(stream))
    return [
        found.batch
        for found in consumer.read(SystemStreamPartition("lake", stream.name, 0), None)
        if isinstance(found, MessageRun)
    ]


def seconds(*when: int) -> int:
    return int(dt.datetime(*when, tzinfo=dt.timezone.utc).timestamp())  # type: ignore[misc, arg-type]


TIMES = {
    "orc": (-9_223_372_036_854_775, 9_223_372_036_854_775),
    "avro": (seconds(1, 1, 1) * MICROS, seconds(9999, 12, 31, 23, 59, 59) * MICROS + 999_999),
    "json": (seconds(1, 1, 1) * MICROS, seconds(9999, 12, 31, 23, 59, 59) * MICROS + 999_999),
    "csv": (seconds(1, 1, 1) * MICROS, seconds(9999, 12, 31, 23, 59, 59) * MICROS + 999_999),
    "parquet": (-(2**63), 2**63 - 1),
}


@pytest.mark.parametrize(
    "kind",
    ["timestamp", "timestamp_ntz", "array<timestamp>", "map<string,timestamp_ntz>", "struct<x:array<timestamp>>"],
)
@pytest.mark.parametrize("format_name", FORMATS)
def test_times_that_a_format_does_not_read_back_are_rejected_when_they_are_written(
    tmp_path: Path, format_name: str, kind: str
) -> None:
    if format_name == "csv" and "<" in kind:
        kind = "timestamp"
    schema = Schema.of(f"v {kind}").to_arrow()

    def batch(value: int) -> pa.RecordBatch:
        inner: Any = value
        if "map" in kind:
            inner = [("k", value)]
        elif "struct" in kind:
            inner = {"x": [None, value]}
        elif "array" in kind:
            inner = [value, None]
        plain = pa.array([inner, None], _with_numbers(schema.field(0).type))
        return pa.RecordBatch.from_arrays([plain.cast(schema.field(0).type)], schema=schema)

    stream = StreamSpec("out", 1, f"v {kind}", format=format_name)
    for number, bound in enumerate(TIMES[format_name]):
        root = tmp_path / str(number)
        written(root, stream, batch(bound))
        assert pa.Table.from_batches(rows(root, stream)).equals(pa.Table.from_batches([batch(bound)]))
        beyond = bound + (1 if number else -1)
        if -(2**63) <= beyond < 2**63:
            with pytest.raises(
                SchemaError, match=f"Column 'v' of stream 'out' has a time .* that {format_name} does not read back"
            ):
                system(root).producer(stream, "task-1").write(0, batch(beyond))


def _with_numbers(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(kind):
        return pa.int64()
    if pa.types.is_map(kind):
        return pa.map_(kind.key_type, _with_numbers(kind.item_type))
    if pa.types.is_struct(kind):
        return pa.struct([(field.name, _with_numbers(field.type)) for field in kind])
    return pa.list_(_with_numbers(kind.value_type)) if pa.types.is_list(kind) else kind


@pytest.mark.parametrize("format_name", ["avro", "json", "csv"])
@pytest.mark.parametrize("day", [-719163, 2932897])
def test_so_are_dates_outside_of_the_years_1_to_9999(tmp_path: Path, format_name: str, day: int) -> None:
    batch = pa.record_batch({"v": pa.array([day], pa.int32()).cast(pa.date32())})
    with pytest.raises(SchemaError, match="has a time"):
        system(tmp_path).producer(StreamSpec("out", 1, "v date", format=format_name), "task-0").write(0, batch)


def test_a_part_of_a_longer_batch_keeps_its_nulls_in_orc(tmp_path: Path) -> None:
    ddl = "s struct<x:int>, l array<int>, m map<string,int>"
    batch = pa.RecordBatch.from_pylist(
        [
            {"s": {"x": n} if n % 2 else None, "l": [n] if n % 3 else None, "m": [("k", n)] if n % 5 else None}
            for n in range(12)
        ],
        schema=Schema.of(ddl).to_arrow(),
    )
    written(tmp_path, StreamSpec("out", 1, ddl, format="orc"), batch.slice(3, 7))
    assert [
        row for found in rows(tmp_path, StreamSpec("out", 1, ddl, format="orc")) for row in found.to_pylist()
    ] == batch.slice(3, 7).to_pylist()


@pytest.mark.parametrize("format_name", ["orc", "parquet", "avro", "json"])
def test_values_inside_a_struct_that_is_null_are_not_taken_for_those_of_the_next(
    tmp_path: Path, format_name: str
) -> None:
    inner = pa.StructArray.from_arrays(
        [pa.array([7, 8, 9]), pa.array([False, True, True])], ["n", "y"], mask=pa.array([True, False, False])
    )
    outer = pa.StructArray.from_arrays([inner], ["e"])
    lists = pa.ListArray.from_arrays(pa.array([0, 1, 2, 3], pa.int32()), outer)
    ddl = "x struct<e:struct<n:bigint,y:boolean>>, l array<struct<e:struct<n:bigint,y:boolean>>>"
    batch = pa.RecordBatch.from_arrays([outer, lists], ["x", "l"])
    stream = StreamSpec("out", 1, ddl, format=format_name)
    written(tmp_path, stream, batch)
    assert [row for found in rows(tmp_path, stream) for row in found.to_pylist()] == batch.to_pylist()


def broken_footer(root: Path) -> bytes:
    """A Parquet file whose footer gives a flat column a histogram of levels, at which Arrow throws."""
    pq.write_table(pa.table({"f": [1, 2, 3], "l": [[1], [2], None]}), root / "whole.parquet")
    data = (root / "whole.parquet").read_bytes()
    return data


@pytest.mark.extended
def test_a_footer_that_describes_columns_that_cannot_be_ends_no_process(tmp_path: Path) -> None:
    data = broken_footer(tmp_path)
    size = int.from_bytes(data[-8:-4], "little")
    found = 0
    program = """
import sys
from airflow_samza.errors import SamzaError
from airflow_samza.systems.files.system import FilesSystem
from airflow_samza.systems.system import StreamSpec, SystemBinding
import pyarrow as pa, pyarrow.parquet as pq
from airflow_samza.systems.files.formats.parquet_checks import check_columns
from pathlib import Path
for path in sorted(Path(sys.argv[1]).glob("case-*.parquet")):
    stream = StreamSpec("in", 3, "f bigint", path=path.name)
    print(path.name, flush=True)
    try:
        FilesSystem("lake", SystemBinding("files", {"root": sys.argv[1]})).slice(stream)
    except SamzaError as error:
        print("rejected", error.sentence)
"""
    for place in range(len(data) - 8 - size, len(data) - 8):
        for bit in (0, 2, 4):
            changed = bytearray(data)
            changed[place] ^= 1 << bit
            (tmp_path / f"case-{place}-{bit}.parquet").write_bytes(changed)
            found += 1
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout.splitlines()[-1]
    assert done.stdout.count("case-") >= found
    assert "histogram size mismatch" in done.stdout


def test_a_sound_footer_is_looked_through_without_a_byte_of_the_file(tmp_path: Path) -> None:
    for table in (pa.table({"a": [1, 2], "b": [[1], None]}), pa.table({"a": pa.array([], pa.int64())}), pa.table({})):
        pq.write_table(table, tmp_path / "a.parquet")
        check_columns(pq.ParquetFile(tmp_path / "a.parquet").metadata, (tmp_path / "a.parquet").stat().st_size)


@pytest.mark.extended
def test_what_was_read_of_a_file_goes_with_it(tmp_path: Path) -> None:
    numbers = np.random.default_rng(1).integers(0, 1 << 60, 1 << 20)
    pq.write_table(pa.table({"a": numbers}), tmp_path / "a.parquet")
    stream = StreamSpec("in", 1, "a bigint", path="a.parquet")
    pool, held = pa.default_memory_pool(), []
    for _ in range(4):
        assert sum(batch.num_rows for batch in rows(tmp_path, stream)) == len(numbers)
        gc.collect()
        held.append(pool.bytes_allocated())
    assert held[-1] < held[0] + numbers.nbytes


@pytest.mark.parametrize("format_name", FORMATS)
def test_files_and_their_directory_are_synced_before_the_manifest_names_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format_name: str
) -> None:
    synced: list[tuple[str, bool]] = []
    original = os.fsync

    def recorded(handle: int) -> None:
        manifests = tmp_path / "deep/out/_samza/manifests"
        named = os.readlink(f"/proc/self/fd/{handle}") if os.path.isdir("/proc/self/fd") else ""
        synced.append((os.path.relpath(named, tmp_path), manifests.exists() and any(manifests.iterdir())))
        original(handle)

    monkeypatch.setattr(os, "fsync", recorded)
    stream = StreamSpec("out", 1, "a bigint", format=format_name, path="deep/out")
    producer = system(tmp_path).producer(stream, "task-0")
    producer.write(0, pa.record_batch({"a": [1]}))
    described = producer.finish()
    staged = described["files"][0]["path"]
    assert (f"deep/out/{staged}", False) in synced
    assert {
        ("deep", False),
        ("deep/out", False),
        ("deep/out/_samza", False),
        ("deep/out/_samza/staging", False),
        (".", False),
    } <= set(synced)
    synced.clear()
    system(tmp_path).publish(stream, Publication("stage", "1.1", 0, {0: described}))
    assert ("deep/out", False) in synced  # the published name, before the manifest
    manifest = next(place for place, (path, _) in enumerate(synced) if path.endswith(".json"))
    assert synced.index(("deep/out", False)) < manifest
    assert ("deep/out/_samza/manifests", True) in synced


@pytest.mark.parametrize("format_name", FORMATS)
def test_a_file_without_rows_is_read_back_and_one_that_ends_early_is_named(tmp_path: Path, format_name: str) -> None:
    stream = StreamSpec("out", 1, "a bigint, b string", format=format_name)
    system(tmp_path).publish(
        stream, Publication("stage", "1.1", 0, {0: system(tmp_path).producer(stream, "task-0").finish()})
    )
    assert len(list((tmp_path / "out").glob("part-*"))) == 1
    assert rows(tmp_path, stream) == []
    if format_name in ("csv", "json"):
        return
    (path,) = (tmp_path / "out").glob("part-*")
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(TopicError, match=f"cannot be read as {format_name}"):
        rows(tmp_path, stream)


@pytest.mark.parametrize("codec", ["deflate", "bzip2", "xz"])
def test_a_block_of_avro_that_unpacks_to_too_much_is_rejected_before_it_is_unpacked(
    tmp_path: Path, codec: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import fastavro

    from airflow_samza.systems.files.formats import avro_blocks

    monkeypatch.setattr(avro_blocks, "LARGEST_BLOCK", 2 << 20)
    schema = {"type": "record", "name": "m", "fields": [{"name": "a", "type": "bytes"}]}
    stream = StreamSpec("in", 1, "a binary", path="in.avro")
    for size, is_read in ((1 << 20, True), (3 << 20, False)):
        with open(tmp_path / "in.avro", "wb") as file:
            fastavro.writer(file, schema, [{"a": bytes(range(256)) * (size >> 8)}], codec=codec)
        if is_read:
            assert [batch.num_rows for batch in rows(tmp_path, stream)] == [1]
        else:
            with pytest.raises(
                TopicError, match=r"cannot be read as avro: block 1 of \d+ bytes unpacks to more than 2 MiB"
            ):
                rows(tmp_path, stream)


def _deflated(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


@pytest.mark.parametrize(
    ("codec", "pack"),
    [
        ("zstandard", lambda data: pa.compress(data, "zstd", asbytes=True)),
        ("deflate", _deflated),
        ("bzip2", bz2.compress),
        ("xz", lzma.compress),
        ("snappy", lambda data: pa.compress(data, "snappy", asbytes=True) + zlib.crc32(data).to_bytes(4, "big")),
    ],
)
def test_packed_bytes_are_unpacked_up_to_a_limit(codec: str, pack: Any) -> None:
    data = bytes(10 << 20)
    assert unpacked(pack(data), codec, (10 << 20) - 1) is None
    assert unpacked(pack(data), codec, 10 << 20) == data
    with pytest.raises((ValueError, OSError, zlib.error, lzma.LZMAError)):
        unpacked(b"no packed bytes" * 2000, codec, 1 << 20)


def test_an_array_of_values_without_bytes_is_rejected(tmp_path: Path) -> None:
    import fastavro

    for items in ("null", {"type": "record", "name": "n", "fields": []}, {"type": "fixed", "name": "f", "size": 0}):
        schema = {"type": "record", "name": "m", "fields": [{"name": "a", "type": {"type": "array", "items": items}}]}
        with open(tmp_path / "in.avro", "wb") as file:
            fastavro.writer(file, schema, [])
        with pytest.raises(SchemaError, match="'a' as an array of Avro values that take no bytes"):
            rows(tmp_path, StreamSpec("in", 1, None, path="in.avro"))


def test_each_avro_type_is_looked_at_once_however_many_name_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    import fastavro

    looked_at = 0
    resolved = AvroTypes.resolved

    def counted(self: AvroTypes, schema: Any) -> Any:
        nonlocal looked_at
        looked_at += 1
        return resolved(self, schema)

    def named(number: int) -> dict[str, Any]:
        inner = [{"name": f"to{other}", "type": f"r{other}"} for other in range(max(number - 3, 0), number)]
        return {"type": "record", "name": f"r{number}", "fields": [{"name": "x", "type": "long"}, *inner]}

    fields = [{"name": f"c{number}", "type": named(number)} for number in range(60)]
    types = AvroTypes(fastavro.parse_schema({"type": "record", "name": "m", "fields": fields}))
    monkeypatch.setattr(AvroTypes, "resolved", counted)
    assert {types.unread(field["type"]) for field in types.root["fields"]} == {None}
    assert looked_at < 1000  # 60 types with 4 fields at most


def test_stripes_of_more_rows_than_memory_holds_are_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from airflow_samza.systems.files.formats import orc

    written(
        tmp_path,
        StreamSpec("out", 1, "a bigint, b bigint", format="orc"),
        pa.record_batch({"a": range(1000), "b": [1] * 1000}),
    )
    monkeypatch.setattr(orc, "LARGEST_STRIPE", 8000)
    assert rows(tmp_path, StreamSpec("out", 1, "a bigint", format="orc"))[0].num_rows == 1000
    with pytest.raises(SchemaError, match="has stripes of 1000 rows"):
        rows(tmp_path, StreamSpec("out", 1, "a bigint, b bigint", format="orc"))


def _as_text(column: pa.Array) -> pa.Array:
    """Bytes that are called text."""
    return pa.StringArray.from_buffers(
        len(column), column.buffers()[1], column.buffers()[2], column.buffers()[0], column.null_count
    )


@pytest.mark.parametrize("format_name", ["parquet", "orc"])
def test_text_that_is_no_utf8_is_a_bad_record_in_formats_that_take_any_bytes(tmp_path: Path, format_name: str) -> None:
    from pyarrow import orc

    texts = _as_text(pa.array(["ü".encode(), b"\xff\xfe", None, b"ab", b"\xc3", b"\xbc"]))
    table = pa.table({"a": pa.array(range(6)), "s": texts, "l": pa.ListArray.from_arrays(range(7), texts)})
    path = tmp_path / f"in.{format_name}"
    pq.write_table(table, path) if format_name == "parquet" else orc.write_table(table, path)
    for ddl, good in (
        ("a bigint, s string", [0, 2, 3]),
        ("a bigint, l array<string>", [0, 2, 3]),
        ("a bigint", [0, 1, 2, 3, 4, 5]),
    ):
        stream = StreamSpec("in", 1, ddl, path=path.name, tolerant=True)
        consumer = system(tmp_path).consumer(stream, system(tmp_path).slice(stream))
        for dictionaries in (False, True):
            found = list(consumer.read(SystemStreamPartition("lake", "in", 0), None, dictionaries=dictionaries))
            read = [run for run in found if isinstance(run, MessageRun)]
            assert [
                row["a"] for run in read if not isinstance(run, UnreadableRun) for row in run.batch.to_pylist()
            ] == good
            bad = [text for run in read if isinstance(run, UnreadableRun) for text in run.texts]
            assert len(bad) == 6 - len(good)
            assert all('"a":' in text for text in bad)
    with pytest.raises(SchemaError, match="has text in column 's' that is no UTF-8"):
        rows(tmp_path, StreamSpec("in", 1, "a bigint, s string", path=path.name))


def test_a_logical_type_of_avro_without_what_it_needs_is_left_out_of_account(tmp_path: Path) -> None:
    import fastavro

    kind = {"type": "bytes", "logicalType": "decimal", "precision": 5}
    schema = {"type": "record", "name": "m", "fields": [{"name": "a", "type": kind}]}
    with open(tmp_path / "in.avro", "wb") as file:
        fastavro.writer(file, schema, [{"a": Decimal(7)}])
    (tmp_path / "in.avro").write_bytes((tmp_path / "in.avro").read_bytes().replace(b'"precision"', b'"precisiom"'))
    assert rows(tmp_path, StreamSpec("in", 1, "a binary", path="in.avro"))[0].to_pylist() == [{"a": b"\x07"}]


def test_a_schema_of_avro_without_what_it_needs_is_damage(tmp_path: Path) -> None:
    import fastavro

    schema = {"type": "record", "name": "m", "fields": [{"name": "a", "type": {"type": "array", "items": "int"}}]}
    with open(tmp_path / "in.avro", "wb") as file:
        fastavro.writer(file, schema, [])
    (tmp_path / "in.avro").write_bytes((tmp_path / "in.avro").read_bytes().replace(b'"items"', b'"itemz"'))
    with pytest.raises(TopicError, match=r"cannot be read as avro: its schema is none \(KeyError: 'items'\)"):
        rows(tmp_path, StreamSpec("in", 1, "a array<int>", path="in.avro"))

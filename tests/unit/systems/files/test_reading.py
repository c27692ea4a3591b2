"""Reading the system files: formats, packing, slices, and what is rejected."""

from __future__ import annotations

import dataclasses
import datetime as dt
import decimal
import gzip
import itertools
import json
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings, strategies as st

from airflow_samza.control.messages import EndOfStreamMessage
from airflow_samza.errors import ConfigError, RuntimeMissing, SchemaError, TopicError
from airflow_samza.quoting import show_messages
from airflow_samza.schema import Schema
from airflow_samza.systems.dictionaries import decoded
from airflow_samza.systems.files.formats import lines
from airflow_samza.systems.files.formats.lines import BLOCK_BYTES, line_blocks
from airflow_samza.systems.files.formats.options import FOLLOWING, FORMATS, FileOptions
from airflow_samza.systems.files.packing import Unit, pack
from airflow_samza.systems.files.slicing import input_file
from airflow_samza.systems.files.system import FilesSystem
from airflow_samza.systems.system import (
    ColumnBound,
    ControlEnvelope,
    Envelope,
    MessageRun,
    OffsetRange,
    Publication,
    StreamSpec,
    SystemBinding,
    SystemStreamPartition,
)
from tests.support.budgets import share

UTC = dt.timezone.utc
FLAT = (
    "id bigint not null, i int, ti tinyint, f float, d double, s string, b boolean, dec decimal(10,2), big "
    "decimal(38,0),"
    " ts timestamp, tn timestamp_ntz, dt date"
)
NESTED = FLAT + (
    ", bin binary, arr array<int>, st struct<x:int,t:timestamp,d:decimal(5,1)>, m map<string,double>, al "
    "array<struct<a:int,b:string>>"
)
ROWS: list[dict[str, Any]] = [
    {
        "id": 1,
        "i": 2,
        "ti": -3,
        "f": 1.5,
        "d": 0.1,
        "s": 'a"b\\\n,ü\t\u2028',
        "b": True,
        "dec": decimal.Decimal("-1.50"),
        "big": decimal.Decimal(10**37),
        "ts": dt.datetime(2024, 1, 1, 1, 2, 3, 456789, UTC),
        "tn": dt.datetime(1969, 1, 1),
        "dt": dt.date(1960, 2, 29),
        "bin": b"\x00\xff",
        "arr": [1, None],
        "st": {"x": 1, "t": dt.datetime(2024, 1, 1, tzinfo=UTC), "d": decimal.Decimal("1.5")},
        "m": [("k", 1.0), ("q", None)],
        "al": [{"a": 1, "b": None}],
    },
    {"id": 2, "s": "", "d": float("nan"), "b": False},
    {"id": 2**63 - 1, "s": None, "d": float("-inf"), "arr": [], "m": []},
    {"id": -(2**63), "s": "null", "d": 1e300, "f": -0.0},
]


def files(root: Path | str, **options: Any) -> FilesSystem:
    return FilesSystem("lake", SystemBinding("files", {"root": str(root), **options}))


def read(system: FilesSystem, stream: StreamSpec, columns: Sequence[str] | None = None) -> list[list[dict[str, Any]]]:
    """The rows of every partition."""
    fixed = json.loads(json.dumps(system.slice(stream)))  # as the run's record keeps it
    consumer = system.consumer(stream, fixed)
    found = []
    for partition in range(fixed["partitions"]):
        envelopes = list(consumer.read(SystemStreamPartition("lake", stream.name, partition), None, columns))
        found.append([row for e in envelopes if isinstance(e, MessageRun) for row in e.batch.to_pylist()])
        check_sequence(envelopes)
    return found


def check_sequence(envelopes: Sequence[Envelope]) -> None:
    offset = 0
    for envelope in envelopes[:-1]:
        assert isinstance(envelope, MessageRun)
        assert envelope.offset == offset
        assert 0 < envelope.batch.num_rows <= 1 << 18
        offset += envelope.batch.num_rows
    end = envelopes[-1]
    assert isinstance(end, ControlEnvelope)
    assert end.offset == offset
    assert isinstance(end.message, EndOfStreamMessage)
    assert (end.message.task_name, end.message.task_count, end.message.final) == (None, 1, True)


def flat(partitions: list[list[dict[str, Any]]]) -> list[dict[str, Any]]:
    return [row for rows in partitions for row in rows]


def write_parquet(path: Path, rows: int, *, row_group: int = 100, start: int = 0) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    ids = list(range(start, start + rows))
    pq.write_table(
        pa.table({"id": pa.array(ids, pa.int64()), "name": [f"n{i}" for i in ids]}), path, row_group_size=row_group
    )


@pytest.mark.parametrize("format_name", FORMATS)
def test_what_is_written_is_read_back_in_every_format(tmp_path: Path, format_name: str) -> None:
    root = tmp_path / "ein Verzeichnis, ñ"
    system = files(root)
    ddl = FLAT if format_name == "csv" else NESTED
    schema = Schema.of(ddl).to_arrow()
    stream = StreamSpec("out put", schema=ddl, format=format_name, partitions=3)
    batch = pa.RecordBatch.from_pylist(
        [{k: v for k, v in row.items() if k in schema.names} for row in ROWS], schema=schema
    )
    producer = system.producer(stream, "attempt/1")
    producer.write(0, batch)
    producer.write(1, batch)
    staged = json.loads(json.dumps(producer.finish()))
    facts = system.publish(stream, Publication("app/run/stage", "1.1", 0, {0: staged}))
    assert facts["rows"] == 2 * len(ROWS)
    assert repr(flat(read(system, stream))) == repr(batch.to_pylist() * 2)
    wanted = ["ts", "id"]
    assert flat(read(system, stream, wanted)) == batch.select(wanted).to_pylist() * 2
    assert len(flat(read(system, stream, []))) == 2 * len(ROWS)


@pytest.mark.parametrize("format_name", FORMATS)
def test_tells_the_schema_of_the_first_file_when_none_is_declared(tmp_path: Path, format_name: str) -> None:
    system = files(tmp_path)
    stream = StreamSpec("out", schema="id bigint, name string, at timestamp", format=format_name)
    producer = system.producer(stream, "a")
    producer.write(
        0,
        pa.RecordBatch.from_pylist(
            [{"id": 1, "name": "x", "at": dt.datetime(2024, 1, 1, tzinfo=UTC)}], stream_schema(stream)
        ),
    )
    system.publish(stream, Publication("p", "1", 0, {0: producer.finish()}))
    undeclared = StreamSpec("out", format=format_name)
    expected = "id bigint, name string, at timestamp"
    if format_name == "json":  # JSON has no times: what looks like one is read without a zone
        expected = str(files(tmp_path).slice(undeclared)["schema"])
        assert expected.startswith("id bigint, name string, at ")
    assert system.metadata([undeclared])["out"].schema == expected
    assert flat(read(system, undeclared))[0]["name"] == "x"


def stream_schema(stream: StreamSpec) -> pa.Schema:
    return Schema.of(stream.schema).to_arrow()


def test_splits_one_large_parquet_file_by_row_groups(tmp_path: Path) -> None:
    write_parquet(tmp_path / "views.parquet", 800)
    stream = StreamSpec("views", path="views.parquet", partitions=4, schema="id bigint, name string")
    partitions = read(files(tmp_path), stream)
    assert [len(rows) for rows in partitions] == [200, 200, 200, 200]
    assert [row["id"] for row in flat(partitions)] == list(range(800))


@pytest.mark.parametrize("partitions", [1, 2, 3, 7, 40])
def test_every_row_is_in_exactly_one_partition_of_many_files(tmp_path: Path, partitions: int) -> None:
    counts = [1, 950, 0, 30, 420, 100]
    start = 0
    for number, count in enumerate(counts):
        write_parquet(tmp_path / f"in/f{number}.parquet", count, start=start)
        start += count
    stream = StreamSpec("in", partitions=partitions, schema="id bigint")
    system = files(tmp_path)
    assert sorted(row["id"] for row in flat(read(system, stream))) == list(range(sum(counts)))
    assert system.slice(stream) == system.slice(stream)


@settings(max_examples=share(200), deadline=None)
@given(
    sizes=st.lists(st.tuples(st.integers(0, 10_000), st.booleans(), st.integers(1, 5)), max_size=12),
    partitions=st.integers(1, 20),
)
def test_packing_loses_and_doubles_nothing_and_is_balanced(sizes: list[tuple[int, bool, int]], partitions: int) -> None:
    units: list[Unit] = []
    for number, (size, divisible, pieces) in enumerate(sizes):
        if divisible:
            units.append(Unit(number, 0, size, size, divisible=True))
        else:
            units.extend(Unit(number, piece, piece + 1, size) for piece in range(pieces))
    packed = pack(units, partitions)
    assert packed == pack(units, partitions)
    assert len(packed) == partitions
    covered: dict[int, list[tuple[int, int]]] = {}
    weights = [0] * partitions
    piece_size = {unit.file: unit.size for unit in units if not unit.divisible}
    for place, splits in enumerate(packed):
        for split in splits:
            assert split.end is not None
            covered.setdefault(split.file, []).append((split.start, split.end))
            length = split.end - split.start
            weights[place] += length * piece_size[split.file] if split.file in piece_size else length
    for number, (size, divisible, pieces) in enumerate(sizes):
        end = 0
        for first, last in sorted(covered.get(number, [])):
            assert first == end
            end = last
        assert end == (size if divisible else pieces)
    total = sum(weights)
    largest = max([unit.size for unit in units if not unit.divisible], default=0)
    assert all(weight <= total / partitions + largest + 1 for weight in weights)


@settings(max_examples=share(150), deadline=None)
@given(
    lines=st.lists(st.text("ab\r", max_size=12), max_size=20),
    cuts=st.lists(st.integers(0, 300), max_size=6),
    last=st.booleans(),
)
def test_lines_belong_to_the_range_in_which_they_start(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str], cuts: list[int], last: bool
) -> None:
    data = "\n".join(lines).encode() + (b"\n" if last else b"")
    path = tmp_path_factory.mktemp("lines") / "f.txt"
    path.write_bytes(data)
    system = files(path.parent)
    listing = system._listing(StreamSpec("f.txt"))
    file = input_file(system._place(StreamSpec("f.txt"))[0], listing.files[0], "f")
    borders = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    for size in (1, 3, 1000):
        pieces = [
            block
            for start, end in itertools.pairwise(borders)
            for block in line_blocks(file, start, None if (start, end) == (0, len(data)) else end, block_bytes=size)
        ]
        assert b"".join(block.data for block in pieces) == data
        assert all(data[block.offset :].startswith(block.data) for block in pieces)
        assert all(block.offset == 0 or data[block.offset - 1 : block.offset] == b"\n" for block in pieces)


@pytest.mark.parametrize("start", [0, 2])
def test_a_last_line_that_is_too_long_and_does_not_end_is_given_cut_and_once(tmp_path: Path, start: int) -> None:
    data = b"ab\n" + b"x" * 100
    (tmp_path / "f.txt").write_bytes(data)
    system = files(tmp_path)
    file = input_file(system._place(StreamSpec("f.txt"))[0], system._listing(StreamSpec("f.txt")).files[0], "f")
    blocks = line_blocks(file, start, len(data) if start else None, block_bytes=10, longest=20)
    found = list(itertools.islice(blocks, 5))
    assert [(block.offset, block.truncated) for block in found] == [(0, False), (3, True)][bool(start) :]
    assert data[3:].startswith(found[-1].data)


@pytest.mark.parametrize("partitions", [1, 2, 5, 50])
def test_json_lines_are_split_at_line_ends(tmp_path: Path, partitions: int) -> None:
    lines = [json.dumps({"id": i, "text": "ü" * (i % 17)}, ensure_ascii=False) for i in range(300)]
    (tmp_path / "in.jsonl").write_text("\ufeff" + "\n".join(lines), encoding="utf-8")
    stream = StreamSpec("in", path="in.jsonl", partitions=partitions, schema="id bigint, text string")
    found = read(files(tmp_path), stream)
    assert flat(found) == [json.loads(line) for line in lines]
    if partitions == 2:
        assert all(100 < len(rows) < 200 for rows in found)


@pytest.mark.parametrize("multiline", ["true", "false"])
def test_csv_is_split_only_when_values_hold_no_line_ends(tmp_path: Path, multiline: str) -> None:
    text = "id;text\r\n" + "".join(f'{i};"a;{"" if multiline == "false" else chr(10)}b"\r\n' for i in range(200))
    (tmp_path / "in.csv").write_bytes(text.encode())
    options = (("delimiter", ";"), ("multiline", multiline))
    stream = StreamSpec("in", path="*.csv", partitions=4, schema="text string, id int", options=options)
    found = read(files(tmp_path), stream)
    assert [row["id"] for row in flat(found)] == list(range(200))
    assert sum(1 for rows in found if rows) == (4 if multiline == "false" else 1)


@pytest.mark.parametrize("multiline", ["true", "false"])
def test_a_csv_of_one_column_keeps_its_nulls(tmp_path: Path, multiline: str) -> None:
    (tmp_path / "in.csv").write_text('x\n"a"\n\n""\n\n')
    stream = StreamSpec("in.csv", schema="x string", options=(("multiline", multiline),), partitions=2)
    assert [row["x"] for row in flat(read(files(tmp_path), stream))] == ["a", None, "", None]


def test_a_csv_with_nothing_but_a_header_or_nothing_at_all_is_empty(tmp_path: Path) -> None:
    for multiline in ("true", "false"):
        for text in ("", "id,name\n", "id,name", "\n"):
            (tmp_path / "in.csv").write_text(text)
            stream = StreamSpec("in.csv", schema="id int, name string", options=(("multiline", multiline),))
            assert flat(read(files(tmp_path), stream)) == []


def test_a_csv_without_a_header_takes_the_declared_order(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("NA,x\n2,y\n")
    options = (("header", "false"), ("null_value", "NA"))
    assert flat(read(files(tmp_path), StreamSpec("in.csv", schema="id int, name string", options=options))) == [
        {"id": None, "name": "x"},
        {"id": 2, "name": "y"},
    ]


def test_reads_compressed_text_whole(tmp_path: Path) -> None:
    with gzip.open(tmp_path / "in.jsonl.gz", "wt") as sink:
        sink.writelines(json.dumps({"id": i}) + "\n" for i in range(1000))
    found = read(files(tmp_path), StreamSpec("in", path="*.gz", schema="id bigint", partitions=3))
    assert sorted(len(rows) for rows in found) == [0, 0, 1000]


def test_batches_have_at_most_64k_rows(tmp_path: Path) -> None:
    write_parquet(tmp_path / "in.parquet", 150_000, row_group=150_000)
    assert len(flat(read(files(tmp_path), StreamSpec("in.parquet", schema="id bigint")))) == 150_000


def test_a_range_of_offsets_is_read_without_end_of_stream(tmp_path: Path) -> None:
    write_parquet(tmp_path / "in.parquet", 300)
    system = files(tmp_path)
    stream = StreamSpec("in.parquet", schema="id bigint")
    found = list(system.consumer(stream).read(SystemStreamPartition("lake", "in", 0), OffsetRange(150, 250)))
    runs = [e for e in found if isinstance(e, MessageRun)]
    assert len(runs) == len(found)
    assert [row["id"] for run in runs for row in run.batch.to_pylist()] == list(range(150, 250))
    assert runs[0].offset == 150


@pytest.mark.parametrize(
    ("kind", "unit"), [("timestamp", "us"), ("timestamp", "ns"), ("timestamp", "ms"), ("bigint", ""), ("date", "")]
)
@pytest.mark.parametrize("format_name", ["parquet", "orc"])
def test_a_slice_by_a_timestamp_column_reads_from_start_up_to_end(
    tmp_path: Path, kind: str, unit: str, format_name: str
) -> None:
    midnight = dt.datetime(2024, 1, 1, tzinfo=UTC)
    moments = [midnight + dt.timedelta(hours=hour) for hour in range(96)]
    values: Any = moments
    if kind == "bigint":
        arrow = pa.array([int(m.timestamp() * 1000) for m in moments], pa.int64())
    elif kind == "date":
        arrow = pa.array([m.date() for m in values], pa.date32())
    else:
        arrow = pa.array(values, pa.timestamp(unit, "UTC"))
    table = pa.table({"n": list(range(96)), "at": arrow})
    if format_name == "parquet":
        pq.write_table(table, tmp_path / "in.parquet", row_group_size=10)
    else:
        from pyarrow import orc

        orc.write_table(table, tmp_path / "in.orc")
    start, end = midnight + dt.timedelta(days=1), midnight + dt.timedelta(days=2)
    interval = (int(start.timestamp()) * 1_000_000, int(end.timestamp()) * 1_000_000)
    stream = StreamSpec(
        "in", path=f"in.{format_name}", schema=f"n bigint, at {kind}", timestamp="at", interval=interval, partitions=2
    )
    system = files(tmp_path)
    assert [row["n"] for row in flat(read(system, stream))] == list(range(24, 48))
    assert flat(read(system, stream, ["n"])) == [{"n": n} for n in range(24, 48)]
    if format_name == "parquet":  # the statistics rule out row groups, so the rest is what is packed
        assert sum(end - start for splits in system.slice(stream)["splits"] for _, start, end in splits) == 3


def test_rejects_to_slice_by_a_column_that_is_no_time(tmp_path: Path) -> None:
    write_parquet(tmp_path / "in.parquet", 3)
    for column, said in (("name", "is string"), ("when", "does not have")):
        stream = StreamSpec("in.parquet", schema="id bigint, name string", timestamp=column, interval=(0, 1))
        with pytest.raises(SchemaError, match=said):
            read(files(tmp_path), stream)


def test_hidden_files_and_directories_are_no_data(tmp_path: Path) -> None:
    for name in (
        "a.parquet",
        "sub/b.parquet",
        "_SUCCESS.parquet",
        ".c.parquet",
        "_temporary/d.parquet",
        "sub/.e/f.parquet",
    ):
        write_parquet(tmp_path / "in" / name, 1)
    system = files(tmp_path)
    for path in ("in", "in/**", "in/**/*.parquet", "in/"):
        found = [file["path"] for file in system.slice(StreamSpec("in", path=path))["files"]]
        assert found == [f"{tmp_path}/in/a.parquet", f"{tmp_path}/in/sub/b.parquet"], path


def test_a_link_to_a_directory_above_is_not_followed(tmp_path: Path) -> None:
    write_parquet(tmp_path / "in/a.parquet", 1)
    write_parquet(tmp_path / "elsewhere/b.parquet", 1)
    (tmp_path / "in/up").symlink_to(tmp_path)
    (tmp_path / "in/here").symlink_to(".")
    (tmp_path / "in/there").symlink_to(tmp_path / "elsewhere")
    for path in ("in", "in/**"):
        found = [file["path"] for file in files(tmp_path).slice(StreamSpec("in", path=path))["files"]]
        assert found == [f"{tmp_path}/in/a.parquet", f"{tmp_path}/in/there/b.parquet"]


def test_globs_match_part_by_part(tmp_path: Path) -> None:
    for name in ("2024/01/a.parquet", "2024/02/b.parquet", "2025/01/c.parquet", "x[1].parquet", "_h/z.parquet"):
        write_parquet(tmp_path / name, 1)

    def found(path: str) -> list[str]:
        return [
            file["path"].removeprefix(f"{tmp_path}/")
            for file in files(tmp_path).slice(StreamSpec("in", path=path))["files"]
        ]

    assert found("2024/*/a.parquet") == ["2024/01/a.parquet"]
    assert found("*/01") == ["2024/01/a.parquet", "2025/01/c.parquet"]
    assert found("202[5-9]/**") == ["2025/01/c.parquet"]
    assert found("**/c.parquet") == ["2025/01/c.parquet"]
    assert found("x[1].parquet") == ["x[1].parquet"]
    assert found("2024/0?/*.parquet") == ["2024/01/a.parquet", "2024/02/b.parquet"]
    assert found("nothing/*.parquet") == []
    assert found("_h/*.parquet") == ["_h/z.parquet"]


def test_hive_directories_become_columns(tmp_path: Path) -> None:
    write_parquet(tmp_path / "in/day=2024-01-01/city=The%20Hague/a.parquet", 1)
    write_parquet(tmp_path / "in/day=2024-01-02/city=__HIVE_DEFAULT_PARTITION__/a.parquet", 1, start=1)
    stream = StreamSpec("in", schema="city string, id bigint, day date")
    assert flat(read(files(tmp_path), stream)) == [
        {"city": "The Hague", "id": 0, "day": dt.date(2024, 1, 1)},
        {"city": None, "id": 1, "day": dt.date(2024, 1, 2)},
    ]
    assert files(tmp_path).slice(StreamSpec("in"))["schema"] == "id bigint, name string, day string, city string"
    with pytest.raises(SchemaError, match=r"The directory day=2024-01-01 .* is no int"):
        read(files(tmp_path), StreamSpec("in", schema="id bigint, day int"))


def test_no_file_is_an_empty_input_but_a_path_that_does_not_exist_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    system = files(tmp_path)
    for path in ("empty", "empty/*.parquet", "2024-*/x"):
        assert read(system, StreamSpec("in", path=path, partitions=2, schema="id bigint")) == [[], []]
    with pytest.raises(
        TopicError, match=r"The path .*/2024/01 of stream 'in' \(system 'lake'\) does not exist"
    ) as caught:
        system.slice(StreamSpec("in", path="2024/01"))
    assert "allow_missing_path" in caught.value.hint
    assert read(
        system, StreamSpec("in", path="2024/01", schema="id int", options=(("allow_missing_path", "true"),))
    ) == [[]]
    with pytest.raises(TopicError, match=r"The root .*nowhere"):
        files(tmp_path / "nowhere").slice(StreamSpec("in", path="*.parquet"))
    assert system.metadata([StreamSpec("gone"), StreamSpec("empty", partitions=3)]).keys() == {"empty"}


def test_the_partition_count_is_declared_never_counted(tmp_path: Path) -> None:
    for number in range(5):
        write_parquet(tmp_path / f"in/{number}.parquet", 1)
    assert files(tmp_path).metadata([StreamSpec("in")])["in"].partitions == 1
    assert files(tmp_path, partitions=6).metadata([StreamSpec("in")])["in"].partitions == 6
    assert files(tmp_path, partitions=6).metadata([StreamSpec("in", partitions=2)])["in"].partitions == 2
    assert (
        files(tmp_path).metadata([StreamSpec("in", written=True)]) == {}
    )  # else a plan would change once its output is there
    with pytest.raises(ConfigError, match="'many' partitions"):
        files(tmp_path, partitions="many").metadata([StreamSpec("in")])


@pytest.mark.parametrize("format_name", ["parquet", "orc", "avro", "json"])
@pytest.mark.parametrize("content", [b"", b"this is not it\n", b"PAR1\x00\x00PAR1", b"ORC\x00" * 9, b"Obj\x01\x00"])
def test_a_damaged_file_is_named_with_the_reason(tmp_path: Path, format_name: str, content: bytes) -> None:
    (tmp_path / "bad file").write_bytes(content)
    stream = StreamSpec("in", path="bad file", schema="id bigint", format=format_name)
    if format_name == "json" and not content:
        assert flat(read(files(tmp_path), stream)) == []
        return
    with pytest.raises(TopicError, match=r"File .*/bad file of stream 'in' cannot be read as"):
        read(files(tmp_path), stream)


def test_a_parquet_file_damaged_in_the_middle_is_named(tmp_path: Path) -> None:
    write_parquet(tmp_path / "in.parquet", 10_000, row_group=1000)
    data = bytearray((tmp_path / "in.parquet").read_bytes())
    data[2000:6000] = os.urandom(4000)
    (tmp_path / "in.parquet").write_bytes(data)
    with pytest.raises(TopicError, match=r"in\.parquet"):
        read(files(tmp_path), StreamSpec("in.parquet", schema="id bigint, name string"))


def test_a_damaged_json_line_is_told_by_its_place(tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text('{"id": 1}\n{"id": 2\n')
    with pytest.raises(TopicError, match=r"in line 2 \(at byte 10\)"):
        read(files(tmp_path), StreamSpec("in.jsonl", schema="id bigint"))
    (tmp_path / "in.jsonl").write_text('{"id": 1}\n{"id": "x"}\n')
    with pytest.raises(SchemaError, match=r"has \"x\", which is no bigint, in column 'id' in line 2 \(at byte 10\)"):
        read(files(tmp_path), StreamSpec("in.jsonl", schema="id bigint"))


LINES = 400
BAD_AT = 323
"""The line, counted from 1, that is bad among so many."""


def lines_of(format_name: str, bad: str | None = None) -> list[str]:
    """Lines of two columns, a header of CSV before them, with a bad one in its place."""
    lines = [f'{{"id": {n}, "name": "m{n}"}}' if format_name == "json" else f"{n},m{n}" for n in range(LINES)]
    if format_name == "csv":
        lines[0] = "id,name"
    if bad is not None:
        lines[BAD_AT - 1] = bad
    return lines


@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"], ids=["LF", "CRLF", "CR"])
@pytest.mark.parametrize(
    ("format_name", "bad", "options"),
    [
        ("json", '{"id": 1, "name"', {}),
        ("json", '{"id": "one"}', {}),
        ("csv", "one,m", {}),
        ("csv", "1,m,2", {}),
        ("csv", "one,m", {"multiline": "false"}),
        ("csv", '1,"m', {"multiline": "false"}),
    ],
)
def test_a_bad_record_is_named_by_its_line_in_the_file_whichever_range_a_task_reads(
    tmp_path: Path, format_name: str, bad: str, options: dict[str, str], ending: str, partitions: int
) -> None:
    (tmp_path / "in").write_bytes(("\ufeff" + ending.join(lines_of(format_name, bad))).encode())
    stream = StreamSpec("in", partitions, "id bigint, name string", format=format_name, options=tuple(options.items()))
    with pytest.raises((TopicError, SchemaError), match=rf"in line {BAD_AT} \(at byte \d+\)") as caught:
        read(files(tmp_path), stream)
    assert (caught.value.facts["line"], caught.value.facts["record"]) == (BAD_AT, bad)


@pytest.mark.parametrize("name", ["in.json.gz", "in.csv.gz"])
def test_lines_of_a_compressed_file_are_counted_in_what_it_holds(tmp_path: Path, name: str) -> None:
    format_name = name.split(".")[1]
    (tmp_path / name).write_bytes(gzip.compress("\n".join(lines_of(format_name, "?")).encode()))
    with pytest.raises(TopicError, match=f"in line {BAD_AT} "):
        read(files(tmp_path), StreamSpec(name, schema="id bigint, name string", format=format_name))


def test_a_bad_line_is_named_where_columns_are_looked_for_too(tmp_path: Path) -> None:
    (tmp_path / "in.json").write_text("\n".join(lines_of("json", "?")))
    with pytest.raises(TopicError, match=f"in line {BAD_AT} "):
        files(tmp_path).slice(StreamSpec("in.json"))


def test_lines_within_quotes_count_as_an_editor_shows_them(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text('id,name\n1,"a\nb\nc"\n\n2,d\none,e\n')
    with pytest.raises(SchemaError, match=r"'id' in line 7 \(at byte 23\)") as caught:
        read(files(tmp_path), StreamSpec("in.csv", schema="id bigint, name string"))
    assert caught.value.facts["record"] == "one,e"


@pytest.mark.parametrize("before", [BLOCK_BYTES // 2, 2 * BLOCK_BYTES], ids=["in its block", "over blocks"])
def test_a_record_of_csv_that_never_ends_is_named_by_the_line_in_which_it_begins(tmp_path: Path, before: int) -> None:
    (tmp_path / "in.csv").write_text('id,name\n1,"' + "a\n" * 5 + '"\n2,"' + "b\n" * (before // 2))
    with pytest.raises(TopicError, match=r"never closed in line 8 \(at byte 23\), which begins with '2,\"b"):
        read(files(tmp_path), StreamSpec("in.csv", schema="id bigint, name string"))


def test_lines_far_into_a_file_are_not_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "_MOST_COUNTED", 100)
    (tmp_path / "in.json").write_text("\n".join(lines_of("json", "?")))
    with pytest.raises(TopicError, match=r"in the line at byte \d+\.") as caught:
        read(files(tmp_path), StreamSpec("in.json", schema="id bigint"))
    assert caught.value.facts["line"] is None


def test_a_record_is_no_fact_of_an_error_where_messages_are_not_shown(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("id,name\n1,secret,2\n")
    show_messages(False)
    try:
        with pytest.raises(TopicError) as caught:
            read(files(tmp_path), StreamSpec("in.csv", schema="id bigint, name string"))
    finally:
        show_messages(True)
    assert caught.value.facts["record"] is None
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("ddl", "text", "value"),
    [
        ("v decimal(38,0)", "99999999999999999999999999999999999999", decimal.Decimal("9" * 38)),
        ("v bigint", "1.0", 1),
        ("v bigint", "9223372036854775807", 2**63 - 1),
        ("v double", '"NaN"', "nan"),
        ("v double", "3", 3.0),
        ("v map<string,bigint>", '{"a": 1}', [("a", 1)]),
        ("v timestamp", '"2024-01-01T00:00:00+01:00"', dt.datetime(2023, 12, 31, 23, tzinfo=UTC)),
        ("v timestamp", '"2024-01-01"', dt.datetime(2024, 1, 1, tzinfo=UTC)),
        ("v timestamp", '"2024-01-01 00:00:00.5"', dt.datetime(2024, 1, 1, 0, 0, 0, 500000, tzinfo=UTC)),
        ("v array<timestamp>", '["2024-01-01T00:00:00Z"]', [dt.datetime(2024, 1, 1, tzinfo=UTC)]),
        ("v string", "null", None),
    ],
)
def test_json_values_are_read_exactly(tmp_path: Path, ddl: str, text: str, value: Any) -> None:
    (tmp_path / "in.jsonl").write_text('{"v": ' + text + ', "other": [1, {"x": null}]}\n')
    [row] = flat(read(files(tmp_path), StreamSpec("in.jsonl", schema=ddl)))
    assert row["v"] == value or str(row["v"]) == value


@pytest.mark.parametrize(
    ("ddl", "text"),
    [
        ("v bigint", "9223372036854775808"),
        ("v bigint", "1e999999999"),
        ("v bigint", "1.5"),
        ("v bigint", "true"),
        ("v tinyint", "128"),
        ("v string", "1"),
        ("v decimal(4,2)", "1.555"),
        ("v decimal(4,2)", "NaN"),
        ("v timestamp", '"yesterday"'),
        ("v timestamp", "1704067200"),
        ("v date", '"2024-13-01"'),
        ("v binary", '"***"'),
        ("v struct<a:int>", "[1]"),
        ("v array<int>", '["1"]'),
    ],
)
def test_json_values_that_do_not_fit_are_rejected_with_column_and_place(tmp_path: Path, ddl: str, text: str) -> None:
    (tmp_path / "in.jsonl").write_text('{"v": null}\n{"v": ' + text + "}\n")
    with pytest.raises(SchemaError, match=r"in\.jsonl of stream .* in column 'v' in line 2 \(") as caught:
        read(files(tmp_path), StreamSpec("in.jsonl", schema=ddl))
    assert caught.value.facts["column"] == "v"


def test_csv_values_that_do_not_fit_are_rejected_with_column(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("a,b\n1,x\n")
    for ddl, column in (("a int, b int", "b"), ("b timestamp", "b"), ("b date", "b")):
        with pytest.raises(SchemaError, match=rf"does not fit column '{column}'"):
            read(files(tmp_path), StreamSpec("in.csv", schema=ddl))
    with pytest.raises(SchemaError, match="CSV cannot hold"):
        read(files(tmp_path), StreamSpec("in.csv", schema="a array<int>"))
    (tmp_path / "in.csv").write_text("a,b\n1,x,y\n")
    with pytest.raises(TopicError, match=r"cannot be read as csv: .*Expected 2 columns, got 3"):
        read(files(tmp_path), StreamSpec("in.csv", schema="a int"))


@pytest.mark.parametrize(
    ("found", "declared", "values"),
    [
        (pa.int32(), "bigint", [1, None]),
        (pa.uint8(), "smallint", [255]),
        (pa.int64(), "tinyint", [127, -128]),
        (pa.int64(), "double", [2**53]),
        (pa.float32(), "double", [1.5]),
        (pa.float64(), "float", [1.5, float("nan"), None]),
        (pa.dictionary(pa.int32(), pa.string()), "string", ["a", None]),
        (pa.large_string(), "string", ["a"]),
        (pa.timestamp("ms"), "timestamp", [dt.datetime(2024, 1, 1)]),
        (pa.timestamp("ns", "Europe/Amsterdam"), "timestamp", [dt.datetime(2024, 1, 1, tzinfo=UTC)]),
        (pa.decimal128(5, 2), "decimal(10,3)", [decimal.Decimal("1.50")]),
        (pa.int16(), "decimal(10,3)", [7]),
        (pa.list_(pa.int32()), "array<bigint>", [[1], None]),
        (pa.struct([("b", pa.int32()), ("a", pa.int32())]), "struct<a:bigint>", [{"a": 1, "b": 2}]),
        (pa.null(), "int", [None]),
    ],
)
def test_what_holds_the_same_values_is_cast_silently(
    tmp_path: Path, found: pa.DataType, declared: str, values: list[Any]
) -> None:
    pq.write_table(pa.table({"v": pa.array(values, found)}), tmp_path / "in.parquet")
    rows = flat(read(files(tmp_path), StreamSpec("in.parquet", schema=f"v {declared}")))
    wanted = pa.array(values, found)
    assert len(rows) == len(wanted)
    for row, value in zip(rows, wanted.to_pylist(), strict=True):
        if isinstance(value, dict):
            assert row["v"] == {"a": 1}
        elif isinstance(value, dt.datetime):
            assert row["v"] == (value if value.tzinfo else value.replace(tzinfo=UTC))
        else:
            assert str(row["v"]) == str(value) or row["v"] == value


@pytest.mark.parametrize(
    ("found", "declared", "values"),
    [
        (pa.int64(), "int", [2**31]),
        (pa.int64(), "double", [2**53 + 1]),
        (pa.float64(), "float", [0.1]),
        (pa.float64(), "int", [1.0]),
        (pa.string(), "int", ["1"]),
        (pa.string(), "timestamp", ["2024-01-01"]),
        (pa.int64(), "timestamp", [1]),
        (pa.timestamp("us", "UTC"), "timestamp_ntz", [dt.datetime(2024, 1, 1, tzinfo=UTC)]),
        (pa.timestamp("ns", "UTC"), "timestamp", [1]),
        (pa.timestamp("us"), "date", [dt.datetime(2024, 1, 1)]),
        (pa.decimal128(5, 2), "decimal(4,1)", [decimal.Decimal("1.55")]),
        (pa.decimal128(5, 2), "double", [decimal.Decimal("1.55")]),
        (pa.bool_(), "int", [True]),
        (pa.int32(), "string", [1]),
        (pa.list_(pa.string()), "array<int>", [["1"]]),
        (pa.struct([("a", pa.int32())]), "struct<a:int,b:int>", [{"a": 1}]),
    ],
)
def test_another_type_than_declared_is_rejected_with_both(
    tmp_path: Path, found: pa.DataType, declared: str, values: list[Any]
) -> None:
    pq.write_table(pa.table({"v": pa.array(values, found)}), tmp_path / "in.parquet")
    with pytest.raises(SchemaError, match=r"File .*/in\.parquet of stream .*'v'") as caught:
        read(files(tmp_path), StreamSpec("in.parquet", schema=f"v {declared}"))
    assert caught.value.facts["declared"] == declared
    assert caught.value.facts["found"]
    assert caught.value.hint


def test_nanoseconds_are_cut_only_when_asked_for(tmp_path: Path) -> None:
    pq.write_table(pa.table({"v": pa.array([1001], pa.timestamp("ns", "UTC"))}), tmp_path / "in.parquet")
    stream = StreamSpec("in.parquet", schema="v timestamp", options=(("truncate_timestamps", "true"),))
    assert flat(read(files(tmp_path), stream)) == [{"v": dt.datetime(1970, 1, 1, 0, 0, 0, 1, tzinfo=UTC)}]


def test_a_missing_column_is_rejected_unless_it_may_be_null_and_that_was_allowed(tmp_path: Path) -> None:
    write_parquet(tmp_path / "in.parquet", 1)
    system = files(tmp_path)
    with pytest.raises(
        SchemaError, match=r"has no column 'Name' \(declared as string\); its columns are id, name"
    ) as caught:
        read(system, StreamSpec("in.parquet", schema="id bigint, Name string"))
    assert "Did you mean 'name'?" in caught.value.hint
    with pytest.raises(SchemaError, match="has no column 'names'") as caught:
        read(system, StreamSpec("in.parquet", schema="id bigint, name string, names string"))
    assert caught.value.hint.startswith("Correct the schema, or")  # 'name' is declared already
    allowed = (("allow_missing_columns", "true"),)
    assert flat(read(system, StreamSpec("in.parquet", schema="id bigint, x int", options=allowed))) == [
        {"id": 0, "x": None}
    ]
    with pytest.raises(SchemaError, match="has no column 'x'"):
        read(system, StreamSpec("in.parquet", schema="id bigint, x int not null", options=allowed))


def test_nulls_in_a_column_declared_not_null_are_rejected(tmp_path: Path) -> None:
    pq.write_table(pa.table({"v": [1, None]}), tmp_path / "in.parquet")
    (tmp_path / "in.jsonl").write_text("{}\n")
    for path in ("in.parquet", "in.jsonl"):
        with pytest.raises(
            SchemaError,
            match=r"has nulls in column 'v', which is declared not null|has the field 'v', .* declared not null",
        ):
            read(files(tmp_path), StreamSpec("in", path=path, schema="v bigint not null"))


def test_a_file_that_changed_since_the_plan_is_rejected(tmp_path: Path) -> None:
    system = files(tmp_path)
    stream = StreamSpec("in.parquet", schema="id bigint")
    write_parquet(tmp_path / "in.parquet", 10)
    fixed = system.slice(stream)
    before = (tmp_path / "in.parquet").stat().st_mtime_ns

    def attempt() -> None:
        list(system.consumer(stream, fixed).read(SystemStreamPartition("lake", "in", 0), None))

    attempt()
    os.utime(tmp_path / "in.parquet", ns=(before + 1_000_000_000, before + 1_000_000_000))
    with pytest.raises(TopicError, match="changed since the plan: it was written again"):
        attempt()
    write_parquet(tmp_path / "in.parquet", 11)
    with pytest.raises(TopicError, match=r"changed since the plan: it has \d+ bytes instead of"):
        attempt()
    (tmp_path / "in.parquet").unlink()
    with pytest.raises(TopicError, match="changed since the plan: it is gone"):
        attempt()


def test_a_file_added_after_the_plan_is_not_read(tmp_path: Path) -> None:
    write_parquet(tmp_path / "in/a.parquet", 1)
    system, stream = files(tmp_path), StreamSpec("in", schema="id bigint")
    fixed = system.slice(stream)
    write_parquet(tmp_path / "in/b.parquet", 1)
    found = list(system.consumer(stream, fixed).read(SystemStreamPartition("lake", "in", 0), None))
    assert sum(e.batch.num_rows for e in found if isinstance(e, MessageRun)) == 1


def test_files_of_several_formats_need_a_declared_one(tmp_path: Path) -> None:
    write_parquet(tmp_path / "in/a.parquet", 1)
    (tmp_path / "in/b.csv").write_text("id\n1\n")
    with pytest.raises(TopicError, match="several formats: csv, parquet"):
        files(tmp_path).slice(StreamSpec("in"))
    assert files(tmp_path).slice(StreamSpec("in", path="in/*.csv"))["format"] == "csv"
    with pytest.raises(ConfigError, match="unknown format 'xml'"):
        files(tmp_path).slice(StreamSpec("in", format="xml"))


def test_reads_any_filesystem_url(tmp_path: Path) -> None:
    (tmp_path / "a b").mkdir()
    write_parquet(tmp_path / "a b/k=1/in.parquet", 5)
    expected = [{"id": i, "k": 1} for i in range(5)]
    url = (tmp_path / "a b").as_uri()
    for system, path in (
        (files(url), "k=1"),
        (files(url + "/"), "*/in.parquet"),
        (files("/"), f"{tmp_path}/a b/k=1/in.parquet"),
        (FilesSystem("x", SystemBinding("files")), f"{url}/k=1/in.parquet"),
        (FilesSystem("x", SystemBinding("files")), f"{url}/*/*.parquet"),
    ):
        assert flat(read(system, StreamSpec("in", path=path, schema="id bigint, k int"))) == expected


def test_reads_and_writes_through_fsspec() -> None:
    memory = fsspec.filesystem("memory")
    root = f"memory://files-{time.time_ns()}"
    system = files(root)
    stream = StreamSpec("out", schema="id bigint", partitions=2)
    producer = system.producer(stream, "a")
    producer.write(0, pa.RecordBatch.from_pydict({"id": [1, 2, 3]}))
    publication = Publication("app/run/stage", "1.1", 0, {0: producer.finish()})
    system.check_writable(stream)
    assert system.publish(stream, publication) == system.publish(stream, publication)
    assert [row["id"] for row in flat(read(system, stream))] == [1, 2, 3]
    assert [
        row["id"]
        for row in flat(
            read(FilesSystem("x", SystemBinding("files")), StreamSpec("o", path=f"{root}/o*", schema="id int"))
        )
    ] == [1, 2, 3]
    memory.rm(root, recursive=True)


def test_a_filesystem_that_is_not_there_is_named_without_its_secrets(tmp_path: Path) -> None:
    with pytest.raises(RuntimeMissing, match="sftp://host/x needs a package") as caught:
        files("sftp://key:hidden@host/x", secret="hidden").slice(StreamSpec("in"))
    assert "hidden" not in str(caught.value)
    assert "pip install" in caught.value.hint
    with pytest.raises(ConfigError, match="no filesystem for nosuch://"):
        files("nosuch://a/b").slice(StreamSpec("in"))
    with pytest.raises(ConfigError, match="has no root"):
        FilesSystem("x", SystemBinding("files")).slice(StreamSpec("in"))
    with pytest.raises(ConfigError, match="unknown option 'rooot'"):
        files(tmp_path, rooot="x")


def test_an_unknown_option_is_rejected_with_the_near_one(tmp_path: Path) -> None:
    write_parquet(tmp_path / "in.parquet", 1)
    for options, hint in (
        ((("delimitr", ";"),), "delimiter"),
        ((("multiline", "maybe"),), '"true"'),
        ((("delimiter", "ab"),), "one"),
    ):
        with pytest.raises(ConfigError) as caught:
            files(tmp_path).slice(StreamSpec("in.parquet", options=options))
        assert hint in caught.value.hint


def test_avro_without_its_package_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "fastavro", None)
    (tmp_path / "in.avro").write_bytes(b"x")
    with pytest.raises(RuntimeMissing, match="fastavro") as caught:
        read(files(tmp_path), StreamSpec("in.avro", schema="id int"))
    assert "pip install 'airflow-samza[avro]'" in caught.value.hint


def batches(root: Path, stream: StreamSpec, *, dictionaries: bool = False) -> Iterator[pa.RecordBatch]:
    consumer = files(root).consumer(stream, files(root).slice(stream))
    for envelope in consumer.read(SystemStreamPartition("lake", stream.name, 0), None, dictionaries=dictionaries):
        if isinstance(envelope, MessageRun):
            yield envelope.batch


def test_wide_rows_are_read_in_smaller_batches(tmp_path: Path) -> None:
    rows = 20_000
    table = pa.table({"id": range(rows), "payload": [b"%09d" % n * 200 for n in range(rows)]})
    pq.write_table(table, tmp_path / "wide.parquet", row_group_size=5_000, use_dictionary=False)
    found = list(batches(tmp_path, StreamSpec("wide.parquet", schema="id bigint, payload binary")))
    assert sum(batch.num_rows for batch in found) == rows
    assert max(batch.nbytes for batch in found) < 10 * 2**20
    assert [batch.num_rows for batch in batches(tmp_path, StreamSpec("wide.parquet", schema="id bigint"))] == [rows]


@pytest.mark.parametrize("group_rows", [2_000, 64_000])
@pytest.mark.extended
def test_a_large_file_is_not_read_ahead_as_a_whole(tmp_path: Path, group_rows: int) -> None:
    rows, width = 64_000, 2_000
    random = np.random.default_rng(7)
    payload = pa.array([random.bytes(width) for _ in range(rows)])
    table = pa.table({"id": range(rows), "payload": payload})
    pq.write_table(
        table, tmp_path / "large.parquet", row_group_size=group_rows, use_dictionary=False, compression="none"
    )
    del table, payload
    before, most, seen = pa.total_allocated_bytes(), 0, 0
    for batch in batches(tmp_path, StreamSpec("large.parquet", schema="id bigint, payload binary")):
        assert batch.column("id").to_pylist() == list(range(seen, seen + batch.num_rows))
        seen += batch.num_rows
        most = max(most, pa.total_allocated_bytes() - before)
    assert seen == rows
    assert most < rows * width * 0.75


# -- statistics of a file are of its own columns --------------------------------------------------------------------------


def bounded(root: Path, stream: StreamSpec, *bounds: ColumnBound) -> list[dict[str, Any]]:
    """Read a stream where row groups may be left out by bounds, then leave out the rows that do not fulfil them."""
    slice = files(root).slice(stream)
    found = [
        row
        for partition in range(slice["partitions"])
        for envelope in files(root)
        .consumer(stream, slice)
        .read(SystemStreamPartition("lake", stream.name, partition), None, None, bounds)
        if isinstance(envelope, MessageRun)
        for row in envelope.batch.to_pylist()
    ]
    tests: dict[str, Any] = {
        "=": lambda cell, value: cell == value,
        "is null": lambda cell, _: cell is None,
        "is not null": lambda cell, _: cell is not None,
    }
    return [row for row in found if all(tests[each.op](row[each.column], each.value) for each in bounds)]


@pytest.mark.parametrize("rows", [2, pytest.param(400_000, marks=pytest.mark.extended)])
def test_a_column_of_folders_has_no_statistics_of_a_files_column_of_the_same_name(tmp_path: Path, rows: int) -> None:
    folder = tmp_path / "facts/day=2024-01-01"
    folder.mkdir(parents=True)
    days = pa.array([dt.date(2020, 5, 5)] * rows, pa.date32())
    pq.write_table(pa.table({"id": pa.array(range(rows), pa.int64()), "day": days}), folder / "a.parquet")
    none = tmp_path / "facts/day=__HIVE_DEFAULT_PARTITION__"
    none.mkdir()
    pq.write_table(pa.table({"id": pa.array([-1], pa.int64()), "day": days[:1]}), none / "a.parquet")
    stream = StreamSpec("facts", partitions=2, schema="id bigint, day date", path="facts/**", format="parquet")
    day = dt.date(2024, 1, 1)
    assert len(bounded(tmp_path, stream, ColumnBound("day", "=", day))) == rows
    assert bounded(tmp_path, stream, ColumnBound("day", "is null", None)) == [{"id": -1, "day": None}]
    assert len(bounded(tmp_path, stream, ColumnBound("day", "is not null", None))) == rows
    start, end = (int(dt.datetime(2024, 1, each, tzinfo=UTC).timestamp()) * 1_000_000 for each in (1, 2))
    sliced = dataclasses.replace(stream, timestamp="day", interval=(start, end))
    assert len(bounded(tmp_path, sliced)) == rows


@pytest.mark.parametrize("order", [["a", "a.b", "c"], ["a.b", "a", "c"]])
def test_a_column_with_a_dot_in_its_name_has_its_own_statistics(tmp_path: Path, order: list[str]) -> None:
    inner = pa.array([{"b": 7}, {"b": 8}], pa.struct([("b", pa.int64())]))
    table = pa.table({"a": inner, "a.b": pa.array([1, 2], pa.int64()), "c": pa.array(["x", "x"])})
    (tmp_path / "in").mkdir()
    pq.write_table(table.select(order), tmp_path / "in/a.parquet")
    ddl = "a struct<b: bigint>, `a.b` bigint, c string"
    stream = StreamSpec("dots", partitions=1, schema=ddl, path="in", format="parquet")
    assert [row["a.b"] for row in bounded(tmp_path, stream, ColumnBound("a.b", "=", 2))] == [2]
    assert [row["a.b"] for row in bounded(tmp_path, stream)] == [1, 2]
    narrow = StreamSpec("dots", partitions=1, schema="`a.b` bigint", path="in", format="parquet")
    assert bounded(tmp_path, narrow, ColumnBound("a.b", "=", 2)) == [{"a.b": 2}]


def test_columns_behind_one_of_several_stored_ones_have_their_own_statistics(tmp_path: Path) -> None:
    pairs = pa.array([{"x": 7, "y": 8}, {"x": 7, "y": 8}], pa.struct([("x", pa.int64()), ("y", pa.int64())]))
    opaque = pa.ExtensionArray.from_storage(pa.opaque(pairs.type, "pair", "somebody"), pairs)
    (tmp_path / "in").mkdir()
    pq.write_table(pa.table({"pair": opaque, "n": pa.array([1, 2], pa.int64())}), tmp_path / "in/a.parquet")
    stream = StreamSpec("pairs", partitions=1, schema="n bigint", path="in", format="parquet")
    assert bounded(tmp_path, stream, ColumnBound("n", "=", 2)) == [{"n": 2}]


def test_bounds_skip_row_groups_and_nothing_where_offsets_count_all_rows(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    pq.write_table(pa.table({"n": pa.array(range(6), pa.int64())}), tmp_path / "in/a.parquet", row_group_size=2)
    stream = StreamSpec("in", partitions=1, schema="n bigint", path="in", format="parquet")
    system, slice_ = files(tmp_path), files(tmp_path).slice(stream)
    place, bound = SystemStreamPartition("lake", "in", 0), ColumnBound("n", "=", 5)

    def numbers(offsets: OffsetRange | None) -> list[int]:
        envelopes = system.consumer(stream, slice_).read(place, offsets, None, (bound,))
        runs = [envelope for envelope in envelopes if isinstance(envelope, MessageRun)]
        return [n for run in runs for n in run.batch.column("n").to_pylist()]

    assert numbers(None) == [4, 5]
    assert numbers(OffsetRange(1, 6)) == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("column", "rows"),
    [
        pytest.param(pa.array([1, 2, 3] * 100_000, pa.int32()), 1 << 18, id="numbers"),
        pytest.param(pa.array(["ab", "cd", "ef"] * 100_000), 1 << 18, id="texts whose places are read"),
        pytest.param(pa.array(["x" * 200, "y"] * 150_000, pa.binary()), 65_536, id="bytes behind a dictionary"),
        pytest.param(pa.array([[1], [2], [3]] * 100_000), 65_536, id="nested values"),
    ],
)
def test_rows_of_few_bytes_are_read_more_at_a_time(tmp_path: Path, column: pa.Array, rows: int) -> None:
    pq.write_table(pa.table({"x": column}), tmp_path / "in.parquet", row_group_size=300_000)
    found = list(batches(tmp_path, StreamSpec("in.parquet"), dictionaries=True))
    assert [batch.num_rows for batch in found] == [rows] * (300_000 // rows) + [300_000 % rows]
    assert pa.chunked_array([decoded(batch).column("x") for batch in found]).combine_chunks().equals(column)


def test_a_dictionary_does_not_make_batches_larger_in_memory(tmp_path: Path) -> None:
    table = pa.table({f"c{place}": pa.array([7] * 200_000, pa.int64()) for place in range(10)})
    pq.write_table(table, tmp_path / "in.parquet")
    found = list(batches(tmp_path, StreamSpec("in.parquet")))
    assert [batch.num_rows for batch in found] == [104_857, 95_143]


@pytest.mark.parametrize(
    ("beginning", "end"), [(b"a", b"\n"), (b"a\n", b"\n"), (b"a\r\nb", b"\n"), (b"a\rb", b"\r"), (b"", b"\n")]
)
def test_lines_end_with_a_carriage_return_only_where_no_line_feed_is(beginning: bytes, end: bytes) -> None:
    assert lines.line_end(beginning) == end


def test_options_behind_one_that_is_read_elsewhere_are_read_too() -> None:
    following = (sorted(FOLLOWING)[0], "1 minute")
    assert FileOptions.of(StreamSpec("in", options=(following, ("delimiter", ";")))).delimiter == ";"

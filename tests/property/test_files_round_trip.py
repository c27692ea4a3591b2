"""Files are read back equal, or their data is rejected when it is written: all formats, all options of CSV."""

from __future__ import annotations

import datetime as dt
import decimal
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import HealthCheck, example, given, settings, strategies as st

from airflow_samza.errors import ConfigError, SchemaError
from airflow_samza.schema import Schema
from airflow_samza.systems.files.formats.options import FORMATS
from airflow_samza.systems.files.system import FilesSystem
from airflow_samza.systems.system import MessageRun, Publication, StreamSpec, SystemBinding, SystemStreamPartition
from tests.support.budgets import share

SETTINGS = settings(
    max_examples=share(40),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
UTC = dt.timezone.utc

TEXT = st.one_of(
    st.text(max_size=6),
    st.text("\",;\t|\\'\n\r 0aN\ufeff", max_size=6),
    st.sampled_from(
        ["", "NA", "null", "0", "-1", '"', '""', "\\N", "nan", "a\r\nb", "\r", "\ufeff", "\0", "\\", "'", "#", " "]
    ),
)
MICROS = st.one_of(
    st.integers(-(2**63), 2**63 - 1),
    st.integers(-62135596800 * 10**6, 253402300799 * 10**6),
    st.integers(-(10**9), 10**9),
)
KINDS: dict[str, st.SearchStrategy[Any]] = {
    "bigint": st.integers(-(2**63), 2**63 - 1),
    "tinyint": st.integers(-128, 127),
    "double": st.floats(),
    "float": st.floats(width=32),
    "boolean": st.booleans(),
    "decimal(12,3)": st.decimals(-(10**8), 10**8, places=3),
    "decimal(38,0)": st.integers(-(10**37), 10**37).map(decimal.Decimal),
    "decimal(20,15)": st.decimals(-(10**4), 10**4, places=15),
    "string": TEXT,
    "timestamp": MICROS,
    "timestamp_ntz": MICROS,
    "date": st.one_of(st.integers(-(2**31), 2**31 - 1), st.integers(-719162, 2932896)),
}
MOMENT = st.datetimes(dt.datetime(1700, 1, 1), dt.datetime(2200, 1, 1))
NESTED: dict[str, st.SearchStrategy[Any]] = {
    "binary": st.binary(max_size=5),
    "array<string>": st.lists(st.none() | TEXT, max_size=3),
    "array<array<int>>": st.lists(st.none() | st.lists(st.integers(-9, 9), max_size=2), max_size=2),
    "map<string,double>": st.dictionaries(TEXT, st.none() | st.floats(), max_size=3).map(
        lambda found: list(found.items())
    ),
    "struct<x:bigint,s:string,t:timestamp_ntz,l:array<float>>": st.fixed_dictionaries(
        {
            "x": st.none() | KINDS["bigint"],
            "s": st.none() | TEXT,
            "t": st.none() | MOMENT,
            "l": st.none() | st.lists(KINDS["float"], max_size=2),
        }
    ),
    "struct<d:decimal(10,4),b:binary,e:struct<y:boolean>>": st.fixed_dictionaries(
        {
            "d": st.decimals(-999, 999, places=4),
            "b": st.binary(max_size=3),
            "e": st.none() | st.fixed_dictionaries({"y": st.booleans()}),
        }
    ),
    "map<string,array<struct<t:date>>>": st.dictionaries(
        TEXT, st.lists(st.fixed_dictionaries({"t": st.none() | st.dates(dt.date(1, 1, 1))}), max_size=2), max_size=2
    ).map(lambda found: list(found.items())),
}


@st.composite
def tables(
    draw: st.DrawFn, kinds: dict[str, st.SearchStrategy[Any]], names: st.SearchStrategy[str]
) -> tuple[str, pa.RecordBatch]:
    """A schema's DDL and rows of it."""
    chosen = draw(st.lists(st.sampled_from(sorted(kinds)), min_size=1, max_size=4))
    called = draw(st.lists(names, min_size=len(chosen), max_size=len(chosen), unique=True))
    size = draw(st.integers(0, 6))
    ddl = ", ".join(f"`{name.replace('`', '``')}` {kind}" for name, kind in zip(called, chosen, strict=True))
    schema = Schema.of(ddl).to_arrow()
    columns = [
        pa.array(draw(st.lists(st.none() | kinds[kind], min_size=size, max_size=size)), _plain(field.type)).cast(
            field.type
        )
        for kind, field in zip(chosen, schema, strict=True)
    ]
    return ddl, pa.RecordBatch.from_arrays(columns, schema=schema)


def _plain(kind: pa.DataType) -> pa.DataType:
    return pa.int64() if pa.types.is_timestamp(kind) else pa.int32() if pa.types.is_date(kind) else kind


def round_trip(root: Path, stream: StreamSpec, batches: Sequence[pa.RecordBatch]) -> list[pa.RecordBatch]:
    system = FilesSystem("lake", SystemBinding("files", {"root": str(root)}))
    for old in sorted((root / stream.name).rglob("*"), reverse=True) if (root / stream.name).exists() else ():
        old.rmdir() if old.is_dir() else old.unlink()
    producer = system.producer(stream, "task-0")
    for batch in batches:
        producer.write(0, batch)
    system.publish(stream, Publication("stage", "1.1", 0, {0: json.loads(json.dumps(producer.finish()))}))
    found = []
    fixed = system.slice(stream)
    for partition in range(fixed["partitions"]):
        for envelope in system.consumer(stream, fixed).read(
            SystemStreamPartition("lake", stream.name, partition), None
        ):
            if isinstance(envelope, MessageRun):
                found.append(envelope.batch)
    return found


def shown(batches: Sequence[pa.RecordBatch]) -> list[str]:
    """Rows in which NaN is NaN and every time a number."""
    rows = []
    for batch in batches:
        columns = [
            pc.cast(pc.cast(column, _plain(column.type)), pa.int64())
            if _plain(column.type) is not column.type
            else column
            for column in batch.columns
        ]
        rows += [repr(row) for row in zip(*(column.to_pylist() for column in columns), strict=True)]
    return rows


def bounds_of(batch: pa.RecordBatch) -> list[tuple[int, int]]:
    """The least and greatest time of each column of times, in microseconds, and of dates."""
    found = []
    for column in batch.columns:
        if pa.types.is_timestamp(column.type) or pa.types.is_date(column.type):
            unit = 1 if pa.types.is_timestamp(column.type) else 86_400_000_000
            values = [
                v * unit for v in pc.cast(pc.cast(column, _plain(column.type)), pa.int64()).to_pylist() if v is not None
            ]
            found += [(min(values), max(values))] if values else []
    return found


def may_hold(format_name: str, batch: pa.RecordBatch) -> bool:
    """Return True if a format can hold all points in time of top columns."""
    if format_name == "parquet":
        return True
    if format_name == "orc":
        times = batch.select([field.name for field in batch.schema if pa.types.is_timestamp(field.type)])
        return all(low >= -9_223_372_036_854_775 and high <= 9_223_372_036_854_775 for low, high in bounds_of(times))
    return all(low >= -62_135_596_800_000_000 and high <= 253_402_300_799_999_999 for low, high in bounds_of(batch))


NAMES = st.text("abcXYZ_", min_size=1, max_size=5)


@pytest.mark.parametrize("format_name", FORMATS)
@SETTINGS
@given(data=st.data())
def test_what_is_written_is_read_back_equal_or_rejected_when_it_is_written(
    tmp_path: Path, format_name: str, data: st.DataObject
) -> None:
    ddl, batch = data.draw(tables(KINDS if format_name == "csv" else KINDS | NESTED, NAMES))
    stream = StreamSpec("rows", data.draw(st.sampled_from([1, 3])), ddl, format=format_name)
    if not may_hold(format_name, batch):
        with pytest.raises(SchemaError, match=r"that .* does not read back"):
            round_trip(tmp_path, stream, [batch])
        return
    assert shown(round_trip(tmp_path, stream, [batch, batch.slice(1)])) == shown([batch, batch.slice(1)])


OPTIONS = st.fixed_dictionaries(
    {},
    optional={
        "delimiter": st.sampled_from([",", ";", "\t", "|", ".", "-", ":", " ", "1", "e", "\x01"]),
        "quote": st.sampled_from(['"', "'", "", "1"]),
        "escape": st.sampled_from(["", "\\", '"', "-"]),
        "null_value": st.sampled_from(["", "NA", "\\N", "0", "null", "true", " "]),
        "header": st.sampled_from(["true", "false"]),
        "multiline": st.sampled_from(["true", "false"]),
    },
)
CSV_KINDS = {name: kind for name, kind in KINDS.items() if name not in ("timestamp", "timestamp_ntz", "date")} | {
    "timestamp": st.integers(-62135596800 * 10**6, 253402300799 * 10**6),
    "date": st.integers(-719162, 2932896),
}

MARKED = "`\ufeff` bigint"
"""A column whose name is a byte order mark, which readers of files take away at their beginning."""


@settings(SETTINGS, max_examples=share(150))
@given(
    options=OPTIONS,
    table=tables(CSV_KINDS, TEXT.filter(lambda text: text.strip() != "" and "\0" not in text)),
    partitions=st.sampled_from([1, 3]),
)
@example(options={}, table=("`a\nb` string", pa.record_batch({"a\nb": ["x\ny", None, ""]})), partitions=1)
@example(options={"null_value": "0"}, table=("a bigint", pa.record_batch({"a": [0, None, 1]})), partitions=1)
@example(
    options={"quote": "'", "escape": "\\"},
    table=("a string", pa.record_batch({"a": ["it's", "\\'", '"']})),
    partitions=1,
)
@example(options={"quote": ""}, table=(MARKED, pa.record_batch({"\ufeff": pa.array([None], pa.int64())})), partitions=1)
@example(
    options={"quote": "", "escape": "\\"},
    table=(MARKED, pa.record_batch({"\ufeff": pa.array([None], pa.int64())})),
    partitions=1,
)
@example(
    options={"quote": "", "header": "false"},
    table=("a string", pa.record_batch({"a": ["\ufeffa"]})),
    partitions=1,
)
@example(
    options={"quote": "", "header": "false", "escape": "\\"},
    table=("a string", pa.record_batch({"a": ["\ufeffa"]})),
    partitions=1,
)
def test_options_of_csv_mean_the_same_for_writer_and_reader(
    tmp_path: Path, options: dict[str, str], table: tuple[str, pa.RecordBatch], partitions: int
) -> None:
    ddl, batch = table
    stream = StreamSpec("rows", partitions, ddl, format="csv", options=tuple(options.items()))
    found: list[pa.RecordBatch] = []
    rejected: ConfigError | SchemaError | None = None
    try:
        found = round_trip(tmp_path, stream, [batch, batch])
    except (ConfigError, SchemaError) as error:
        rejected = error
    if isinstance(rejected, ConfigError):
        assert rejected.facts["key"] in ("delimiter", "quote", "escape", "null_value")
    elif rejected is not None:  # for want of quotes, or of values over several lines
        assert "which CSV with these options cannot hold" in rejected.sentence
        assert options.get("quote", '"') == "" or options.get("multiline") == "false"
    else:
        assert shown(found) == shown([batch, batch])

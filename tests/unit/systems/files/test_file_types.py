"""Every type that files have, by format and writer: the column that it is, or a sentence; always left out when not wanted.

The table of docs/reference/file-types.md is the one that these tests make; ``WRITE_FILE_TYPES_PAGE=1`` writes it.
"""

from __future__ import annotations

import datetime as dt
import os
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

from airflow_samza.errors import SamzaError, SchemaError
from airflow_samza.schema import Schema, parse_type
from airflow_samza.systems.files.system import FilesSystem
from airflow_samza.systems.system import MessageRun, StreamSpec, SystemBinding, SystemStreamPartition

PAGE = Path(__file__).parents[4] / "docs/reference/file-types.md"
BEGIN, END = "<!-- types: begin -->\n", "<!-- types: end -->\n"

OF_OTHERS = Path(__file__).parent / "of_others"
"""Files that Spark 4.2 has written, and some of apache/parquet-testing."""

FORMATS = ["Parquet", "ORC", "Avro", "JSON", "CSV"]

UUID = uuid.UUID("82a57ecd-dec9-493b-bc1f-f032fa789c75")
NOON = dt.datetime(2024, 1, 2, 12, 0, 0, 250_000)
NOON_UTC = NOON.replace(tzinfo=dt.timezone.utc)


@dataclass(frozen=True)
class Cell:
    """A type of a format: as which type a column of it is read (None: as none), and what the value in the file is."""

    format_name: str
    kind: str
    writer: str
    read_as: str | None
    value: Any
    make: Callable[[Path], None]
    also_as: str | None = None
    column: str = "v"

    @property
    def name(self) -> str:
        return f"{self.format_name}-{self.kind}-{self.writer}"

    def row(self) -> str:
        read_as = f"`{self.read_as}`" if self.read_as else "none: rejected when it is wanted"
        more = f", or declared `{self.also_as}`" if self.also_as else ""
        return f"| {self.format_name} | {self.kind} | {self.writer} | {read_as}{more} |"


def by_arrow(
    format_name: str, kind: str, arrow: pa.DataType, held: Any, read_as: str | None, value: Any = None, **more: Any
) -> Cell:
    def make(path: Path) -> None:
        table = pa.table({"id": [1, 2], "v": pa.array([held, None], arrow)})
        pq.write_table(table, path) if format_name == "Parquet" else orc.write_table(table, path)

    return Cell(format_name, kind, "pyarrow", read_as, held if value is None else value, make, **more)


def by_duckdb(kind: str, sql: str, read_as: str | None, value: Any) -> Cell:
    def make(path: Path) -> None:
        import duckdb

        duckdb.sql(f"copy (select 1::bigint id, {sql} v union all select 2, null) to '{path}' (format parquet)")

    return Cell("Parquet", kind, "DuckDB", read_as, value, make)


def by_fastavro(kind: str, schema: Any, held: Any, read_as: str | None, value: Any = None, **more: Any) -> Cell:
    def make(path: Path) -> None:
        import fastavro

        inner = schema if isinstance(schema, list) else ["null", schema]
        fields = [{"name": "id", "type": "long"}, {"name": "v", "type": inner}]
        with open(path, "wb") as file:
            record = {"type": "record", "name": "m", "fields": fields}
            fastavro.writer(file, record, [{"id": 1, "v": held}, {"id": 2, "v": None}])

    return Cell("Avro", kind, "fastavro", read_as, held if value is None else value, make, **more)


def logical(base: str, logical_type: str, **more: Any) -> dict[str, Any]:
    return {"type": base, "logicalType": logical_type, **more}


def by_hand(format_name: str, kind: str, text: str, read_as: str | None, value: Any) -> Cell:
    def make(path: Path) -> None:
        path.write_text(text)

    return Cell(format_name, kind, "by hand", read_as, value, make)


def by_spark(format_name: str, kind: str, column: str, read_as: str, value: Any, **more: Any) -> Cell:
    name = more.pop("file", f"spark.{format_name.lower()}")

    def make(path: Path) -> None:
        path.write_bytes((OF_OTHERS / name).read_bytes())

    return Cell(format_name, kind, "Spark", read_as, value, make, column=column, **more)


_LINKED = {"type": "record", "name": "node", "fields": [{"name": "next", "type": ["null", "node"]}]}
_MICROS = 12 * 3600 * 10**6 + 250_000

CELLS = [
    *(
        by_arrow(format_name, kind, arrow, held, read_as)
        for format_name in ("Parquet", "ORC")
        for kind, arrow, held, read_as in [
            ("boolean", pa.bool_(), True, "boolean"),
            ("8-bit integer", pa.int8(), -5, "tinyint"),
            ("16-bit integer", pa.int16(), -500, "smallint"),
            ("32-bit integer", pa.int32(), -70_000, "int"),
            ("64-bit integer", pa.int64(), 2**40, "bigint"),
            ("float", pa.float32(), 0.5, "float"),
            ("double", pa.float64(), 0.1, "double"),
            ("decimal(10,2)", pa.decimal128(10, 2), Decimal("1.50"), "decimal(10,2)"),
            ("string", pa.string(), "ü", "string"),
            ("binary", pa.binary(), b"\0\xff", "binary"),
            ("date", pa.date32(), NOON.date(), "date"),
            ("list", pa.list_(pa.int32()), [1, None], "array<int>"),
            ("map", pa.map_(pa.string(), pa.int32()), [("k", 1)], "map<string,int>"),
            ("struct", pa.struct([("x", pa.int32())]), {"x": 1}, "struct<x:int>"),
        ]
    ),
    *(
        by_spark(format_name, kind, column, read_as, value)
        for format_name in ("Parquet", "ORC")
        for kind, column, read_as, value in [
            ("boolean", "bo", "boolean", True),
            ("8-bit integer", "ti", "tinyint", 5),
            ("16-bit integer", "sm", "smallint", 500),
            ("32-bit integer", "i", "int", 70_000),
            ("64-bit integer", "bi", "bigint", 2**40),
            ("float", "f", "float", 0.5),
            ("double", "d", "double", 0.1),
            ("decimal(10,2)", "de", "decimal(10,2)", Decimal("1.50")),
            ("decimal(38,2)", "dw", "decimal(38,2)", Decimal("1.50")),
            ("string", "s", "string", "ü"),
            ("binary", "b", "binary", b"\0\xff"),
            ("date", "da", "date", NOON.date()),
            ("list", "a", "array<int>", [1, None]),
            ("map", "m", "map<string,int>", [("k", 1)]),
            ("struct", "st", "struct<x:int>", {"x": 1}),
        ]
    ),
    by_spark("ORC", "timestamp", "ts", "timestamp_ntz", NOON),
    by_spark("ORC", "timestamp_ntz of Spark (a number)", "tn", "bigint", 1_704_196_800_250_000),
    by_spark("Parquet", "INT96", "ts", "timestamp_ntz", NOON),
    by_spark("Parquet", "TIMESTAMP without a zone", "tn", "timestamp_ntz", NOON),
    by_spark(
        "Parquet", "INTERVAL DAY of Spark (a number)", "iv", "bigint", 259_200_000_000, file="spark-interval.parquet"
    ),
    by_arrow("ORC", "timestamp with local time zone", pa.timestamp("us", "UTC"), NOON_UTC, "timestamp"),
    by_arrow("ORC", "timestamp", pa.timestamp("us"), NOON, "timestamp_ntz"),
    by_arrow("Parquet", "8-bit unsigned integer", pa.uint8(), 255, "smallint"),
    by_arrow("Parquet", "16-bit unsigned integer", pa.uint16(), 65_535, "int"),
    by_arrow("Parquet", "32-bit unsigned integer", pa.uint32(), 2**32 - 1, "bigint"),
    by_arrow("Parquet", "64-bit unsigned integer", pa.uint64(), 2**64 - 1, "decimal(20,0)", Decimal(2**64 - 1)),
    by_arrow("Parquet", "FLOAT16", pa.float16(), 0.5, "float"),
    by_arrow("Parquet", "decimal(40,2)", pa.decimal256(40, 2), Decimal("1.50"), None, also_as="decimal(38,2)"),
    by_arrow("Parquet", "fixed bytes", pa.binary(3), b"abc", "binary"),
    by_arrow("Parquet", "TIMESTAMP of ms in UTC", pa.timestamp("ms", "UTC"), NOON_UTC, "timestamp"),
    by_arrow("Parquet", "TIMESTAMP of µs in UTC", pa.timestamp("us", "UTC"), NOON_UTC, "timestamp"),
    by_arrow("Parquet", "TIMESTAMP of ns in UTC", pa.timestamp("ns", "UTC"), NOON_UTC, "timestamp"),
    by_arrow("Parquet", "TIMESTAMP without a zone", pa.timestamp("us"), NOON, "timestamp_ntz"),
    by_arrow("Parquet", "TIME of ms", pa.time32("ms"), NOON.time(), "bigint", _MICROS),
    by_arrow("Parquet", "TIME of µs", pa.time64("us"), NOON.time(), "bigint", _MICROS),
    by_arrow("Parquet", "TIME of ns", pa.time64("ns"), NOON.time(), "bigint", _MICROS),
    by_arrow("Parquet", "UUID", pa.uuid(), UUID.bytes, "string", str(UUID)),
    by_arrow("Parquet", "JSON", pa.json_(), '{"a": 1}', "string"),
    by_arrow(
        "Parquet",
        "map to a TIME",
        pa.map_(pa.string(), pa.time64("us")),
        [("k", NOON.time())],
        "map<string,bigint>",
        [("k", _MICROS)],
    ),
    by_arrow("Parquet", "duration of Arrow", pa.duration("us"), dt.timedelta(seconds=1), None),
    by_arrow("Parquet", "dictionary of Arrow", pa.dictionary(pa.int32(), pa.string()), "x", "string"),
    by_duckdb("UUID", f"'{UUID}'::uuid", "string", str(UUID)),
    by_duckdb("list of UUID", f"['{UUID}'::uuid, null]", "array<string>", [str(UUID), None]),
    by_duckdb(
        "struct with a TIME and a UUID",
        f"{{'t': time '12:00:00.25', 'u': '{UUID}'::uuid}}",
        "struct<t:bigint,u:string>",
        {"t": _MICROS, "u": str(UUID)},
    ),
    by_duckdb("JSON", """'{"a":1}'::json""", "string", '{"a":1}'),
    by_duckdb("TIME of µs", "time '12:00:00.25'", "bigint", _MICROS),
    by_duckdb("INTERVAL", "interval 3 day", "binary", bytes([0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0])),
    by_duckdb("ENUM", "'a'::enum('a','b')", "string", "a"),
    by_duckdb("128-bit integer (as double)", "3::hugeint", "double", 3.0),
    by_duckdb("64-bit unsigned integer", "18446744073709551615::ubigint", "decimal(20,0)", Decimal(2**64 - 1)),
    by_duckdb("TIMESTAMP of ns", "'2024-01-02 12:00:00.25'::timestamp_ns", "timestamp_ntz", NOON),
    by_duckdb("decimal(10,2)", "1.5::decimal(10,2)", "decimal(10,2)", Decimal("1.50")),
    by_fastavro("boolean", "boolean", True, "boolean"),
    by_fastavro("int", "int", -5, "int"),
    by_fastavro("long", "long", 2**40, "bigint"),
    by_fastavro("float", "float", 0.5, "float"),
    by_fastavro("double", "double", 0.1, "double"),
    by_fastavro("string", "string", "ü", "string"),
    by_fastavro("bytes", "bytes", b"\0\xff", "binary"),
    by_fastavro("fixed", {"type": "fixed", "name": "f", "size": 3}, b"abc", "binary"),
    by_fastavro("enum", {"type": "enum", "name": "e", "symbols": ["a", "b"]}, "b", "string"),
    by_fastavro("array", {"type": "array", "items": "int"}, [1, 2], "array<int>"),
    by_fastavro("map", {"type": "map", "values": "int"}, {"k": 1}, "map<string,int>", [("k", 1)]),
    by_fastavro(
        "record", {"type": "record", "name": "r", "fields": [{"name": "x", "type": "int"}]}, {"x": 1}, "struct<x:int>"
    ),
    by_fastavro("date", logical("int", "date"), NOON.date(), "date"),
    by_fastavro("timestamp-millis", logical("long", "timestamp-millis"), NOON_UTC, "timestamp"),
    by_fastavro("timestamp-micros", logical("long", "timestamp-micros"), NOON_UTC, "timestamp"),
    by_fastavro(
        "timestamp-nanos",
        logical("long", "timestamp-nanos"),
        10**9,
        "timestamp",
        dt.datetime(1970, 1, 1, 0, 0, 1, tzinfo=dt.timezone.utc),
    ),
    by_fastavro("local-timestamp-millis", logical("long", "local-timestamp-millis"), NOON, "timestamp_ntz"),
    by_fastavro("local-timestamp-micros", logical("long", "local-timestamp-micros"), NOON, "timestamp_ntz"),
    by_fastavro("time-millis", logical("int", "time-millis"), NOON.time(), "bigint", _MICROS),
    by_fastavro("time-micros", logical("long", "time-micros"), NOON.time(), "bigint", _MICROS),
    by_fastavro("uuid in string", logical("string", "uuid"), UUID, "string", str(UUID)),
    by_fastavro("uuid in fixed", logical("fixed", "uuid", name="u", size=16), UUID.bytes, "string", str(UUID)),
    by_fastavro(
        "uuid in fixed, bytes that are text",
        logical("fixed", "uuid", name="u", size=16),
        b"sixteen letters!",
        "string",
        str(uuid.UUID(bytes=b"sixteen letters!")),
    ),
    by_fastavro("duration", logical("fixed", "duration", name="d", size=12), bytes(range(12)), "binary"),
    by_fastavro(
        "decimal in bytes", logical("bytes", "decimal", precision=10, scale=2), Decimal("1.50"), "decimal(10,2)"
    ),
    by_fastavro(
        "decimal in fixed",
        logical("fixed", "decimal", name="d", size=9, precision=10, scale=2),
        Decimal("-1.50"),
        "decimal(10,2)",
    ),
    by_fastavro("decimal(40,2)", logical("bytes", "decimal", precision=40, scale=2), Decimal("1.50"), None),
    by_fastavro("a logical type that is not known", logical("long", "fortnights"), 7, "bigint"),
    by_fastavro("union of int and long", ["null", "int", "long"], 2**40, "bigint"),
    by_fastavro("union of float and double", ["null", "float", "double"], 0.5, "double"),
    by_fastavro("union of other types", ["null", "int", "string"], "x", None),
    by_fastavro("a record that contains itself", _LINKED, {"next": {"next": None}}, None),
    by_spark("JSON", "true, false", "bo", "boolean", True),
    by_spark("JSON", "number without a fraction", "i", "bigint", 70_000),
    by_spark("JSON", "number with a fraction", "de", "double", 1.5),
    by_spark("JSON", "text", "s", "string", "ü"),
    by_spark("JSON", "point in time (text)", "ts", "string", "2024-01-02T12:00:00.250Z"),
    by_spark("JSON", "bytes (base64)", "b", "string", "AP8="),
    by_spark("JSON", "array", "a", "array<bigint>", [1, None]),
    by_spark("CSV", "whole number", "i", "bigint", 70_000),
    by_spark("CSV", "number with a fraction", "d", "double", 0.1),
    by_spark("CSV", "true, false", "bo", "boolean", True),
    by_spark("CSV", "date", "da", "date", NOON.date()),
    by_spark("CSV", "point in time with a zone", "ts", "timestamp", NOON_UTC),
    by_spark("CSV", "point in time without a zone", "tn", "timestamp_ntz", NOON),
    by_spark("CSV", "text", "s", "string", "ü"),
    by_hand("JSON", "true, false", '{"id": 1, "v": true}\n{"id": 2}\n', "boolean", True),
    by_hand("JSON", "number without a fraction", '{"id": 1, "v": 7}\n{"id": 2}\n', "bigint", 7),
    by_hand("JSON", "number with a fraction", '{"id": 1, "v": 0.5}\n{"id": 2}\n', "double", 0.5),
    by_hand("JSON", "text", '{"id": 1, "v": "x"}\n{"id": 2}\n', "string", "x"),
    by_hand("JSON", "array", '{"id": 1, "v": [1]}\n{"id": 2}\n', "array<bigint>", [1]),
    by_hand("JSON", "object", '{"id": 1, "v": {"x": 1}}\n{"id": 2}\n', "struct<x:bigint>", {"x": 1}),
    by_hand("CSV", "whole number", "id,v\n1,7\n2,\n", "bigint", 7),
    by_hand("CSV", "number with a fraction", "id,v\n1,0.5\n2,\n", "double", 0.5),
    by_hand("CSV", "true, false", "id,v\n1,true\n2,\n", "boolean", True),
    by_hand("CSV", "date", "id,v\n1,2024-01-02\n2,\n", "date", NOON.date()),
    by_hand("CSV", "text", "id,v\n1,x\n2,\n", "string", "x"),
]


def planned(path: Path, ddl: str | None) -> tuple[FilesSystem, StreamSpec, Mapping[str, Any]]:
    """Return what the plan fixes of a file."""
    system = FilesSystem("lake", SystemBinding("files", {"root": str(path.parent)}))
    stream = StreamSpec("in", 1, ddl, path=path.name)
    return system, stream, system.slice(stream)


def read(path: Path, ddl: str | None) -> tuple[str | None, list[dict[str, Any]]]:
    system, stream, fixed = planned(path, ddl)
    found = system.consumer(stream, fixed).read(SystemStreamPartition("lake", "in", 0), None)
    return fixed["schema"], [row for run in found if isinstance(run, MessageRun) for row in run.batch.to_pylist()]


@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: cell.name)
@pytest.mark.few(44)
def test_a_type_of_a_file_is_the_column_that_the_page_says_or_a_sentence(tmp_path: Path, cell: Cell) -> None:
    path, column = tmp_path / f"in.{cell.format_name.lower()}", cell.column
    cell.make(path)
    whole = [{"id": 1}, {"id": 2}]
    if (OF_OTHERS / "spark-interval.parquet").read_bytes() == path.read_bytes():
        whole = whole[:1]
    expected = [{**row, column: value} for row, value in zip(whole, (cell.value, None), strict=False)]
    assert read(path, "id bigint")[1] == whole  # whatever the other column is
    if cell.read_as is not None:
        ddl, rows = read(path, None)
        assert {field.name: field.type.ddl() for field in Schema.of(ddl).fields}[column] == cell.read_as
        assert [{"id": row["id"], column: row[column]} for row in rows] == expected
    else:
        with pytest.raises(SchemaError, match="has no column type here") as undeclared:
            read(path, None)
        assert "leave this one out" in str(undeclared.value.hint)
    declared = cell.also_as or cell.read_as
    if declared is not None:
        assert read(path, f"id bigint, {column} {declared}")[1] == expected
    other = "boolean" if cell.read_as != "boolean" else "date"
    if cell.format_name not in ("JSON", "CSV"):  # text is read as what is declared
        with pytest.raises(SamzaError, match=path.name) as caught:
            planned(path, f"id bigint, {column} {other}")
        named = str(caught.value.hint).partition(f"Declare {column!r} as ")[2].partition(" and ")[0]
        assert bool(named) == (cell.read_as is not None)
        if named:
            parse_type(named)  # only what can be declared is named


@pytest.mark.parametrize(
    ("name", "ddl", "first"),
    [
        ("byte_array_decimal.parquet", "value decimal(4,2)", {"value": Decimal("1.00")}),
        ("fixed_length_decimal.parquet", "value decimal(25,2)", {"value": Decimal("1.00")}),
        ("float16_nonzeros_and_nans.parquet", "x float", {"x": None}),
        ("old_list_structure.parquet", "a array<array<int>>", {"a": [[1, 2], [3, 4]]}),
        ("spark-int96.parquet", "id bigint, ts timestamp_ntz", {"id": 1, "ts": NOON}),
    ],
)
def test_old_forms_of_parquet_are_read(name: str, ddl: str, first: dict[str, Any]) -> None:
    found, rows = read(OF_OTHERS / name, None)
    assert (found, rows[0]) == (ddl, first)


def rows_of_the_page() -> str:
    merged: dict[tuple[str, str, str | None], list[Cell]] = {}
    for cell in CELLS:
        merged.setdefault((cell.format_name, cell.kind, cell.read_as), []).append(cell)
    rows = [
        Cell(
            one.format_name, one.kind, ", ".join(c.writer for c in cells), one.read_as, None, one.make, one.also_as
        ).row()
        for cells in sorted(merged.values(), key=lambda cells: FORMATS.index(cells[0].format_name))
        for one in cells[:1]
    ]
    return "\n".join(["| format | type in the file | tried with files of | column |", "|---|---|---|---|", *rows, ""])


def test_the_page_of_file_types_has_the_table_that_the_tests_make() -> None:
    text = PAGE.read_text()
    before, rest = text.split(BEGIN)
    table, after = rest.split(END)
    if os.environ.get("WRITE_FILE_TYPES_PAGE"):
        PAGE.write_text(before + BEGIN + rows_of_the_page() + END + after)
        return
    assert table == rows_of_the_page()


def test_a_time_that_is_finer_than_microseconds_is_rejected(tmp_path: Path) -> None:
    pq.write_table(pa.table({"v": pa.array([1001], pa.time64("ns"))}), tmp_path / "in.parquet")
    with pytest.raises(SchemaError, match=r"values in column 'v'.*do not fit the declared bigint"):
        read(tmp_path / "in.parquet", "v bigint")


def test_a_field_that_can_be_no_column_is_left_out_of_its_struct(tmp_path: Path) -> None:
    import fastavro

    inner = [{"name": "x", "type": "int"}, {"name": "y", "type": ["int", "string"]}]
    fields = [{"name": "s", "type": {"type": "record", "name": "r", "fields": inner}}]
    with open(tmp_path / "in.avro", "wb") as file:
        fastavro.writer(file, {"type": "record", "name": "m", "fields": fields}, [{"s": {"x": 1, "y": "z"}}])
    assert read(tmp_path / "in.avro", "s struct<x:int>")[1] == [{"s": {"x": 1}}]
    with pytest.raises(SchemaError, match="a union of the Avro types int and string"):
        read(tmp_path / "in.avro", "s struct<x:int,y:int>")


def test_a_record_inside_of_itself_is_read_over_however_deep_it_is(tmp_path: Path) -> None:
    from airflow_samza.systems.files.formats.avro_blocks import ContainerWriter, long_bytes

    fields = [{"name": "n", "type": _LINKED}, {"name": "id", "type": "long"}]
    with open(tmp_path / "in.avro", "wb") as file:
        writer = ContainerWriter(file, {"type": "record", "name": "m", "fields": fields}, "deflate")
        writer.write(2, b"\x02" * 100_000 + b"\0" + long_bytes(7) + b"\0" + long_bytes(8))
        writer.flush()
    assert read(tmp_path / "in.avro", "id bigint")[1] == [{"id": 7}, {"id": 8}]


@pytest.mark.parametrize("codec", ["null", "deflate", "snappy", "zstandard", "bzip2", "xz"])
def test_avro_is_written_and_read_with_every_codec_without_a_further_library(tmp_path: Path, codec: str) -> None:
    from tests.unit.systems.files.test_limits import rows, written

    stream = StreamSpec("out", 1, "id bigint, s string", format="avro", options=(("compression", codec),))
    batch = pa.RecordBatch.from_pylist(
        [{"id": n, "s": "x" * (n % 50)} for n in range(9000)], Schema.of("id bigint, s string").to_arrow()
    )
    written(tmp_path, stream, batch)
    assert pa.Table.from_batches(rows(tmp_path, StreamSpec("out", 1, stream.schema, format="avro"))).equals(
        pa.Table.from_batches([batch])
    )
    if codec in ("null", "deflate", "bzip2", "xz"):  # for the others fastavro needs more
        import fastavro

        (path,) = (tmp_path / "out").glob("part-*")
        with open(path, "rb") as file:
            assert list(fastavro.reader(file)) == batch.to_pylist()


@pytest.mark.parametrize(
    ("format_name", "codec", "named"),
    [
        ("avro", "snapy", "snappy"),
        ("avro", "lz4", "zstandard"),
        ("parquet", "deflate", "zstd"),
        ("orc", "gzip", "zlib"),
    ],
)
def test_a_codec_that_a_format_has_not_is_rejected_by_the_plan(
    tmp_path: Path, format_name: str, codec: str, named: str
) -> None:
    from airflow_samza.errors import ConfigError

    system = FilesSystem("lake", SystemBinding("files", {"root": str(tmp_path)}))
    stream = StreamSpec("out", 1, "id bigint", format=format_name, options=(("compression", codec),), written=True)
    with pytest.raises(ConfigError, match=f"'compression' of stream 'out' is '{codec}'") as caught:
        system.check_writable(stream)
    assert named in str(caught.value.hint)

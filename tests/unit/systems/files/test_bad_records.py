"""Records of files that cannot be read, for who asks for them.

As they lie there, at their offsets, and nothing else is lost.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from airflow_samza.errors import SchemaError, TopicError
from airflow_samza.systems.files.formats import csv, json_values
from airflow_samza.systems.files.system import FilesSystem
from airflow_samza.systems.system import (
    MessageRun,
    OffsetRange,
    Publication,
    StreamSpec,
    SystemBinding,
    SystemStreamPartition,
    UnreadableRun,
)
from tests.support.budgets import share

Found = tuple[int, dict[str, Any] | str]
"""An offset, and the message, or the text of a record that cannot be read."""


def read(
    root: Path, ddl: str, format_name: str, *, partitions: int = 1, offsets: OffsetRange | None = None, **more: Any
) -> list[list[Found]]:
    stream = StreamSpec("rows", partitions, ddl, format=format_name, path="rows", **{"tolerant": True, **more})
    system = FilesSystem("lake", SystemBinding("files", {"root": str(root)}))
    consumer = system.consumer(stream, system.slice(stream))
    found = []
    for partition in range(partitions):
        rows: list[Found] = []
        for envelope in consumer.read(SystemStreamPartition("lake", "rows", partition), offsets):
            if isinstance(envelope, UnreadableRun):
                assert all(envelope.errors)
                rows += [(envelope.offset + place, text) for place, text in enumerate(envelope.texts)]
            elif isinstance(envelope, MessageRun):
                rows += [(envelope.offset + place, row) for place, row in enumerate(envelope.batch.to_pylist())]
        assert [offset for offset, _ in rows] == list(
            range(rows[0][0] if rows else 0, (rows[0][0] if rows else 0) + len(rows))
        )
        found.append(rows)
    return found


def write(root: Path, data: str | bytes, name: str = "1") -> None:
    (root / "rows").mkdir(exist_ok=True)
    (root / "rows" / name).write_bytes(data if isinstance(data, bytes) else data.encode())


JSON = '{"k": 1, "s": "a"}\n{"k": 2\n\n[3]\n{"k": "x", "s": "b"}\n{"k": null}\n{"k": 5, "s": "c"}\n'
JSON_FOUND: list[Found] = [
    (0, {"k": 1, "s": "a"}),
    (1, '{"k": 2'),
    (2, "[3]"),
    (3, '{"k": "x", "s": "b"}'),
    (4, '{"k":null,"s":null}'),
    (5, {"k": 5, "s": "c"}),
]
DDL = "k bigint not null, s string"


def test_bad_lines_of_json_come_at_their_offsets(tmp_path: Path) -> None:
    write(tmp_path, JSON, "1.json")
    assert read(tmp_path, DDL, "json") == [JSON_FOUND]


def test_so_do_those_of_a_compressed_file(tmp_path: Path) -> None:
    write(tmp_path, gzip.compress(JSON.encode()), "1.json.gz")
    assert read(tmp_path, DDL, "json") == [JSON_FOUND]


def test_a_range_of_offsets_has_its_bad_records(tmp_path: Path) -> None:
    write(tmp_path, JSON, "1.json")
    for start in range(6):
        for end in range(start, 7):
            assert read(tmp_path, DDL, "json", offsets=OffsetRange(start, end)) == [JSON_FOUND[start:end]]


def test_without_asking_the_first_bad_record_is_an_error(tmp_path: Path) -> None:
    write(tmp_path, JSON, "1.json")
    with pytest.raises(TopicError, match="no JSON"):
        read(tmp_path, DDL, "json", tolerant=False)


def test_bytes_that_are_no_text_are_shown(tmp_path: Path) -> None:
    write(tmp_path, b'{"k": 1, "s": "\xff"}\n{"k": 2, "s": "b"}\n', "1.json")
    ((bad, good),) = read(tmp_path, DDL, "json")
    assert bad == (0, '{"k": 1, "s": "\\xff"}')
    assert good == (1, {"k": 2, "s": "b"})


CSV = [
    "k,s,at",
    "1,a,2026-01-01T00:00:00",
    "x,b,2026-01-01T00:00:00",
    "3,c",
    '4,"d\nd",2026-01-01T00:00:00',
    ",e,2026-01-01T00:00:00",
    "6,f,then",
    '7,"g ""g""",',
]


def test_bad_records_of_csv_come_at_their_offsets_also_where_values_hold_line_ends(tmp_path: Path) -> None:
    write(tmp_path, "\n".join(CSV) + "\n", "1.csv")
    (found,) = read(tmp_path, "k bigint not null, s string, at timestamp", "csv", options=(("multiline", "true"),))
    shown = [(offset, row if isinstance(row, str) else (row["k"], row["s"])) for offset, row in found]
    assert shown == [
        (0, (1, "a")),
        (1, "x,b,2026-01-01T00:00:00"),
        (2, "3,c"),
        (3, (4, "d\nd")),
        (4, '{"k":null,"s":"e","at":"2026-01-01T00:00:00.000000Z"}'),
        (5, "6,f,then"),
        (6, (7, 'g "g"')),
    ]


def test_a_quote_that_is_never_closed_makes_the_rest_one_bad_record(tmp_path: Path) -> None:
    write(tmp_path, "k,s\n1,a\n" + '2,b,"x\n' + "3,c\n" * 400_000, "1.csv")
    ((good, bad),) = read(tmp_path, "k bigint, s string", "csv", options=(("multiline", "true"),))
    assert good == (0, {"k": 1, "s": "a"})
    assert bad[0] == 1
    assert isinstance(bad[1], str)
    assert bad[1].startswith('2,b,"x\n3,c\n')
    assert len(bad[1]) <= 1 << 20


@pytest.mark.parametrize("format_name", ["parquet", "avro", "orc"])
def test_rows_that_do_not_fit_the_schema_come_as_json(tmp_path: Path, format_name: str) -> None:
    (tmp_path / "rows").mkdir()
    rows = [{"k": 1, "s": "a"}, {"k": None, "s": "b"}, {"k": 2**40, "s": "c"}, {"k": 4, "s": None}]
    stream = StreamSpec("rows", 1, "k bigint, s string", format=format_name, path="rows", written=True)
    system = FilesSystem("lake", SystemBinding("files", {"root": str(tmp_path)}))
    producer = system.producer(stream, "task-0")
    producer.write(0, pa.RecordBatch.from_pylist(rows, pa.schema([("k", pa.int64()), ("s", pa.string())])))
    system.publish(stream, Publication("stage", "1.1", 0, {0: producer.finish()}))
    assert read(tmp_path, "k int not null, s string", format_name) == [
        [
            (0, {"k": 1, "s": "a"}),
            (1, '{"k":null,"s":"b"}'),
            (2, '{"k":1099511627776,"s":"c"}'),
            (3, {"k": 4, "s": None}),
        ]
    ]


def test_a_column_that_no_row_could_fit_is_an_error_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "rows").mkdir()
    pq.write_table(pa.table({"k": ["a", "b"]}), tmp_path / "rows" / "1.parquet")
    with pytest.raises(SchemaError, match="has the column 'k' as string"):
        read(tmp_path, "k bigint", "parquet")
    with pytest.raises(SchemaError, match="has no column 'other'"):
        read(tmp_path, "k string, other string", "parquet")


LINE = st.sampled_from(
    [*JSON.splitlines(), '{"k": 9, "s": "ü\\n"}', "", '{"k": 1e99}', '{"k": 7, "s": "' + "x" * 50 + '"}', "\r"]
)
SETTINGS = settings(max_examples=share(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@SETTINGS
@given(st.lists(LINE, max_size=30), st.integers(1, 4), st.integers(1, 5))
def test_lines_cut_anywhere_give_the_good_ones_that_are_good_by_themselves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: list[str], partitions: int, chunk: int
) -> None:
    write(tmp_path, "\n".join(lines), "1.json")
    with monkeypatch.context() as patched:
        patched.setattr(json_values, "_LINES", chunk)
        found = [row for rows in read(tmp_path, DDL, "json", partitions=partitions) for _, row in rows]
    expected = []
    for line in filter(str.strip, lines):
        try:
            value = json.loads(line)
            fits = isinstance(value, dict) and isinstance(value.get("k"), int)
        except ValueError:
            fits = False
        expected.append(
            {"k": value["k"], "s": value.get("s")}
            if fits
            else line.rstrip("\r")
            if line != '{"k": null}'
            else '{"k":null,"s":null}'
        )
    assert found == expected


RECORD = st.sampled_from(["1,a", "2,", "x,b", "3", "4,5,6", '5,"a\nb"', '6,"q""q"', ",n", "7,"])


@SETTINGS
@given(st.lists(RECORD, max_size=25), st.sampled_from([16, 64, 4 << 20]))
def test_csv_gives_the_good_records_that_are_good_by_themselves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, records: list[str], block: int
) -> None:
    write(tmp_path, "\n".join(["k,s", *records]) + "\n", "1.csv")
    with monkeypatch.context() as patched:
        patched.setattr(csv, "BLOCK_BYTES", block)
        (found,) = read(tmp_path, "k bigint, s string", "csv", options=(("multiline", "true"),))
    known = {
        "1,a": (1, "a"),
        "2,": (2, None),
        '5,"a\nb"': (5, "a\nb"),
        '6,"q""q"': (6, 'q"q'),
        ",n": (None, "n"),
        "7,": (7, None),
    }
    shown = [row if isinstance(row, str) else (row["k"], row["s"]) for _, row in found]
    assert shown == [known.get(record, record) for record in records]


RECORDS = [
    ("json", '{"a": 1}\nno JSON\n'),
    ("json", "null\n"),
    ("json", '{"a": "long"}\n'),
    ("csv", "a\nlong\n"),
    ("csv", 'a\n"1\n'),
]


@pytest.mark.parametrize(("format_name", "data"), RECORDS)
def test_the_error_of_a_record_names_the_ways_to_read_on_without_it(
    tmp_path: Path, format_name: str, data: str
) -> None:
    write(tmp_path, data)
    with pytest.raises((TopicError, SchemaError)) as raised:
        read(tmp_path, "a bigint", format_name, tolerant=False)
    assert 'on_error="drop" on the input, or dead_letter(stream)' in raised.value.hint
    read(tmp_path, "a bigint", format_name)  # as the hint says


@pytest.mark.parametrize(
    ("format_name", "data"),
    [
        ("parquet", b"not Parquet, and long enough for it"),
        ("json", b"PAR1 and so on\n"),
        ("csv", b'"a\n1\n'),
        ("orc", b"no"),
    ],
)
def test_the_error_of_a_file_names_the_ways_to_read_on_without_it(
    tmp_path: Path, format_name: str, data: bytes
) -> None:
    write(tmp_path, data)
    with pytest.raises(TopicError) as raised:
        read(tmp_path, "a bigint", format_name)
    for way in ("declare format= on the stream", "a system of kind spark", "a name that begins with _", "replace it"):
        assert way in raised.value.hint
    (tmp_path / "rows/1").rename(tmp_path / "rows/_1")
    assert read(tmp_path, "a bigint", format_name) == [[]]  # as the hint says

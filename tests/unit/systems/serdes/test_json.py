"""The quick reader of plain JSON objects: what it accepts, the strict parsers read, and to the same values."""

from __future__ import annotations

import pyarrow as pa
import pytest

from airflow_samza.schema import Schema
from airflow_samza.systems.files.formats.json_values import BadValue, from_lines, to_lines
from airflow_samza.systems.files.formats.lines import Block
from airflow_samza.systems.serdes.json import JsonSerde, PlainObjects

SCHEMA = Schema.of("a bigint, i int, f double, s string, b boolean").to_arrow()

ACCEPTED = [
    b'{"a":1,"i":-2,"f":0.5,"s":"\\u00e9\\u0000","b":true}',
    b"{}",
    b'{"a":null,"s":null}',
    b'  {"a" : 7 }\t',
    b'{"a":1,"a":2}',
    b'{"a":-0,"f":-0.0}',
    b'{"a":-9223372036854775808}',
    b'{"f":123456789012345678901234567890}',
    b'{"f":1e-400}',
    b'{"\\u0061":5,"A":6}',
    b'{"x":[[],{"q":[1]}],"y":1e999,"a":1}',
]
LEFT_TO_OTHERS = [
    b'{"a":1.0}',
    b'{"i":2147483648}',
    b'{"a":9223372036854775808}',
    b'{"f":1e999}',
    b'{"f":NaN}',
    b'{"s":"\\ud800"}',
    b'{"s":"\x01"}',
    b'{"a":01}',
    b'{"a":"1"}',
    b'{"s":1}',
    b'{"b":1}',
    b'{"x":tru,"a":1}',
    b'{"x":1.,"a":1}',
    b'{"x":"\\q","a":1}',
    b'{"x":[1,],"a":1}',
    b'{"x":"\xff","a":1}',
    b'{"a":1,}',
    b'{"a":1} {"a":2}',
    b"[1]",
    b"null",
    b"",
    b'{"x":' + b"[" * 5000 + b"]" * 5000 + b"}",
]


@pytest.mark.parametrize("value", ACCEPTED)
def test_what_it_accepts_is_what_pythons_parser_reads(value: bytes) -> None:
    reader = PlainObjects.of(SCHEMA)
    assert reader is not None
    found = reader.read(value, 1)
    assert found is not None
    assert found.equals(from_lines(Block(0, value), SCHEMA))


@pytest.mark.parametrize("value", LEFT_TO_OTHERS, ids=lambda value: value[:20])
def test_what_is_unusual_or_bad_is_left_to_others(value: bytes) -> None:
    reader = PlainObjects.of(SCHEMA)
    assert reader is not None
    assert reader.read(value, 1) is None


def test_a_bad_message_among_good_ones_is_the_only_one_that_is_bad() -> None:
    good = [value for value in ACCEPTED for _ in range(5)]
    values = [*good, b'{"a":"1"}', *good]
    found = JsonSerde(SCHEMA).decode_each(pa.array(values, pa.binary()))
    assert [bad.place for bad in found.bad] == [len(good)]
    assert found.batch.num_rows == 2 * len(good)


def test_an_object_over_two_messages_is_no_object() -> None:
    reader = PlainObjects.of(SCHEMA)
    assert reader is not None
    assert reader.read(b'{"a":\n1}', 2) is None
    with pytest.raises(BadValue):
        from_lines(Block(0, b'{"a":\n1}'), SCHEMA)


@pytest.mark.parametrize("columns", ["a timestamp", "a float", "a array<int>", "a binary", "a decimal(3, 1)"])
def test_other_columns_are_left_to_others(columns: str) -> None:
    assert PlainObjects.of(Schema.of(columns).to_arrow()) is None


@pytest.mark.parametrize("rows", [0, 1, 3])
def test_messages_are_the_lines_of_a_file(rows: int) -> None:
    texts = ["a\nb", None, 'ü"\\'][:rows]
    batch = pa.RecordBatch.from_pydict({"id": pa.array(range(rows), pa.int64()), "text": pa.array(texts, pa.string())})
    messages = JsonSerde(batch.schema).encode(batch)
    assert messages.type == pa.binary()
    assert b"".join(message + b"\n" for message in messages.to_pylist()) == to_lines(batch)


def test_a_part_of_a_batch_is_the_messages_of_these_rows_alone() -> None:
    batch = pa.RecordBatch.from_pydict({"id": [1, 2, 3]}).slice(1, 1)
    assert JsonSerde(batch.schema).encode(batch).to_pylist() == [b'{"id":2}']


def test_messages_without_columns_are_empty_objects() -> None:
    batch = pa.RecordBatch.from_pydict({"id": [1, 2]}).select([])
    assert JsonSerde(batch.schema).encode(batch).to_pylist() == [b"{}", b"{}"]


def test_a_batch_of_many_values_is_left_to_arrow(monkeypatch: pytest.MonkeyPatch) -> None:
    counts: list[int] = []
    read = PlainObjects.read

    def counted(self: PlainObjects, data: bytes, count: int) -> pa.RecordBatch | None:
        counts.append(count)
        return read(self, data, count)

    monkeypatch.setattr(PlainObjects, "read", counted)
    few, many = [b'{"a":1,"s":"x"}'] * 1000, [b'{"a":1,"s":"x"}'] * 30_000
    for values in (few, many):
        batch = JsonSerde(SCHEMA).decode(pa.array(values, pa.binary()))
        assert (batch.num_rows, batch.column("a")[-1].as_py()) == (len(values), 1)
    assert counts == [1000]

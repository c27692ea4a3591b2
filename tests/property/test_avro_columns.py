"""Avro read field by field over all messages, against fastavro, message by message: also where bytes are damaged."""

from __future__ import annotations

import io
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

from airflow_samza.schema import Schema
from airflow_samza.systems.serdes.avro import AvroRecords
from airflow_samza.systems.serdes.avro_columns import RecordColumns, Unsupported
from tests.support.budgets import share

INNER = {
    "type": "record",
    "name": "inner",
    "fields": [
        {"name": "x", "type": ["null", "int"]},
        {"name": "deep", "type": {"type": "record", "name": "deep", "fields": [{"name": "y", "type": "string"}]}},
    ],
}
TYPES: list[tuple[Any, list[str], st.SearchStrategy[Any]]] = [
    ("int", ["int", "bigint", "smallint", "double", "float"], st.integers(-(2**31), 2**31 - 1) | st.integers(-70, 70)),
    ("long", ["bigint", "int", "double", "float"], st.integers(-(2**63), 2**63 - 1) | st.integers(-70, 70)),
    ("float", ["float"], st.floats(width=32, allow_nan=False)),
    ("double", ["double"], st.floats(allow_nan=False)),
    ("boolean", ["boolean"], st.booleans()),
    ("string", ["string"], st.text(st.characters(codec="utf-8"), max_size=9)),
    ("bytes", ["binary"], st.binary(max_size=9)),
    ({"type": "fixed", "name": "four", "size": 4}, ["binary"], st.binary(min_size=4, max_size=4)),
    ({"type": "enum", "name": "size", "symbols": ["S", "M", "L"]}, ["string"], st.sampled_from("SML")),
    ({"type": "int", "logicalType": "date"}, ["date"], st.integers(-719162, 2932896)),
    ({"type": "long", "logicalType": "timestamp-millis"}, ["timestamp"], st.integers(-62135596800000, 253402300799999)),
    ({"type": "long", "logicalType": "timestamp-micros"}, ["timestamp"], st.integers(-62135596800000000, 253402300799999999)),
    ({"type": "array", "items": "int"}, ["array<int>"], st.lists(st.integers(-9, 9), max_size=2)),
    ("null", ["string"], st.none()),
]  # fmt: skip
inner_rows = st.fixed_dictionaries(
    {"x": st.none() | st.integers(-9, 9), "deep": st.fixed_dictionaries({"y": st.text("ab", max_size=2)})}
)


@st.composite
def cases(draw: st.DrawFn) -> tuple[Any, str, list[bytes]]:
    """Return a schema, columns for some of its fields, and messages, some of which are damaged."""
    fields, columns, values = [], [], {}
    for number in range(draw(st.integers(1, 4))):
        name = f"f{number}"
        kind, ddls, strategy = draw(st.sampled_from(TYPES))
        if isinstance(kind, dict) and "name" in kind:
            kind = {**kind, "name": f"{kind['name']}{number}"}
        if kind != "null":
            shape = draw(st.sampled_from(["plain", "null first", "null last", "alone"]))
            if shape.startswith("null"):
                kind = ["null", kind] if shape == "null first" else [kind, "null"]
                strategy = st.none() | strategy
            elif shape == "alone":
                kind = [kind]
        fields.append({"name": name, "type": kind})
        values[name] = strategy
        if draw(st.integers(0, 3)):
            columns.append(f"{name} {draw(st.sampled_from(ddls))}")
    if draw(st.booleans()):
        fields.append({"name": "inner", "type": draw(st.sampled_from([INNER, ["null", INNER]]))})
        values["inner"] = inner_rows
        columns.append(
            draw(
                st.sampled_from(
                    [
                        "inner struct<x:int,deep:struct<y:string>>",
                        "inner struct<deep:struct<y:string>,z:int>",
                        "lacking string",
                    ]
                )
            )
        )
    record = {"type": "record", "name": "row", "fields": fields}
    messages = []
    for row in draw(st.lists(st.fixed_dictionaries(values), max_size=6)):
        messages.append(damaged(draw, written(record, row)))
    return record, ", ".join(columns) or "other int", messages


def written(record: Any, row: Any) -> bytes:
    sink = io.BytesIO()
    fastavro.schemaless_writer(sink, fastavro.parse_schema(plain(record)), row)
    return sink.getvalue()


def plain(schema: Any) -> Any:
    """Return a schema without logical types: its dates and times are the numbers that stand there."""
    if isinstance(schema, list):
        return [plain(one) for one in schema]
    if isinstance(schema, dict):
        return {key: plain(value) for key, value in schema.items() if key != "logicalType"}
    return schema


def damaged(draw: st.DrawFn, value: bytes) -> bytes:
    match draw(st.sampled_from(["whole", "whole", "whole", "cut", "longer", "changed", "else"])):
        case "cut":
            return value[: draw(st.integers(0, max(0, len(value) - 1)))]
        case "longer":
            return value + draw(st.binary(min_size=1, max_size=3))
        case "changed" if value:
            place = draw(st.integers(0, len(value) - 1))
            return value[:place] + bytes([draw(st.integers(0, 255))]) + value[place + 1 :]
        case "else":
            return draw(st.binary(max_size=12))
    return value


@settings(max_examples=share(100), deadline=None)
@given(cases(), st.integers(0, 2))
def test_rows_and_bad_messages_are_those_that_fastavro_finds(case: tuple[Any, str, list[bytes]], skipped: int) -> None:
    record, ddl, messages = case
    schema = Schema.of(ddl).to_arrow()
    made = AvroRecords(schema, fastavro.parse_schema(record))
    values = pa.array(messages, pa.binary()).slice(skipped)
    expected = made._one_by_one(values)
    found = made.decode_each(values)
    found.batch.validate(full=True)
    assert [(one.place, str(one)) for one in found.bad] == [(one.place, str(one)) for one in expected.bad]
    assert found.batch.to_pylist() == expected.batch.to_pylist()


def test_what_arrives_usually_is_read_at_once() -> None:
    fields = [
        {"name": f"f{number}", "type": kind} for number, (kind, _, _) in enumerate(TYPES) if "array" not in str(kind)
    ]
    columns = [f"f{number} {ddls[0]}" for number, (kind, ddls, _) in enumerate(TYPES) if "array" not in str(kind)]
    record = fastavro.parse_schema(
        {"type": "record", "name": "row", "fields": [*fields, {"name": "inner", "type": INNER}]}
    )
    assert RecordColumns(record, Schema.of(", ".join([*columns, "inner struct<x:int>"])).to_arrow())


@pytest.mark.parametrize(
    ("kind", "ddl"),
    [
        ({"type": "array", "items": "int"}, "f array<int>"),
        ({"type": "map", "values": "int"}, "other int"),
        (["null", "int", "string"], "f int"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}, "f decimal(4,2)"),
        ("string", "f int"),
        (["null", "row"], "f struct<f:int>"),
    ],
)
def test_what_columns_cannot_be_read_of_at_once_is_left_to_fastavro(kind: Any, ddl: str) -> None:
    record = fastavro.parse_schema({"type": "record", "name": "row", "fields": [{"name": "f", "type": kind}]})
    with pytest.raises(Unsupported):
        RecordColumns(record, Schema.of(ddl).to_arrow())

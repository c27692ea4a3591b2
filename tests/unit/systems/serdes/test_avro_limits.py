"""Messages of Avro of which the data decide the depth or the length: none of them fills the stack or the memory."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from airflow_samza.systems.files.formats.avro_blocks import long_bytes
from airflow_samza.systems.serdes.avro import AvroRecords, avro_serde
from airflow_samza.systems.serdes.registry.bodies import AvroBodies
from airflow_samza.systems.serdes.registry.client import SchemaText
from airflow_samza.systems.serdes.serde import Decoded

ID = pa.schema([("id", pa.int64())])


def decoded(more: dict[str, Any], *messages: bytes) -> Decoded:
    record = {"type": "record", "name": "m", "fields": [{"name": "id", "type": "long"}, more]}
    return avro_serde(ID, record, "s").decode_each(pa.array(messages, pa.binary()))


def linked(count: int) -> bytes:
    return b"\x0e\x02" * count + b"\x0e\x00"


def test_a_record_inside_of_itself_is_read_up_to_a_depth() -> None:
    found = decoded({"name": "next", "type": ["null", "m"]}, linked(0), linked(400), linked(100_000), linked(1)[:-1])
    assert found.batch.to_pylist() == [{"id": 7}, {"id": 7}]
    assert [bad.place for bad in found.bad] == [2, 3]
    assert "more than 1,000 values inside of one another" in str(found.bad[0])
    assert "ends" in str(found.bad[1])


@pytest.mark.parametrize("items", ["null", {"type": "record", "name": "n", "fields": []}])
def test_an_array_of_values_without_bytes_is_read_up_to_a_length(items: Any) -> None:
    few, many = long_bytes(3), long_bytes(10**12)
    in_blocks = (long_bytes(-(2**20)) + b"\0") * 2
    found = decoded(
        {"name": "a", "type": {"type": "array", "items": items}},
        *(b"\x0e" + count + b"\0" for count in (few, many, in_blocks)),
    )
    assert found.batch.to_pylist() == [{"id": 7}]
    assert [bad.place for bad in found.bad] == [1, 2]
    assert "more than 1,048,576 values that take no bytes" in str(found.bad[0])


def wide(depth: int, kind: str) -> dict[str, Any]:
    """Return a record of six records of six and so on; the innermost have a field of one type."""
    if not depth:
        return {"type": "record", "name": "r0", "fields": [{"name": "x", "type": kind}]}
    others = [{"name": f"f{number}", "type": f"r{depth - 1}"} for number in range(1, 6)]
    fields = [{"name": "f0", "type": wide(depth - 1, kind)}, *others]
    return {"type": "record", "name": f"r{depth}", "fields": fields}


def test_a_schema_of_very_many_fields_is_not_read_a_column_at_a_time() -> None:
    record = {"type": "record", "name": "m", "fields": [{"name": "id", "type": "long"}]}
    for depth, is_read_in_columns in ((3, True), (20, False)):
        made = avro_serde(
            ID, {**record, "fields": [*record["fields"], {"name": "r", "type": wide(depth, "long")}]}, "s"
        )
        assert isinstance(made, AvroRecords)
        assert (made._columns is not None) == is_read_in_columns
        (bad,) = made.decode_each(pa.array([b"\x0e\x00"], pa.binary())).bad
        assert "it ends too early" in str(bad)


def test_a_schema_of_others_that_describes_any_number_of_fields_is_not_read() -> None:
    with pytest.raises(ValueError, match="more than 100,000 fields"):
        AvroBodies().reader(SchemaText("AVRO", json.dumps(wide(20, "null"))), None, ID)


def test_an_array_of_records_without_bytes_is_read_up_to_a_number_of_values_in_them() -> None:
    nothing = {"type": "record", "name": "n", "fields": [{"name": f"f{n}", "type": "null"} for n in range(100)]}
    found = decoded(
        {"name": "a", "type": {"type": "array", "items": nothing}},
        *(b"\x0e" + long_bytes(count) + b"\0" for count in (10_000, 20_000)),
    )
    assert [bad.place for bad in found.bad] == [1]
    assert "more than 1,048,576 values that take no bytes" in str(found.bad[0])


@pytest.mark.parametrize("size", [None, [1], "4", -1])
def test_a_schema_of_others_with_a_size_that_is_none_is_not_read_or_written(size: Any) -> None:
    fixed = {"type": "array", "items": {"type": "fixed", "name": "F", "size": size}}
    fields = [{"name": "id", "type": "long"}, {"name": "a", "type": fixed, "default": []}]
    written = SchemaText("AVRO", json.dumps({"type": "record", "name": "m", "fields": fields}))
    with pytest.raises(ValueError, match="its fixed type 'F' has the size "):
        AvroBodies().reader(written, None, ID)
    with pytest.raises(ValueError, match="its fixed type 'F' has the size "):
        AvroBodies().writer(written, ID)


def test_a_schema_of_others_of_too_deep_types_is_not_read_or_written() -> None:
    kind: Any = "long"
    for _ in range(340):
        kind = {"type": "array", "items": kind}
    fields = [{"name": "id", "type": "long"}, {"name": "a", "type": kind, "default": []}]
    written = SchemaText("AVRO", json.dumps({"type": "record", "name": "m", "fields": fields}))
    with pytest.raises(ValueError, match="its types are too deep inside of one another"):
        AvroBodies().reader(written, None, ID)
    with pytest.raises(ValueError, match="its types are too deep inside of one another"):
        AvroBodies().writer(written, ID)

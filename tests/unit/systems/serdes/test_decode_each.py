"""Batches with bad messages: which they are, why, and that all others are read."""

from __future__ import annotations

import json
import struct
from typing import Any

import pyarrow as pa
import pytest

from airflow_samza.schema import Schema
from airflow_samza.systems.serdes.binding import bind_serde
from airflow_samza.systems.serdes.serde import BadMessage, Decoded, Serde
from airflow_samza.systems.serdes.wire import envelopes
from airflow_samza.systems.system import MessageRun, SystemStreamPartition, UnreadableRun

RECORD = {"type": "record", "name": "v", "fields": [{"name": "id", "type": "long"}, {"name": "word", "type": "string"}]}
AVRO = "avro:" + json.dumps(RECORD)


class Digits:
    """A serde of the user's: the digits of a number."""

    def to_bytes(self, message: Any) -> bytes:
        return str(message.id).encode()

    def from_bytes(self, data: bytes) -> dict[str, Any]:
        return {"id": int(data)} if data != b"text" else {"id": "text"}


class Based(Digits):
    """One that is made with an argument."""

    def __init__(self, base: int) -> None:
        self.base = base

    def from_bytes(self, data: bytes) -> dict[str, Any]:
        return {"id": int(data, self.base)}


hexadecimal = Based(16)


def serde(name: str, ddl: str) -> Serde:
    return bind_serde(name, Schema.of(ddl).to_arrow(), "s")


CASES = {
    "json": (serde("json", "id bigint"), b'{"id": 7}', b'{"id": "7"}', "'id' has"),
    "string": (serde("string", "id string"), b"seven", b"\xffseven", "it is no UTF-8"),
    "long": (serde("long", "id bigint"), struct.pack(">q", 7), b"\x01", "it has 1 bytes, and serde='long' has 8"),
    "double": (serde("double", "id double"), struct.pack(">d", 7), b"", "it has 0 bytes, and serde='double' has 8"),
    "avro": (serde(AVRO, "id bigint"), b"\x0e\x02a", b"\x0e\x04a", "it is no record of the schema"),
    "class": (serde(f"{__name__}:Digits", "id bigint"), b"7", b"x", "ValueError"),
    "class, a value that does not fit": (serde(f"{__name__}:Digits", "id bigint"), b"7", b"text", "which is no int64"),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("at", [{0}, {999}, {0, 1, 2, 500, 998, 999}, set(range(1000)), set(range(0, 1000, 7)), set()])
def test_all_messages_but_the_bad_ones_are_read(case: str, at: set[int]) -> None:
    made, good, bad, why = CASES[case]
    found = made.decode_each(pa.array([bad if place in at else good for place in range(1000)], pa.binary()))
    assert [one.place for one in found.bad] == sorted(at)
    assert all(why in str(one) for one in found.bad)
    assert found.batch.num_rows == 1000 - len(at)
    assert len(set(map(str, found.batch.to_pylist()))) <= 1


@pytest.mark.parametrize("case", [*CASES, "bytes"])
def test_a_message_without_a_value_is_bad_wherever_an_array_begins(case: str) -> None:
    made, good, *_ = CASES.get(case, (serde("bytes", "id binary"), b"x"))
    values = pa.array([None, good, None, good, good, None], pa.binary())
    for first in range(6):
        found = made.decode_each(values.slice(first))
        assert [(one.place, str(one)) for one in found.bad] == [
            (place - first, "it has no value") for place in (0, 2, 5) if place >= first
        ]
        assert found.batch.num_rows == 6 - first - len(found.bad)


@pytest.mark.parametrize("case", [*CASES, "bytes"])
def test_no_messages_are_no_rows(case: str) -> None:
    made = CASES[case][0] if case in CASES else serde("bytes", "id binary")
    found = made.decode_each(pa.array([], pa.binary()))
    assert (found.batch.num_rows, found.batch.schema.names, list(found.bad)) == (0, ["id"], [])


def test_pieces_stand_at_their_places() -> None:
    batch = pa.RecordBatch.from_pydict({"id": [1, 2, 3]})
    bad = [BadMessage(place, "x") for place in (0, 1, 4, 6)]
    found = [
        (place, [one.place for one in piece] if isinstance(piece, list) else piece.column(0).to_pylist())
        for place, piece in Decoded(batch, bad).pieces()
    ]
    assert found == [(0, [0, 1]), (2, [1, 2]), (4, [4]), (5, [3]), (6, [6])]


def test_an_error_of_a_class_of_ones_own_is_kept_with_its_message() -> None:
    (bad,) = CASES["class"][0].decode_each(pa.array([b"x"], pa.binary())).bad
    assert isinstance(bad.raised, ValueError)


def test_a_value_that_is_too_large_is_found_before_one_of_another_type() -> None:
    of_prices = serde("json", "id bigint, price decimal(5,2)")
    messages = [b'{"id": 1}', b'{"id": 2, "price": 99999.99}', b'{"id": "three"}', b'{"id": 4}']
    decoded = of_prices.decode_each(pa.array(messages, pa.binary()))
    assert [bad.place for bad in decoded.bad] == [1, 2]
    assert decoded.batch.column(0).to_pylist() == [1, 4]


def test_bad_messages_that_follow_each_other_are_one_run() -> None:
    ssp = SystemStreamPartition("k", "s", 2)
    values = pa.array([b"{", None, b'{"id": 1}', b"\xff"], pa.binary())
    runs = list(envelopes(ssp, 40, values, CASES["json"][0], in_band=False, tolerant=True))
    assert [(type(run), run.offset, run.messages) for run in runs] == [
        (UnreadableRun, 40, 2),
        (MessageRun, 42, 1),
        (UnreadableRun, 43, 1),
    ]
    assert isinstance(runs[0], UnreadableRun)
    assert runs[0].texts == ["{", ""]


NUMBERS: dict[str, tuple[str, str, list[Any]]] = {
    "short": (">h", "smallint", [0, -1, 2**15 - 1, -(2**15)]),
    "integer": (">i", "int", [0, -1, 2**31 - 1, -(2**31)]),
    "long": (">q", "bigint", [0, -1, 2**63 - 1, -(2**63)]),
    "float": (">f", "float", [0.0, -1.5, float("inf")]),
    "double": (">d", "double", [0.1, -1e300, float("-inf")]),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_a_number_has_the_bytes_of_kafkas_own_serializers(name: str) -> None:
    form, kind, numbers = NUMBERS[name]
    made = serde(name, f"n {kind}")
    batch = pa.RecordBatch.from_arrays([pa.array(numbers, Schema.of(f"n {kind}").to_arrow().types[0])], ["n"])
    written = made.encode(batch)
    assert written.to_pylist() == [struct.pack(form, number) for number in numbers]
    assert made.encode(batch.slice(1)).to_pylist() == written.to_pylist()[1:]
    assert made.decode(written.slice(1)).column(0).to_pylist() == numbers[1:]


def test_a_number_that_is_null_cannot_be_written() -> None:
    with pytest.raises(BadMessage, match="it has no value"):
        serde("long", "n bigint").encode(pa.RecordBatch.from_arrays([pa.array([1, None], pa.int64())], ["n"]))


def test_a_serde_of_ones_own_may_be_an_instance_of_a_module() -> None:
    made = serde(f"{__name__}:hexadecimal", "id bigint")
    assert made.decode(pa.array([b"ff"], pa.binary())).to_pylist() == [{"id": 255}]

"""Serdes over random messages.

What is written is read back equal, bit by bit, also between control messages and bad ones.
"""

from __future__ import annotations

import datetime
import io
import json
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

from airflow_samza.control.messages import EndOfStreamMessage, WatermarkMessage, encode
from airflow_samza.schema import Schema
from airflow_samza.systems.serdes.binding import bind_serde
from airflow_samza.systems.serdes.serde import Serde
from airflow_samza.systems.serdes.wire import envelopes, user_bytes
from airflow_samza.systems.system import ControlEnvelope, MessageRun, SystemStreamPartition, UnreadableRun
from tests.support.budgets import share

QUICK = settings(max_examples=share(40), deadline=None)
SSP = SystemStreamPartition("bytes", "s", 0)
DDL = (
    "flag boolean, small int, big bigint, ratio double, amount decimal(20,4), word string, raw binary, day date, at "
    "timestamp, "
    "tags array<string>, counts map<string,bigint>, inner struct<x:int,deep:array<struct<y:string>>>"
)
SCHEMA = Schema.of(DDL).to_arrow()
RECORD = {
    "type": "record",
    "name": "message",
    "fields": [
        {"name": "flag", "type": ["null", "boolean"]},
        {"name": "small", "type": ["null", "int"]},
        {"name": "big", "type": ["null", "long"]},
        {"name": "ratio", "type": ["null", "double"]},
        {"name": "amount", "type": ["null", {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 4}]},
        {"name": "word", "type": ["null", "string"]},
        {"name": "raw", "type": ["null", "bytes"]},
        {"name": "day", "type": ["null", {"type": "int", "logicalType": "date"}]},
        {"name": "at", "type": ["null", {"type": "long", "logicalType": "timestamp-micros"}]},
        {"name": "tags", "type": ["null", {"type": "array", "items": ["null", "string"]}]},
        {"name": "counts", "type": ["null", {"type": "map", "values": ["null", "long"]}]},
        {
            "name": "inner",
            "type": [
                "null",
                {
                    "type": "record",
                    "name": "inner",
                    "fields": [
                        {"name": "x", "type": ["null", "int"]},
                        {
                            "name": "deep",
                            "type": [
                                "null",
                                {
                                    "type": "array",
                                    "items": {
                                        "type": "record",
                                        "name": "d",
                                        "fields": [{"name": "y", "type": ["null", "string"]}],
                                    },
                                },
                            ],
                        },
                    ],
                },
            ],
        },
    ],
}


class Json:
    """A serde as users write one, for the plain columns; the reference is Python's own JSON."""

    def to_bytes(self, message: Any) -> bytes:
        return json.dumps([message.word, message.big]).encode()

    def from_bytes(self, data: bytes) -> dict[str, Any]:
        word, big = json.loads(data)
        return {"word": word, "big": big}


whole = st.integers(-(2**63), 2**63 - 1)
texts = st.text(st.characters(codec="utf-8"), max_size=8)
instants = st.datetimes(
    datetime.datetime(1900, 1, 1), datetime.datetime(2200, 1, 1), timezones=st.just(datetime.timezone.utc)
)
rows = st.fixed_dictionaries(
    {
        "flag": st.none() | st.booleans(),
        "small": st.none() | st.integers(-(2**31), 2**31 - 1),
        "big": st.none() | st.integers(-(2**63), 2**63 - 1),
        "ratio": st.none() | st.floats(allow_nan=False),
        "amount": st.none() | st.decimals(-(10**15), 10**15, places=4),
        "word": st.none() | texts,
        "raw": st.none() | st.binary(max_size=6),
        "day": st.none() | st.dates(datetime.date(1900, 1, 1), datetime.date(2200, 1, 1)),
        "at": st.none() | instants,
        "tags": st.none() | st.lists(st.none() | texts, max_size=3),
        "counts": st.none()
        | st.dictionaries(texts, st.none() | st.integers(-(2**63), 2**63 - 1), max_size=3).map(
            lambda d: list(d.items())
        ),
        "inner": st.none()
        | st.fixed_dictionaries(
            {
                "x": st.none() | st.integers(-5, 5),
                "deep": st.none() | st.lists(st.fixed_dictionaries({"y": st.none() | texts}), max_size=2),
            }
        ),
    }
)


def batch_of(messages: list[dict[str, Any]], schema: pa.Schema = SCHEMA) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(messages, schema=schema)


def serde_of(name: str, schema: pa.Schema = SCHEMA) -> Serde:
    return bind_serde("avro:" + json.dumps(RECORD) if name == "avro" else name, schema, "s")


@pytest.mark.parametrize("name", ["json", "avro"])
@QUICK
@given(st.lists(rows, min_size=1, max_size=5))
def test_every_message_of_every_type_comes_back_equal(name: str, messages: list[dict[str, Any]]) -> None:
    serde, batch = serde_of(name), batch_of(messages)
    assert serde.decode(serde.encode(batch)).to_pylist() == batch.to_pylist()


@QUICK
@given(st.lists(rows, min_size=1, max_size=3))
def test_json_is_what_python_reads_and_avro_what_fastavro_reads(messages: list[dict[str, Any]]) -> None:
    batch = batch_of(messages)
    for given_, value in zip(batch.to_pylist(), serde_of("json").encode(batch).to_pylist(), strict=True):
        found = json.loads(value, parse_float=Decimal)
        assert (found["flag"], found["small"], found["big"], found["word"], found["tags"]) == tuple(
            given_[name] for name in ("flag", "small", "big", "word", "tags")
        )
        assert found["counts"] == (None if given_["counts"] is None else dict(given_["counts"]))
        assert found["amount"] is None or Decimal(found["amount"]) == given_["amount"]
    for given_, value in zip(batch.to_pylist(), serde_of("avro").encode(batch).to_pylist(), strict=True):
        found = fastavro.schemaless_reader(io.BytesIO(value), fastavro.parse_schema(RECORD), None)
        assert isinstance(found, dict)
        assert {name: found[name] for name in ("big", "amount", "raw", "day", "at")} == {
            name: given_[name] for name in ("big", "amount", "raw", "day", "at")
        }


@pytest.mark.parametrize(
    ("name", "ddl", "values"), [("string", "line string", texts), ("bytes", "line binary", st.binary(max_size=9))]
)
@settings(max_examples=share(50), deadline=None)
@given(st.data())
def test_texts_and_bytes_are_sent_as_they_are(name: str, ddl: str, values: Any, data: st.DataObject) -> None:
    lines = data.draw(st.lists(values, min_size=1, max_size=4))
    schema = Schema.of(ddl).to_arrow()
    serde = serde_of(name, schema)
    sent = serde.encode(batch_of([{"line": line} for line in lines], schema))
    assert sent.to_pylist() == [line.encode() if isinstance(line, str) else line for line in lines]
    assert [row["line"] for row in serde.decode(sent).to_pylist()] == lines


@QUICK
@given(
    st.lists(
        st.fixed_dictionaries({"word": st.none() | texts, "big": st.none() | st.integers(-(2**63), 2**63 - 1)}),
        min_size=1,
    )
)
def test_a_class_of_ones_own_turns_message_by_message(messages: list[dict[str, Any]]) -> None:
    schema = Schema.of("word string, big bigint").to_arrow()
    serde = serde_of(f"{__name__}:Json", schema)
    assert serde.decode(serde.encode(batch_of(messages, schema))).to_pylist() == messages


controls = st.builds(
    WatermarkMessage, st.none() | texts, st.integers(1, 9), st.none() | texts, st.integers(-1, 2**62)
) | st.builds(EndOfStreamMessage, st.none() | texts, st.integers(1, 9), st.none() | texts, texts, st.booleans())
bad = st.sampled_from([b"", b"{", b"[1]", b'{"big": "x"}', b"\xff\xfe", b"null"])


@pytest.mark.parametrize("in_band", [False, True])
@QUICK
@given(st.data(), st.integers(0, 1000))
def test_a_stream_of_bytes_is_what_was_put_into_it_in_its_places(
    in_band: bool, data: st.DataObject, offset: int
) -> None:
    schema = Schema.of("big bigint").to_arrow()
    serde = serde_of("json", schema)
    parts = data.draw(st.lists(st.integers(-9, 9) | bad | (controls if in_band else st.nothing()), max_size=12))
    values: list[bytes] = []
    for part in parts:
        if isinstance(part, int):
            values += user_bytes(batch_of([{"big": part}], schema), serde, stream="s", in_band=in_band).to_pylist()
        elif isinstance(part, bytes):
            values.append(b"\x00" + part if in_band else part)
        else:
            values.append(encode(part))
    found: list[Any] = []
    for envelope in envelopes(SSP, offset, pa.array(values, pa.binary()), serde, in_band=in_band, tolerant=True):
        assert envelope.offset == offset + len(found)
        if isinstance(envelope, ControlEnvelope):
            found.append(envelope.message)
        elif isinstance(envelope, UnreadableRun):
            found += [b"\xff\xfe" if text == r"\xff\xfe" else text.encode() for text in envelope.texts]
        else:
            assert isinstance(envelope, MessageRun)
            found += [row["big"] for row in envelope.batch.to_pylist()]
    assert found == parts

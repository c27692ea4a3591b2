"""Errors of serdes about messages that they cannot read or write, and about their options."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from airflow_samza.errors import ConfigError, ControlError, SamzaError, SchemaError
from airflow_samza.row import Row
from airflow_samza.schema import Schema
from airflow_samza.systems.serdes.binding import bind_serde, with_schema_file
from airflow_samza.systems.serdes.serde import BadMessage, Serde
from airflow_samza.systems.serdes.wire import envelopes, user_bytes
from airflow_samza.systems.system import MessageRun, SystemStreamPartition

SSP = SystemStreamPartition("bytes", "views", 3)
RECORD = {
    "type": "record",
    "name": "view",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "word", "type": ["null", "string"], "default": None},
        {"name": "more", "type": "int"},
    ],
}


class Odd(ValueError):
    """An error of the user's serde."""


@dataclass
class View:
    id: int
    word: str | None


class Mine:
    """A serde of the user's, which rejects 13."""

    def to_bytes(self, message: Any) -> bytes:
        assert isinstance(message, Row)
        if message.id == 13:
            raise Odd("thirteen")
        return f"{message.id}|{message.word}".encode()

    def from_bytes(self, data: bytes) -> View:
        number, _, word = data.decode().partition("|")
        if number == "13":
            raise Odd("thirteen")
        return View(int(number), word)


class Bent(Mine):
    """Gives what does not fit."""

    def to_bytes(self, message: Any) -> Any:
        return "text"

    def from_bytes(self, data: bytes) -> Any:
        return {"1": {"id": 1.5}, "2": {"id": True}, "3": {"idd": 3}, "4": [4], "5": {"id": 2**63}}[data.decode()]


def needs(more: int) -> Mine:
    return Mine()


def serde_of(name: str, ddl: str = "id bigint, word string") -> Serde:
    return bind_serde("avro:" + json.dumps(RECORD) if name == "avro" else name, Schema.of(ddl).to_arrow(), "views")


def read(serde: Serde, *values: bytes | None, in_band: bool = False) -> list[Any]:
    found = envelopes(SSP, 10, pa.array(values, pa.binary()), serde, in_band=in_band)
    return [envelope.batch.to_pylist() if isinstance(envelope, MessageRun) else envelope for envelope in found]


def test_a_field_that_is_not_declared_is_left_out_and_a_missing_key_is_null() -> None:
    assert read(serde_of("json"), b'{"id": 1, "x": 2}') == [[{"id": 1, "word": None}]]
    assert read(serde_of("json"), b'{\n  "id": 1,\n  "word": "a\\nb"\n}') == [[{"id": 1, "word": "a\nb"}]]


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("json", b"", "it is empty"),
        ("json", b"{", "no JSON"),
        ("json", b"[1]", "instead of an object"),
        ("json", b'{"id": 1.5}', "which is no bigint"),
        ("json", b"[" * 20_000, "no JSON"),
        ("avro", b"\xff" * 12, "it is no record of the schema"),
        ("avro", b"\x02\x00\x04\x09", "1 further bytes follow the record"),
        ("json", None, "it has no value"),
    ],
)
def test_a_message_that_cannot_be_read_is_named_by_its_place(name: str, value: bytes | None, why: str) -> None:
    good = b'{"id": 1}' if name == "json" else b"\x02\x00\x04"
    with pytest.raises(SchemaError, match=r"The message at views/3 offset 12 cannot be read by its serde") as raised:
        read(serde_of(name), good, good, value)
    assert why in str(raised.value)
    assert raised.value.facts["offset"] == 12


def test_a_text_that_is_no_utf8_is_named() -> None:
    with pytest.raises(SchemaError, match="offset 11 cannot be read by its serde: it is no UTF-8"):
        read(serde_of("string", "line string"), b"a", b"\xff")


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (b"1", "'id' has 1.5, which is no int64"),
        (b"2", "'id' has True, which is no int64"),
        (b"3", "gives a column 'idd'; the columns are id, word"),
        (b"4", "gives list, and no message"),
        (b"5", "int64 cannot hold"),
    ],
)
def test_what_a_class_of_ones_own_gives_is_never_bent_to_fit(value: bytes, why: str) -> None:
    with pytest.raises(SchemaError, match="offset 10") as raised:
        read(serde_of(f"{__name__}:Bent"), value)
    assert why in str(raised.value)


def test_user_serde_error_passes_through() -> None:
    """The prose case of that name: the user's own error, as it is."""
    serde = serde_of(f"{__name__}:Mine")
    assert read(serde, b"1|a") == [[{"id": 1, "word": "a"}]]
    with pytest.raises(Odd, match=r"^thirteen$"):
        read(serde, b"1|a", b"13|b")
    with pytest.raises(Odd, match=r"^thirteen$"):
        user_bytes(pa.RecordBatch.from_pylist([{"id": 13, "word": "x"}]), serde, stream="views", in_band=False)


@pytest.mark.parametrize(
    ("name", "row", "why"),
    [
        ("avro", {"id": None, "word": "a", "more": 1}, "Avro cannot hold it"),
        (f"{__name__}:Bent", {"id": 1, "word": "a"}, "gives str, and no bytes"),
    ],
)
def test_a_message_that_cannot_be_written_is_an_error_that_names_the_stream(
    name: str, row: dict[str, Any], why: str
) -> None:
    schema = Schema.of("id bigint, word string, more int" if "more" in row else "id bigint, word string").to_arrow()
    with pytest.raises(SchemaError, match="A message for 'views' cannot be written by its serde") as raised:
        user_bytes(
            pa.RecordBatch.from_pylist([row], schema=schema),
            bind_serde(_avro(name), schema, "views"),
            stream="views",
            in_band=False,
        )
    assert why in str(raised.value)


def _avro(name: str) -> str:
    return "avro:" + json.dumps(RECORD) if name == "avro" else name


def test_a_null_is_no_text() -> None:
    with pytest.raises(BadMessage, match="it has no value"):
        serde_of("string", "line string").encode(pa.RecordBatch.from_pydict({"line": ["a", None]}))


def test_a_stream_without_the_type_byte_is_read_as_it_is_and_one_with_it_rejects_unknown_ones() -> None:
    """The prose cases "plain-input-has-no-type-byte" and "unknown-type-byte"."""
    serde = serde_of("bytes", "line binary")
    assert read(serde, b"\x02x", b"") == [[{"line": b"\x02x"}, {"line": b""}]]
    with pytest.raises(ControlError, match=r"views/3 offset 11 has the unknown type byte 9"):
        read(serde, b"\x00x", b"\x09\x01\x02", in_band=True)
    with pytest.raises(ControlError, match=r"views/3 offset 10 is empty"):
        read(serde, b"", in_band=True)


@pytest.mark.parametrize(
    ("name", "ddl", "why"),
    [
        ("nowhere.at.all:Mine", "id bigint", "cannot be imported"),
        (f"{__name__}:Missing", "id bigint", "cannot be imported: AttributeError: module"),
        (f"{__name__}:View", "id bigint", "cannot be made without arguments"),
        (f"{__name__}:needs", "id bigint", "cannot be made without arguments"),
        ("collections:OrderedDict", "id bigint", "has no to_bytes and from_bytes"),
        ("avro", "id bigint, idd bigint", "has no field 'idd'"),
        ('avro:{"type": "record"}', "id bigint", "cannot be read"),
        ('avro:"long"', "id bigint", "is no record"),
        ("string", "a string, b string", "it is for one column of type string"),
        ("json", "m map<int,int>", "a map whose keys are not strings"),
    ],
)
def test_a_serde_that_cannot_serve_its_columns_is_rejected(name: str, ddl: str, why: str) -> None:
    with pytest.raises(SamzaError) as rejected:
        serde_of(name, ddl)
    assert why in str(rejected.value)


def test_a_schema_file_is_found_beside_the_code_that_declares_the_stream(tmp_path: Path) -> None:
    (tmp_path / "view.avsc").write_text(json.dumps(RECORD, indent=2))
    found = with_schema_file("avro:view.avsc", "views", str(tmp_path / "app.py"))
    assert json.loads(found.removeprefix("avro:")) == RECORD
    assert with_schema_file(f"avro:{tmp_path}/view.avsc", "views", None) == found


@pytest.mark.parametrize(
    ("text", "why"), [(None, "No such file or directory"), ("{", "it is no JSON"), ("[" * 10**5, "it is no JSON")]
)
def test_a_schema_file_that_cannot_be_read_is_named(tmp_path: Path, text: str | None, why: str) -> None:
    if text is not None:
        (tmp_path / "view.avsc").write_text(text)
    with pytest.raises(
        ConfigError, match=f"The Avro schema {tmp_path}/view.avsc of stream 'views' cannot be read: {why}"
    ):
        with_schema_file("avro:view.avsc", "views", str(tmp_path / "app.py"))

"""Messages without a value in the columns of a side input: their key columns, and the mark that deletes the key."""

from __future__ import annotations

import struct

import pyarrow as pa
import pytest

from airflow_samza.systems.kafka.column_reader import ColumnReader
from airflow_samza.systems.kafka.columns import MessageColumns
from airflow_samza.systems.serdes.serde import Decoded
from airflow_samza.systems.system import StreamSpec


def decoded(stream: StreamSpec, *messages: tuple[bytes | None, bytes | None]) -> Decoded:
    """Pairs of key and value as the reader of a stream gives them."""
    reader = ColumnReader.of(MessageColumns.of(stream), None, "events", {})
    keys, values = (pa.array(column, pa.binary()) for column in zip(*messages, strict=True))
    return reader.read(pa.record_batch({"key": keys, "value": values}))


def profiles(*key: str, schema: str = "id bigint, tier string", deletes: bool = True, **options: str) -> StreamSpec:
    return StreamSpec("profiles", schema=schema, key=key, options=tuple(options.items()), deletes=deletes)


@pytest.mark.parametrize(
    ("stream", "key", "columns"),
    [
        (profiles("id"), struct.pack(">q", 7), {"id": 7, "tier": None}),
        (profiles("tier"), b"gold", {"id": None, "tier": "gold"}),
        (profiles("id", "tier"), b'{"id": 7, "tier": "gold"}', {"id": 7, "tier": "gold"}),
        (profiles("id", key_column="id"), struct.pack(">q", 7), {"id": 7, "tier": None}),
        (profiles("id"), None, {"id": None, "tier": None}),
    ],
)
def test_a_message_without_a_value_has_the_columns_of_its_key(
    stream: StreamSpec, key: bytes | None, columns: dict[str, object]
) -> None:
    assert decoded(stream, (key, None)).batch.to_pylist() == [{**columns, "_deleted": True}]


def test_what_has_a_value_is_as_its_value_says_whatever_its_key_is() -> None:
    found = decoded(profiles("id"), (b"?", b'{"id": 1}'), (struct.pack(">q", 2), None), (None, b'{"id": 3}'))
    assert [(row["id"], row["_deleted"]) for row in found.batch.to_pylist()] == [(1, False), (2, True), (3, False)]


def test_nothing_is_marked_where_every_message_has_a_value() -> None:
    assert decoded(profiles("id"), (None, b'{"id": 1}')).batch.schema.names == ["id", "tier"]


def test_a_column_that_marks_deleted_rows_itself_counts_as_well() -> None:
    stream = profiles("id", schema="id bigint, _deleted boolean")
    found = decoded(stream, (None, b'{"id": 1, "_deleted": true}'), (struct.pack(">q", 2), None), (None, b'{"id": 3}'))
    assert [row["_deleted"] for row in found.batch.to_pylist()] == [True, True, False]


def test_a_key_of_another_form_is_a_bad_message_that_names_the_remedy() -> None:
    (bad,) = decoded(profiles("id"), (None, b'{"id": 1}'), (b"7", None)).bad
    assert bad.place == 1
    assert "it has no value, so that it deletes its key, and id cannot be read out of that" in str(bad)
    assert "key_column" in str(bad)


def test_an_input_has_rows_of_nulls_and_no_mark() -> None:
    assert decoded(profiles("id", deletes=False), (b"7", None)).batch.to_pylist() == [{"id": None, "tier": None}]

"""Batches ↔ messages.

What a callable gets is what the schema says, and what it returns comes out as if each value were converted.
"""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from airflow_samza.errors import SchemaError
from airflow_samza.row import Row
from airflow_samza.schema import Schema, parse_ddl
from airflow_samza.task.messages.messages import MessageReader, Messages, MessageWriter, ShapeError

UTC = datetime.timezone.utc
NOON = datetime.datetime(2026, 3, 1, 12, tzinfo=UTC)
EVERY_TYPE = (
    "flag boolean, small tinyint, number int, big bigint, half float, real double, word string, raw binary, day date, "
    "at timestamp, "
    "local timestamp_ntz, price decimal(10,2), tags array<string>, sizes map<string,int>, place "
    "struct<city:string,at:timestamp>"
)
VALUES: dict[str, Any] = {
    "flag": True,
    "small": 1,
    "number": 2,
    "big": 2**60,
    "half": 0.5,
    "real": -0.0,
    "word": "grüße",
    "raw": b"\x00",
    "day": datetime.date(2026, 3, 1),
    "at": NOON,
    "local": NOON.replace(tzinfo=None),
    "price": decimal.Decimal("1.50"),
    "tags": ["a", None],
    "sizes": {"xl": 3},
    "place": Row(city="Ulm", at=NOON),
}


def batch_of(ddl: str, *rows: Mapping[str, Any]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([dict(row) for row in rows], schema=parse_ddl(ddl).to_arrow())


def of_every_type() -> pa.RecordBatch:
    return batch_of(EVERY_TYPE, VALUES, dict.fromkeys(VALUES), {**VALUES, "real": math.nan, "word": ""})


def read(ddl: str, batch: pa.RecordBatch) -> Messages:
    return MessageReader(parse_ddl(ddl)).messages(batch)


def test_a_message_has_the_values_of_its_row_in_pythons_types() -> None:
    first, empty, last = read(EVERY_TYPE, of_every_type()).objects
    assert first == VALUES
    assert math.copysign(1, first.real) == -1
    assert {name: type(value) for name, value in first.items() if name != "place"} == {
        name: type(value) for name, value in VALUES.items() if name != "place"
    }
    assert isinstance(first.place, Row)
    assert empty == dict.fromkeys(VALUES)
    assert math.isnan(last.real)


def test_a_message_is_a_row_with_attributes() -> None:
    (message,) = read(
        "id bigint, items int, update string", batch_of("id bigint, items int, update string", {"id": 1, "items": 2})
    ).objects
    assert isinstance(message, Row)
    assert (message.id, message["items"], message.update) == (1, 2, None)
    assert {**message, "id": 5} == {"id": 5, "items": 2, "update": None}
    with pytest.raises(AttributeError, match="has no column 'name'; it has id, items, update"):
        _ = message.name
    with pytest.raises(AttributeError, match="does not change"):
        message.id = 2


@pytest.mark.parametrize("nulls", [False, True])
def test_a_dictionary_encoded_column_reads_like_a_plain_one(nulls: bool) -> None:
    words = pa.array(["a", None if nulls else "b", "a"])
    batch = pa.RecordBatch.from_arrays([words.dictionary_encode()], ["word"])
    assert [row.word for row in read("word string", batch).objects] == words.to_pylist()


def test_a_date_that_python_does_not_have_is_rejected() -> None:
    batch = pa.RecordBatch.from_arrays([pa.array([10_000_000], pa.int32()).cast(pa.date32())], ["day"])
    with pytest.raises(SchemaError, match="Column 'day' holds 29349-01-26, which is not in the years 1 to 9999"):
        read("day date", batch)


# -- dataclasses
# ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Frozen:
    key: int
    word: str | None


@dataclass
class Open:
    key: int
    word: str | None


@dataclass(frozen=True)
class Child(Frozen):
    more: float = 0.5


@dataclass(frozen=True, slots=True)
class Slotted:
    key: int
    word: str | None


@dataclass(frozen=True, kw_only=True)
class Keywords:
    key: int
    word: str | None


@dataclass(frozen=True)
class Checked:
    key: int
    word: str | None

    def __post_init__(self) -> None:
        object.__setattr__(self, "word", f"<{self.word}>")


class _Counting:
    made = 0

    def __new__(cls, *_: object, **__: object) -> _Counting:
        cls.made += 1
        return object.__new__(cls)


@dataclass(frozen=True)
class Counted(_Counting):
    key: int
    word: str | None


KINDS = [Frozen, Open, Child, Slotted, Keywords, Checked, Counted]


@pytest.mark.parametrize("kind", KINDS)
def test_a_message_of_a_dataclass_is_what_its_constructor_makes(kind: Any) -> None:
    schema = Schema.of(kind)
    values: list[dict[str, Any]] = [{"key": 1, "word": "a"}, {"key": 2**40, "word": None}]
    if kind is Child:
        values = [{**row, "more": 1.5} for row in values]
    batch = pa.RecordBatch.from_pylist(values, schema=schema.to_arrow())
    expected = [kind(**row) for row in values]
    found = MessageReader(schema).read(batch)
    assert found == expected
    assert [type(message) for message in found] == [kind, kind]
    assert [dataclasses.asdict(message) for message in found] == [dataclasses.asdict(message) for message in expected]
    assert dataclasses.replace(found[0], key=7).key == 7
    if hasattr(found[0], "__dict__"):
        assert [list(vars(message).items()) for message in found] == [
            list(vars(message).items()) for message in expected
        ]


def test_the_constructor_of_a_class_with_rules_of_its_own_is_called() -> None:
    batch = pa.RecordBatch.from_pylist([{"key": 1, "word": "a"}], schema=Schema.of(Counted).to_arrow())
    before = Counted.made
    MessageReader(Schema.of(Counted)).read(batch)
    assert Counted.made == before + 1


def test_a_wrapped_constructor_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    @dataclass
    class Wrapped:
        key: int

    made = []
    original: Callable[..., None] = Wrapped.__init__

    def init(self: Wrapped, **values: int) -> None:
        made.append(values)
        original(self, **values)

    monkeypatch.setattr(Wrapped, "__init__", init)
    schema = Schema.of(Wrapped)
    assert MessageReader(schema).read(pa.RecordBatch.from_pylist([{"key": 1}], schema=schema.to_arrow())) == [
        Wrapped(key=1)
    ]
    assert made[0] == {"key": 1}


# -- what a callable gives back
# ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "chosen", [[True, True, True], [False, True, True], [False, False, True], [False, False, False]]
)
def test_values_that_are_handed_on_come_out_as_they_came_in(chosen: list[bool]) -> None:
    messages = read(EVERY_TYPE, of_every_type()).where(pa.array(chosen))
    written = MessageWriter(parse_ddl(EVERY_TYPE)).write([{**message} for message in messages.objects], messages)
    assert [str(row) for row in written.to_pylist()] == [
        str(row) for row in of_every_type().filter(pa.array(chosen)).to_pylist()
    ]


def test_what_is_chosen_twice_is_handed_on_rightly() -> None:
    batch = batch_of("word string, n bigint", *({"word": f"w{n}", "n": n} for n in range(6)))
    messages = read("word string, n bigint", batch)
    for chosen in ([True, False, True, True, True, True], [True, False, True, False, True]):
        messages = messages.where(pa.array(chosen))
    written = MessageWriter(parse_ddl("word string, n bigint")).write([dict(row) for row in messages.objects], messages)
    assert written.to_pylist() == [{"word": "w0", "n": 0}, {"word": "w3", "n": 3}, {"word": "w5", "n": 5}]


@pytest.mark.parametrize(
    ("ddl", "before", "after"),
    [
        ("v double", 0.0, -0.0),
        ("v string", "a", "b"),
        ("v timestamp", NOON, NOON + datetime.timedelta(microseconds=1)),
        ("v array<int>", [1], [1, 2]),
        ("v bigint", None, 1),
    ],
)
def test_a_changed_value_comes_out_changed(ddl: str, before: Any, after: Any) -> None:
    messages = read(ddl, batch_of(ddl, {"v": before}, {"v": before}))
    written = MessageWriter(parse_ddl(ddl)).write([messages.objects[0], {"v": after}], messages)
    expected = batch_of(ddl, {"v": before}, {"v": after})
    assert [repr(row["v"]) for row in written.to_pylist()] == [repr(row["v"]) for row in expected.to_pylist()]


def test_a_list_that_a_callable_changed_in_place_comes_out_changed() -> None:
    messages = read("tags array<int>", batch_of("tags array<int>", {"tags": [1]}))
    messages.objects[0].tags.append(2)
    assert MessageWriter(parse_ddl("tags array<int>")).write(messages.objects, messages).to_pylist() == [
        {"tags": [1, 2]}
    ]


@pytest.mark.parametrize(
    ("ddl", "value", "other"), [("v int", 1, True), ("v int", 1, 1.0), ("v string", "a", 1), ("v boolean", True, 1)]
)
def test_what_equals_a_value_of_the_source_and_is_none_is_rejected(ddl: str, value: object, other: object) -> None:
    messages = read(ddl, batch_of(ddl, {"v": value}, {"v": value}))
    with pytest.raises(ShapeError, match=r"v is .*, which is no") as caught:
        MessageWriter(parse_ddl(ddl)).write([messages.objects[0], {"v": other}], messages)
    assert caught.value.index == 1


def test_a_value_that_does_not_compare_is_rejected_as_what_it_is() -> None:
    messages = read("v string", batch_of("v string", {"v": "a"}))
    with pytest.raises(ShapeError, match="v is array"):
        MessageWriter(parse_ddl("v string")).write([{"v": np.array([1, 2])}], messages)


def test_a_column_of_another_type_is_converted_though_its_values_are_the_sources() -> None:
    messages = read("v int", batch_of("v int", {"v": 7}))
    assert MessageWriter(parse_ddl("v bigint")).write(messages.objects, messages).schema.field("v").type == pa.int64()


def test_a_dictionary_encoded_column_that_is_handed_on_comes_out_plain() -> None:
    words = pa.array(["a", None, "a"])
    messages = read("word string", pa.RecordBatch.from_arrays([words.dictionary_encode()], ["word"]))
    written = MessageWriter(parse_ddl("word string")).write(messages.objects, messages)
    assert written.column("word").equals(words)


def test_a_null_that_is_handed_on_into_a_column_without_nulls_is_rejected() -> None:
    messages = read("v string", batch_of("v string", {"v": "a"}, {"v": None}))
    with pytest.raises(ShapeError, match="v is None, and is declared never null") as caught:
        MessageWriter(parse_ddl("v string not null")).write(messages.objects, messages)
    assert caught.value.index == 1


@pytest.mark.parametrize(
    ("messages", "index", "why"),
    [
        ([{"key": 1, "word": "a"}, {"key": 1}], 1, "it lacks word"),
        ([{"key": 1, "word": "a"}, {"key": 1, "wrd": "a"}], 1, "it lacks word and it has also wrd"),
        ([Row(key=1, word="a"), Row(key=1, word="a", more=1)], 1, "it has also more"),
        ([{"key": 1, "word": "a"}, 3], 1, "a message is a dataclass instance, a Row or a dict"),
        ([Frozen(1, "a"), Child(1, "a")], 1, "it has also more"),
        ([{"key": 1, "word": "a"}, {"key": "x", "word": "a"}], 1, "key is 'x', which is no bigint"),
        ([Open(1, "a"), {"key": 2**70, "word": "a"}], 1, f"key is {2**70}, which is no bigint"),
    ],
)
def test_the_first_message_that_does_not_fit_is_named(messages: list[Any], index: int, why: str) -> None:
    with pytest.raises(ShapeError) as caught:
        MessageWriter(parse_ddl("key bigint, word string")).write(messages)
    assert (caught.value.index, caught.value.why) == (index, why)


def test_messages_of_many_kinds_make_one_batch() -> None:
    made = [Frozen(1, "a"), Open(2, None), {"word": "c", "key": 3}, Row(key=4, word="d"), Slotted(5, "e")]
    written = MessageWriter(parse_ddl("key bigint, word string")).write(made)
    assert written.to_pylist() == [
        {"key": key, "word": word} for key, word in zip(range(1, 6), ["a", None, "c", "d", "e"], strict=True)
    ]

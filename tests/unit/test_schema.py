"""Message schemas: DDL, dataclasses and Arrow are one value; rows read like objects and like mappings."""

from __future__ import annotations

import copy
import pickle
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from typing import Annotated, Any, Optional

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_samza.errors import SchemaError
from airflow_samza.row import Row
from airflow_samza.schema import SIMPLE_TYPES, DataType, Field, Schema, parse_ddl, parse_type, type_from_arrow


@dataclass(frozen=True)
class Place:
    city: str
    zip: int | None = None


@dataclass(frozen=True)
class Everything:
    flag: bool
    number: int
    part: float
    text: str
    raw: bytes
    day: date
    at: datetime
    price: Decimal
    tags: list[str]
    pair: tuple[int, ...]
    counts: dict[str, int]
    place: Place
    small: Annotated[int, "smallint"]
    exact: Annotated[Decimal, "decimal(12,2)"] | None
    perhaps: Optional[str]  # noqa: UP045 (both spellings are read)
    other: str | None = None
    more: list[Place] = field(default_factory=list)


def test_a_dataclass_gives_types_and_nullability() -> None:
    schema = Schema.of(Everything)
    assert schema.python_class is Everything
    assert schema.ddl() == (
        "flag boolean not null, number bigint not null, part double not null, text string not null, raw binary not null, "
        "day date not null, at timestamp not null, price decimal(38,18) not null, tags array<string> not null, "
        "pair array<bigint> not null, counts map<string,bigint> not null, place struct<city:string,zip:bigint> not null, "
        "small smallint not null, exact decimal(12,2), perhaps string, other string, more array<struct<city:string,zip:bigint>> not null"
    )


def test_a_dataclass_is_the_same_after_arrow_and_ddl() -> None:
    schema = Schema.of(Everything)
    assert Schema.of(schema.to_arrow()) == schema
    assert parse_ddl(schema.ddl()) == schema
    assert Schema.of(schema) is schema


@pytest.mark.parametrize("kind", SIMPLE_TYPES)
def test_simple_types_survive_arrow(kind: str) -> None:
    assert type_from_arrow(DataType(kind).to_arrow()) == DataType(kind)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("id bigint", "id bigint"),
        ("id BIGINT NOT NULL, name STRING", "id bigint not null, name string"),
        ("id: long, n: short, b: byte, i: integer, r: real, f: bool", "id bigint, n smallint, b tinyint, i int, r float, f boolean"),
        ("p decimal, q decimal(5), r numeric(7,3), s dec(4, 1)", "p decimal(10,0), q decimal(5,0), r decimal(7,3), s decimal(4,1)"),
        ("m map<string,array<int>>", "m map<string,array<int>>"),
        ("s struct<a:int, b: struct<c string>>", "s struct<a:int,b:struct<c:string>>"),
        ("`odd name` int comment 'it, has a comma', x int", "`odd name` int, x int"),
        ("`a``b` int", "`a``b` int"),
        ("s struct<a:int NOT NULL>", "s struct<a:int>"),
        ("s struct<a:int COMMENT 'x', b:int>", "s struct<a:int,b:int>"),
        ("a varchar(10), b char(3)", "a string, b string"),
        ("t timestamp_ltz, d double precision", None),
        ("s struct<>", "s struct<>"),
        ("größe int", "größe int"),
    ],
)
def test_ddl(text: str, expected: str | None) -> None:
    if expected is None:
        with pytest.raises(SchemaError):
            parse_ddl(text)
        return
    schema = parse_ddl(text)
    assert schema.ddl() == expected
    assert parse_ddl(schema.ddl()) == schema


@pytest.mark.parametrize(
    "text",
    [
        "",
        "  ",
        "id",
        "id bigin",
        "id bigint,",
        ", id bigint",
        "id bigint name string",
        "id array<int",
        "id array<>",
        "id map<int>",
        "id decimal(",
        "id decimal(39,2)",
        "id decimal(5,9)",
        "id decimal(0,0)",
        "id bigint not",
        "1d int",
        "id int)",
        "s struct<a int",
        "`` int",
        "id bigint comment",
    ],
)
def test_rejects_broken_ddl(text: str) -> None:
    with pytest.raises(SchemaError) as caught:
        parse_ddl(text)
    assert caught.value.hint


@pytest.mark.parametrize("text", ["a int, a int", "s struct<a:int,a:int>"])
def test_rejects_a_column_twice(text: str) -> None:
    with pytest.raises(SchemaError, match="twice"):
        parse_ddl(text)


def test_parse_type() -> None:
    assert parse_type("array<decimal(4,2)>").ddl() == "array<decimal(4,2)>"
    with pytest.raises(SchemaError):
        parse_type("int int")
    with pytest.raises(SchemaError):
        parse_type("")


names = st.text(st.characters(codec="utf-8", exclude_categories=("Cs", "Cc")), min_size=1, max_size=8)
simple = st.sampled_from([DataType(kind) for kind in SIMPLE_TYPES])
decimals = st.integers(1, 38).flatmap(
    lambda precision: st.builds(DataType, st.just("decimal"), st.just(precision), st.integers(0, precision))
)


def nested(children: st.SearchStrategy[DataType]) -> st.SearchStrategy[DataType]:
    structs = st.lists(st.tuples(names, children), min_size=1, max_size=3, unique_by=lambda pair: pair[0]).map(
        lambda pairs: DataType("struct", children=tuple(kind for _, kind in pairs), names=tuple(name for name, _ in pairs))
    )
    arrays = children.map(lambda child: DataType("array", children=(child,)))
    maps = st.tuples(children, children).map(lambda pair: DataType("map", children=pair))
    return arrays | maps | structs


types = st.recursive(simple | decimals, nested, max_leaves=6)
schemas = st.lists(st.builds(Field, names, types, st.booleans()), min_size=1, max_size=5, unique_by=lambda f: f.name).map(
    lambda fields: Schema(tuple(fields))
)


@given(schemas)
def test_any_schema_survives_ddl_arrow_and_pickle(schema: Schema) -> None:
    assert parse_ddl(schema.ddl()) == schema
    assert Schema.of(schema.to_arrow()) == schema
    assert pickle.loads(pickle.dumps(schema)) == schema


def test_pickling_keeps_the_class() -> None:
    assert pickle.loads(pickle.dumps(Schema.of(Place))).python_class is Place


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (pa.uint8(), "smallint"),
        (pa.uint16(), "int"),
        (pa.uint32(), "bigint"),
        (pa.uint64(), "decimal(20,0)"),
        (pa.float16(), "float"),
        (pa.large_string(), "string"),
        (pa.binary(4), "binary"),
        (pa.date64(), "date"),
        (pa.timestamp("ns", "Europe/Amsterdam"), "timestamp"),
        (pa.timestamp("s"), "timestamp_ntz"),
        (pa.dictionary(pa.int8(), pa.string()), "string"),
        (pa.large_list(pa.int32()), "array<int>"),
        (pa.list_(pa.int32(), 3), "array<int>"),
        (pa.decimal256(30, 2), "decimal(30,2)"),
        (pa.struct([("a", pa.int64())]), "struct<a:bigint>"),
        (pa.map_(pa.string(), pa.float64()), "map<string,double>"),
    ],
)
def test_arrow_types_as_they_come(kind: pa.DataType, expected: str) -> None:
    assert type_from_arrow(kind).ddl() == expected


@pytest.mark.parametrize("kind", [pa.null(), pa.time32("s"), pa.duration("us"), pa.decimal256(60, 2)])
def test_rejects_arrow_types_that_no_column_has(kind: pa.DataType) -> None:
    with pytest.raises(SchemaError, match="has no column type"):
        type_from_arrow(kind)


def test_an_arrow_schema_keeps_nullability() -> None:
    schema = Schema.of(pa.schema([pa.field("a", pa.int64(), nullable=False), pa.field("b", pa.string())]))
    assert schema.ddl() == "a bigint not null, b string"


@pytest.mark.parametrize("wrong", [3, None, object(), ["id bigint"], {"id": "bigint"}, int, Place("x"), pa.int64(), pa.table({"a": [1]})])
def test_rejects_what_is_no_schema(wrong: object) -> None:
    with pytest.raises(SchemaError, match="A schema is a dataclass, a DDL string or"):
        Schema.of(wrong)


@dataclass
class Empty:
    pass


@dataclass
class Strange:
    x: set[int]


@dataclass
class Choice:
    x: int | str


@dataclass
class BareList:
    x: list  # type: ignore[type-arg]


@dataclass
class BareDict:
    x: dict  # type: ignore[type-arg]


@dataclass
class TwoKinds:
    x: tuple[int, str]


@dataclass
class Untold:
    x: Any


@dataclass
class Nowhere:
    x: Absent  # type: ignore[name-defined]  # noqa: F821


@dataclass
class Itself:
    x: Itself | None


@dataclass
class Derived:
    x: int
    y: int = field(init=False, default=0)


@pytest.mark.parametrize("wrong", [Derived, Empty, Strange, Choice, BareList, BareDict, TwoKinds, Untold, Nowhere, Itself])
def test_rejects_dataclasses_without_column_types(wrong: type) -> None:
    with pytest.raises(SchemaError) as caught:
        Schema.of(wrong)
    assert caught.value.hint
    assert wrong.__name__ in caught.value.sentence


def test_columns_are_found_by_name() -> None:
    schema = Schema.of(Place)
    assert schema.names == ("city", "zip")
    assert "city" in schema
    assert 3 not in schema
    assert schema["zip"] == Field("zip", DataType("bigint"))
    with pytest.raises(SchemaError, match="no column 'town'") as caught:
        _ = schema["town"]
    assert caught.value.hint == "The columns are city, zip."


def test_schemas_are_equal_by_their_columns() -> None:
    assert Schema.of(Place) == parse_ddl("city string not null, zip bigint")
    assert hash(Schema.of(Place)) == hash(parse_ddl("city string not null, zip bigint"))
    assert Schema.of(Place) != parse_ddl("zip bigint, city string not null")


def test_integers_of_every_width_are_integers() -> None:
    assert [DataType(kind).is_integer for kind in ("tinyint", "smallint", "int", "bigint")] == [True] * 4
    assert not DataType("double").is_integer


def test_a_row_reads_like_an_object_and_like_a_mapping() -> None:
    row = Row({"id": 7, "items": 3, "odd name": None}, keys="k")
    assert (row.id, row["items"], row["odd name"], row["keys"]) == (7, 3, None, "k")
    assert dict(row) == {"id": 7, "items": 3, "odd name": None, "keys": "k"}
    assert len(row) == 4
    assert row == {"id": 7, "items": 3, "odd name": None, "keys": "k"}
    assert repr(Row(id=7)) == "Row(id=7)"


def test_a_row_does_not_change() -> None:
    row = Row(id=7)
    with pytest.raises(AttributeError, match="does not change"):
        row.id = 8
    with pytest.raises(AttributeError, match="does not change"):
        del row.id
    assert Row(row, id=8).id == 8
    assert row.id == 7


def test_a_row_says_which_columns_it_has() -> None:
    with pytest.raises(AttributeError, match="no column 'name'; it has id"):
        _ = Row(id=7).name
    with pytest.raises(KeyError):
        _ = Row(id=7)["name"]


def test_a_row_is_copied_pickled_and_hashed_by_its_values() -> None:
    row = Row(id=7, at=datetime(2026, 1, 1))
    for again in (pickle.loads(pickle.dumps(row)), copy.copy(row), copy.deepcopy(row)):
        assert type(again) is Row
        assert again == row
    assert {row, Row(at=datetime(2026, 1, 1), id=7)} == {row}

"""Message schemas: DDL, dataclasses and Arrow are one value."""

from __future__ import annotations

import pickle
from dataclasses import dataclass

import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

from airflow_samza.errors import SchemaError
from airflow_samza.schema import SIMPLE_TYPES, DataType, Field, Schema, parse_ddl


@dataclass(frozen=True)
class Place:
    city: str
    zip: int | None = None


names = st.text(st.characters(codec="utf-8", exclude_categories=("Cs", "Cc")), min_size=1, max_size=8)
simple = st.sampled_from([DataType(kind) for kind in SIMPLE_TYPES])
decimals = st.integers(1, 38).flatmap(
    lambda precision: st.builds(DataType, st.just("decimal"), st.just(precision), st.integers(0, precision))
)


def nested(children: st.SearchStrategy[DataType]) -> st.SearchStrategy[DataType]:
    structs = st.lists(st.tuples(names, children), min_size=1, max_size=3, unique_by=lambda pair: pair[0]).map(
        lambda pairs: DataType(
            "struct", children=tuple(kind for _, kind in pairs), names=tuple(name for name, _ in pairs)
        )
    )
    arrays = children.map(lambda child: DataType("array", children=(child,)))
    maps = st.tuples(children, children).map(lambda pair: DataType("map", children=pair))
    return arrays | maps | structs


types = st.recursive(simple | decimals, nested, max_leaves=6)
schemas = st.lists(
    st.builds(Field, names, types, st.booleans()), min_size=1, max_size=5, unique_by=lambda f: f.name
).map(lambda fields: Schema(tuple(fields)))


@given(schemas)
def test_any_schema_survives_ddl_arrow_and_pickle(schema: Schema) -> None:
    assert parse_ddl(schema.ddl()) == schema
    assert Schema.of(schema.to_arrow()) == schema
    assert pickle.loads(pickle.dumps(schema)) == schema


def test_pickling_keeps_the_class() -> None:
    assert pickle.loads(pickle.dumps(Schema.of(Place))).python_class is Place


def test_an_arrow_schema_keeps_nullability() -> None:
    schema = Schema.of(pa.schema([pa.field("a", pa.int64(), nullable=False), pa.field("b", pa.string())]))
    assert schema.ddl() == "a bigint not null, b string"


@pytest.mark.parametrize(
    "wrong", [3, None, object(), ["id bigint"], {"id": "bigint"}, int, Place("x"), pa.int64(), pa.table({"a": [1]})]
)
def test_rejects_what_is_no_schema(wrong: object) -> None:
    with pytest.raises(SchemaError, match="A schema is a dataclass, a DDL string or"):
        Schema.of(wrong)


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

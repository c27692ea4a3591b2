"""DDL as Spark reads it: what is understood, what is rejected."""

from __future__ import annotations

import pytest

from airflow_samza.errors import SchemaError
from airflow_samza.schema import parse_ddl, parse_type


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("id bigint", "id bigint"),
        ("id BIGINT NOT NULL, name STRING", "id bigint not null, name string"),
        (
            "id: long, n: short, b: byte, i: integer, r: real, f: bool",
            "id bigint, n smallint, b tinyint, i int, r float, f boolean",
        ),
        (
            "p decimal, q decimal(5), r numeric(7,3), s dec(4, 1)",
            "p decimal(10,0), q decimal(5,0), r decimal(7,3), s decimal(4,1)",
        ),
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

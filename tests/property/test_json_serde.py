"""The serde ``json`` against Python's own parser, message by message: the same rows, and the same bad messages."""

from __future__ import annotations

import json
import sys
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given, settings, strategies as st

from airflow_samza.schema import Schema
from airflow_samza.systems.serdes.binding import bind_serde
from airflow_samza.systems.serdes.serde import BadMessage
from tests.support.budgets import share

PLAIN = "id bigint, small int, ratio double, word string, flag boolean, inner struct<x:bigint,tags:array<string>>"
WITH_MAP = PLAIN + ", counts map<string,bigint>"


class Unfit(Exception):
    """A value that its column cannot hold."""


def reference(value: bytes | None, kind: pa.DataType) -> Any:
    """Return the row of a message, by Python's parser and the rules of docs/how-to/serdes.md, or raise."""
    if value is None:
        raise Unfit("no value")
    found = json.loads(value.decode(), parse_float=Decimal)
    if not isinstance(found, dict):
        raise Unfit("no object")
    return {field.name: fitted(found.get(field.name), field.type) for field in kind}


def fitted(value: Any, kind: pa.DataType) -> Any:
    if value is None:
        return None
    if pa.types.is_struct(kind):
        if not isinstance(value, dict):
            raise Unfit
        return {
            kind.field(i).name: fitted(value.get(kind.field(i).name), kind.field(i).type)
            for i in range(kind.num_fields)
        }
    if pa.types.is_map(kind):
        if not isinstance(value, dict):
            raise Unfit
        return [(key, fitted(item, kind.item_type)) for key, item in value.items()]
    if pa.types.is_list(kind):
        if not isinstance(value, list):
            raise Unfit
        return [fitted(item, kind.value_type) for item in value]
    if pa.types.is_boolean(kind):
        if not isinstance(value, bool):
            raise Unfit
        return value
    if pa.types.is_string(kind):
        if not isinstance(value, str):
            raise Unfit
        value.encode()
        return value
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        raise Unfit
    if pa.types.is_floating(kind):
        if not -Decimal(sys.float_info.max) <= value <= Decimal(sys.float_info.max):
            raise Unfit
        return float(value)
    if value != int(value) or not -(2 ** (kind.bit_width - 1)) <= value < 2 ** (kind.bit_width - 1):
        raise Unfit
    return int(value)


def expected(values: list[bytes | None], schema: pa.Schema) -> tuple[list[Any], list[int]]:
    rows, bad = [], []
    for place, value in enumerate(values):
        try:
            rows.append(reference(value, schema))
        except (Unfit, ValueError):
            bad.append(place)
    return rows, bad


def dumped(value: Any, indent: int | None, after: str) -> bytes:
    return (json.dumps(value, ensure_ascii=False, indent=indent) + after).encode()


scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.integers(-5, 5)
    | st.floats(-1e6, 1e6).map(lambda x: round(x, 3))
    | st.text(st.characters(codec="utf-8"), max_size=6)
)
loose = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text("xy", max_size=2), inner, max_size=2),
    max_leaves=4,
)
fitting = st.fixed_dictionaries(
    {},
    optional={
        "id": st.integers(-(2**63), 2**63 - 1),
        "small": st.integers(-(2**31), 2**31 - 1),
        "ratio": st.floats(-1e9, 1e9).map(lambda x: round(x, 6)),
        "word": st.text(st.characters(codec="utf-8"), max_size=8),
        "flag": st.booleans(),
        "inner": st.fixed_dictionaries(
            {}, optional={"x": st.integers(-9, 9), "tags": st.lists(st.text("ab", max_size=3), max_size=3)}
        ),
        "counts": st.dictionaries(st.text("ab", max_size=2), st.integers(-9, 9), max_size=2),
        "other": loose,
    },
)
anything = st.dictionaries(
    st.sampled_from(["id", "small", "ratio", "word", "flag", "inner", "counts"]), loose, max_size=4
)
objects = st.builds(
    dumped, fitting | anything | loose, st.none() | st.integers(0, 2), st.sampled_from(["", "\n", " ", "\r\n"])
)
broken = objects.flatmap(lambda data: st.integers(0, max(0, len(data) - 1)).map(lambda cut: data[:cut]))
odd = st.sampled_from(
    [
        None, b"", b" ", b"\n", b"null", b"{}{}", b'{"id":1} {"id":2}', b'{"id":1}\n{"id":2}', b'{"id": 1, "id": 2}',
        b'{"word": "a\nb"}', b'{"word": "a\tb"}', b'{"word": "\xff"}', b'{"word": "\\ud800"}', b"[", b'"x"', b"{",
        b'{"id": 1.0}', b'{"id": 1e3}', b'{"id": 9223372036854775808}', b'{"id": "1"}', b'{"inner": {"x": 1, "x": 2}}',
        b'{"id": 01}', b'{"id": 1,}', b"{'id': 1}", b'{"id": 1}}', b'{"inner": {"tags": ["a", 1]}}', b'{"id": {}}',
        b'{\n "id": 1,\n\n "word": "x"\n}', b"\xef\xbb\xbf{}", b'{"ratio": 1e400}', b'{"word": "\\u0000"}', b"\x00",
    ]
)  # fmt: skip


@pytest.mark.parametrize("ddl", [PLAIN, WITH_MAP])
@settings(max_examples=share(100), deadline=None)
@given(st.lists(objects | broken | odd, max_size=8), st.integers(0, 3), st.sampled_from([1, 40]))
@example([b'{"id": 1}', b"", b'{"id": 2}'], 1, 40)
@example([b'{"word": "a\nb"}', b'{"id": 1,\n"word": "c"}'], 0, 1)
def test_rows_and_bad_messages_are_those_that_pythons_parser_finds(
    ddl: str, values: list[bytes | None], skipped: int, times: int
) -> None:
    schema = Schema.of(ddl).to_arrow()
    values = values * times
    rows, bad = expected(values[skipped:], schema)
    found = bind_serde("json", schema, "s").decode_each(pa.array(values, pa.binary()).slice(skipped))
    assert [one.place for one in found.bad] == bad
    assert found.batch.to_pylist() == rows


@settings(max_examples=share(30), deadline=None)
@given(st.lists(objects | broken | odd, min_size=1, max_size=6))
def test_a_strict_reader_names_the_first_bad_message(values: list[bytes | None]) -> None:
    schema = Schema.of(PLAIN).to_arrow()
    rows, bad = expected(values, schema)
    serde = bind_serde("json", schema, "s")
    if not bad:
        assert serde.decode(pa.array(values, pa.binary())).to_pylist() == rows
        return
    with pytest.raises(BadMessage) as raised:
        serde.decode(pa.array(values, pa.binary()))
    assert raised.value.place == bad[0]

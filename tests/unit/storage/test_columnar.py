"""Columnar tables: what is found by which keys, what a change makes of them, and what comes back from files."""

from __future__ import annotations

import datetime
import decimal
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

from airflow_samza.errors import StoreError
from airflow_samza.storage.columnar import ColumnarTable
from airflow_samza.storage.key_hashes import key_hashes
from tests.support.budgets import share

UTC = datetime.timezone.utc

KINDS: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "close numbers": (pa.int32(), st.integers(-5, 40)),
    "numbers": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "small numbers": (pa.int8(), st.integers(-128, 127)),
    "floats": (pa.float64(), st.sampled_from([0.0, -0.0, 1.5, math.inf, -math.inf, 1e300])),
    "texts": (pa.string(), st.text(max_size=20)),
    "long texts": (pa.string(), st.sampled_from(["x" * 255, "x" * 256, "x" * 257, "x" * 258, "y" * 1000, ""])),
    "bytes": (pa.binary(), st.binary(max_size=10)),
    "booleans": (pa.bool_(), st.booleans()),
    "dates": (pa.date32(), st.dates()),
    "times": (pa.timestamp("us", "UTC"), st.datetimes(timezones=st.just(UTC))),
    "decimals": (pa.decimal128(30, 2), st.decimals(-(10**20), 10**20, places=2)),
}


def table(key: pa.DataType, rows: list[tuple[Any, int]]) -> pa.Table:
    return pa.table({"key": pa.array([k for k, _ in rows], key), "value": pa.array([v for _, v in rows], pa.int64())})


def found(store: ColumnarTable, keys: pa.Array) -> list[int | None]:
    places = store.find([keys])
    values = store.rows.column("value").to_pylist()
    return [values[place] if place >= 0 else None for place in places.tolist()]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.few(5)
def test_finds_what_a_dict_would_whatever_is_written_and_kept(
    kind: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    arrow, keys = KINDS[kind]

    @settings(max_examples=share(60), deadline=None)
    @given(
        rows=st.lists(st.tuples(st.none() | keys, st.integers(0, 9)), max_size=100),
        asked=st.lists(st.none() | keys, max_size=100),
    )
    def check(rows: list[tuple[Any, int]], asked: list[Any]) -> None:
        model = {k: v for k, v in rows if k is not None}
        nulls = sum(k is None for k, _ in rows)
        store = ColumnarTable.of(table(arrow, rows), ["key"])
        folder = tmp_path_factory.mktemp("table")
        store.write(str(folder))
        asked = [*asked, *model]
        for one in (store, ColumnarTable.open(str(folder))):
            assert (len(one), one.ignored) == (len(model), nulls)
            assert found(one, pa.array(asked, arrow)) == [model.get(k) for k in asked]
            assert found(one, pa.array(asked, arrow).dictionary_encode()) == [model.get(k) for k in asked]

    check()


def test_keys_of_several_columns_are_found_as_a_whole() -> None:
    rows = pa.table({"a": ["x", "x", "", "y"], "b": [1, 2, 1, None], "value": [10, 20, 30, 40]})
    store = ColumnarTable.of(rows, ["a", "b"])
    assert store.ignored == 1
    places = store.find([pa.array(["x", "x", "x", "", None]), pa.array([2, 1, 3, 1, 1])])
    assert places.tolist() == [1, 0, -1, 2, -1]


def test_keys_of_another_width_are_the_same_numbers() -> None:
    wide = ColumnarTable.of(pa.table({"key": pa.array([1, 2**40, -5]), "value": [1, 2, 3]}), ["key"])
    narrow = ColumnarTable.of(pa.table({"key": pa.array([1, 7, -5], pa.int16()), "value": [1, 2, 3]}), ["key"])
    assert found(wide, pa.array([-5, 1, 3], pa.int16())) == [3, 1, None]
    assert found(narrow, pa.array([-5, 2**62, 65537, 1, -(2**63)])) == [3, None, None, 1, None]
    floats = ColumnarTable.of(pa.table({"key": pa.array([1.5, math.nan, -0.0]), "value": [1, 2, 3]}), ["key"])
    assert found(floats, pa.array([0.0, math.nan, 1.5], pa.float32())) == [3, 2, 1]


POOR_HASHES: dict[str, Callable[[Any], Any]] = {
    "three in all": lambda hashes: hashes % np.uint64(3),
    "three that begin at the last slot": lambda hashes: ~(hashes % np.uint64(3)),
    "equal in their first half": lambda hashes: hashes % np.uint64(1 << 32),
    "equal in their second half": lambda hashes: hashes & np.uint64(0xFFFFFFFF << 32),
    "two in each of five first halves": lambda hashes: (
        (hashes % np.uint64(5) << np.uint64(62)) | hashes >> np.uint64(63)
    ),
}


@pytest.mark.parametrize("poorly", POOR_HASHES)
def test_equal_keys_are_told_from_equal_hashes(monkeypatch: pytest.MonkeyPatch, poorly: str) -> None:
    """A hash that knows few values: everything then hangs on the comparison of keys."""
    real = key_hashes

    def poor(columns: list[pa.Array]) -> np.ndarray[Any, Any]:
        hashes: np.ndarray[Any, Any] = POOR_HASHES[poorly](real(columns))
        return hashes

    monkeypatch.setattr("airflow_samza.storage.key_index.key_hashes", poor)
    rows = [(f"k{n * 7 % 40}", n) for n in range(100)]
    store = ColumnarTable.of(table(pa.string(), rows), ["key"])
    assert found(store, pa.array([f"k{n}" for n in range(50)])) == [dict(rows).get(f"k{n}") for n in range(50)]


def test_a_table_longer_than_what_is_put_into_its_index_at_a_time_finds_all_its_rows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("airflow_samza.storage.key_index._BUILT", 7)
    rows = [(f"k{n * 7 % 400}", n) for n in range(1000)]
    store = ColumnarTable.of(table(pa.string(), rows), ["key"])
    assert found(store, pa.array([f"k{n}" for n in range(500)])) == [dict(rows).get(f"k{n}") for n in range(500)]


def test_hashes_are_the_same_wherever_a_value_stands() -> None:
    texts = ["", "a", "12345678", "123456789", "ä" * 100, "z" * 300, "end"]
    whole = key_hashes([pa.array(["…", *texts])])[1:]
    assert whole.tolist() == [key_hashes([pa.array([text])])[0] for text in texts]
    assert whole.tolist() == key_hashes([pa.array(["…", *texts]).slice(1)]).tolist()
    assert whole.tolist() == key_hashes([pa.array(texts, pa.large_string())]).tolist()
    assert len(set(whole.tolist())) == len(texts)


def test_a_value_with_equal_first_bytes_is_another_key() -> None:
    store = ColumnarTable.of(table(pa.binary(), [(b"", 1), (b"\x00", 2), (b"\x00\x00", 3)]), ["key"])
    assert found(store, pa.array([b"\x00\x00", b"", b"\x00", b"\x00\x00\x00"])) == [3, 1, 2, None]


def test_nested_columns_are_no_key() -> None:
    with pytest.raises(StoreError, match=r"type list<.*> cannot be the key") as caught:
        ColumnarTable.of(pa.table({"key": [[1]], "value": [1]}), ["key"])
    assert "simple types" in caught.value.hint


def test_rows_of_every_type_come_back_from_files(tmp_path: Path) -> None:
    rows = pa.table(
        {
            "key": ["a", "b"],
            "list": [["x", None], None],
            "struct": [{"a": 1, "b": None}, None],
            "map": pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.int32())),
            "price": [decimal.Decimal("1.50"), None],
        }
    )
    ColumnarTable.of(rows, ["key"]).write(str(tmp_path))
    assert ColumnarTable.open(str(tmp_path)).rows.equals(rows.combine_chunks().to_batches()[0])

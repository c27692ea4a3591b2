"""Differences of two sets of rows: by key, of whole rows, of any columns, in memory and through files."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from airflow_samza.errors import SchemaError
from airflow_samza.task.row_differences import RowDifferences, row_differences


def batches(rows: list[dict[str, Any]], schema: pa.Schema | None = None, size: int = 3) -> Iterator[pa.RecordBatch]:
    return iter(pa.Table.from_pylist(rows, schema=schema).to_batches(max_chunksize=size) if rows else [])


def counts(found: RowDifferences) -> tuple[int, ...]:
    return found.before, found.after, found.same, found.added, found.gone, found.different


OLD = [{"id": number, "name": f"n{number}", "cents": number * 10} for number in range(10)]


@pytest.mark.parametrize("held_bytes", [1 << 30, 1], ids=["in memory", "through files"])
def test_rows_of_a_key_are_compared_column_by_column(held_bytes: int) -> None:
    new = [dict(row) for row in OLD[1:]] + [{"id": 99, "name": "new", "cents": 1}]
    new[0]["cents"] = -1
    new[1].update(cents=-2, name="other")
    found = row_differences(batches(OLD), batches(new[::-1]), ["id"], held_bytes=held_bytes)
    assert counts(found) == (10, 10, 7, 1, 1, 2)
    assert found.columns == {"cents": 2, "name": 1}
    assert found.samples["added"] == [{"id": 99}]
    assert found.samples["gone"] == [{"id": 0}]
    assert sorted(row["id"] for row in found.samples["different"]) == [1, 2]


@pytest.mark.parametrize("held_bytes", [1 << 30, 1], ids=["in memory", "through files"])
def test_whole_rows_are_compared_as_often_as_they_come(held_bytes: int) -> None:
    one, two = {"n": 1, "of": ["a", None]}, {"n": 2, "of": None}
    found = row_differences(batches([one, one, one, two]), batches([one, two, two]), held_bytes=held_bytes)
    assert counts(found) == (4, 3, 2, 1, 2, 0)
    assert found.samples["gone"] == [one, one]
    assert found.samples["added"] == [two]


def test_several_rows_of_a_key_are_compared_in_their_order_behind_equal_ones() -> None:
    old = [{"k": 1, "v": 1}, {"k": 1, "v": 2}, {"k": 1, "v": 3}]
    new = [{"k": 1, "v": 2}, {"k": 1, "v": 9}]
    found = row_differences(batches(old), batches(new), ["k"])
    assert counts(found) == (3, 2, 1, 0, 1, 1)
    assert found.columns == {"v": 1}


def test_null_is_equal_to_null_and_not_a_number_to_itself() -> None:
    rows: list[dict[str, Any]] = [{"k": None, "v": float("nan")}, {"k": 1, "v": None}]
    schema = pa.schema([("k", pa.int64()), ("v", pa.float64())])
    assert counts(row_differences(batches(rows, schema), batches(rows, schema), ["k"])) == (2, 2, 2, 0, 0, 0)


def test_columns_of_one_set_are_named_and_not_compared() -> None:
    old, new = [{"k": 1, "v": 1, "w": 2}], [{"x": 3, "v": 1, "k": 1}]
    found = row_differences(batches(old), batches(new), ["k"])
    assert counts(found) == (1, 1, 1, 0, 0, 0)
    assert (found.columns_gone, found.columns_new) == (("w",), ("x",))


def test_a_wider_type_is_the_same_and_another_type_is_named() -> None:
    old = pa.table({"k": pa.array([1], pa.int32()), "v": ["1"], "d": pa.array(["x"]).dictionary_encode()})
    new = pa.table({"k": pa.array([1], pa.int64()), "v": [1], "d": pa.array(["x"], pa.large_string())})
    found = row_differences(old.to_batches(), new.to_batches(), ["k"])
    assert counts(found) == (1, 1, 1, 0, 0, 0)
    assert found.types == {"v": ("string", "int64")}


def test_a_set_without_rows_has_no_columns_to_differ() -> None:
    assert counts(row_differences(batches([]), batches(OLD), ["id"])) == (0, 10, 0, 10, 0, 0)
    assert counts(row_differences(batches(OLD), batches([]))) == (10, 0, 0, 0, 10, 0)
    assert counts(row_differences(batches([]), batches([]), ["id"])) == (0, 0, 0, 0, 0, 0)


def test_at_most_so_many_samples_are_kept() -> None:
    found = row_differences(batches([]), batches(OLD), ["id"], samples=3, held_bytes=1)
    assert found.added == 10
    assert len(found.samples["added"]) == 3


def test_rejects_a_key_that_both_sets_do_not_have() -> None:
    with pytest.raises(SchemaError, match=r"key column 'iid': it is not in the rows of both\."):
        row_differences(batches(OLD), batches(OLD), ["iid"])
    with pytest.raises(SchemaError, match=r"key column 'k': it is string and int64\."):
        row_differences(batches([{"k": "1"}]), batches([{"k": 1}]), ["k"])

"""A row reads like an object and like a mapping, and never changes."""

from __future__ import annotations

import copy
import pickle
from datetime import datetime

import pytest

from airflow_samza.row import Row


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

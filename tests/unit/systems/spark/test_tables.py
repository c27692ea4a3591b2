"""Sizes of what Spark would read: files are listed, and what only Spark knows is unknown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from airflow_samza.systems.spark.tables import listed_amount
from airflow_samza.systems.system import StreamSpec, SystemBinding


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for day in (1, 2):
        (tmp_path / "orders" / f"day={day}").mkdir(parents=True)
        (tmp_path / "orders" / f"day={day}" / "part-0.parquet").write_bytes(b"x" * day * 10)
        (tmp_path / "orders" / f"day={day}" / "_SUCCESS").touch()
    return tmp_path


def amount(root: Path, **stream: Any) -> tuple[int, int] | None:
    return listed_amount("shop", SystemBinding("spark", {"root": str(root)}), StreamSpec("orders", **stream))


@pytest.mark.parametrize("stream", [{}, {"path": "orders"}, {"path": "orders", "format": "Parquet"}])
def test_a_folder_is_all_its_data(root: Path, stream: dict[str, Any]) -> None:
    assert amount(root, **stream) == (2, 30)


def test_a_file_is_itself(root: Path) -> None:
    assert amount(root, path="orders/day=1/part-0.parquet") == (1, 10)


@pytest.mark.parametrize(
    "stream",
    [
        {"options": (("table", "shop.orders"),)},
        {"options": (("query", "SELECT 1"),)},
        {"path": "orders", "format": "jdbc"},
        {"path": "orders", "format": "delta"},  # not every file below it belongs to the version that is read
        {"path": "orders", "timestamp": "at", "interval": (0, 1)},
        {"path": "orders/day=*"},
        {"path": "orders/{day=1,day=2}"},
        {"path": "orders", "options": (("pathGlobFilter", "*.orc"),)},
        {"path": "nowhere"},
        {"path": "nothing-of-ours://host/orders"},
    ],
)
def test_what_only_spark_knows_is_unknown(root: Path, stream: dict[str, Any]) -> None:
    assert amount(root, **stream) is None

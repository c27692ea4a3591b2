"""Results of expectations over random data, tasks, partitions and epochs, against the same questions to DuckDB."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from airflow_samza import condition, not_null, unique
from tests.support.budgets import share
from tests.support.expecting_apps import APPLICATION, EXPECT, Orders

CONDITIONS = (
    "amount >= 0",
    "amount BETWEEN -2 AND 2 OR member IS NULL",
    "member IN ('a', 'b') AND amount > 0",
    "NOT (member = 'a') OR amount IS NULL",
    "length(member) <= amount",
    "id % 3 <> 0 AND amount < 3",
)

KEYS = (("id",), ("member",), ("id", "member"), ("at",), ("amount", "at"))


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Orders]:
    EXPECT.clear()
    yield Orders(tmp_path)
    EXPECT.clear()


def some_rows(draw: random.Random) -> list[dict[str, Any]]:
    ids, count = draw.choice([3, 20, 1000]), draw.choice([0, 1, 7, 60, 300])
    return [
        {
            "id": None if draw.random() < 0.1 else draw.randrange(ids),
            "member": draw.choice(["a", "b", "", "éß", None]),
            "amount": draw.choice([None, -5, -1, 0, 1, 2, 3]),
            "at": None if draw.random() < 0.2 else f"2026-01-01T00:00:{draw.randrange(60):02}Z",
        }
        for _ in range(count)
    ]


def asked(rows: list[dict[str, Any]], dropping: list[str], others: list[str], keys: list[tuple[str, ...]]) -> list[int]:
    """Return what DuckDB says: rows that each expectation finds wrong, of the whole or of what is left."""
    stamped = [{**row, "at": row["at"] and row["at"][:-1]} for row in rows]
    table = pa.Table.from_pylist(
        stamped,
        schema=pa.schema([("id", pa.int64()), ("member", pa.string()), ("amount", pa.int64()), ("at", pa.string())]),
    )
    with duckdb.connect() as database:
        database.register("orders", table)
        kept = " AND ".join(f"coalesce(({each}), true)" for each in dropping) or "true"

        def wrong(each: str, of: str) -> int:
            return int(database.execute(f"SELECT count(*) FROM orders WHERE {of} AND NOT ({each})").fetchall()[0][0])

        counts = [wrong(each, "true") for each in dropping] + [wrong(each, kept) for each in others]
        for key in keys:
            columns = ", ".join(f'"{column}"' for column in key)
            there = " AND ".join(f'"{column}" IS NOT NULL' for column in key)
            of = f"FROM (SELECT {columns} FROM orders WHERE {kept} AND {there})"
            (rows_of,) = database.execute(f"SELECT count(*) {of}").fetchall()
            (distinct,) = database.execute(f"SELECT count(*) FROM (SELECT DISTINCT * {of})").fetchall()
            counts.append(rows_of[0] - distinct[0])
        (left,) = database.execute(f"SELECT count(*) FROM orders WHERE {kept}").fetchall()
    return [*counts, left[0]]


@pytest.mark.random
@pytest.mark.parametrize("seed", range(share(100)))
def test_finds_what_duckdb_finds(lake: Orders, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    draw = random.Random(seed)
    rows = some_rows(draw)
    chosen = draw.sample(CONDITIONS, k=3)
    dropping, others = chosen[: draw.randrange(3)], chosen[2:]
    keys = draw.sample(KEYS, k=2)
    monkeypatch.setattr("airflow_samza.storage.key_files.GROUP_ROWS", draw.choice([5, 1 << 20]))
    monkeypatch.setattr("airflow_samza.storage.key_files.AT_ONCE", draw.choice([0, 1 << 22]))
    of_each = [
        *(condition(each, on_error="drop") for each in dropping),
        *(condition(each, on_error="warn") for each in others),
        not_null("member", on_error="warn"),
    ]
    of_all = [unique(list(key), on_error="warn") for key in keys]
    of_input = draw.random() < 0.4
    EXPECT.update(
        {"input": of_each, "output": of_all} if of_input else {"output": [*of_each, *of_all]},
        partitions=draw.choice([1, 2, 5]),
    )
    lake.write(rows, parts=draw.choice([1, 2, 5]))
    pipelined = draw.random() < 0.4
    more: dict[str, Any] = {"mode": "pipelined", "config": {"job.epoch.max.messages": "10"}} if pipelined else {}
    plan = lake.whole(APPLICATION, "one", **more)
    (output,) = [each for each in lake.result(plan).outputs if each.stream_id == "copies"]
    (read,) = lake.result(plan).inputs
    found = [each.failed for each in (*read.expectations, *output.expectations)]
    assert bool(read.expectations) == of_input
    expected = asked(rows, dropping, [*others, "member IS NOT NULL"], keys)
    of_rows = len(dropping) + len(others) + 1
    assert found[:of_rows] == expected[:of_rows]
    if pipelined:  # keys are compared within an epoch
        assert all(one <= whole for one, whole in zip(found[of_rows:], expected[of_rows:-1], strict=True))
    else:
        assert found[of_rows:] == expected[of_rows:-1]
    assert len(lake.published()) == expected[-1] == output.messages

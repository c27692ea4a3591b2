"""Random edits of random tables, compared here and by DuckDB: the same rows are added, gone and different."""

from __future__ import annotations

import random
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from airflow_samza.task.row_differences import row_differences
from tests.support.budgets import share

ROUNDS = share(60)
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("part", pa.string()),
        ("cents", pa.float64()),
        ("moment", pa.timestamp("us", "UTC")),
        ("price", pa.decimal128(10, 2)),
        ("good", pa.bool_()),
        ("text", pa.string()),
        ("tags", pa.list_(pa.string())),
    ]
)
KEY = ("id", "part")
OTHERS = [name for name in SCHEMA.names if name not in KEY]


def some_value(name: str, chance: random.Random) -> Any:
    """Return a value of a column: of few, so that some are equal, and sometimes null."""
    number = chance.randrange(4)
    if chance.random() < 0.15:
        return None
    return {
        "cents": number / 4,
        "moment": number * 1_000_000,
        "price": f"{number}.25",
        "good": number % 2 == 0,
        "text": "Zürich" * number,
        "tags": [None if one == 2 else f"t{one}" for one in range(number)],
    }[name]


def table(rows: list[dict[str, Any]]) -> pa.Table:
    columns = {name: [row[name] for row in rows] for name in SCHEMA.names}
    arrays = []
    for field in SCHEMA:
        text = pa.types.is_decimal(field.type)
        array = pa.array(columns[field.name], pa.string() if text else field.type)
        arrays.append(array.cast(field.type))
    return pa.Table.from_arrays(arrays, schema=SCHEMA)


def random_pair(seed: int, *, unique: bool) -> tuple[pa.Table, pa.Table]:
    """Return a table and one that somebody has edited."""
    chance = random.Random(seed)
    rows = []
    for number in range(chance.choice([0, 1, 40, 300])):
        id_ = number if unique else chance.randrange(30)
        row = {"id": id_ if chance.random() < 0.98 or unique else None, "part": f"p{id_ % 3}"}
        rows.append(row | {name: some_value(name, chance) for name in OTHERS})
    edited = [dict(row) for row in rows if chance.random() > 0.1]
    for row in edited:
        for name in OTHERS:
            if chance.random() < 0.1:
                row[name] = some_value(name, chance)
    for number in range(chance.randrange(20)):
        edited.append({"id": 1000 + number, "part": "new"} | {name: some_value(name, chance) for name in OTHERS})
    chance.shuffle(edited)
    return table(rows), table(edited)


def batches(rows: pa.Table, seed: int) -> list[pa.RecordBatch]:
    return list(rows.to_batches(max_chunksize=random.Random(seed).choice([1, 7, 1000])))


def asked(old: pa.Table, new: pa.Table, query: str) -> list[int]:
    """Return what DuckDB says of two tables."""
    with duckdb.connect() as database:
        database.register("old", old)
        database.register("new", new)
        return [int(number) for number in database.sql(query).fetchall()[0]]


WAYS = pytest.mark.parametrize("held_bytes", [1 << 30, 2000], ids=["in memory", "through files"])


@pytest.mark.random
@WAYS
def test_rows_of_unique_keys_differ_as_in_a_full_outer_join(held_bytes: int) -> None:
    for seed in range(ROUNDS):
        old, new = random_pair(seed, unique=True)
        found = row_differences(batches(old, seed), batches(new, seed + 1), KEY, held_bytes=held_bytes)
        in_both = "o.id is not null and n.id is not null"
        differ = ", ".join(f"count(*) filter ({in_both} and o.{c} is distinct from n.{c})" for c in OTHERS)
        any_of = " or ".join(f"o.{c} is distinct from n.{c}" for c in OTHERS)
        added, gone, different, *columns = asked(
            old,
            new,
            f"select count(*) filter (o.id is null), count(*) filter (n.id is null), "
            f"count(*) filter ({in_both} and ({any_of})), {differ} "
            "from old o full join new n on o.id = n.id and o.part = n.part",
        )
        assert (found.added, found.gone, found.different) == (added, gone, different), seed
        assert dict(found.columns) == {name: n for name, n in zip(OTHERS, columns, strict=True) if n}, seed
        assert found.before == found.same + found.gone + found.different == old.num_rows
        assert found.after == found.same + found.added + found.different == new.num_rows


@pytest.mark.random
@WAYS
def test_whole_rows_differ_as_multisets(held_bytes: int) -> None:
    for seed in range(ROUNDS):
        old, new = random_pair(seed, unique=False)
        found = row_differences(batches(old, seed), batches(new, seed + 1), held_bytes=held_bytes)
        (gone,), (added,) = (
            asked(old, new, f"select count(*) from (select * from {one} except all select * from {other})")
            for one, other in (("old", "new"), ("new", "old"))
        )
        assert (found.added, found.gone, found.different) == (added, gone, 0), seed
        assert found.same == old.num_rows - gone == new.num_rows - added, seed


@pytest.mark.random
@WAYS
def test_rows_of_keys_that_repeat_are_paired_as_often_as_both_have_them(held_bytes: int) -> None:
    for seed in range(ROUNDS):
        old, new = random_pair(seed, unique=False)
        found = row_differences(batches(old, seed), batches(new, seed + 1), KEY, held_bytes=held_bytes)
        same, different = asked(
            old,
            new,
            "with rows as (select id, part, cents, moment, price, good, text, tags, count(*) filter (side = 0) as o, "
            "count(*) filter (side = 1) as n from (select *, 0 as side from old union all select *, 1 from new) "
            "group by all), keys as (select id, part, sum(least(o, n)) as same, "
            "sum(o - least(o, n)) as o, sum(n - least(o, n)) as n from rows group by id, part) "
            "select coalesce(sum(same), 0), coalesce(sum(least(o, n)), 0) from keys",
        )
        assert (found.same, found.different) == (same, different), seed
        assert found.gone == old.num_rows - same - different, seed
        assert found.added == new.num_rows - same - different, seed

"""Damaged logs and deletion vectors of Delta tables: they are read or rejected by a sentence."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from airflow_samza.errors import SamzaError
from airflow_samza.systems.system import ColumnBound
from tests.support.budgets import share
from tests.support.delta_lake import HandMade, inline_vector, mapped, rows_of, stream, system_at, vector_file

SEED = int(os.environ.get("FUZZ_SEED", "1"))
ODD: tuple[Any, ...] = (None, True, -1, 1 << 70, 0.5, "", "x", "../x", "\ud800", [], [None], {}, {"a": 1}, "9" * 400)


def written(folder: Path) -> HandMade:
    """Return a table that has some of everything."""
    columns = [mapped("id", "long", 1, "a"), mapped("p", "date", 2, "b"), mapped("s", "string", 3, "c")]
    mode = {"delta.columnMapping.mode": "name"}
    features = ["columnMapping", "deletionVectors"]
    table = HandMade(folder, columns, partitions=["p"], reader=3, features=features, configuration=mode)
    table.begin()
    rows = pa.table({"a": range(50), "c": ["x"] * 50})
    (vector,) = vector_file(table.place, [1, 7])
    stats = {"numRecords": 50, "minValues": {"a": 0}, "maxValues": {"a": 49}, "nullCount": {"a": 0, "c": 0}}
    more: dict[str, Any] = {"partitionValues": {"b": "2026-11-01"}, "stats": stats}
    table.commit(table.file("a.parquet", rows, deletionVector=vector, **more))
    table.commit(table.file("b.parquet", rows, deletionVector=inline_vector([3]), **more))
    table.commit({"remove": {"path": "a.parquet", "deletionVector": vector}})
    return table


def places(value: Any) -> list[tuple[Any, Any]]:
    """Return each container within a value, with each key of it."""
    found: list[tuple[Any, Any]] = []
    keys = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in keys:
        found += [(value, key), *places(value[key])]
    return found


def damage(table: HandMade, chance: random.Random) -> None:
    """Change a file of the table: a byte of it, its end, or a value of an action."""
    files = sorted([*table.log.glob("*.json"), *table.place.glob("deletion_vector_*")])
    file = chance.choice(files)
    content = file.read_bytes()
    kind = chance.random()
    if kind < 0.2:
        content = content[: chance.randrange(len(content))]
    elif kind < 0.4 or file.suffix != ".json":
        place = chance.randrange(len(content))
        content = content[:place] + bytes([chance.randrange(256)]) + content[place + 1 :]
    else:
        actions = [json.loads(line) for line in content.splitlines()]
        holder, key = chance.choice(places(actions))
        if chance.random() < 0.3 and isinstance(holder, dict):
            del holder[key]
        else:
            holder[key] = chance.choice(ODD)
        content = "\n".join(map(json.dumps, actions)).encode()
    file.write_bytes(content)


@pytest.mark.random
def test_a_damaged_table_is_read_or_rejected_by_a_sentence(tmp_path: Path) -> None:
    outcomes = {"read": 0, "rejected": 0}
    for number in range(share(600)):
        folder = tmp_path / str(number)
        table = written(folder)
        damage(table, random.Random(SEED * 1_000_000 + number))
        for bounds in ((), (ColumnBound("id", ">", 60), ColumnBound("s", "=", "x"))):
            try:
                rows_of(system_at(folder), stream(), bounds)
                outcomes["read"] += 1
            except SamzaError:
                outcomes["rejected"] += 1
            except Exception as error:
                raise AssertionError(f"FUZZ_SEED={SEED}, case {number}: {error!r}") from error
    assert min(outcomes.values()) > 0

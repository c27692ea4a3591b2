"""Random changes that are upserted into a table, with appends by others and repetitions: a dict has the same rows."""

from __future__ import annotations

import copy
import dataclasses
import os
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from airflow_samza.schema import Schema
from tests.support import iceberg_lake
from tests.support.budgets import share
from tests.support.table_kinds import KINDS
from tests.support.table_outputs import output_stream

EXAMPLES = int(os.environ.get("UPSERTS_EXAMPLES") or max(share(60), 6))
COLUMNS = "id bigint, part string, v bigint, at timestamp"
CHANGES = Schema.of(f"{COLUMNS}, _deleted boolean").to_arrow()


def output_of(kind: str, folder: Path, key: tuple[str, ...], **options: str) -> Any:
    """An output that is upserted, to a table that it has made."""
    spec = output_stream(schema=COLUMNS, create="true", mode="upsert", **options)
    output = KINDS[kind](folder, dataclasses.replace(spec, key=key))
    output.system.create([output.spec])
    return output


def random_changes(rng: random.Random, most: int = 12) -> list[dict[str, Any]]:
    """Changes of few keys, so that an epoch has some of one key; rows move from one partition to another."""
    return [
        {
            "id": rng.randint(1, 9),
            "part": rng.choice(["a", "b", "ü/ 1"]),
            "v": rng.choice([None, rng.randint(0, 99)]),
            "at": None,
            "_deleted": rng.random() < 0.3,
        }
        for _ in range(rng.randint(0, most))
    ]


def batch_of(rows: list[dict[str, Any]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(rows, schema=CHANGES)


@pytest.mark.random
@pytest.mark.parametrize("kind", ["iceberg", "delta"])
def test_a_table_has_the_rows_of_a_dict(kind: str, tmp_path: Path) -> None:
    for seed in range(EXAMPLES):
        check(kind, tmp_path / str(seed), seed)


def check(kind: str, folder: Path, seed: int) -> None:
    rng = random.Random(seed)
    key = rng.choice([("id",), ("id", "part")])
    output = output_of(kind, folder, key, **({"partition_by": "part"} if rng.random() < 0.5 else {}))
    model: dict[tuple[Any, ...], dict[str, Any]] = {}
    done: list[Any] = []
    foreign = 100
    epochs: dict[tuple[str, str], int] = {}
    for _ in range(rng.randint(2, 7)):
        act = rng.random()
        if act < 0.15 and done:  # again, by a process that does not know that it was done
            output.system.publish(output.spec, copy.deepcopy(rng.choice(done[-3:])))
        elif act < 0.3:
            foreign += 1
            row = {"id": foreign, "part": "a", "v": 1, "at": None}
            if kind == "iceberg":
                iceberg_lake.append(output.table(), [row])
            else:
                output.foreign(row)
            model[tuple(row[name] for name in key)] = row
        else:
            run = rng.choice(["one", "two"])
            generation = max((g for r, g in epochs if r == run), default="1.1")
            if rng.random() < 0.2 and (run, generation) in epochs:  # it was cleared
                generation = f"1.{int(generation.partition('.')[2]) + 1}"
            epoch = epochs.get((run, generation), -1) + 1
            epochs[run, generation] = epoch
            changes = random_changes(rng)
            work = output.publication(batch_of(changes), run=run, generation=generation, epoch=epoch)
            output.system.publish(output.spec, copy.deepcopy(work))
            done = [one for one in done if (one.producer, one.generation) == (work.producer, generation)] + [work]
            for change in changes:
                place = tuple(change[name] for name in key)
                model.pop(place, None)
                if not change["_deleted"]:
                    model[place] = {name: value for name, value in change.items() if name != "_deleted"}
        expected = sorted(model.values(), key=repr)
        for found in (output.rows(), output.scanned()):
            assert sorted(found, key=repr) == expected, f"{kind}, seed {seed}"

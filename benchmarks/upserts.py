"""Changes of rows that are upserted into a table of Delta, beside the ``MERGE`` of delta-rs by hand, in turn.

``python -m benchmarks.upserts --work DIR [--rows 2000000] [--rounds 3]``. A table of so many rows gets changes of a
twentieth as many: updates of a range of keys, new keys, and deletes, a tenth of them repeated. Ours stages them as a
task does, and commits; by hand the last change of each key is found first, since a ``MERGE`` wants it. Both write the
same rows into a copy of the same table.
"""

from __future__ import annotations

import shutil
import statistics
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from airflow_samza.runs.records.names import Generation, writer_name
from airflow_samza.systems.delta.system import DeltaSystem
from airflow_samza.systems.system import Publication, StreamSpec, SystemBinding
from benchmarks.arguments import measure_rows

FILES = 8


def table_of(rows: int) -> pa.Table:
    """Return the rows of the table, sorted by their key."""
    random = np.random.default_rng(3)
    return pa.table({"id": np.arange(rows), "name": [f"name-{n}" for n in range(rows)], "v": random.random(rows)})


def changes_of(rows: int) -> pa.RecordBatch:
    """Return changes of keys in a quarter of the table, and behind its end."""
    random = np.random.default_rng(5)
    count = rows // 20
    ids = random.integers(rows * 3 // 4, rows + count, count)
    again = random.random(count) < 0.1
    ids[again] = ids[random.integers(0, count, int(again.sum()))]
    gone = random.random(count) < 0.1
    columns = {"id": ids, "name": [f"new-{n}" for n in range(count)], "v": random.random(count), "_deleted": gone}
    return pa.RecordBatch.from_pydict({name: pa.array(values) for name, values in columns.items()})


def ours(folder: Path, changes: pa.RecordBatch) -> None:
    """Upsert changes as an epoch of one task."""
    system = DeltaSystem("lake", SystemBinding("delta", {"root": str(folder)}))
    options = (("table", "t"), ("mode", "upsert"))
    stream = StreamSpec("out", partitions=1, written=True, options=options, key=("id",))
    producer = system.producer(stream, writer_name("s", Generation(1, 1), 0, 0), system.fix_output(stream, None, "r"))
    producer.write(0, changes)
    system.publish(stream, Publication("app/run/s", "1.1", 0, {0: producer.finish()}))


def by_hand(folder: Path, changes: pa.RecordBatch) -> None:
    """Merge the last change of each key."""
    numbered = pa.Table.from_batches([changes]).append_column("n", pa.array(np.arange(changes.num_rows)))
    last = numbered.group_by("id").aggregate([("n", "max")])
    source = numbered.take(last.column("n_max"))
    values = {name: f"s.{name}" for name in ("id", "name", "v")}
    (
        DeltaTable(str(folder / "t"))
        .merge(source, "s.id = t.id", source_alias="s", target_alias="t")
        .when_matched_delete("s._deleted")
        .when_matched_update(values, "not s._deleted")
        .when_not_matched_insert(values, "not s._deleted")
        .execute()
    )


def rows_in(folder: Path) -> pa.Table:
    """Return the rows of a table in the order of their keys."""
    columns = pa.schema({"id": pa.int64(), "name": pa.string(), "v": pa.float64()})
    found = pa.table(DeltaTable(str(folder / "t")).scan().read_all()).select(columns.names)
    return found.cast(columns).sort_by("id").combine_chunks()


def measure(work: Path, rows: int, rounds: int) -> None:
    """Print the seconds of both, the median of the rounds, and how often one takes the other."""
    whole, changes = table_of(rows), changes_of(rows)
    for start in range(0, rows, -(-rows // FILES)):
        write_deltalake(str(work / "first" / "t"), whole.slice(start, -(-rows // FILES)), mode="append")
    seconds: dict[Any, list[float]] = {ours: [], by_hand: []}
    for number in range(rounds):
        for way in (ours, by_hand) if number % 2 == 0 else (by_hand, ours):
            folder = work / f"{way.__name__}-{number}"
            shutil.copytree(work / "first", folder)
            began = time.perf_counter()
            way(folder, changes)
            seconds[way].append(time.perf_counter() - began)
        folders = [work / f"{way.__name__}-{number}" for way in (ours, by_hand)]
        assert rows_in(folders[0]).equals(rows_in(folders[1])), "they differ"
        for folder in folders:
            shutil.rmtree(folder)
    mine, theirs = (statistics.median(found) for found in seconds.values())
    print(
        f"{changes.num_rows:,} changes of {rows:,} rows: ours {mine:.2f} s, MERGE of delta-rs {theirs:.2f} s: "
        f"{theirs / mine:.2f} times ours",
        flush=True,
    )


def main() -> None:
    """Measure and print."""
    measure_rows(__doc__, measure)


if __name__ == "__main__":
    main()

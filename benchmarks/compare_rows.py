"""Comparison of two outputs of a million rows: ours, and full outer joins by DuckDB and pandas, in turn.

``python -m benchmarks.compare_rows [--work DIR] [--rows 1000000] [--rounds 3]``. Both sides lie in Parquet, as a run
leaves them, and each contender reads them. A row in a hundred is changed, one in two hundred is gone, and as many are
new. DuckDB and pandas count the rows added, gone and different, and in how many each column differs, as ours does.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from airflow_samza.task.row_differences import row_differences
from benchmarks.arguments import measure_rows

COLUMNS = ("member", "country", "cents", "at", "share")

Counts = tuple[int, ...]


def write(folder: Path, rows: int) -> tuple[Path, Path]:
    """Write both sides, in other orders; return their files."""
    draw = np.random.default_rng(1)
    ids = np.arange(rows, dtype=np.int64)
    table = pa.table(
        {
            "id": ids,
            "member": pa.array([f"member-{number % 50_000}" for number in range(rows)]),
            "country": pa.array(np.array(["NL", "DE", "FR", "CH"])[ids % 4]),
            "cents": draw.integers(0, 100_000, rows),
            "at": pa.array(ids * 1_000_000, pa.timestamp("us", "UTC")),
            "share": draw.random(rows),
        }
    )
    cents = table["cents"].to_numpy().copy()
    cents[::100] += 1
    edited = table.set_column(3, "cents", pa.array(cents)).filter(pa.array(ids % 200 != 7))
    new = edited.slice(0, rows // 200).set_column(0, "id", pa.array(ids[: rows // 200] + rows))
    edited = pa.concat_tables([edited, new])
    places = folder / "before.parquet", folder / "after.parquet"
    for place, one in zip(places, (table, edited.take(draw.permutation(edited.num_rows))), strict=True):
        pq.write_table(one, place)
    return places


def ours(before: Path, after: Path) -> Counts:
    """Compare them as ``airflow-samza compare`` does."""
    old, new = (pq.ParquetFile(place).iter_batches(65_536) for place in (before, after))
    found = row_differences(old, new, ["id"])
    return (found.added, found.gone, found.different, *(found.columns.get(name, 0) for name in COLUMNS))


def by_duckdb(before: Path, after: Path) -> Counts:
    """Compare them by a full outer join in DuckDB."""
    both = "o.id is not null and n.id is not null"
    differ = ", ".join(f"count(*) filter ({both} and o.{name} is distinct from n.{name})" for name in COLUMNS)
    any_of = " or ".join(f"o.{name} is distinct from n.{name}" for name in COLUMNS)
    query = (
        "select count(*) filter (o.id is null), count(*) filter (n.id is null), "
        f"count(*) filter ({both} and ({any_of})), {differ} from '{before}' o full join '{after}' n on o.id = n.id"
    )
    with duckdb.connect(config={"threads": 2}) as database:
        return tuple(database.sql(query).fetchall()[0])


def by_pandas(before: Path, after: Path) -> Counts:
    """Compare them by an outer merge in pandas."""
    import pandas as pd

    merged = pd.read_parquet(before).merge(
        pd.read_parquet(after), on="id", how="outer", suffixes=("", "_n"), indicator=True
    )
    both = merged[merged["_merge"] == "both"]
    differ = {
        name: both[name].ne(both[f"{name}_n"]) & ~(both[name].isna() & both[f"{name}_n"].isna()) for name in COLUMNS
    }
    any_of = np.logical_or.reduce(list(differ.values()))
    sides = (int((merged["_merge"] == side).sum()) for side in ("right_only", "left_only"))
    return (*sides, int(any_of.sum()), *(int(one.sum()) for one in differ.values()))


CONTENDERS: dict[str, Callable[[Path, Path], Counts]] = {"ours": ours, "DuckDB": by_duckdb, "pandas": by_pandas}


def measure(folder: Path, rows: int, rounds: int) -> None:
    """Print the median seconds of each, and the ratio of ours."""
    places = write(folder, rows)
    taken: dict[str, list[float]] = {name: [] for name in CONTENDERS}
    for number in range(rounds + 1):  # the first one warms up
        found = {}
        for name, compare in CONTENDERS.items() if number % 2 else reversed(CONTENDERS.items()):
            began = time.perf_counter()
            found[name] = compare(*places)
            if number:
                taken[name].append(time.perf_counter() - began)
        assert len(set(found.values())) == 1, found
    medians = {name: statistics.median(times) for name, times in taken.items()}
    print(f"{rows:,} rows: " + ", ".join(f"{name} {seconds:.2f} s" for name, seconds in medians.items()))
    for name in ("DuckDB", "pandas"):
        print(f"ours takes {medians['ours'] / medians[name]:.2f} times as long as {name}")


if __name__ == "__main__":
    measure_rows(__doc__, measure)

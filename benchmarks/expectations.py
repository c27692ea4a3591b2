"""Rows checked before they are published, beside the same checks written by hand in PySpark, in turn.

``python -m benchmarks.expectations --work DIR [--rows 2000000] [--rounds 3]``. Files of orders, which all meet what is
expected: a key that is unique, a column without nulls, a condition, and a number of rows. By hand the DataFrame is
cached, aggregated once for the checks of rows, once for the key, and written. ``plain`` is our run without
expectations. All read and write Parquet in one session of ``local[2]``. Seconds of a round are those from the plan to
the end.
"""

from __future__ import annotations

import importlib
import shutil
import statistics
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from airflow_samza import not_null, rows, stream_application, unique
from airflow_samza.systems.system import SystemBinding
from benchmarks.arguments import measure_rows
from tests.support.one_session import Runs, open_session

ORDER = "id bigint, member string, amount double"
FILES = 4


def put_files(folder: Path, count: int) -> None:
    """Write the orders, a partition in each file."""
    random = np.random.default_rng(7)
    ids = random.permutation(count)
    folder.mkdir(parents=True, exist_ok=True)
    for file in range(FILES):
        mine = ids[file::FILES]
        table = pa.table(
            {
                "id": pa.array(mine),
                "member": pa.array([f"member-{each % 100_000}" for each in mine.tolist()]),
                "amount": pa.array(random.random(len(mine))),
            }
        )
        pq.write_table(table, folder / f"{file}.parquet", row_group_size=100_000)


def _application(name: str, expect: Any) -> Any:
    def describe(app: Any) -> None:
        orders = app.input_stream(
            "orders", system="lake", schema=ORDER, path="orders", format="parquet", partitions=FILES
        )
        orders.send_to(app.output_stream(name, system="results", format="parquet", expect=expect))

    return stream_application(f"bench-{name}")(describe)


plain = _application("plain", None)
checked = _application("checked", [unique("id"), not_null("member"), "amount >= 0", rows(at_least=1)])


def by_hand(session: Any, orders: Path, out: Path) -> None:
    """Check the orders, and write them."""
    from pyspark.sql import functions as f

    read = session.read.parquet(str(orders)).cache()
    wrong = read.agg(
        f.count("*").alias("rows"),
        f.sum(f.col("member").isNull().cast("long")).alias("nulls"),
        f.sum((~(f.col("amount") >= 0)).cast("long")).alias("negative"),
    ).first()
    twice = read.groupBy("id").count().filter("count > 1").limit(1).count()
    if twice or wrong["nulls"] or wrong["negative"] or not wrong["rows"]:
        raise ValueError("the orders are wrong")
    read.write.parquet(str(out))
    read.unpersist(blocking=True)


def _count(folder: Path) -> int:
    files = [str(path) for path in folder.rglob("*.parquet")]
    return int(ds.dataset(files, format="parquet").count_rows())


def measure(work: Path, count: int, rounds: int) -> None:
    """Print the seconds of each, the median of the rounds, and how often one takes the other."""
    put_files(work / "lake" / "orders", count)
    importlib.import_module("benchmarks.expectations")  # by its name, under which workers find it
    session = open_session(work / "session", "benchmarks.expectations", {"spark.sql.shuffle.partitions": "4"})
    seconds: dict[str, list[float]] = {"plain": [], "checked": [], "by hand": []}
    for number in range(rounds + 1):
        folder = work / str(number)
        for name in seconds:
            began = time.perf_counter()
            if name == "by hand":
                with session.stage_session({}, own=False) as spark:
                    by_hand(spark, work / "lake" / "orders", folder / name)
            else:
                (folder / name).mkdir(parents=True)
                places = {"lake": work / "lake", "results": folder / name}
                bindings = {system: SystemBinding("files", {"root": str(place)}) for system, place in places.items()}
                runs = Runs(session, folder / f"root-{name}", bindings)
                runs.one_by_one(runs.prepare(f"benchmarks.expectations:{name}", "run"))
            if number:  # the first round warms Java up
                seconds[name].append(time.perf_counter() - began)
            assert _count(folder / name) == count, "rows are missing"
        shutil.rmtree(folder)
    plain_, checked_, theirs = (statistics.median(found) for found in seconds.values())
    print(
        f"{count:,} rows: checked {checked_:.2f} s, without expectations {plain_:.2f} s, by hand in PySpark "
        f"{theirs:.2f} s: {theirs / checked_:.2f} times ours",
        flush=True,
    )
    session.stop()


def main() -> None:
    """Measure and print."""
    measure_rows(__doc__, measure)


if __name__ == "__main__":
    main()

"""Workloads over page views in Polars, in one process: ``python views_polars.py ADDRESS CORES``.

It serves requests ``WORKLOAD SOURCE>OUT ROWS``; ``ADDRESS`` is of no interest.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from typing import Any

from serving import Pages, serve


def main(cores: str) -> None:
    """Serve requests."""
    os.environ["POLARS_MAX_THREADS"] = cores
    import polars as pl

    def slow_views(source: str, out: str) -> None:
        slow = (pl.col("dwell_ms") // 1000).cast(pl.Int32).alias("slow")
        chosen: Any = pl.scan_parquet(source).filter(pl.col("dwell_ms") > 1000).with_columns(slow)
        # As the application writes it: snappy, and row groups of 131,072 rows.
        chosen.sink_parquet(f"{out}/part-0.parquet", compression="snappy", row_group_size=131_072)

    def work(workload: str, place: str, rows: int) -> Callable[[], Pages]:
        source, _, out = place.partition(">")
        shutil.rmtree(out, ignore_errors=True)
        os.makedirs(out)
        {"W1polars": slow_views}[workload](source, out)
        return lambda: ()

    serve(work)


if __name__ == "__main__":
    main(sys.argv[2])

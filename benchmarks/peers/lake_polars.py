"""The work of :mod:`benchmarks.lake` in Polars, in one process: ``python lake_polars.py LAKE FORMAT``.

It serves requests ``WORKLOAD SOURCE>OUT ROWS``. What it has read of a table that grows it keeps in memory.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

import polars as pl
from serving import Pages, serve


class IcebergTables:
    """Tables of the embedded catalog."""

    def __init__(self, lake: str) -> None:
        from pyiceberg.catalog import load_catalog

        self._catalog = load_catalog("default", type="sql", uri=f"sqlite:///{lake}/catalog.db")
        self._read: int | None = None

    def scan(self, table: str) -> pl.LazyFrame:
        """Return the rows of a table."""
        return pl.scan_iceberg(self._catalog.load_table(table))

    def new(self, table: str) -> pl.LazyFrame:
        """Return the rows that were appended since the call before."""
        loaded = self._catalog.load_table(table)
        before, now = self._read, loaded.metadata.current_snapshot_id
        self._read = now
        if before is None:
            return pl.scan_iceberg(loaded)
        return pl.scan_iceberg(loaded, from_snapshot_id_exclusive=before, to_snapshot_id_inclusive=now)

    def append(self, rows: pl.LazyFrame, table: str) -> None:
        """Append rows to a table."""
        rows.sink_iceberg(self._catalog.load_table(table), mode="append")


class DeltaTables:
    """Tables in folders."""

    def __init__(self, lake: str) -> None:
        self._lake = lake
        self._read: set[str] = set()

    def _place(self, table: str) -> str:
        return f"{self._lake}/{table.replace('.', '/')}"

    def scan(self, table: str) -> pl.LazyFrame:
        """Return the rows of a table."""
        return pl.scan_delta(self._place(table))

    def new(self, table: str) -> pl.LazyFrame:
        """Return the rows of files that were not there at the call before."""
        from deltalake import DeltaTable

        files = set(DeltaTable(self._place(table)).file_uris())
        new, self._read = files - self._read, files
        return pl.scan_parquet(sorted(new))

    def append(self, rows: pl.LazyFrame, table: str) -> None:
        """Append rows to a table."""
        rows.sink_delta(self._place(table), mode="append")


def main(lake: str, format_: str) -> None:
    """Serve requests."""
    tables: Any = {"iceberg": IcebergTables, "delta": DeltaTables}[format_](lake)

    def work(workload: str, place: str, rows: int) -> Callable[[], Pages]:
        source, _, out = place.partition(">")
        if workload == "scan":
            os.makedirs(out)
            slow = (pl.col("dwell_ms") // 1000).cast(pl.Int32).alias("slow")
            views = tables.scan(source).filter(pl.col("dwell_ms") > 1000)
            views.with_columns(slow).sink_parquet(f"{out}/part-0.parquet")
        elif workload == "append":
            tables.append(pl.scan_parquet(source).filter(pl.col("dwell_ms") >= 0), out)
        elif workload == "aggregate":
            views = pl.len().cast(pl.Int64).alias("views")
            millis = pl.col("dwell_ms").cast(pl.Int64).sum().alias("millis")
            tables.append(tables.scan(source).group_by("page_id").agg(views, millis), out)
        else:
            tables.append(tables.new(source).filter(pl.col("dwell_ms") > 1000), out)
        return lambda: ()

    serve(work)


if __name__ == "__main__":
    main(*sys.argv[1:])

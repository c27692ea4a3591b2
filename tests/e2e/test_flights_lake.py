"""The applications of the example Dags over tables, without Spark: days, one of them again, and the table read anew."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import duckdb
import pytest
from typer.testing import CliRunner

from airflow_samza import TestDriver
from airflow_samza.cli.app import app
from airflow_samza.errors import TopicError
from airflow_samza.runs.records.data_interval import DataInterval
from airflow_samza.systems.system import SystemBinding
from tests.support.runs_here import Here, slice_of

DAGS = Path(__file__).parents[2] / "dags"


class Lake:
    """Files of days, a table of their departures, and one of the delays of the days that are complete."""

    def __init__(self, place: Path) -> None:
        self.place = place
        kinds = {"data": "files", "lake": "iceberg", "mart": "delta"}
        bindings = {name: SystemBinding(kind, {"root": str(place / name)}) for name, kind in kinds.items()}
        self.here = Here(place / "root", bindings=bindings)
        self.runs = 0
        (place / "data/flights").mkdir(parents=True)

    def file(self, day: int) -> Path:
        return self.place / f"data/flights/2013-01-{day:02}.parquet"

    def write(self, day: int, flights: int) -> None:
        """Write the file of a day anew."""
        duckdb.execute(
            f"COPY (SELECT 2013 AS year, 1 AS month, {day} AS day, 'NYC'[1 + i % 3] AS carrier, 'JFK' AS origin, "
            f"'BOS' AS dest, CASE WHEN i % 5 > 0 THEN i * {day} END AS dep_delay FROM range({flights}) one(i)) "
            f"TO '{self.file(day)}' (FORMAT parquet)"
        )

    def load(self, day: int) -> None:
        self.runs += 1
        interval = DataInterval.from_iso(f"2013-01-{day:02}", f"2013-01-{day + 1:02}")
        self.here.whole("pipelines.lake:flights_to_lake", f"load-{self.runs}", interval=interval)

    def read(self) -> int:
        """Read what is new, and return the number of departures."""
        self.runs += 1
        plan = self.here.whole("pipelines.lake:delays_of_lake", f"read-{self.runs}")
        return int(slice_of(plan, "departures")["rows"])

    def departures(self, *days: int) -> int:
        files = [str(self.file(day)) for day in days]
        ((count,),) = duckdb.execute("SELECT count(dep_delay) FROM read_parquet(?)", [files]).fetchall()
        return int(count)

    def delays(self) -> list[tuple[Any, ...]]:
        from deltalake import DeltaTable

        rows = DeltaTable(str(self.place / "mart/air/delays")).to_pyarrow_table().to_pylist()
        return sorted((row["day"], row["carrier"], row["flights"], row["delay"]) for row in rows)

    def expected(self, *days: int) -> list[tuple[Any, ...]]:
        files = [str(self.file(day)) for day in days]
        return duckdb.execute(
            "SELECT make_date(year, month, day), carrier, count(*), avg(dep_delay) FROM read_parquet(?) "
            "WHERE dep_delay IS NOT NULL GROUP BY ALL ORDER BY ALL",
            [files],
        ).fetchall()


@pytest.mark.extended
def test_new_days_are_read_alone_and_all_of_them_when_one_was_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(DAGS))
    lake = Lake(tmp_path)
    for day in (1, 2, 3):
        lake.write(day, 100 * day)
        lake.load(day)
        assert lake.read() == lake.departures(day)
        assert lake.delays() == (lake.expected(*range(1, day)) if day > 1 else [])
    lake.write(1, 170)
    lake.load(1)
    with pytest.raises(TopicError, match=r"air\.departures has replaced rows \(by flights-to-lake/load-7/flights\)"):
        lake.read()
    reset = ["state", "reset", "delays-of-lake", "--yes", "--root", str(tmp_path / "root")]
    assert CliRunner().invoke(app, reset).exit_code == 0
    assert lake.read() == lake.departures(1, 2, 3)
    assert lake.delays() == lake.expected(1, 2)
    lake.write(4, 50)
    lake.load(4)
    assert lake.read() == lake.departures(4)
    assert lake.delays() == lake.expected(1, 2, 3)


def test_flights_get_the_delays_of_their_carriers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(DAGS))
    from pipelines.lake import flights_with_delays

    flights = [{"carrier": carrier, "flight": 1, "origin": "JFK", "dest": "BOS"} for carrier in ("UA", "ZZ")]
    delays = [{"carrier": "UA", "day": date(2013, 1, 1), "flights": 3, "delay": 7.5}]
    run = TestDriver(flights_with_delays).pipe("flights", flights).table("delays", delays).run()
    found = {row.carrier: row.delay for row in run.output("flights-with-delays")}
    assert found == {"UA": 7.5, "ZZ": None}

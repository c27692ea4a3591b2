"""``make demo-lake``: days of flights in tables of Iceberg and Delta, one corrected, one cleared, one killed.

Each day's commit to the table of Iceberg starts the Dag that reads what is new in it. After each act, DuckDB counts the
rows of the tables, by extensions of its own, and those of the raw files.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import duckdb

from airflow_samza.cli.terminal import columns
from demo import lake_reader, show
from demo.airflow_api import AirflowProblem
from demo.local_airflow import LocalAirflow

DAG, DELAYS_DAG = "flights_lake", "flights_lake_delays"
LOAD, DELAYS_TASK, PUSH = "load", "delays", "push"
DAYS = [datetime(2013, 1, day, tzinfo=timezone.utc) for day in (1, 2, 3)]
PLAIN, KILLED, CLEARED = DAYS
CORRECTED = PLAIN

DEPARTURES, DELAYS = "air.departures", "air.delays"
LOADING, READING = "flights-to-lake", "delays-of-lake"

AIRFLOW = {
    "AIRFLOW__SAMZA__WARM_RUNNERS": "1",  # each run would start a Spark of its own
    "AIRFLOW__SAMZA__POLL_INTERVAL": "0.2",
    "AIRFLOW__CORE__DEFAULT_TASK_RETRIES": "2",
    "AIRFLOW__CORE__DEFAULT_TASK_RETRY_DELAY": "1",
    "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "3600",
}
"""Settings of Airflow in this demonstration: a task whose runner dies is tried again."""

_RAW = "SELECT {} FROM read_parquet({}) WHERE dep_delay IS NOT NULL"
_DEPARTURES = "count(*), sum(dep_delay), sum(hash(carrier, origin, dest, dep_delay) % 1000000007)::VARCHAR"
_DAY = "make_date(year, month, day)"
_COMPLETE = f"AND {_DAY} < (SELECT max({_DAY}) FROM read_parquet({{}}) WHERE dep_delay IS NOT NULL)"


def airflow_over_tables(place: Path, *, dags: Path, data: Path, env: Mapping[str, str]) -> LocalAirflow:
    """Lay out the files of the days, without what a former demonstration has left; return an Airflow with the Dags."""
    for name in ("airflow", "samza", "lake", "mart", "data", "dags", "t"):
        shutil.rmtree(place / name, ignore_errors=True)
    for name in ("samza", "t", "data/flights"):
        (place / name).mkdir(parents=True)
    shutil.copytree(dags / "pipelines", place / "dags" / "pipelines", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(dags / f"{DAG}.py", place / "dags")
    for day in DAYS:
        shutil.copy(data / "flights" / f"{day:%Y-%m-%d}.parquet", _file(place, day))
    connections = {
        "samza_default": json.dumps({"conn_type": "samza", "extra": {"root": str(place / "samza")}}),
        "flights_data": json.dumps({"conn_type": "fs", "extra": {"path": str(place / "data")}}),
        "flights_lake": json.dumps({"conn_type": "iceberg", "extra": {"root": str(place / "lake")}}),
        "flights_mart": json.dumps({"conn_type": "delta", "extra": {"root": str(place / "mart")}}),
    }
    # Warm runners of this Airflow, apart from those that the user has.
    settings = {**AIRFLOW, "TMPDIR": str(place / "t"), **env}
    return LocalAirflow(place / "airflow", dags=place / "dags", env=settings, connections=connections)


class Lake:
    """The acts, and what DuckDB finds after each of them."""

    def __init__(self, airflow: LocalAirflow, place: Path, seconds: float) -> None:
        self._airflow, self._place, self._seconds = airflow, place, seconds
        self._runs: dict[datetime, str] = {}
        self._started: list[str] = []
        self._found: list[list[object]] = []
        self.equal = True

    def run(self) -> bool:
        """Do all of them; True when the tables equal the raw files after each."""
        airflow = self._airflow
        airflow.wait_for_dag(DELAYS_DAG)
        show.step(
            f"The Dag {DAG!r} runs day by day, and starts {DELAYS_DAG!r}; DuckDB {lake_reader.VERSION} reads along"
        )
        show.fact(f"{airflow.url}/dags/{DELAYS_DAG}")
        self._act(f"{PLAIN:%d %B}", [PLAIN], lambda: self._run(PLAIN))
        self._act(f"{KILLED:%d %B}, runner killed", [KILLED], lambda: self._run(KILLED, kill=True))
        self._act(f"{CLEARED:%d %B}", [CLEARED], lambda: self._run(CLEARED))
        _correct(_file(self._place, CORRECTED))
        self._act(f"{CORRECTED:%d %B}, corrected", DAYS, lambda: self._run(CORRECTED))
        self._act(f"{CLEARED:%d %B}, cleared", DAYS, lambda: self._clear(CLEARED))
        show.step("What DuckDB counts in the tables, by its own extensions, beside what it counts in the raw files")
        head = ["ACT", "SECONDS", "DEPARTURES (ICEBERG)", "READ OF THEM", "DELAYS (DELTA)", "PUSHED"]
        head += ["IN THE FILES: DEPARTURES", "NEW", "DELAYS", "CARRIERS"]
        show.indented(columns(head, self._found))
        self._show_snapshots()
        return self.equal

    def _act(self, name: str, new: list[datetime], do: Callable[[], None]) -> None:
        """Do an act, by which the days ``new`` are to be read, and count."""
        began = time.monotonic()
        do()
        run_id = self._follow()
        seconds = time.monotonic() - began
        files = [str(_file(self._place, day)) for day in sorted(self._runs)]
        departures, delays = lake_reader.ask(
            f"SELECT {_DEPARTURES} FROM {lake_reader.iceberg_rows(self._lake, DEPARTURES)}",
            "SELECT day::VARCHAR, carrier, flights, round(delay, 9) "
            f"FROM {lake_reader.delta_rows(self._mart)} ORDER BY ALL",
        )
        raw = duckdb.execute(_RAW.format(_DEPARTURES, files)).fetchall()
        raw_new = duckdb.execute(_RAW.format("count(*)", [str(_file(self._place, day)) for day in new])).fetchall()
        raw_delays = duckdb.execute(
            _RAW.format(f"{_DAY}::VARCHAR AS day, carrier, count(*), round(avg(dep_delay), 9)", files)
            + f" {_COMPLETE.format(files)} GROUP BY ALL ORDER BY ALL"
        ).fetchall()
        read = self._airflow.xcom(DELAYS_DAG, run_id, DELAYS_TASK)["read"]["departures"]["messages"]
        pushed = self._airflow.xcom(DELAYS_DAG, run_id, PUSH)
        carriers = len({carrier for _, carrier, *_ in raw_delays})
        newest = str(lake_reader.delta_versions(self._mart)[-1][0])
        pairs = [
            (lake_reader.as_rows(departures), raw),
            ([(read,)], raw_new),
            (lake_reader.as_rows(delays), raw_delays),
            ((pushed["rows"], pushed["source"]["version"]), (carriers, newest)),
        ]
        equal = [ours == theirs for ours, theirs in pairs]
        self.equal = self.equal and all(equal)
        words = ["equal" if one else "DIFFERENT" for one in equal]
        counts = [departures[0][0], read, len(delays), pushed["rows"]]
        counted = [f"{count:,} {word}" for count, word in zip(counts, words, strict=True)]
        theirs = [f"{raw[0][0]:,}", f"{raw_new[0][0]:,}", f"{len(raw_delays)}", f"{carriers}"]
        self._found.append([name, f"{seconds:.0f}", *counted, *theirs])
        show.fact(f"{seconds:6.1f} s  {name}: {read:,} departures read, {', '.join(dict.fromkeys(words))}")

    def _run(self, day: datetime, *, kill: bool = False) -> None:
        """Run a day; ``kill`` the process that runs its stage, as soon as it has said that it does."""
        interval: dict[str, Any] = {
            "data_interval_start": day.isoformat(),
            "data_interval_end": (day + timedelta(days=1)).isoformat(),
        }
        former = set(self._runners(LOADING))
        run_id = self._airflow.trigger(DAG, logical_date=day + timedelta(minutes=len(self._found)), **interval)
        self._runs[day] = run_id
        if kill:
            self._kill(DAG, run_id, LOADING, former)
        self._wait(DAG, run_id)

    def _clear(self, day: datetime) -> None:
        self._airflow.clear(DAG, self._runs[day])
        self._wait(DAG, self._runs[day])

    def _kill(self, dag_id: str, run_id: str, application: str, former: set[int]) -> None:
        look = lambda: next((one for one in self._runners(application) if one not in former), None)  # noqa: E731
        runner = self._airflow.wait_until(look, self._seconds, "a stage runner")
        os.kill(runner, signal.SIGKILL)
        self._wait(dag_id, run_id)
        tries = max(task["try_number"] for task in self._airflow.tasks(dag_id, run_id))
        show.fact(
            f"          the stage runner, process {runner}, was killed; another went on (try {tries} of the task)"
        )

    def _follow(self) -> str:
        """Wait for the run that the commit has started, and return its id.

        One whose plan rejects that rows were replaced is cleared, when the state of its application was reset.
        """
        airflow = self._airflow
        look = lambda: [one["dag_run_id"] for one in airflow.runs(DELAYS_DAG)][len(self._started) :]  # noqa: E731
        (run_id,) = airflow.wait_until(look, self._seconds, f"a run of {DELAYS_DAG}")
        self._started.append(run_id)
        if airflow.wait_for_run(DELAYS_DAG, run_id, self._seconds)["state"] != "success":
            tries = airflow.task(DELAYS_DAG, run_id, DELAYS_TASK)["try_number"]
            log = airflow.log(DELAYS_DAG, run_id, DELAYS_TASK, tries)
            if "has replaced rows" in log:
                self._reset()
                airflow.clear(DELAYS_DAG, run_id)
        self._wait(DELAYS_DAG, run_id)
        return str(run_id)

    def _reset(self) -> None:
        command = ["airflow-samza", "state", "reset", READING]
        program = [str(Path(sys.executable).with_name(command[0])), *command[1:]]
        options = ["--yes", "--root", str(self._place / "samza")]
        subprocess.run([*program, *options], env=self._airflow.environment, check=True, stdout=subprocess.DEVNULL)
        show.fact(f"          rows were replaced, so its plan failed; {' '.join(command)}, and the run is cleared")

    def _wait(self, dag_id: str, run_id: str) -> None:
        state = self._airflow.wait_for_run(dag_id, run_id, self._seconds)["state"]
        if state != "success":
            show.failures(self._airflow, dag_id, run_id)
            raise AirflowProblem(f"The run {run_id} of {dag_id} ended as {state}.")

    def _runners(self, application: str) -> Iterator[int]:
        """Yield the processes that have claimed a stage of an application."""
        for claim in (self._place / "samza" / "runs" / application).glob("*/servers/*/*/claim.json"):
            yield int(json.loads(claim.read_text())["pid"])

    @property
    def _lake(self) -> Path:
        return self._place / "lake"

    @property
    def _mart(self) -> Path:
        return self._place / "mart" / DELAYS.replace(".", "/")

    def _show_snapshots(self) -> None:
        source = lake_reader.iceberg(self._lake, DEPARTURES)
        (snapshots,) = lake_reader.ask(
            f"SELECT sequence_number, snapshot_id, timestamp_ms FROM iceberg_snapshots({source}) ORDER BY 1"
        )
        counts = lake_reader.ask(
            *(f"SELECT count(*) FROM iceberg_scan({source}, snapshot_from_id = {one})" for _, one, _ in snapshots)
        )
        show.step(f"The snapshots of {DEPARTURES}, as DuckDB lists them, and the rows of each")
        rows = [
            [number, str(one), committed, f"{found[0][0]:,}"]
            for (number, one, committed), found in zip(snapshots, counts, strict=True)
        ]
        show.indented(columns(["NUMBER", "SNAPSHOT", "COMMITTED (UTC)", "ROWS"], rows))
        show.step(f"The versions of {DELAYS} in Delta, by the log in its folder")
        versions = [[number, operation] for number, operation in lake_reader.delta_versions(self._mart)]
        show.indented(columns(["VERSION", "OPERATION"], versions))


def _file(place: Path, day: datetime) -> Path:
    return place / "data" / "flights" / f"{day:%Y-%m-%d}.parquet"


def _correct(file: Path) -> None:
    """Put a late correction in the place of a day's file: other delays of a carrier, and flights that were missing."""
    new = file.with_name(".corrected")
    duckdb.execute(
        f"COPY (SELECT * REPLACE (CASE WHEN carrier = 'UA' THEN dep_delay + 15 ELSE dep_delay END AS dep_delay) "
        f"FROM read_parquet('{file}') UNION ALL "
        f"(SELECT * REPLACE ('9E' AS carrier) FROM read_parquet('{file}') WHERE dep_delay IS NOT NULL LIMIT 40)) "
        f"TO '{new}' (FORMAT parquet)"
    )
    new.replace(file)

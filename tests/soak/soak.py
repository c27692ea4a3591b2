"""The lanes of the soak: what a day's operation does to one Airflow, all of it at once, and what must be there after it.

``SOAK_SECONDS`` (3600) is the time for which new work is begun; ``SOAK_SEED`` repeats the faults that a run has printed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any, TypeVar

import duckdb
import httpx

from demo.airflow_api import AirflowProblem
from demo.airflow_parts import AirflowInParts
from demo.flights_answers import Row, asked_of_duckdb, written
from tests.support.scalar_partitioner import partition_of

SECONDS = float(os.environ.get("SOAK_SECONDS", "3600"))
SEED = int(os.environ.get("SOAK_SEED", str(int(time.time()))))
END_SECONDS = 1800.0
"""The time within which everything has ended once nothing new begins."""

END_OF_RUNNERS_SECONDS = 120.0
ANSWER_SECONDS = 300.0
AWAY = (AirflowProblem, httpx.HTTPError)
"""Errors of a call while Airflow's API server is away, or rejects it for the moment."""

FEED_EVERY_SECONDS = 45.0
LAST_SCHEDULED = datetime.now(timezone.utc) + timedelta(seconds=SECONDS + 120)
"""The end of the schedule of catch-up; a Dag that is paused would leave its runs unfinished."""

FIRST_DAY = date(2013, 1, 1)
BACKFILL_DAYS = 10

T = TypeVar("T")


@dataclass
class Soak:
    """One Airflow, where its data lie, and what was begun so far."""

    airflow: AirflowInParts
    data: Path
    warehouse: Path
    fed: list[date] = field(default_factory=list)
    pipelined: list[str] = field(default_factory=list)
    backfilled: list[tuple[date, date]] = field(default_factory=list)
    live: str = ""
    wrong: list[str] = field(default_factory=list)
    over: threading.Event = field(default_factory=threading.Event)

    def asked(self, ask: Callable[[], T]) -> T:
        """Return what ``ask`` gives, tried again while Airflow is away or rejects it for the moment."""
        (answer,) = self.airflow.wait_until(lambda: (ask(),), ANSWER_SECONDS, "an answer of Airflow", away=AWAY)
        return answer

    def begin(self) -> list[threading.Thread]:
        """Begins every lane, once the topic has its first day, and the continuous run its plan."""
        for dag_id in ("soak_feed", "soak_live", "soak_drain", "soak_catch_up", "soak_pipelined", "soak_daily"):
            self.airflow.wait_for_dag(dag_id)
        self._feed_day()
        self.airflow.pause("soak_catch_up", False)
        self.live = self.airflow.trigger("soak_live")
        self.airflow.wait_for_task("soak_live", self.live, "hours.plan", ("success",), END_SECONDS)
        lanes = [
            threading.Thread(target=self._lane, args=(lane,), name=lane.__name__, daemon=True)
            for lane in (self._feed, self._pipeline, self._backfill)
        ]
        for thread in lanes:
            thread.start()
        return lanes

    def _lane(self, lane: Callable[[], None]) -> None:
        try:
            lane()
        except Exception as error:
            self.wrong.append(f"{lane.__name__}: {error!r}")
            self.over.set()

    def _feed(self) -> None:
        """Days come into the topic one after another, as somebody's job brings them."""
        while not self.over.wait(FEED_EVERY_SECONDS):
            self._feed_day()

    def _feed_day(self) -> None:
        day = FIRST_DAY + timedelta(days=len(self.fed))
        self.fed.append(day)
        self._run_once("soak_feed", f"feed-{day}", conf={"day": str(day)})
        self._wait_for("soak_feed", f"feed-{day}", END_SECONDS)

    def _pipeline(self) -> None:
        while not self.over.is_set():
            run_id = f"pipelined-{len(self.pipelined)}"
            self._run_once("soak_pipelined", run_id)
            self.pipelined.append(run_id)
            self._wait_for("soak_pipelined", run_id, END_SECONDS)

    def _backfill(self) -> None:
        """Backfills of ten days, one after another, each second one from the last day to the first."""
        while not self.over.is_set():
            number = len(self.backfilled)
            first = FIRST_DAY + timedelta(days=BACKFILL_DAYS * (number % 30))
            last = first + timedelta(days=BACKFILL_DAYS - 1)
            again = [
                "--max-active-runs",
                "3",
                "--reprocess-behavior",
                "completed",
                *(["--run-backwards"] if number % 2 else []),
            ]
            self._backfill_once(str(first), str(last), again)
            self.backfilled.append((first, last))
            self.airflow.wait_for_backfills("soak_daily", END_SECONDS, away=AWAY)

    def _backfill_once(self, first: str, last: str, options: list[str]) -> None:
        """Create a backfill that may be there already: the command was answered, and the answer lost."""
        known = self.asked(lambda: self.airflow.backfills("soak_daily"))[:1]

        def create() -> None:
            if self.airflow.backfills("soak_daily")[:1] == known:
                dates = ("--from-date", first, "--to-date", last)
                self.airflow.cli("backfill", "create", "--dag-id", "soak_daily", *dates, *options)

        self.asked(create)

    def _run_once(self, dag_id: str, run_id: str, **more: Any) -> None:
        """Trigger a Dag run of this id, which may be there already."""

        def trigger() -> None:
            try:
                self.airflow.trigger(dag_id, dag_run_id=run_id, **more)
            except AirflowProblem as problem:
                if " 409:" not in str(problem):
                    raise

        self.asked(trigger)

    def _wait_for(self, dag_id: str, run_id: str, seconds: float) -> None:
        """Wait until a run has succeeded; one that failed is cleared, as somebody does who looks at it."""

        def has_succeeded() -> bool:
            state = self.airflow.run(dag_id, run_id)["state"]
            if state == "failed":
                self.clear_failed(dag_id, run_id)
            return bool(state == "success")

        self.airflow.wait_until(
            has_succeeded,
            seconds,
            f"{run_id} of {dag_id} to succeed",
            lambda: str(self.asked(lambda: self.airflow.task_states(dag_id, run_id))),
            away=AWAY,
        )

    def clear_failed(self, dag_id: str, run_id: str) -> None:
        """Clears the failed tasks of a run, and those after them."""
        states = self.airflow.task_states(dag_id, run_id)
        failed = [task for task, state in states.items() if state in ("failed", "upstream_failed")]
        if failed:  # else somebody else has cleared it just now
            self.airflow.clear(dag_id, run_id, *failed, downstream=True)

    def end(self, lanes: list[threading.Thread]) -> None:
        """Ends the lanes, drains the continuous run, and waits until every run has succeeded."""
        self.over.set()
        for thread in lanes:
            thread.join()
        self._run_once("soak_drain", "drain")
        self._wait_for("soak_drain", "drain", END_SECONDS)
        self._wait_for("soak_live", self.live, END_SECONDS)
        self.airflow.wait_until(lambda: datetime.now(timezone.utc) > LAST_SCHEDULED, END_SECONDS, "the schedule's end")
        self._run_once("soak_catch_up", "the-last")  # reads what came since the last scheduled run
        for dag_id in ("soak_catch_up", "soak_pipelined", "soak_daily"):
            for run_id in self.runs_of(dag_id):
                self._wait_for(dag_id, run_id, END_SECONDS)

    def runs_of(self, dag_id: str) -> list[str]:
        """Return the ids of all runs of a Dag."""
        found: list[str] = []
        while True:
            page = self.airflow.api(
                "GET", f"/dags/{dag_id}/dagRuns", params={"limit": 100, "offset": len(found), "order_by": "id"}
            )
            found += [run["dag_run_id"] for run in page["dag_runs"]]
            if not page["dag_runs"] or len(found) >= page["total_entries"]:
                return found

    # -- what must be there --------------------------------------------------------------------------------------------

    def differences(self) -> Iterator[str]:
        """Yield a sentence for each output that is not what DuckDB computes of the same files."""
        year = asked_of_duckdb(self.data)
        for run_id in self.runs_of("soak_pipelined"):
            if written(self._output("soak_pipelined", run_id, "delays.by-maker-and-hour", "delays")) != year:
                yield f"the pipelined run {run_id} differs"
        for first, last in self.backfilled:
            for day in (first + timedelta(days=n) for n in range((last - first).days + 1)):
                if written(self.warehouse / f"delays-of-a-day/{day}") != asked_of_duckdb(self.data, f"{day}.parquet"):
                    yield f"the day {day} of the backfill differs"
        if self._hours(self._output("soak_live", self.live, "hours.by-carrier", "hours")) != self._hours_of_duckdb():
            yield "the continuous run differs"
        over = f"time_hour < {self._watermark()}"
        caught_up = [
            self._output("soak_catch_up", run_id, "hours.by-carrier", "hours")
            for run_id in self.runs_of("soak_catch_up")
        ]
        if self._hours(*caught_up) != self._hours_of_duckdb(over):
            yield "the scheduled catch-up differs"

    def damage(self) -> list[str]:
        """Return the damage that ``airflow-samza fsck`` finds under the root.

        A file that a killed worker has left unfinished is none: the sweep deletes it.
        """
        looks = [json.loads(line) for line in self._samza("fsck", "--conn-id", "samza_default", "--json").splitlines()]
        assert looks
        found = {
            f"{look['kind']} {look['name']}": [one for one in look["findings"] if one["serious"]] for look in looks
        }
        return [f"{name}: {damage}" for name, damage in found.items() if damage]

    def left_behind(self) -> list[str]:
        """Return the processes of stages that are there once nothing runs, and warm runners have been ended."""

        def ended() -> bool:
            self._samza("warm", "end")  # one that serves a run for some seconds more stays
            return not self.airflow.outliving()

        with suppress(AirflowProblem):
            self.airflow.wait_until(ended, END_OF_RUNNERS_SECONDS, "runners to end")
        return [str(process) for process in self.airflow.outliving()]

    def _samza(self, *words: str) -> str:
        command = [str(Path(sys.executable).with_name("airflow-samza")), *words]
        done = subprocess.run(command, env=self.airflow.environment, capture_output=True, text=True, timeout=600)
        assert done.returncode in (0, 1), done.stderr
        return done.stdout

    def _output(self, dag_id: str, run_id: str, task_id: str, stream_id: str) -> Path:
        return Path(self.airflow.xcom(dag_id, run_id, task_id)["outputs"][stream_id]["path"])

    def _files(self) -> list[str]:
        return [str(self.data / "flights" / f"{day}.parquet") for day in self.fed]

    def _watermark(self) -> str:
        """Return DuckDB's expression for the hour to which windows are over.

        A day before the last departure in that partition of the topic which is furthest behind.
        """
        lasts = duckdb.execute(
            "SELECT origin, epoch(max(time_hour) - INTERVAL 1 DAY) "
            f"FROM read_parquet({self._files()}) WHERE dep_delay IS NOT NULL GROUP BY origin"
        ).fetchall()
        reached: dict[int, float] = {}
        for origin, last in lasts:
            partition = partition_of([origin], ["string"], 2)
            reached[partition] = max(last, reached.get(partition, last))
        return f"make_timestamp({int(min(reached.values())) * 1_000_000})"

    def _hours_of_duckdb(self, within: str = "true") -> list[Row]:
        rows: list[Row] = duckdb.execute(
            f"SELECT carrier, epoch(time_hour), count(*), round(avg(dep_delay), 9) FROM read_parquet({self._files()}) "
            f"WHERE dep_delay IS NOT NULL AND {within} GROUP BY 1, 2 ORDER BY 1, 2"
        ).fetchall()
        return rows

    def _hours(self, *folders: Path) -> list[Row]:
        with suppress(duckdb.IOException):  # no file: nothing was written
            rows: list[Row] = duckdb.execute(
                "SELECT carrier, epoch(window_start), flights, round(delay, 9) "
                f"FROM read_parquet({[f'{folder}/*.parquet' for folder in folders if any(folder.glob('*.parquet'))]}) "
                "ORDER BY 1, 2"
            ).fetchall()
            return rows
        return []

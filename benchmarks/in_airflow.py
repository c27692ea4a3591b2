"""Small runs in a real Airflow: with the default settings, without warm runners, and by hand with SparkSubmitOperator.

``python -m benchmarks.in_airflow --work DIR [--days 30]``. Two Airflows run one after the other, with warm runners as
they are by default and without. In each the flights Dag of the demo and a Dag of as many empty tasks run three times in
turn, and the days of the small daily application (:mod:`benchmarks.daily`) are backfilled two at a time; the first one
does the same as one task and by hand, too, and runs days of one empty task. Seconds of runs are those between the start
of the first Dag run and the end of the last, those of tasks between start and end of a task; CPU seconds are those of
all processes of the Airflow.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
import time
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from pathlib import Path

import psutil

from benchmarks.arguments import made_folder
from benchmarks.daily import write_day
from benchmarks.machine import describe_load, describe_machine
from benchmarks.warm import Processor, end_warm_runners
from demo.flights_data import prepare
from demo.local_airflow import LocalAirflow

ROOT = Path(__file__).resolve().parents[1]
FIRST = date(2026, 1, 1)
GROUP, ONE_TASK, BY_HAND, NOTHING = "daily_group", "daily_one_task", "daily_by_hand", "daily_nothing"
RUNS = 3
WAYS = {"by default": {}, "warm runners off": {"AIRFLOW__SAMZA__WARM_RUNNERS": "off"}}


@dataclass(frozen=True)
class Backfill:
    """A backfill: seconds from its first start to its last end, CPU seconds of Airflow and all that it started."""

    what: str
    days: int
    seconds: float
    cpu: float


@dataclass(frozen=True)
class Runs:
    """Seconds of the runs of each Dag, and of each task of each run."""

    seconds: dict[str, list[float]]
    tasks: dict[str, list[dict[str, float]]]


class Measured:
    """An Airflow with a folder of its own, in which Dags are run and timed."""

    def __init__(self, work: Path, settings: dict[str, str]) -> None:
        self.work = Path(tempfile.mkdtemp(dir=work))
        for name in ("root", "data", "results", "warehouse", "t"):
            (self.work / name).mkdir(parents=True)
        prepare(self.work / "data")
        temporary = self.work / "t"
        self._processor = Processor(temporary)
        folders = {"lake": "data", "flights_data": "data", "results": "results", "flights_warehouse": "warehouse"}
        self.airflow = LocalAirflow(
            self.work / "home",
            dags={"examples": ROOT / "dags", "benchmarks": Path(__file__).with_name("in_airflow_dags")},
            env={
                "TMPDIR": str(temporary),
                "PYTHONPATH": str(ROOT),
                "BENCHMARK_WORK": str(self.work),
                "BENCHMARK_SCRIPT": str(Path(__file__).with_name("daily.py")),
                **settings,
            },
            connections={
                "samza_default": json.dumps({"conn_type": "samza", "extra": {"root": str(self.work / "root")}}),
                "spark_by_hand": json.dumps({"conn_type": "spark", "host": "local[2]"}),
                **{
                    name: json.dumps({"conn_type": "fs", "extra": {"path": str(self.work / folder)}})
                    for name, folder in folders.items()
                },
            },
        )

    def runs(self) -> Runs:
        """Run the Dag of the demo and the one of empty tasks a few times in turn."""
        seconds: dict[str, list[float]] = {"flights": [], "empty": []}
        tasks: dict[str, list[dict[str, float]]] = {"flights": [], "empty": []}
        for _ in range(RUNS):
            for dag_id in seconds:
                run_id = self.airflow.trigger(dag_id)
                run = self.airflow.wait_for_run(dag_id, run_id, timeout=1200)
                if run["state"] != "success":
                    raise SystemExit(f"The run {run_id} of {dag_id} ended as {run['state']}.")
                seconds[dag_id].append(_seconds([run]))
                instances = self.airflow.tasks(dag_id, run_id)
                tasks[dag_id].append({task["task_id"].rpartition(".")[2]: _seconds([task]) for task in instances})
        return Runs(seconds, tasks)

    def backfill(self, dag_id: str, what: str, days: int) -> Backfill:
        """Run a Dag for each day, two days at a time."""
        dates = [FIRST + timedelta(days=number) for number in range(days)]
        for day in dates:
            write_day(self.work / "data", str(day))
        self.airflow.wait_for_dag(dag_id)
        before = self._processor.seconds
        self.airflow.backfill(dag_id, str(dates[0]), str(dates[-1]), "--max-active-runs", "2")
        found = [run for run in self.airflow.runs(dag_id) if run["run_type"] == "backfill"]  # one more is scheduled
        ids = [run["dag_run_id"] for run in found]
        runs = [self.airflow.wait_for_run(dag_id, run_id, timeout=3600) for run_id in ids]
        if {run["state"] for run in runs} != {"success"} or len(runs) != days:
            raise SystemExit(f"The runs of {dag_id} ended as {[run['state'] for run in runs]}.")
        return Backfill(what, days, _seconds(runs), self._processor.seconds - before)


def _seconds(runs: list[dict[str, str]]) -> float:
    starts = [datetime.fromisoformat(run["start_date"]) for run in runs]
    return (max(datetime.fromisoformat(run["end_date"]) for run in runs) - min(starts)).total_seconds()


def measure(work: Path, days: int) -> tuple[dict[str, Runs], list[Backfill]]:
    """Measure in both Airflows."""
    runs, backfills = {}, []
    for name, settings in WAYS.items():
        measured = Measured(work, settings)
        with measured.airflow:
            runs[name] = measured.runs()
            print(json.dumps({name: vars(runs[name])}), flush=True)
            kinds = [(GROUP, name)]
            if not settings:
                kinds += [
                    (ONE_TASK, "the whole application as one task"),
                    (BY_HAND, "SparkSubmitOperator, by hand"),
                    (NOTHING, "one empty task"),
                ]
            for dag_id, what in kinds:
                backfills.append(measured.backfill(dag_id, what, days))
                print(json.dumps(vars(backfills[-1])), flush=True)
        end_warm_runners(measured.work / "t")
    return runs, backfills


def main() -> None:
    """Measure, and print two tables."""
    parser = argparse.ArgumentParser(description="Small runs in a real Airflow: cold, warm, and by hand.")
    parser.add_argument("--work", required=True, type=made_folder)
    parser.add_argument("--days", type=int, default=30)
    arguments = parser.parse_args()
    before, began = psutil.getloadavg()[0], time.monotonic()
    work = Path(tempfile.mkdtemp(prefix="a", dir=arguments.work)).resolve()
    try:
        runs, backfills = measure(work, arguments.days)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    load = describe_load(before, psutil.getloadavg()[0])
    print(f"Measured on {describe_machine(2)}{load}, in {time.monotonic() - began:.0f} s.\n")
    print("| seconds of a Dag run | first | second | third |\n|---|---:|---:|---:|")
    for name, of_way in runs.items():
        for dag_id, seconds in of_way.seconds.items():
            print(f"| {dag_id}, {name} | {' | '.join(f'{second:.1f}' for second in seconds)} |")
    print("\n| seconds of a task, by default | first | second | third |\n|---|---:|---:|---:|")
    for dag_id, of_runs in runs["by default"].tasks.items():
        for task in of_runs[0]:
            print(f"| {dag_id}: {task} | {' | '.join(f'{tasks[task]:.2f}' for tasks in of_runs)} |")
    print(f"\n| {arguments.days} days, two at a time | seconds | CPU seconds |\n|---|---:|---:|")
    for backfill in backfills:
        print(f"| {backfill.what} | {backfill.seconds:.0f} | {backfill.cpu:.0f} |")


if __name__ == "__main__":
    main()

"""Small runs on the command line: with a Spark of their own, with a warm runner, and by hand with spark-submit.

``python -m benchmarks.warm --work DIR [--days 5]``. Every day is a process of its own, as a Dag run would be; the three
kinds take turns. CPU seconds are those of all processes that a kind has started, Java and Python workers included.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from airflow_samza.launch.drivers.spark_submit import find_spark_submit
from benchmarks.arguments import made_folder
from benchmarks.daily import APPLICATION, write_day
from benchmarks.machine import describe_load, describe_machine

COLD, WARM, HAND = "airflow-samza run, cold", "airflow-samza run, warm", "spark-submit, by hand"


class Processor:
    """The processor time of all processes whose TMPDIR is a folder, those that have ended by then included."""

    def __init__(self, folder: Path) -> None:
        self._folder = str(folder)
        self._used: dict[tuple[int, float], float] = {}
        self._ours: dict[int, bool] = {}
        self._over = threading.Event()
        threading.Thread(target=self._sample, daemon=True).start()

    @property
    def seconds(self) -> float:
        """Processor seconds that they have used so far."""
        self._look()
        return sum(self._used.values())

    def _sample(self) -> None:
        while not self._over.wait(0.1):
            self._look()

    def _look(self) -> None:
        for pid in psutil.pids():
            if self._ours.get(pid) is False:
                continue
            with suppress(psutil.Error):
                process = psutil.Process(pid)
                if pid not in self._ours:
                    self._ours[pid] = process.environ().get("TMPDIR") == self._folder
                if self._ours[pid]:
                    used = process.cpu_times()
                    self._used[pid, process.create_time()] = used.user + used.system


@dataclass(frozen=True)
class Day:
    """One day of one kind."""

    kind: str
    seconds: float
    cpu: float


class Days:
    """The runs of all kinds, under one folder."""

    def __init__(self, work: Path) -> None:
        self.work = work
        self.temporary = {kind: work / f"t{number}" for number, kind in enumerate((COLD, WARM, HAND))}
        for folder in self.temporary.values():
            folder.mkdir()
        self._processors = {kind: Processor(folder) for kind, folder in self.temporary.items()}

    def run(self, kind: str, day: str) -> Day:
        """Run a day, and wait until its process has ended."""
        write_day(self.work / "data", day)
        environment = {**os.environ, "TMPDIR": str(self.temporary[kind])}
        environment["PYSPARK_PYTHON"] = sys.executable
        environment["AIRFLOW__SAMZA__WARM_RUNNERS"] = "1" if kind == WARM else "0"
        before, began = self._processors[kind].seconds, time.monotonic()
        done = subprocess.run(self._command(kind, day), env=environment, capture_output=True, text=True)
        seconds = time.monotonic() - began
        if done.returncode != 0:
            raise SystemExit(done.stderr[-3000:])
        return Day(kind, seconds, self._processors[kind].seconds - before)

    def _command(self, kind: str, day: str) -> list[str]:
        out = self.work / f"out-{'hand' if kind == HAND else kind[-4:]}"
        if kind == HAND:
            script = str(Path(__file__).with_name("daily.py"))
            return [find_spark_submit(""), "--master", "local[2]", script, day, str(self.work / "data"), str(out)]
        return [
            *(sys.executable, "-c", "from airflow_samza.cli import main; main()", "run", APPLICATION),
            *("--root", str(self.work / f"root-{kind[-4:]}"), "--master", "local[2]", "--config", f"day={day}"),
            *("--system", f"lake=files:{self.work / 'data'}", "--system", f"results=files:{out}"),
        ]

    def end(self) -> None:
        """End the warm runner."""
        end_warm_runners(self.temporary[WARM])


def end_warm_runners(temporary: Path) -> None:
    """End the warm runners below a folder for temporary files."""
    command = [sys.executable, "-c", "from airflow_samza.cli import main; main()", "warm", "end", "--now"]
    subprocess.run(command, env={**os.environ, "TMPDIR": str(temporary)}, check=True, capture_output=True)


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description="Small runs: cold, warm, and by hand.")
    parser.add_argument("--work", required=True, type=made_folder)
    parser.add_argument("--days", type=int, default=5)
    arguments = parser.parse_args()
    before = psutil.getloadavg()[0]
    work = Path(tempfile.mkdtemp(prefix="d", dir=arguments.work))
    days = Days(work)
    found: dict[str, list[Day]] = {COLD: [], WARM: [], HAND: []}
    try:
        started = days.run(WARM, "first")
        print(json.dumps({"the run that starts the warm runner": round(started.seconds, 2)}), flush=True)
        for number in range(arguments.days):
            for kind, runs in found.items():
                runs.append(days.run(kind, f"{number:03d}"))
                print(json.dumps({**vars(runs[-1]), "load": round(psutil.getloadavg()[0], 1)}), flush=True)
    finally:
        days.end()
        shutil.rmtree(work, ignore_errors=True)
    print(f"Measured on {describe_machine(2)}{describe_load(before, psutil.getloadavg()[0])}.\n")
    print("| | seconds a day, median (best) | CPU seconds a day, median |\n|---|---:|---:|")
    for kind, runs in found.items():
        seconds = [run.seconds for run in runs]
        cpu = statistics.median(run.cpu for run in runs)
        print(f"| {kind} | {statistics.median(seconds):.1f} ({min(seconds):.1f}) | {cpu:.1f} |")


if __name__ == "__main__":
    main()

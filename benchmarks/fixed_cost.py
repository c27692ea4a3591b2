"""Costs of a small run beyond its rows: four applications over 1,000 rows, by phase and by process.

``python -m benchmarks.fixed_cost --work DIR [--runs 10] [--cold 1] [--only aggregate]``. The runs of an application
take the same warm runner; ``--cold`` runs have a Spark of their own each. Seconds of phases are wall time, medians over
the runs; processor seconds are those of each kind of process. The first warm run starts the warm runner, and counts by
itself.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path

import psutil

from airflow_samza.launch.runtime import SparkRuntime
from airflow_samza.prepare.run_request import RunRequest
from airflow_samza.runs.records.run_plan import RunPlan
from airflow_samza.runs.stages.stage_state import StageHandle
from airflow_samza.systems.system import SystemBinding
from benchmarks.arguments import made_folder
from benchmarks.machine import describe_load, describe_machine
from benchmarks.warm import end_warm_runners

ROWS = 1000

_LOGGED = re.compile(r"^(\S+ \S+),(\d{3}) INFO (.*)$")


APPLICATIONS = {"map": "filtered", "aggregate": "aggregate", "stages": "stages", "table": "table"}


class Processors:
    """Processor seconds of all processes whose TMPDIR is a folder, by kind; those that have ended by then included."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._used: dict[tuple[int, float], float] = {}
        self._kinds: dict[tuple[int, float], str] = {}
        self._others: set[tuple[int, float]] = set()
        self._looking = threading.Lock()
        self._sampling = 0.0
        threading.Thread(target=self._sample, daemon=True).start()

    def used(self) -> dict[str, float]:
        """Return the seconds so far, by kind of process."""
        self._look()
        seconds: dict[str, float] = {}
        for process, used in self._used.items():
            seconds[self._kinds[process]] = seconds.get(self._kinds[process], 0.0) + used
        seconds["this process"] = time.process_time() - self._sampling
        return seconds

    def _sample(self) -> None:
        while True:
            self._look()
            time.sleep(0.05)

    def _look(self) -> None:
        with self._looking:
            began = time.thread_time()
            for pid in psutil.pids():
                if pid != os.getpid():
                    with suppress(psutil.Error):
                        self._note(psutil.Process(pid))
            self._sampling += time.thread_time() - began

    def _note(self, process: psutil.Process) -> None:
        identity = (process.pid, process.create_time())
        if identity in self._others:
            return
        if identity not in self._kinds:
            if process.environ().get("TMPDIR") != self._folder:
                self._others.add(identity)
                return
            self._kinds[identity] = _kind(process)
        elif self._kinds[identity] == "starting":
            self._kinds[identity] = _kind(process)
        used = process.cpu_times()
        self._used[identity] = used.user + used.system


def _kind(process: psutil.Process) -> str:
    words = process.cmdline()
    if process.name() == "java":
        return "Java"
    if any("worker_daemon" in word for word in words):
        parent = process.parent()
        is_worker = parent is not None and parent.name() != "java"
        return "workers" if is_worker else "daemon of workers"
    if any(word.endswith("warm.keeper") for word in words):
        parent = process.parent()
        above = parent.parent() if parent is not None else None
        if above is not None and any(word.endswith("warm.keeper") for word in above.cmdline()):
            return "driver"
        is_forker = parent is not None and any(word.endswith("warm.keeper") for word in parent.cmdline())
        return "forker" if is_forker else "keeper"
    if any(word.endswith("spark.runner") for word in words):
        return "driver"
    return "starting"


class Runs:
    """Runs of one application under a root of their own."""

    def __init__(self, work: Path, name: str, warm: str) -> None:
        root = work / f"root-{name}-{warm}"
        bindings = {
            "lake": SystemBinding("files", {"root": str(work / "lake")}),
            "results": SystemBinding("files", {"root": str(root / "results")}),
            "tables": SystemBinding("iceberg", {"root": str(root / "tables")}),
        }
        self._application = f"benchmarks.small_apps:{APPLICATIONS[name]}"
        self._root = root
        self._runtime = SparkRuntime(str(root), bindings, master="local[2]", warm_runners=warm)
        self._number = 0
        self.laps: dict[str, float] = {}

    def run(self) -> RunPlan:
        """Run it once; :attr:`laps` then has the seconds of its phases."""
        self._number += 1
        self.laps = {}
        request = RunRequest(self._application, f"run-{self._number}", config={"run": f"run-{self._number}"})
        with self._lap("all"):
            with self._lap("plan step"):
                run = self._runtime.prepare(request)
            for stage in run.plan.stages:
                with self._lap("submission, start of the runner"):
                    handle = self._runtime.submit(run, stage.stage_id)
                with self._lap("wait"):
                    self._runtime.wait(handle)
                with self._lap("finish"):
                    self._runtime.finish(handle)
                self._add_logged(handle)
            with self._lap("close"):
                self._runtime.close(run)
        return run

    def end(self, run: RunPlan) -> float:
        """Wait for the runner's end, which a person or Airflow does not; return the seconds."""
        began = time.monotonic()
        while self._runtime.live_runners(run):
            time.sleep(0.005)
        return time.monotonic() - began

    @contextmanager
    def _lap(self, name: str) -> Iterator[None]:
        began = time.monotonic()
        yield
        self.laps[name] = self.laps.get(name, 0.0) + time.monotonic() - began

    def _add_logged(self, handle: StageHandle) -> None:
        """Take from the runner's log and records when the stage was requested, begun and done."""
        folder = handle.folder.attempt(handle.attempt, "request")
        requested = json.loads((self._root / folder).read_text())["requested_at"]
        group = "started"
        moments: dict[str, float] = {}
        for log in self._root.glob(f"**/{handle.run_id}/**/*.log"):
            for line in log.read_text(errors="replace").splitlines():
                logged = _LOGGED.match(line)
                if logged is None or handle.stage_id not in line:
                    continue
                at = datetime.strptime(logged[1], "%Y-%m-%d %H:%M:%S").timestamp() + int(logged[2]) / 1000
                text = logged[3]
                if text.endswith(group):
                    moments["begun"] = at
                elif "the Spark job took" in text:
                    seconds = float(re.findall(r"took ([\d.]+) s", text)[0])
                    moments["job"], moments["job begun"] = at, at - seconds
                elif "succeeded after" in text:
                    moments["done"] = at
        if len(moments) == 4:
            for name, first, last in (
                ("  request → begun", requested, moments["begun"]),
                ("  begun → job", moments["begun"], moments["job begun"]),
                ("  job", moments["job begun"], moments["job"]),
                ("  job → done", moments["job"], moments["done"]),
                ("  done → seen", moments["done"], time.time()),
            ):
                self.laps[name] = self.laps.get(name, 0.0) + last - first


def measure(runs: Runs, processors: Processors) -> tuple[dict[str, float], Mapping[str, float]]:
    """Return the seconds of the phases of one run, and processor seconds by kind of process."""
    before = processors.used()
    run = runs.run()
    laps = {**runs.laps, "(end of the runner)": runs.end(run)}
    time.sleep(1.0)  # a warm runner cleans up
    return laps, {kind: used - before.get(kind, 0.0) for kind, used in processors.used().items()}


def report(name: str, measured: list[tuple[dict[str, float], Mapping[str, float]]]) -> None:
    """Print medians."""
    for what, place in (("seconds", 0), ("CPU seconds", 1)):
        kinds = list(dict.fromkeys(kind for one in measured for kind in one[place]))
        medians = {kind: statistics.median(one[place].get(kind, 0.0) for one in measured) for kind in kinds}
        total = statistics.median(sum(one[1].values()) for one in measured) if place else medians["all"]
        print(f"{name}, {what}: {total:.2f}")
        print("   ".join(f"{kind} {seconds:.3f}" for kind, seconds in medians.items() if seconds >= 0.0005), flush=True)


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description="The fixed cost of small runs.")
    parser.add_argument("--work", required=True, type=made_folder)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--cold", type=int, default=1)
    parser.add_argument("--only", nargs="+", choices=list(APPLICATIONS), default=list(APPLICATIONS))
    arguments = parser.parse_args()
    before = psutil.getloadavg()[0]
    work = Path(tempfile.mkdtemp(prefix="fixed-", dir=arguments.work))
    temporary = work / "t"
    temporary.mkdir()
    os.environ["TMPDIR"] = tempfile.tempdir = str(temporary)
    (work / "lake" / "numbers").mkdir(parents=True)
    rows = (json.dumps({"n": n, "kind": f"k{n % 7}"}) + "\n" for n in range(ROWS))
    (work / "lake" / "numbers" / "1.jsonl").write_text("".join(rows))
    processors = Processors(str(temporary))
    try:
        for name in arguments.only:
            colds = []
            for number in range(arguments.cold):
                place = work / f"cold-{number}"
                place.mkdir(exist_ok=True)
                if not (place / "lake").exists():
                    (place / "lake").symlink_to(work / "lake")
                colds.append(measure(Runs(place, name, "0"), processors))
            if colds:
                report(f"{name}, cold", colds)
            if arguments.runs:
                runs = Runs(work, name, "1")
                report(f"{name}, the run that starts the warm runner", [measure(runs, processors)])
                report(f"{name}, warm", [measure(runs, processors) for _ in range(arguments.runs)])
    finally:
        end_warm_runners(temporary)
        shutil.rmtree(work, ignore_errors=True)
    print(f"Measured on {describe_machine(2)}{describe_load(before, psutil.getloadavg()[0])}.", file=sys.stderr)


if __name__ == "__main__":
    main()

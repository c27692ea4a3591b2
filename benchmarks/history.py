"""Time that commands and the page take where thousands of runs lie under a root, and where a run has many stages.

``python -m benchmarks.history --work DIR [--runs 5000] [--stages 200] [--gone 100]``. A run is run without Spark by the
package itself, and its records are copied for the other runs, an hour apart. Commands are processes of their own, with
the start of Python; of a command that changes nothing the least of three times counts. The last figure is that of a
``gc`` which deletes the oldest ``--gone`` runs.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pyarrow as pa

from airflow_samza.launch.runtime import SparkRuntime
from airflow_samza.runs.progress.run_list import note_origin
from airflow_samza.runs.records.folders import RunFolder, replace, write_once
from airflow_samza.runs.records.names import Generation
from airflow_samza.runs.records.run_plan import RunPlan
from airflow_samza.runs.stages.stage_runners import (
    Claim,
    Heartbeat,
    RunnerEnd,
    RunnerFolder,
    RunnerPlace,
    StageRequest,
    enqueue,
)
from airflow_samza.runs.stages.stage_state import StageHandle
from airflow_samza.runs.upkeep.keep import Keep
from benchmarks.arguments import made_folder
from tests.support.runs_here import Here

HOUR = 3600.0
TIMES = 3
NEWEST = "run-99999"
ALL = 10**6
ROWS = pa.schema([("k", pa.string()), ("n", pa.int64())])
COMMAND = "import sys; from airflow_samza.cli import main; sys.exit(main())"

APPLICATION = """
from airflow_samza import stream_application

@stream_application("long-{stages}")
def long(app):
    found = app.input_stream("rows", system="log", schema="k string, n bigint", slice="checkpoint")
    for number in range({stages} - 1):
        found = found.partition_by("k", id=f"by-{{number:03}}").where("n >= 0", id=f"w-{{number:03}}")
    found.send_to(app.output_stream("out", system="log", partitions=2, key="k"))
"""


def with_runs(work: Path, runs: int, stages: int) -> Here:
    """Return a root with so many runs of an application that are over and slim, as a year of them leaves it."""
    here = Here(work / f"root-{stages}")
    (work / f"long_{stages}.py").write_text(APPLICATION.format(stages=stages), encoding="utf-8")
    for _ in range(runs):
        rows = pa.Table.from_pylist([{"k": f"k{n}", "n": n} for n in range(2)], ROWS)
        here.log.append("rows", rows, key=["k"], partitions=2)
    plan = here.plan(f"long_{stages}:long", NEWEST)
    files, folder = here.log.filesystem, RunFolder(plan.application, plan.run_id)
    note_origin(files, folder, {"dag_id": "d", "run_id": NEWEST, "task_id": "g.plan"})
    here.stages(plan)
    _note_runner(here, plan)
    here.runtime.close(plan, keep_seconds=-1.0)
    here.runtime.upkeep.sweep(plan.application, Keep(ALL, ALL))
    copy_run(here.root / folder.path, runs - 1)
    return here


def _note_runner(here: Here, plan: RunPlan) -> None:
    """Leave the records of the stage runner that would have run a run elsewhere."""
    files, runner = here.log.filesystem, RunnerFolder(RunFolder(plan.application, plan.run_id), "0" * 16, 1)
    now = time.time() - HOUR
    write_once(files, runner.claim, Claim("elsewhere", "elsewhere", 1, now, now, "python", "3.11.7"))
    for stage in plan.plan.stages:
        request = StageRequest(stage.stage_id, f"{plan.generation}.1", 1, now, runner=RunnerPlace("0" * 16, 1))
        enqueue(files, runner, request)
        handle = StageHandle(plan.application, plan.run_id, stage.stage_id, Generation(plan.generation, 1))
        write_once(files, handle.folder.attempt(1, "request"), request)
    replace(files, runner.heartbeat, Heartbeat(now, now))
    write_once(files, runner.closed, RunnerEnd("the run is over", now))
    files.put(runner.log, b"a line\n" * 100)


def copy_run(run: Path, copies: int) -> None:
    """Copy the records of a run, for runs that were over an hour after another before it."""
    texts = {path.relative_to(run): path.read_bytes() for path in run.rglob("*") if path.is_file()}
    times = {
        Path(name): key
        for name, key in (("closed.json", "at"), ("slimmed.json", "over"), ("origin.json", "at"))
        if Path(name) in texts
    }
    records = {path: json.loads(texts.pop(path)) for path in times}
    folders = {path.parent for path in (*texts, *times)}
    for number in range(copies):
        run_id = f"run-{number:05}"
        for folder in folders:
            (run.parent / run_id / folder).mkdir(parents=True, exist_ok=True)
        for path, text in texts.items():
            (run.parent / run_id / path).write_bytes(text.replace(run.name.encode(), run_id.encode()))
        for path, key in times.items():
            earlier = {**records[path], key: records[path][key] - (copies - number) * HOUR}
            (run.parent / run_id / path).write_text(json.dumps(earlier).replace(run.name, run_id), encoding="utf-8")


def commanded(*words: str) -> Callable[[], None]:
    """Return a command of this package, as a process of its own."""

    def ask() -> None:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        command = [sys.executable, "-c", COMMAND, *words]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment)

    return ask


def questions(here: Here, runs: int, stages: int) -> Iterator[tuple[str, Callable[[], object]]]:
    """Yield the questions, by name."""
    root = "--root", str(here.root)
    application, keep = f"long-{stages}", ("--keep-runs", str(ALL), "--keep-runs-days", str(ALL))
    numbers = iter(range(ALL))
    yield "version", commanded("--version")
    yield "plan of a run", lambda: here.plan(f"long_{stages}:long", f"next-{next(numbers)}")
    yield "runs list", commanded("runs", "list", *root)
    yield "status of a run", commanded("status", application, NEWEST, *root)
    yield "status of a run's id", commanded("status", NEWEST, *root)
    yield "status of an application", commanded("status", application, *root)
    yield "sweep at a run's end", lambda: here.runtime.upkeep.sweep(application, Keep(ALL, ALL))
    yield "gc --dry-run", commanded("gc", "--dry-run", *keep, *root)
    yield "gc", commanded("gc", *keep, *root)


def used_seconds() -> float:
    """Return the processor seconds of this process and of those that it has waited for."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def timed(name: str, ask: Callable[[], object], runtime: SparkRuntime, times: int = TIMES) -> None:
    """Ask, and print the least of the times."""
    took = []
    for _ in range(times):
        began, used = time.perf_counter(), used_seconds()
        answer = ask()
        took.append((time.perf_counter() - began, used_seconds() - used))
        if isinstance(answer, RunPlan):  # a planned run holds the state
            runtime.close(answer, keep_seconds=-1.0)
    least, used = min(took)
    load = psutil.getloadavg()[0]
    print(
        f"{name:<26} first {took[0][0]:6.2f} s, least {least:6.2f} s ({used:5.2f} s of CPU); load {load:.1f}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="What a long history costs.")
    parser.add_argument("--work", required=True, type=made_folder)
    parser.add_argument("--runs", type=int, default=5000, help="runs of four stages")
    parser.add_argument("--stages", type=int, default=200, help="stages of an application with ten runs")
    parser.add_argument("--gone", type=int, default=100, help="runs that the last gc deletes")
    parser.add_argument("--times", type=int, default=TIMES)
    parser.add_argument("--only", default="", help="only questions with this text in their names")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="history-", dir=arguments.work) as folder:
        sys.path.insert(0, folder)
        os.environ["AIRFLOW_HOME"] = f"{folder}/home"
        for runs, stages in ((arguments.runs, 4), (10, arguments.stages)):
            began = time.perf_counter()
            here = with_runs(Path(folder), runs, stages)
            took = time.perf_counter() - began
            print(f"{runs} runs of {stages} stages, written in {took:.0f} s", flush=True)
            for name, ask in questions(here, runs, stages):
                if arguments.only in name:
                    timed(name, ask, here.runtime, arguments.times)
            if arguments.only in "gc of old runs":
                kept = "--keep-runs", str(max(runs - arguments.gone, 1)), "--keep-runs-days", str(ALL)
                timed("gc of old runs", commanded("gc", *kept, "--root", str(here.root)), here.runtime, 1)


if __name__ == "__main__":
    main()

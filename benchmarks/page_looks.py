"""Time that the page's questions take about a run of 200 stages and 2,048 partitions, of which ten are at work.

``python -m benchmarks.page_looks [--stages 200] [--partitions 2048]`` writes the records itself: no data is read, and
nothing runs.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any, cast

AT_WORK, TIMES = 10, 5


def application(stages: int, partitions: int) -> str:
    """Return the source of the application."""
    return f"""
from airflow_samza import stream_application

@stream_application("long")
def long(app):
    found = app.input_stream("rows", system="log", schema="k string, n bigint", partitions={partitions}, bounded=True)
    for number in range({stages - 1}):
        found = found.partition_by("k", id=f"by-{{number:03}}").where("n >= 0", id=f"w-{{number:03}}")
    found.send_to(app.output_stream("out", system="log", partitions={partitions}, key="k"))
"""


def main() -> None:
    """Write the records, ask, and print milliseconds of the processor."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--partitions", type=int, default=2048)
    parser.add_argument("--stages", type=int, default=200)
    asked = parser.parse_args()
    stages, partitions = asked.stages, asked.partitions
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        os.environ["AIRFLOW_HOME"] = str(place / "home")
        (place / "long_app.py").write_text(application(stages, partitions), encoding="utf-8")
        sys.path.insert(0, folder)
        extra = {"conn_type": "samza", "extra": {"root": str(place / "root")}}
        os.environ["AIRFLOW_CONN_SAMZA_PAGE"] = json.dumps(extra)
        _measure(place / "root", partitions)


def _measure(root: Path, partitions: int) -> None:
    from fastapi.testclient import TestClient

    from airflow_samza.provider.page import looks, rights
    from airflow_samza.provider.page.airflow_records import Planned, TaskMark, airflow_records
    from airflow_samza.provider.page.app import make_app
    from airflow_samza.provider.xcoms import PlanNote
    from tests.support.page_here import KnownToAirflow

    run, ended = _records(root, partitions)
    tasks = {stage.stage_id: f"g.{stage.stage_id}" for stage in run.plan.stages}
    note = PlanNote(run.application, run.run_id, 1, "", "samza_page", time.time(), run.mode, "g", {}, tasks)
    marks = {
        task: TaskMark("success" if stage_id in ended else "running", 1, 0, 1.0) for stage_id, task in tasks.items()
    }
    planned = [Planned("d", "r", "g.plan", -1, note)]
    known = KnownToAirflow(plans=planned, dag_runs={("d", "r")}, marks=marks)
    app = make_app()
    for right in (rights.may_read_run, rights.may_read_logs, rights.may_read_rows):
        app.dependency_overrides[right] = lambda: None
    for readable in (rights.readable_dags, rights.readable_logs):
        app.dependency_overrides[readable] = lambda: lambda dag_id: True
    app.dependency_overrides[airflow_records] = lambda: cast(Any, known)
    logging.getLogger("httpx2").setLevel(logging.WARNING)
    looks.SHARED_SECONDS = 0.0  # each look is one of its own
    client = TestClient(app)
    base = "/api/dags/d/runs/r"
    plan = f"{base}/plans/g.plan/-1"
    last = run.plan.stages[-1]
    part = f"{plan}/stages/{last.stage_id}/inputs/{last.inputs[0]}/partitions"
    for name, path in {
        "applications": f"{base}/applications",
        "plan": f"{plan}/plan",
        "progress": f"{plan}/progress",
        "partitions": f"{part}?limit=100&order=lag",
        "outputs": f"{plan}/outputs",
        "bad-records": f"{plan}/bad-records",
        "failures": f"{plan}/failures",
        "clear": f"{plan}/clear?task_id={tasks[run.plan.stages[0].stage_id]}&downstream=true",
    }.items():
        size = 0
        firsts: list[float] = []
        laters: list[float] = []
        for _ in range(TIMES):
            looks.LOOKS._runs.clear()
            for took in (firsts, laters):
                since = time.process_time()  # the root is a disk: all there is to wait for is the processor
                answer = client.get(path)
                took.append((time.process_time() - since) * 1000)
                size = len(answer.content)
                assert answer.status_code == 200, answer.text
        print(f"{name:<14} first {median(firsts):8.0f} ms   then {median(laters):8.0f} ms   {size:>9,} bytes")


def _records(root: Path, partitions: int) -> tuple[Any, set[str]]:
    """Write a plan, and the records of stages: results of most, manifests of the last ones, half of them."""
    from airflow_samza.records import encode
    from airflow_samza.runs.progress.run_list import note_origin
    from airflow_samza.runs.records.epoch_records import InputIntent, Intent, Manifest, Staged
    from airflow_samza.runs.records.folders import RunFolder
    from airflow_samza.runs.records.names import Generation
    from airflow_samza.runs.records.stage_result import InputResult, OutputResult, StageResult
    from airflow_samza.systems.filesystems.opening import open_filesystem
    from tests.support.runs_here import Here

    here = Here(root)
    here.log.make("rows", partitions, "k string, n bigint")
    run = here.plan("long_app:long", "run", config={"job.intermediate.stream.partitions": str(partitions)})
    files, folder = open_filesystem(str(root)), RunFolder(run.application, run.run_id)
    note_origin(files, folder, {"dag_id": "d", "run_id": "r", "task_id": "g.plan"})
    ended = {stage.stage_id for stage in run.plan.stages[:-AT_WORK]}
    for stage in run.plan.stages:
        place = folder.stage(stage.stage_id, Generation(1, 1))
        (read,), (written,) = stage.inputs, stage.outputs
        if stage.stage_id in ended:
            inputs = (InputResult(read, "log", read, partitions, 10**6, partitions**2, 10**7),)
            outputs = (OutputResult(written, "log", written, partitions, 10**6, partitions**2, 10**7, own=True),)
            counts = (partitions, 60.0, 6000.0, inputs, outputs)
            result = StageResult(run.application, run.run_id, stage.stage_id, "1.1", *counts)
            files.put(place.result, encode(result))
            continue
        slice_ = {"kind": "log", "offsets": [[0, 1000]] * partitions}
        intent = Intent(stage.stage_id, "1.1", 0, partitions, {read: InputIntent(read, slice_)}, {written: written})
        files.put(place.intent(0), encode(intent))
        for task in range(0, partitions, 2):
            counts_ = {read: {"messages": 500, "control": 1, "bytes": 5000}}
            report = {"inputs": {read: {"next_offsets": {str(task): 1000}}}}
            manifest = Manifest(task, 0, "a", 1.0, counts_, {written: Staged({"rows": 500}, 500)}, report=report)
            target = Path(files.location(place.manifest(0, task)))
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(encode(manifest))
    return run, ended


if __name__ == "__main__":
    main()

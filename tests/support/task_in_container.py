"""A task of Airflow in a container: ``python -m tests.support.task_in_container ROOT RUN STAGES GENERATION OWN``.

It runs stages (with commas between them) of the application of :mod:`tests.support.looping`, whose module lies in the
environment's ``APPLICATIONS``, on a stage runner without a Spark. ``OWN`` is ``own`` where the runner is the task's own, else
``shared``. With ``close`` as the stage it ends the run, as the task ``cleanup`` does.
"""

from __future__ import annotations

import os
import sys

from airflow_samza.launch import launcher, own_process
from airflow_samza.launch.runtime import SparkRuntime
from airflow_samza.runs.records import liveness
from airflow_samza.runs.stages import stage_runners
from tests.support import runner_without_spark

APPLICATIONS = "APPLICATIONS"


def main(arguments: list[str]) -> int:
    """Run the task."""
    root, run_id, stages, generation, own = arguments
    sys.path.insert(0, os.environ[APPLICATIONS])
    own_process.RUNNER_MODULE = runner_without_spark.__name__
    launcher.check_place = lambda master, submit, python="": None
    stage_runners.ATTACH_SECONDS = 2.0
    runtime = SparkRuntime(root, owner=f"{liveness.place()}/{os.getpid()}" if own == "own" else "")
    run = runtime.load_plan("looping", run_id)
    if stages == "close":
        runtime.close(run)
        return 0
    for stage in stages.split(","):
        handle = runtime.submit(run, stage, int(generation))
        print(f"process {os.getpid()} submitted attempt {handle.attempt}", flush=True)
        runtime.wait(handle, timeout=200)
        runtime.finish(handle)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Runs stages in this process, which may be told to die, through the engine that needs no Spark.

``python -m tests.support.without_spark ROOT APPLICATION RUN GENERATION STAGE…`` runs the stages one after the other, or
at the same time where the run's mode says so. A stage that fails is written to standard error, and the exit code is 1.
``… serve`` takes such lists of arguments as JSON lines, each with the environment's further variables, and runs each in
a fork of its own: a fresh process costs a second of imports, a fork nothing.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import threading
from collections.abc import Mapping

from airflow_samza.engine.stage_run import run_stage as run_attempt
from airflow_samza.errors import SamzaError
from airflow_samza.launch.runtime import SparkRuntime
from airflow_samza.prepare.bound_systems import run_bindings
from airflow_samza.runs.records.names import Generation
from airflow_samza.runs.records.run_plan import RunPlan
from airflow_samza.runs.stages.stage_state import StageHandle
from airflow_samza.systems.filesystems.filesystem import TEMPORARY_PREFIX
from airflow_samza.systems.filesystems.opening import open_filesystem
from airflow_samza.systems.system import SystemBinding
from tests.support.local_engine import LocalEngine
from tests.support.stand_ins import Attempt


def run_stage(
    runtime: SparkRuntime,
    run: RunPlan,
    stage_id: str,
    generation: int,
    systems: Mapping[str, SystemBinding],
    attempt: Attempt | None = None,
) -> Attempt:
    """Runs an attempt at a stage to its end."""
    files = open_filesystem(runtime.root)
    if attempt is None:
        handle = StageHandle(run.application, run.run_id, stage_id, Generation(run.generation, generation), 1)
        attempt = Attempt(handle)
    files.put(f"{attempt.handle.folder.attempts}/{TEMPORARY_PREFIX}submitted", b"")  # as if it had been
    run_attempt(LocalEngine(), files, run_bindings(run.systems, systems), attempt, {})
    return attempt


def main(arguments: list[str]) -> int:
    """Runs the stages."""
    root, application, run_id, generation, *stages = arguments
    runtime = SparkRuntime(root)
    run = runtime.load_plan(application, run_id)
    failed: list[str] = []

    def attempt(stage_id: str) -> None:
        try:
            run_stage(runtime, run, stage_id, int(generation), {})
        except SamzaError as error:
            failed.append(f"{type(error).__name__}: {error}")

    if run.stages_run_concurrently:
        threads = [threading.Thread(target=attempt, args=(stage_id,)) for stage_id in stages]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    else:
        for stage_id in stages:
            attempt(stage_id)
    if failed:
        print("\n".join(failed), file=sys.stderr, flush=True)
    return 1 if failed else 0


def load_all() -> None:
    """Imports what a run needs, and what its libraries import late: a fork has it then."""
    for name in (
        "airflow_samza.engine.stage_loop",
        "airflow_samza.systems.log.system",
        "airflow_samza.testing",
        "pandas",
        "pyarrow.compute",
        "pyarrow.dataset",
        "sqlglot.dialects.spark",
        "sqlglot.optimizer.annotate_types",
    ):
        importlib.import_module(name)


def serve() -> None:
    """Runs what comes on standard input.

    Says the exit code of each when it has ended (less than 0: the signal that killed it).
    """
    load_all()
    for line in sys.stdin:
        arguments, variables = json.loads(line)
        child = os.fork()
        if child == 0:
            os.environ.update(variables)
            code = 2
            try:
                code = main(arguments)
            finally:
                os._exit(code)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    if sys.argv[1:] == ["serve"]:
        serve()
    else:
        sys.exit(main(sys.argv[1:]))

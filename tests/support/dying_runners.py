"""Stage runners that are forks of one process, which has everything imported, and may be told to die."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

from airflow_samza.runs.failpoints import VARIABLE
from airflow_samza.runs.records.run_plan import RunPlan
from tests.support.looping import Place


class Runners:
    """Starts runners that are forks of one process."""

    def __init__(self, folder: Path) -> None:
        path = os.pathsep.join([str(Path(__file__).parents[2]), str(folder)])
        command = [sys.executable, "-m", "tests.support.without_spark", "serve"]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": path}
        )
        self.environment: dict[str, str] = {}

    def start(self, place: Place, run: RunPlan, die_at: str = "", generation: int = 1) -> None:
        """Starts all stages of a run; ``die_at`` as of a failpoint."""
        stages = [stage.stage_id for stage in run.plan.stages]
        arguments = [place.runtime.root, run.application, run.run_id, str(generation), *stages]
        self.start_stages(arguments, place.folder, die_at)

    def start_stages(self, arguments: list[str], folder: Path, die_at: str = "") -> None:
        """Starts stages with the arguments of :mod:`tests.support.without_spark`."""
        assert self._process.stdin is not None
        marker = folder / f"died-{time.monotonic_ns()}"
        dying = {VARIABLE: f"{die_at}@{marker}"} if die_at else {}
        self._process.stdin.write(json.dumps([arguments, {**self.environment, **dying}]) + "\n")
        self._process.stdin.flush()

    def wait(self) -> int:
        """The exit code of the runner; less than 0: it was killed."""
        assert self._process.stdout is not None
        return int(self._process.stdout.readline())

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(timeout=300)
        assert self._process.stdout is not None
        self._process.stdout.close()

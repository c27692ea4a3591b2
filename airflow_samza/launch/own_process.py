"""A stage runner that is a process of this machine: our own, or that of a warm runner."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager

from airflow_samza.errors import StageFailed
from airflow_samza.launch.log_lines import killed_by, most_informative_line
from airflow_samza.launch.programs import start_detached
from airflow_samza.launch.runner_python import OUR_FOLDER, environment_for, workers_path
from airflow_samza.launch.runner_settings import GAVE_WAY, RunnerSettings
from airflow_samza.launch.starts import Started, StartState
from airflow_samza.launch.warm.taking import LentProcess, take_warm
from airflow_samza.runs.records.folders import RunFolder
from airflow_samza.runs.stages.stage_runners import RunnerFolder
from airflow_samza.systems.filesystems.filesystem import Filesystem
from airflow_samza.systems.filesystems.local_copies import carry, scratch_path

logger = logging.getLogger("airflow_samza.launcher")

NOTHING_MORE: Mapping[str, str] = {}

RUNNER_MODULE = "airflow_samza.spark.runner"

# Importing our package and claiming a place takes a second; a machine under heavy load has been seen to take twenty.
CLAIM_TIMEOUT_SECONDS = 120.0

# After this long a runner that only had to be asked to end is ended.
LET_GO_SECONDS = 5.0


class OwnProcess(Started):
    """A process that becomes the runner; ``name`` calls it in sentences. ``log`` is what it prints, from the root."""

    def __init__(
        self,
        files: Filesystem,
        process: subprocess.Popen[bytes] | LentProcess,
        log: str,
        patience: float = CLAIM_TIMEOUT_SECONDS,
        name: str = "its process",
    ) -> None:
        self.patience = patience
        self.name = name
        self.log = log
        self._files = files
        self._process = process

    def state(self) -> StartState:
        """Return its state by its exit code."""
        exit_code = self._process.poll()
        if exit_code is None:
            return StartState()
        killed = killed_by(exit_code)
        how = f"was {killed}" if killed else f"ended with exit code {exit_code}"
        return StartState(ended=f"{self.name} {how}", gave_way=exit_code == GAVE_WAY)

    def claimed(self, runner: RunnerFolder) -> None:
        """Do nothing: the process goes on by itself."""

    def stop(self) -> None:
        """End the process."""
        self._process.terminate()
        try:
            self._process.wait(LET_GO_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()

    def failure(self, what: str, remedy: str = "") -> StageFailed:
        """Return the error with the most informative line of what it has printed."""
        carry(self._files, scratch_path(self._files, self.log), self.log)
        return StageFailed(
            f"The stage runner did not start: {what}.{last_line(lines_of(self._files, self.log))}",
            hint=f"Its log is {self._files.location(self.log)}",
            log=self.log,
        )


@contextmanager
def start_process(files: Filesystem, run: RunFolder, settings: RunnerSettings) -> Iterator[OwnProcess]:
    """Start a process of this machine, which gets its settings through a pipe, or take that of a warm runner."""
    log = f"{run.servers}/{settings.key}/starting-{uuid.uuid4().hex}.log"
    python = settings.python or sys.executable
    arguments = [settings.root, run.application, run.run_id, settings.key]
    handed = {**settings.to_json(), "starting_log": log, "output": scratch_path(files, log)}
    lent = None
    if settings.may_be_warm:
        try:
            lent = take_warm(settings, python, arguments, handed, runner_environment(settings.python))
        except OSError as error:  # a full disk of the host, for instance: the run can do without
            logger.warning("no warm runner is used: %s", error)
    if lent is not None:
        with closing(lent):
            yield OwnProcess(files, lent, log)
        return
    command = [python, "-m", RUNNER_MODULE, *arguments]
    yield OwnProcess(files, spawn(files, command, log, settings.python, given=handed), log)


def spawn(
    files: Filesystem,
    command: Sequence[str],
    log: str,
    python: str,
    more: Mapping[str, str] = NOTHING_MORE,
    given: Mapping[str, object] | None = None,
) -> subprocess.Popen[bytes]:
    """Start a process in the environment of a runner; ``log`` is where its output lies, from the root."""
    return start_detached(command, scratch_path(files, log), {**runner_environment(python), **more}, given)


def runner_environment(python: str) -> dict[str, str]:
    """Return the environment of the runner: ours on its path, wherever it was imported from.

    Its settings alone choose a Spark. Another Python (not empty) has libraries of its own, and this package among them.
    """
    kept = {**environment_for(python), "PYTHONUNBUFFERED": "1"}
    kept.setdefault("PYTHONHASHSEED", "0")  # as Spark gives it to its workers
    if python:
        return kept
    inherited = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    return {**kept, "PYTHONPATH": workers_path(OUR_FOLDER, inherited, same_python=True)}


def lines_of(files: Filesystem, path: str) -> list[str]:
    """Return the lines of a log under the root; none where it is not there."""
    try:
        return files.read(path).decode(errors="replace").strip().splitlines()
    except FileNotFoundError:
        return []


def last_line(lines: Sequence[str]) -> str:
    """Return the sentence about what a log says last; empty where it says nothing."""
    return f" Its last line: {most_informative_line(lines)}" if lines else ""

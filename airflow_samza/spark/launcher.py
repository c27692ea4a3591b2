"""Starts a stage runner as a process of its own, apart from the one that asks for it, and waits until it has taken its place."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from airflow_samza.errors import NotYet, StageFailed
from airflow_samza.runs.folders import RunFolder, read
from airflow_samza.runs.stage_runners import RunnerFolder, newest_runner
from airflow_samza.spark.bindings_json import bindings_to_json, without_secrets
from airflow_samza.spark.java import find_java
from airflow_samza.spark.masters import DEFAULT_MASTER, SubmitOptions, parse_master
from airflow_samza.spark.server import DEFAULT_IDLE_SECONDS, GAVE_WAY, POLL_SECONDS
from airflow_samza.systems.filesystem import Filesystem
from airflow_samza.systems.system import SystemBinding

# Importing our package and claiming a place takes a second; a machine under heavy load has been seen to take twenty.
CLAIM_TIMEOUT_SECONDS = 120.0


@dataclass(frozen=True)
class RunnerSettings:
    """What a runner is started with. Those who agree in everything but secrets and idle time share a runner."""

    root: str
    bindings: Mapping[str, SystemBinding]
    code: tuple[str, ...] = ()
    origins: Mapping[str, str] = field(default_factory=dict)
    archives: tuple[str, ...] = ()
    master: str = DEFAULT_MASTER
    submit: SubmitOptions = field(default_factory=SubmitOptions)
    conf: Mapping[str, str] = field(default_factory=dict)
    idle_seconds: float = DEFAULT_IDLE_SECONDS

    @property
    def key(self) -> str:
        """A digest of all that makes one runner differ from another; no secret goes into it."""
        shared: dict[str, Any] = {
            "bindings": without_secrets(self.bindings),
            "code": self.code,
            "archives": self.archives,
            "master": parse_master(self.master).shown,
            "submit": self.submit.to_json(),
            "conf": dict(self.conf),
        }
        return hashlib.sha256(json.dumps(shared, sort_keys=True).encode()).hexdigest()[:12]

    def to_json(self) -> dict[str, Any]:
        """What goes through the pipe to the runner: secrets included, so never into a file."""
        return {
            "bindings": bindings_to_json(self.bindings),
            "code": list(self.code),
            "origins": dict(self.origins),
            "archives": list(self.archives),
            "master": self.master,
            "conf": dict(self.conf),
            "idle_seconds": self.idle_seconds,
        }


def ensure_runner(files: Filesystem, run: RunFolder, settings: RunnerSettings) -> RunnerFolder:
    """A live runner for these settings: the one that is there, or a new one."""
    while True:
        runner = newest_runner(files, run, settings.key)
        if runner is not None and runner.accepts(files):
            return runner
        master = parse_master(settings.master)
        if not master.is_connect:
            find_java()  # said here, to the one who asks, instead of in the runner's log
        if master.is_submitted:
            raise NotYet(f"Runners for {master.shown} cannot be started yet.", hint="Use a local master.")
        _start(files, run, settings)


def _start(files: Filesystem, run: RunFolder, settings: RunnerSettings) -> None:
    """Starts a process and waits until it, or another, has taken the place."""
    before = newest_runner(files, run, settings.key)
    starting_log = f"{run.servers}/{settings.key}/starting-{uuid.uuid4().hex}.log"
    files.make_dirs(f"{run.servers}/{settings.key}")
    with open(files.location(starting_log), "wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "airflow_samza.spark.server", settings.root, run.application, run.run_id, settings.key],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # it lives on when the Airflow task, with its process group, is killed
            env=_environment(),
            cwd="/",
        )
    # Whoever starts a child must also take its exit code, or it stays behind as a zombie that looks alive.
    threading.Thread(target=process.wait, name="reap-stage-runner", daemon=True).start()
    assert process.stdin is not None
    try:
        with process.stdin as pipe:
            pipe.write(json.dumps({**settings.to_json(), "starting_log": starting_log}).encode())
    except BrokenPipeError:  # it died at once; its log says why
        pass
    deadline = time.monotonic() + CLAIM_TIMEOUT_SECONDS
    while time.monotonic() < deadline:
        exit_code = process.poll()
        latest = newest_runner(files, run, settings.key)
        if latest is not None and latest != before and read(files, latest.claim) is not None:
            return
        if exit_code == GAVE_WAY:
            return
        if exit_code is not None:
            raise _did_not_start(files, starting_log, f"ended with exit code {exit_code}")
        time.sleep(POLL_SECONDS)
    process.kill()
    raise _did_not_start(files, starting_log, f"did not report within {CLAIM_TIMEOUT_SECONDS:.0f} s")


def _environment() -> dict[str, str]:
    """The environment of the runner: ours on its path, wherever it was imported from."""
    package = str(Path(__file__).resolve().parents[2])
    paths: Sequence[str] = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path and path != package]
    return {**os.environ, "PYTHONPATH": os.pathsep.join([package, *paths]), "PYTHONUNBUFFERED": "1"}


def _did_not_start(files: Filesystem, starting_log: str, what: str) -> StageFailed:
    try:
        lines = files.read(starting_log).decode(errors="replace").strip().splitlines()
    except FileNotFoundError:
        lines = []
    last = f" Its last line: {lines[-1]}" if lines else ""
    return StageFailed(
        f"The stage runner {what}.{last}", hint=f"Its log is {files.location(starting_log)}", log=files.location(starting_log)
    )

"""Start of a stage runner (the driver process), detached from the process that needs it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from airflow_samza.errors import ConfigError, StageFailed
from airflow_samza.launch.handover import leave_settings, withdraw_settings
from airflow_samza.launch.java import find_java
from airflow_samza.launch.log_lines import most_informative_line
from airflow_samza.launch.masters import CHOOSES_A_SPARK, YARN, Master, SubmitOptions, parse_master
from airflow_samza.launch.runner_settings import GAVE_WAY, POLL_SECONDS, RunnerSettings
from airflow_samza.launch.spark_submit import (
    check_hadoop_conf,
    find_spark_submit,
    properties_text,
    reach_master,
    submit_command,
)
from airflow_samza.runs.records.folders import RunFolder
from airflow_samza.runs.stages.stage_runners import RunnerFolder, newest_runner
from airflow_samza.systems.filesystems.filesystem import Filesystem
from airflow_samza.systems.filesystems.local_copies import carry, local_copy, scratch_path

RUNNER_MODULE = "airflow_samza.spark.runner"

# Importing our package and claiming a place takes a second; a machine under heavy load has been seen to take twenty.
CLAIM_TIMEOUT_SECONDS = 120.0

# After this long a runner that only had to be asked to end is ended.
LET_GO_SECONDS = 5.0


def ensure_runner(files: Filesystem, run: RunFolder, settings: RunnerSettings) -> RunnerFolder:
    """Return a live runner for these settings: the one that is there, or a new one."""
    while True:
        runner = newest_runner(files, run, settings.key)
        if runner is not None and not files.exists(runner.closed):
            if runner.gives_sign(files):
                return runner
            runner.give_up(files)
        check_root(files, settings.submit)
        check_place(
            parse_master(settings.master), settings.submit
        )  # raised here, to the caller, instead of in the runner's log
        start_runner(files, run, settings)


def start_runner(files: Filesystem, run: RunFolder, settings: RunnerSettings) -> None:
    """Start a runner and wait until it, or another that was quicker, has claimed the place."""
    before = newest_runner(files, run, settings.key)
    files.make_dirs(f"{run.servers}/{settings.key}")
    start = _submit if parse_master(settings.master).is_submitted else _start
    _await_claim(files, run, settings, before, start(files, run, settings))


def check_root(files: Filesystem, submit: SubmitOptions) -> None:
    """Reject a driver on a host that could not be handed anything.

    Its settings hold secrets, and are in files of their owner.
    """
    if submit.in_cluster and files.local_path("") is None:
        raise ConfigError(
            f"The deploy mode cluster needs a root that the driver's host has as a folder, and {files.root} is none.",
            hint="Use the deploy mode client, or a root on a share that is mounted on all hosts.",
            key="deploy_mode",
            value=submit.deploy_mode,
        )


def check_place(master: Master, submit: SubmitOptions) -> None:
    """Reject what would fail later and less clearly.

    No Java, no spark-submit, a cluster that is not named or does not answer.
    """
    if not master.is_connect:
        find_java()
    if master.is_submitted:
        find_spark_submit(submit.binary)
    if master.cluster == YARN:
        check_hadoop_conf()
    reach_master(master)


@dataclass
class _Started:
    """A process that becomes the runner, or has the cluster start it. ``log`` is what it prints, from the root."""

    process: subprocess.Popen[bytes]
    log: str
    patience: float
    in_cluster: bool = False
    name: str = "its process"
    only_for_the_start: list[str] = field(default_factory=list)
    """Files, by whole path, that are of no use once the runner is there; the hand-over is the first."""


def _start(files: Filesystem, run: RunFolder, settings: RunnerSettings) -> _Started:
    """Return a process of this machine, which gets its settings through a pipe."""
    log = f"{run.servers}/{settings.key}/starting-{uuid.uuid4().hex}.log"
    command = [sys.executable, "-m", RUNNER_MODULE, settings.root, run.application, run.run_id, settings.key]
    process = _spawn(files, command, log, subprocess.PIPE)
    assert process.stdin is not None
    try:
        with process.stdin as pipe:
            pipe.write(
                json.dumps({**settings.to_json(), "starting_log": log, "output": scratch_path(files, log)}).encode()
            )
    except BrokenPipeError:  # it died at once; its log has the reason
        pass
    return _Started(process, log, CLAIM_TIMEOUT_SECONDS)


def _submit(files: Filesystem, run: RunFolder, settings: RunnerSettings) -> _Started:
    """Return a spark-submit, which starts the driver here or in the cluster."""
    master, submit = parse_master(settings.master), settings.submit
    place, once = f"{run.servers}/{settings.key}", uuid.uuid4().hex
    log = f"{place}/{'submitting' if submit.in_cluster else 'starting'}-{once}.log"
    driver_log = f"{place}/starting-{once}.log"
    driver, jar = f"{run.code}/driver.py", f"{run.code}/nothing.jar"
    files.put(driver, (Path(__file__).parents[1] / "spark/driver_program.py").read_bytes())
    files.put(jar, _EMPTY_ZIP)
    handed = {**settings.to_json(), "starting_log": driver_log, "output": scratch_path(files, driver_log)}
    if submit.in_cluster:
        handed["driver_log"] = files.location(driver_log)
    handover, properties = (
        scratch_path(files, f"{place}/handover-{once}.json"),
        scratch_path(files, f"{place}/spark-{once}.conf"),
    )
    leave_settings(handover, json.dumps(handed).encode())
    leave_settings(properties, properties_text(settings.conf).encode())
    command = submit_command(
        master,
        submit,
        name=f"airflow_samza {run.application} {run.run_id}",
        properties=properties,
        jar=local_copy(files, jar),
        driver=local_copy(files, driver),
        arguments=[
            local_copy(files, settings.package),
            handover,
            settings.root,
            run.application,
            run.run_id,
            settings.key,
        ],
    )
    process = _spawn(files, command, log, subprocess.DEVNULL)
    return _Started(process, log, submit.start_seconds, submit.in_cluster, "spark-submit", [handover, properties])


def _spawn(files: Filesystem, command: Sequence[str], log: str, stdin: int) -> subprocess.Popen[bytes]:
    with open(scratch_path(files, log), "wb") as output:
        process = subprocess.Popen(
            command,
            stdin=stdin,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # it lives on when the Airflow task, with its process group, is killed
            env=_environment(),
            cwd="/",
        )
    # Whoever starts a child must also take its exit code, or it stays behind as a zombie that looks alive.
    threading.Thread(target=process.wait, name="reap-stage-runner", daemon=True).start()
    return process


def _await_claim(
    files: Filesystem, run: RunFolder, settings: RunnerSettings, before: RunnerFolder | None, started: _Started
) -> None:
    """Wait until the runner, or another, has claimed the place."""
    deadline = time.monotonic() + started.patience
    here = False
    try:
        while time.monotonic() < deadline:
            exit_code = started.process.poll()
            latest = newest_runner(files, run, settings.key)
            if latest is not None and latest != before and files.exists(latest.claim):
                here = True
                if started.in_cluster:
                    files.rename(started.log, f"{latest.path}/spark-submit.log")
                return
            if exit_code == GAVE_WAY:
                return
            if exit_code is not None and not (started.in_cluster and exit_code == 0):
                raise _did_not_start(
                    files, settings, started, f"{started.name} ended with exit code {exit_code}", _SHARED_ROOT
                )
            time.sleep(POLL_SECONDS)
        raise _did_not_start(
            files, settings, started, f"{started.patience:.0f} s were not enough", f"{_FULL_CLUSTER} {_SHARED_ROOT}"
        )
    finally:
        for path in started.only_for_the_start:
            withdraw_settings(path)
        if started.in_cluster or not here:
            _let_go(started.process)


def _let_go(process: subprocess.Popen[bytes]) -> None:
    """End a spark-submit whose driver has reported from the cluster, or a runner that never did."""
    process.terminate()
    try:
        process.wait(LET_GO_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()


def _environment() -> dict[str, str]:
    """Return the environment of the runner: ours on its path, wherever it was imported from.

    Its settings alone choose a Spark.
    """
    package = str(Path(__file__).resolve().parents[2])
    paths: Sequence[str] = [
        path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path and path != package
    ]
    kept = {name: value for name, value in os.environ.items() if name not in CHOOSES_A_SPARK}
    return {**kept, "PYTHONPATH": os.pathsep.join([package, *paths]), "PYTHONUNBUFFERED": "1"}


_EMPTY_ZIP = b"PK\x05\x06" + bytes(18)
_SHARED_ROOT = "Do all hosts of the cluster have this root, one shared folder, under this path?"
_FULL_CLUSTER = "A driver waits for room in a full cluster, and [samza] driver_start_timeout says how long it may."


def _did_not_start(files: Filesystem, settings: RunnerSettings, started: _Started, what: str, hint: str) -> StageFailed:
    carry(files, scratch_path(files, started.log), started.log)
    try:
        lines = files.read(started.log).decode(errors="replace").strip().splitlines()
    except FileNotFoundError:
        lines = []
    last = f" Its last line: {most_informative_line(lines)}" if lines else ""
    where = f"Its log is {files.location(started.log)}"
    if not started.in_cluster:
        return StageFailed(
            f"The stage runner did not start: {what}.{last}", hint=where, log=files.location(started.log)
        )
    master = parse_master(settings.master).shown
    return StageFailed(
        f"The driver that spark-submit started on {master} never reported under the root {settings.root}: "
        f"{what}.{last}",
        hint=f"{hint} {where}; the driver's own is in the cluster",
        log=files.location(started.log),
    )

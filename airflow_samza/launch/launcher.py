"""Start of a stage runner (the driver process), detached from the process that needs it."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from airflow_samza.errors import SamzaError, StageFailed
from airflow_samza.launch.driver_files import leave_driver
from airflow_samza.launch.handover import leave_settings, withdraw_settings
from airflow_samza.launch.java.installed_java import check_scratch, check_user, find_java
from airflow_samza.launch.log_lines import killed_by, most_informative_line
from airflow_samza.launch.masters import YARN, Master, SubmitOptions, open_doors, parse_master
from airflow_samza.launch.runner_python import KEY, check_pythons, checked_path, environment_for, find_environment
from airflow_samza.launch.runner_settings import GAVE_WAY, POLL_SECONDS, RunnerSettings
from airflow_samza.launch.spark_submit import (
    check_hadoop_conf,
    find_spark_submit,
    properties_text,
    reach_master,
    submit_command,
)
from airflow_samza.launch.spark_versions import check_installed
from airflow_samza.launch.warm.taking import LentProcess, start_ahead, take_warm
from airflow_samza.runs.records.folders import RunFolder, read_fixed
from airflow_samza.runs.stages.disk_room import SILENT_SECONDS, full_disk
from airflow_samza.runs.stages.stage_runners import DID_NOT_START, RunnerEnd, RunnerFolder, newest_runner
from airflow_samza.systems.filesystems.filesystem import Filesystem
from airflow_samza.systems.filesystems.local_copies import carry, scratch_path
from airflow_samza.systems.filesystems.pace import Looks

logger = logging.getLogger("airflow_samza.launcher")

NOTHING_MORE: Mapping[str, str] = {}

RUNNER_MODULE = "airflow_samza.spark.runner"

# Importing our package and claiming a place takes a second; a machine under heavy load has been seen to take twenty.
CLAIM_TIMEOUT_SECONDS = 120.0

# A driver that has ended had claimed its place before; the claim is seen as soon as the storage shows it.
CLAIM_SEEN_SECONDS = 5.0

# After this long a runner that only had to be asked to end is ended.
LET_GO_SECONDS = 5.0


def ensure_runner(files: Filesystem, run: RunFolder, settings: RunnerSettings) -> RunnerFolder:
    """Return a live runner for these settings: the one that is there, or a new one.

    Raises the error of a new one whose Spark does not come up.
    """
    former = runner = newest_runner(files, run, settings.key)
    while True:
        end = read_fixed(files, runner.closed, RunnerEnd) if runner is not None else None
        if runner is not None and end is None:
            if runner.gives_sign(files):
                return runner
            runner.give_up(files)
        if runner != former and end is not None and end.why == DID_NOT_START and end.error is not None:
            raise SamzaError.from_dict(dict(end.error))
        master = parse_master(settings.master)  # raised here, to the caller, instead of in the runner's log
        check_pythons(settings.python, master, settings.submit, settings.conf)
        check_place(master, settings.submit, settings.python)
        start_runner(files, run, settings)
        runner = newest_runner(files, run, settings.key)


def start_runner(files: Filesystem, run: RunFolder, settings: RunnerSettings) -> None:
    """Start a runner and wait until it, or another that was quicker, has claimed the place."""
    before = newest_runner(files, run, settings.key)
    files.make_dirs(f"{run.servers}/{settings.key}")
    start = _submit if parse_master(settings.master).is_submitted else _start
    _await_claim(files, run, settings, before, start(files, run, settings))


def start_spark_ahead(run_id: str, settings: RunnerSettings) -> None:
    """Start a warm runner where one may serve the run, which is about to be planned; what fails is reported later."""
    if settings.may_be_warm:
        try:
            python = settings.python or sys.executable
            start_ahead(settings, python, run_id, _environment(settings.python))
        except (OSError, SamzaError) as error:
            logger.debug("no warm runner is started ahead: %s", error)


def check_place(master: Master, submit: SubmitOptions, python: str = "") -> None:
    """Reject what would fail later and less clearly.

    No folder for temporary files, no Java, two versions of Spark, no spark-submit, a cluster that is not named or does
    not answer. ``python`` is that of the runner where it has an environment of its own, in which it looks for itself.
    """
    check_scratch()
    if not python:  # SPARK_HOME counts where pyspark starts Java: spark-submit has the pyspark of its own Spark
        check_installed(None if master.is_local else {})
    if not master.is_connect:
        check_user()
        find_java()
    if master.is_submitted:
        find_spark_submit(submit.binary)
    if master.cluster == YARN:
        check_hadoop_conf()
    reach_master(master)


@dataclass
class _Started:
    """A process that becomes the runner, or has the cluster start it. ``log`` is what it prints, from the root."""

    process: subprocess.Popen[bytes] | LentProcess
    log: str
    patience: float
    in_cluster: bool = False
    name: str = "its process"
    driver_log: str = ""
    """The path from the root of what a driver elsewhere prints."""
    withdraw: Callable[[], None] = lambda: None
    """Deletes what is of no use once the runner is there."""


def _start(files: Filesystem, run: RunFolder, settings: RunnerSettings) -> _Started:
    """Return a process of this machine, which gets its settings through a pipe, or from a warm runner."""
    log = f"{run.servers}/{settings.key}/starting-{uuid.uuid4().hex}.log"
    python = settings.python or sys.executable
    arguments = [settings.root, run.application, run.run_id, settings.key]
    handed = {**settings.to_json(), "starting_log": log, "output": scratch_path(files, log)}
    if settings.may_be_warm:
        lent = None
        try:
            lent = take_warm(settings, python, arguments, handed, _environment(settings.python))
        except OSError as error:  # a full disk of the host, for instance: the run can do without
            logger.warning("no warm runner is used: %s", error)
        if lent is not None:
            return _Started(lent, log, CLAIM_TIMEOUT_SECONDS)
    process = _spawn(files, [python, "-m", RUNNER_MODULE, *arguments], log, subprocess.PIPE, settings.python)
    assert process.stdin is not None
    try:
        with process.stdin as pipe:
            pipe.write(json.dumps(handed).encode())
    except BrokenPipeError:  # it died at once; its log has the reason
        pass
    return _Started(process, log, CLAIM_TIMEOUT_SECONDS)


def _submit(files: Filesystem, run: RunFolder, settings: RunnerSettings) -> _Started:
    """Return a spark-submit, which starts the driver here or in the cluster."""
    master, submit = parse_master(settings.master), settings.submit
    python = "" if submit.in_cluster else settings.python  # there it is a path of another host
    place, once = f"{run.servers}/{settings.key}", uuid.uuid4().hex
    driver = leave_driver(files, run, settings)
    log = f"{place}/submitting-{once}.log" if submit.in_cluster else driver.driver_log
    properties = scratch_path(files, f"{place}/spark-{once}.conf")
    leave_settings(properties, properties_text({**settings.conf, **driver.conf}).encode())

    def withdraw() -> None:
        driver.withdraw()
        withdraw_settings(properties)

    command = submit_command(
        master,
        submit,
        name=f"airflow_samza {run.application} {run.run_id}",
        properties=properties,
        jar=driver.jar,
        driver=driver.program,
        arguments=driver.arguments,
        pyspark=find_environment(python, KEY).spark_home if python else "",
    )
    process = _spawn(files, command, log, subprocess.DEVNULL, python, driver.environment)
    return _Started(process, log, submit.start_seconds, submit.in_cluster, "spark-submit", driver.driver_log, withdraw)


def _spawn(
    files: Filesystem,
    command: Sequence[str],
    log: str,
    stdin: int,
    python: str,
    more: Mapping[str, str] = NOTHING_MORE,
) -> subprocess.Popen[bytes]:
    with open(scratch_path(files, log), "wb") as output:
        process = subprocess.Popen(
            command,
            stdin=stdin,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # it lives on when the Airflow task, with its process group, is killed
            env={**_environment(python), **more},
            cwd="/",
        )
    # Whoever starts a child must also take its exit code, or it stays behind as a zombie that looks alive.
    threading.Thread(target=process.wait, name="reap-stage-runner", daemon=True).start()
    return process


def _await_claim(
    files: Filesystem, run: RunFolder, settings: RunnerSettings, before: RunnerFolder | None, started: _Started
) -> None:
    """Wait until the runner, or another, has claimed the place."""
    deadline, looks = time.monotonic() + started.patience, Looks(files.pace)
    latest = RunnerFolder(run, settings.key, before.number + 1 if before is not None else 1)
    here, looked = False, time.monotonic()
    ended_at: float | None = None
    try:
        while time.monotonic() < deadline:
            exit_code = started.process.poll()
            if files.exists(latest.claim):
                here = True
                if started.in_cluster:
                    _keep_log(files, started.log, f"{latest.path}/spark-submit.log")
                return
            if exit_code == GAVE_WAY:
                return
            if exit_code == 0 and started.in_cluster and ended_at is None:
                ended_at = time.monotonic()  # the driver has ended, too: spark-submit waits for it
            driver_is_over = ended_at is not None and time.monotonic() - ended_at > CLAIM_SEEN_SECONDS
            if driver_is_over and before is not None and before.accepts(files):
                return  # it gave way to one that had claimed its place just before
            if exit_code is not None and (driver_is_over or not (started.in_cluster and exit_code == 0)):
                killed = killed_by(exit_code)
                how = f"was {killed}" if killed else f"ended with exit code {exit_code}"
                what = "it has ended" if driver_is_over else f"{started.name} {how}"
                _reject_full_disk(files, started, what)
                raise _did_not_start(files, settings, started, what, _reach(files))
            if time.monotonic() - looked > SILENT_SECONDS:
                _reject_full_disk(files, started, "it has not reported")
                looked = time.monotonic()
            time.sleep(looks.pause(POLL_SECONDS))
        raise _did_not_start(
            files, settings, started, f"{started.patience:.0f} s were not enough", f"{_FULL_CLUSTER} {_reach(files)}"
        )
    finally:
        started.withdraw()
        if started.in_cluster or not here:
            _let_go(started.process)
        if isinstance(started.process, LentProcess):
            started.process.close()


def _reject_full_disk(files: Filesystem, started: _Started, what: str) -> None:
    """Reject a full disk, on which a stage runner can neither start nor say why."""
    full = full_disk(files, is_here=not started.in_cluster, why=f", and the stage runner did not start: {what}")
    if full is not None:
        raise full


def _let_go(process: subprocess.Popen[bytes] | LentProcess) -> None:
    """End a spark-submit whose driver has reported from the cluster, or a runner that never did."""
    process.terminate()
    try:
        process.wait(LET_GO_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()


def _environment(python: str) -> dict[str, str]:
    """Return the environment of the runner: ours on its path, wherever it was imported from.

    Its settings alone choose a Spark. Another Python (not empty) has libraries of its own, and this package among them.
    """
    kept = {**environment_for(python), "PYTHONUNBUFFERED": "1"}
    kept.setdefault("PYTHONHASHSEED", "0")  # as Spark gives it to its workers
    if python:
        return kept
    package = str(Path(__file__).resolve().parents[2])
    paths: Sequence[str] = [
        path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path and path != package
    ]
    return {**kept, "PYTHONPATH": os.pathsep.join([package, *paths])}


def _keep_log(files: Filesystem, log: str, path: str) -> None:
    """Keep what spark-submit has printed beside the runner's own log."""
    if files.local_path(log) is not None:
        files.rename(log, path)
        return
    written = scratch_path(files, log)
    carry(files, written, path)
    with suppress(FileNotFoundError):
        os.unlink(written)


_SHARED_ROOT = "Do all hosts of the cluster have this root, one shared folder, under this path?"
_REACHED_ROOT = "Can the driver's host reach this root, and has its Python what this package needs?"
_FULL_CLUSTER = "A driver waits for room in a full cluster, and [samza] driver_start_timeout says how long it may."


def _reach(files: Filesystem) -> str:
    return _REACHED_ROOT if files.local_path("") is None else _SHARED_ROOT


def _did_not_start(files: Filesystem, settings: RunnerSettings, started: _Started, what: str, hint: str) -> StageFailed:
    carry(files, scratch_path(files, started.log), started.log)
    lines = _lines(files, started.driver_log) if started.in_cluster else []  # the driver's own reason is the better one
    log = started.driver_log if lines else started.log
    lines = lines or _lines(files, started.log)
    last = f" Its last line: {most_informative_line(lines)}" if lines else ""
    where = f"Its log is {files.location(started.log)}"
    if not started.in_cluster:
        return StageFailed(f"The stage runner did not start: {what}.{last}", hint=where, log=log)
    master = parse_master(settings.master).shown
    return StageFailed(
        f"The driver that spark-submit started on {master} never reported under the root {settings.root}: "
        f"{what}.{last}",
        hint=f"{hint} {where}; the driver's own is in the cluster",
        log=log,
    )


def _lines(files: Filesystem, path: str) -> list[str]:
    try:
        return files.read(path).decode(errors="replace").strip().splitlines()
    except FileNotFoundError:
        return []


def try_place(
    url: str, submit: SubmitOptions, conf: Mapping[str, str], runner_python: str, cluster: Mapping[str, str]
) -> str:
    """Return the sentence about a place that can be used; what is in the way is a SamzaError.

    ``conf`` are the settings of all stages, ``cluster`` those of them that the Spark connection has.
    """
    master = parse_master(url)
    runner = check_pythons(checked_path(runner_python), master, submit, conf)
    check_place(master, submit, runner_python)
    where = master.shown if runner is None else f"{master.shown}, by {runner.shown} at {runner.python}"
    warning = open_doors(master, cluster)
    unless = f" Unless the cluster's own settings say otherwise, {warning}" if warning is not None else ""
    return f"stages run on {where}.{unless}"

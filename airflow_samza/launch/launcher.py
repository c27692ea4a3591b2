"""Start of a stage runner (the driver process), detached from the process that needs it.

The runtime submits stages through it, and the hook gives it what Airflow's connections say.
"""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Mapping
from contextlib import suppress

from airflow_samza.errors import SamzaError
from airflow_samza.launch.drivers.driver_services import driver_service
from airflow_samza.launch.drivers.spark_submit import check_hadoop_conf, find_spark_submit, reach_master
from airflow_samza.launch.drivers.submitted_driver import start_on_service, submit_driver
from airflow_samza.launch.java.installed_java import check_scratch, check_user, find_java
from airflow_samza.launch.masters import YARN, Master, SubmitOptions, open_doors, parse_master
from airflow_samza.launch.own_process import runner_environment, start_process
from airflow_samza.launch.runner_python import check_pythons, checked_path
from airflow_samza.launch.runner_settings import POLL_SECONDS, RunnerSettings
from airflow_samza.launch.spark_versions import check_installed
from airflow_samza.launch.starts import Started
from airflow_samza.launch.warm.taking import start_ahead, want_spark
from airflow_samza.runs.records.folders import RunFolder, read_fixed
from airflow_samza.runs.stages.disk_room import SILENT_SECONDS, full_disk
from airflow_samza.runs.stages.stage_runners import DID_NOT_START, RunnerEnd, RunnerFolder, newest_runner
from airflow_samza.systems.filesystems.filesystem import Filesystem
from airflow_samza.systems.filesystems.pace import Looks

logger = logging.getLogger("airflow_samza.launcher")

HOPELESS_SECONDS = 12.0
"""The time after which a driver that will not run is given up: registries of images fail for a moment, too."""


NOTABLE_SECONDS = 8.0
"""The time after which it is worth a warning what a driver waits for: containers are made in less, if all is well."""


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
    master = parse_master(settings.master)
    start = start_on_service if master.is_service else submit_driver if master.is_submitted else start_process
    with start(files, run, settings) as started:
        _await_claim(files, run, settings, before, started)


def start_warm_ahead(run_id: str, settings: RunnerSettings) -> None:
    """Start a warm runner where one may serve the run, which is about to be planned; what fails is reported later."""
    if settings.may_be_warm:
        with suppress(OSError, SamzaError):
            start_ahead(settings, settings.python or sys.executable, run_id, runner_environment(settings.python))


def want_spark_ahead(settings: RunnerSettings) -> None:
    """Have Spark come up, which a run needs that is planned; without it the run starts its own, later."""
    if settings.may_be_warm:
        try:
            want_spark(settings, runner_environment(settings.python))
        except (OSError, SamzaError) as error:
            logger.debug("Spark is not started ahead: %s", error)


def check_place(master: Master, submit: SubmitOptions, python: str = "") -> None:
    """Reject what would fail later and less clearly.

    No folder for temporary files, no Java, two versions of Spark, no spark-submit, a cluster that is not named or does
    not answer. ``python`` is that of the runner where it has an environment of its own, in which it looks for itself.
    """
    check_scratch()
    if master.is_service:
        driver_service(master.url).check()
        return
    if not python:  # SPARK_HOME counts where pyspark starts Java: spark-submit has the pyspark of its own Spark
        check_installed(os.environ.get("SPARK_HOME", "") if master.is_local else "")
    if not master.is_connect:
        check_user()
        find_java()
    if master.is_submitted:
        find_spark_submit(submit.binary)
    if master.cluster == YARN:
        check_hadoop_conf()
    reach_master(master)


def _await_claim(
    files: Filesystem, run: RunFolder, settings: RunnerSettings, before: RunnerFolder | None, started: Started
) -> None:
    """Wait until the runner, or another, has claimed the place."""
    deadline, looks = time.monotonic() + started.patience, Looks(files.pace)
    latest = RunnerFolder(run, settings.key, before.number + 1 if before is not None else 1)
    looked = waits_since = time.monotonic()
    waits_for, has_claimed = "", False
    hopeless_since: float | None = None
    try:
        while time.monotonic() < deadline:
            state = started.state()
            has_claimed = files.exists(latest.claim)
            gave_way = state.gave_way or (bool(state.ended) and before is not None and before.accepts(files))
            if has_claimed or gave_way:  # to one that had claimed its place just before
                return
            if state.ended:
                _reject_full_disk(files, started, state.ended)
                raise started.failure(state.ended)
            if state.waits_for != waits_for:
                waits_for, waits_since = state.waits_for, time.monotonic()
            elif waits_for and time.monotonic() - waits_since > NOTABLE_SECONDS:
                logger.warning("%s", waits_for)
                waits_since = float("inf")
            hopeless_since = (hopeless_since or time.monotonic()) if state.remedy else None
            if hopeless_since is not None and time.monotonic() - hopeless_since > HOPELESS_SECONDS:
                raise started.failure(waits_for, state.remedy)
            if time.monotonic() - looked > SILENT_SECONDS:
                _reject_full_disk(files, started, "it has not reported")
                looked = time.monotonic()
            time.sleep(looks.pause(POLL_SECONDS))
        waited = f"{started.patience:.0f} s were not enough{f', {waits_for}' if waits_for else ''}"
        raise started.failure(waited)
    finally:
        if has_claimed:
            started.claimed(latest)
        else:
            started.stop()


def _reject_full_disk(files: Filesystem, started: Started, what: str) -> None:
    """Reject a full disk, on which a stage runner can neither start nor say why."""
    full = full_disk(files, is_here=started.is_here, why=f", and the stage runner did not start: {what}")
    if full is not None:
        raise full


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

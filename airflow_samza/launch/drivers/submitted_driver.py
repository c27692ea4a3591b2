"""A stage runner that is submitted: by spark-submit on this machine or in the cluster, or to a service.

The launcher waits for it as for any other start.
"""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from airflow_samza.errors import StageFailed
from airflow_samza.launch.drivers.driver_files import driver_left
from airflow_samza.launch.drivers.driver_pod import POD_NAME, DriverPod, own_pod, pod_name
from airflow_samza.launch.drivers.driver_services import RunningDriver, driver_service
from airflow_samza.launch.drivers.kubernetes_api import REJECTED
from airflow_samza.launch.drivers.spark_submit import (
    IN_POD,
    delete_command,
    leave_properties,
    own_address,
    submit_command,
)
from airflow_samza.launch.log_lines import most_informative_line, said_by_api_server
from airflow_samza.launch.masters import KUBERNETES, parse_master
from airflow_samza.launch.own_process import OwnProcess, last_line, lines_of, runner_environment, spawn
from airflow_samza.launch.runner_python import KEY, find_environment
from airflow_samza.launch.runner_settings import RunnerSettings
from airflow_samza.launch.starts import Started, StartState
from airflow_samza.runs.records.folders import RunFolder
from airflow_samza.runs.stages.stage_runners import RunnerFolder
from airflow_samza.systems.filesystems.filesystem import Filesystem
from airflow_samza.systems.filesystems.local_copies import carry, scratch_path

SPARK_SUBMIT = "spark-submit"

# A driver that has ended had claimed its place before; the claim is seen as soon as the storage shows it.
CLAIM_SEEN_SECONDS = 5.0

DELETE_SECONDS = 60.0
"""The time that spark-submit may take to delete the pod of a driver that is of no use any more."""

_SHARED_ROOT = "Do all hosts of the cluster have this root, one shared folder, under this path?"
_REACHED_ROOT = "Can the driver's host reach this root, and has its Python what this package needs?"
_FULL_CLUSTER = "A driver waits for room in a full cluster, and [samza] driver_start_timeout says how long it may."
_REJECTED = re.compile("KubernetesClientException|InvalidResourceRequestException|AccessControlException")
"""Of lines of spark-submit where a cluster has rejected a driver, so that none has run."""


class ClusterDriver(OwnProcess):
    """A spark-submit that waits for a driver in the cluster, and is let go once that has claimed its place.

    ``driver_log`` is what the driver prints, from the root; ``command`` is that of spark-submit.
    """

    is_here = False
    _ended_at: float | None = None

    def __init__(
        self,
        files: Filesystem,
        process: subprocess.Popen[bytes],
        log: str,
        settings: RunnerSettings,
        driver_log: str,
        command: Sequence[str],
        pod: DriverPod | None,
    ) -> None:
        super().__init__(files, process, log, settings.submit.start_seconds, SPARK_SUBMIT)
        self._settings = settings
        self._driver_log = driver_log
        self._command = command
        self._pod = pod

    def state(self) -> StartState:
        """Return the end of spark-submit, which has waited for the driver's, or what the driver's pod waits for."""
        exit_code = self._process.poll()
        if exit_code is None:
            # spark-submit ends when the pod has, and its log has more.
            return replace(self._pod.state() if self._pod is not None else StartState(), ended="")
        self._ended_at = self._ended_at or time.monotonic()
        if exit_code == 0 and time.monotonic() - self._ended_at <= CLAIM_SEEN_SECONDS:
            return StartState()
        state = super().state() if exit_code else StartState(ended="it has ended")
        return replace(state, ended=(self._pod.ending() if self._pod is not None else "") or state.ended)

    def claimed(self, runner: RunnerFolder) -> None:
        """Keep what spark-submit has printed beside the runner's log, and end it."""
        files, kept = self._files, f"{runner.path}/spark-submit.log"
        if files.local_path(self.log) is not None:
            files.rename(self.log, kept)
        else:
            written = scratch_path(files, self.log)
            carry(files, written, kept)
            Path(written).unlink(missing_ok=True)
        super().stop()

    def stop(self) -> None:
        """End it, and have the driver's pod deleted if it has not ended by itself."""
        pod = self._pod if self._process.poll() is None else None
        super().stop()
        if pod is not None:
            self._delete(pod)

    def _delete(self, pod: DriverPod) -> None:
        with suppress(subprocess.TimeoutExpired):
            subprocess.run(
                delete_command(self._command, pod.submission),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                env=runner_environment(""),
                cwd="/",
                check=False,
                timeout=DELETE_SECONDS,
            )

    def failure(self, what: str, remedy: str = "") -> StageFailed:
        """Return the error with the driver's own reason, if it has left one; else spark-submit's, or the cluster's."""
        files, master = self._files, parse_master(self._settings.master).shown
        carry(files, scratch_path(files, self.log), self.log)
        by_driver = lines_of(files, self._driver_log)
        lines, log = (by_driver, self._driver_log) if by_driver else (lines_of(files, self.log), self.log)
        where = f"Its log is {files.location(self.log)}"
        if remedy:
            return StageFailed(
                f"{master} cannot run the driver of {self._settings.root}: {what}. It is deleted.",
                hint=f"{remedy} {where}.",
                log=log,
            )
        rejected = next((line for line in lines if _REJECTED.search(line)), None)
        if rejected is not None and not by_driver:
            return StageFailed(
                f"{master} rejects the driver of {self._settings.root}: "
                f"{said_by_api_server(rejected) or most_informative_line([rejected])}",
                hint=f"{REJECTED} {where}.",
                log=log,
            )
        of_root = _SHARED_ROOT if files.local_path("") is not None else _REACHED_ROOT
        hints = (
            _FULL_CLUSTER if self._process.poll() is None else "",
            of_root if "(Error)" in what or not what.startswith("its pod") else "",  # evicted, or out of memory
            f"{where}; the driver's own is in the cluster",
        )
        return StageFailed(
            f"The driver that spark-submit started on {master} never reported under the root "
            f"{self._settings.root}: {what}.{last_line(lines)}",
            hint=" ".join(filter(None, hints)),
            log=log,
        )


@contextmanager
def submit_driver(files: Filesystem, run: RunFolder, settings: RunnerSettings) -> Iterator[OwnProcess]:
    """Start a spark-submit, which starts the driver here or in the cluster; at last delete what they were given."""
    submit = settings.submit
    python = "" if submit.in_cluster else settings.python  # there it is a path of another host
    with driver_left(files, run, settings) as (driver, driver_log):
        place = f"{run.servers}/{settings.key}"
        properties = scratch_path(files, f"{place}/spark-{driver.once}.conf")
        address = {} if submit.in_cluster else own_address(settings.conf)
        conf, master, pod = {**driver.conf, **address}, parse_master(settings.master), None
        if submit.in_cluster and master.cluster == KUBERNETES:
            pod = DriverPod(master.server, conf, conf.setdefault(POD_NAME, pod_name(driver.name, driver.once)))
        elif master.cluster == KUBERNETES and IN_POD in os.environ and POD_NAME not in conf:
            conf |= own_pod(master, conf)
        try:
            leave_properties(properties, conf)
            command = submit_command(
                master,
                submit,
                name=driver.name,
                properties=properties,
                driver=driver.program,
                arguments=driver.arguments,
                pyspark=find_environment(python, KEY).spark_home if python else "",
            )
            log = f"{place}/submitting-{driver.once}.log" if submit.in_cluster else driver_log
            process = spawn(files, command, log, python, driver.environment)
            if submit.in_cluster:
                yield ClusterDriver(files, process, log, settings, driver_log, command, pod)
            else:
                yield OwnProcess(files, process, log, submit.start_seconds, SPARK_SUBMIT)
        finally:
            Path(properties).unlink(missing_ok=True)


class ServicedDriver(Started):
    """A driver of a service; ``log`` is what it prints, from the root."""

    is_here = False

    def __init__(self, files: Filesystem, settings: RunnerSettings, log: str, running: RunningDriver) -> None:
        self.patience = settings.submit.start_seconds
        self._files = files
        self._settings = settings
        self._log = log
        self._running = running

    def state(self) -> StartState:
        """Return its state as the service has it."""
        return self._running.state()

    def claimed(self, runner: RunnerFolder) -> None:
        """Do nothing: it is the service's."""

    def stop(self) -> None:
        """Have the service end it."""
        self._running.stop()

    def failure(self, what: str, remedy: str = "") -> StageFailed:
        """Return the error with the driver's own reason, if it has left one, and the place of its log."""
        master = parse_master(self._settings.master).shown
        return StageFailed(
            f"The driver of {self._settings.root} did not start on {master}: {what}."
            f"{last_line(lines_of(self._files, self._log))}",
            hint=f"{remedy} Its log is {self._running.log}.".strip(),
            log=self._log,
        )


@contextmanager
def start_on_service(files: Filesystem, run: RunFolder, settings: RunnerSettings) -> Iterator[ServicedDriver]:
    """Ask the service of the master for a driver, with program and settings that are left for it until it is there."""
    with driver_left(files, run, settings) as (driver, log):
        yield ServicedDriver(files, settings, log, driver_service(settings.master).start(driver))

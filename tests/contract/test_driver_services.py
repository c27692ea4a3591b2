"""Contract of services that run drivers: that of the page, or with ``DRIVER_SERVICE`` and a root one of somebody else.

The drivers are small programs without Spark; the last test starts a stage runner, as far as it goes without a Java.
"""

from __future__ import annotations

import os
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_samza import system_kinds
from airflow_samza.errors import ConfigError, SamzaError, StageFailed
from airflow_samza.launch.code_shipping import ship_package
from airflow_samza.launch.drivers import driver_services
from airflow_samza.launch.drivers.driver_services import Driver, DriverService, RunningDriver, driver_service
from airflow_samza.launch.launcher import ensure_runner, start_runner
from airflow_samza.launch.masters import SubmitOptions, options_for, parse_master
from airflow_samza.launch.runner_settings import RunnerSettings
from airflow_samza.runs.records.folders import RunFolder
from airflow_samza.runs.stages.stage_runners import newest_runner
from airflow_samza.systems.filesystems.filesystem import Filesystem, link_to
from airflow_samza.systems.filesystems.opening import open_filesystem
from tests.support.documentation_pages import examples
from tests.support.waiting import until

PAGE = "how-to-add/driver-service.md"
MASTER = os.environ.get("DRIVER_SERVICE", "own-cloud://etl")
ROOT = os.environ.get("DRIVER_SERVICE_ROOT", "")

SECONDS = 900.0 if ROOT else 60.0
"""The time for a driver to start or end: that of a cloud is minutes."""

SECRET = "the key of one driver"

STAYS = """
import os, sys, time
if sys.argv[1:] == ["one", "two words"] and os.environ.get("SPARK_SAMZA_CONTRACT") == "the key of one driver":
    time.sleep(600)
"""
"""A program that goes on if it has what it was given, and ends at once if it has not."""

pytestmark = pytest.mark.timeout(2 * SECONDS)


@pytest.fixture(autouse=True)
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The package of the page is installed."""
    for name, text in examples(PAGE).items():
        (tmp_path / name).write_text(text)
    info = tmp_path / "own_cloud-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: own-cloud\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[{driver_services.GROUP}]\nown-cloud = own_cloud:OwnCloud\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("OWN_CLOUD_LOGS", str(tmp_path))
    system_kinds.plugged.cache_clear()
    yield
    system_kinds.plugged.cache_clear()
    sys.modules.pop("own_cloud", None)


@pytest.fixture
def files(tmp_path: Path) -> Filesystem:
    return open_filesystem(ROOT or str(tmp_path / "root"))


@pytest.fixture
def service() -> DriverService:
    return driver_service(MASTER)


def driver(files: Filesystem, program: str, *arguments: str) -> Driver:
    path = f"contract/{uuid.uuid4().hex}.py"
    files.put(path, program.encode())
    where = files.local_path(path) or link_to(files, path, SECONDS)
    return Driver("contract", uuid.uuid4().hex, where, arguments, environment={"SPARK_SAMZA_CONTRACT": SECRET})


@pytest.fixture
def stays(service: DriverService, files: Filesystem) -> Iterator[RunningDriver]:
    running = service.start(driver(files, STAYS, "one", "two words"))
    yield running
    running.stop()


def test_a_service_that_can_be_used_is_not_rejected(service: DriverService) -> None:
    service.check()


def test_a_driver_has_its_arguments_and_its_key_and_goes_on_until_it_is_stopped(stays: RunningDriver) -> None:
    until(lambda: not stays.state().waits_for, SECONDS)
    assert stays.state().ended == ""
    stays.stop()
    until(lambda: bool(stays.state().ended), SECONDS)
    stays.stop()


def test_a_driver_that_ends_by_itself_is_reported_as_ended(service: DriverService, files: Filesystem) -> None:
    running = service.start(driver(files, STAYS, "another"))
    until(lambda: bool(running.state().ended), SECONDS)
    running.stop()


def test_a_program_that_is_not_there_is_rejected_or_reported(service: DriverService, files: Filesystem) -> None:
    asked = driver(files, "")
    files.delete(f"contract/{asked.program.partition('?')[0].rpartition('/')[2]}")
    try:
        running = service.start(asked)
    except SamzaError:
        return
    until(lambda: bool(running.state().ended or running.state().remedy), SECONDS)
    running.stop()


def test_people_find_the_log_and_no_key_in_it(stays: RunningDriver) -> None:
    assert stays.log
    assert SECRET not in f"{stays.log} {stays.state()} {stays!r}"


def test_a_stage_runner_starts_there_and_says_under_the_root_what_it_lacks(
    files: Filesystem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not ROOT:
        monkeypatch.setenv("JAVA_HOME", "/nowhere")
    run, master = RunFolder("views", f"run-{uuid.uuid4().hex[:8]}"), parse_master(MASTER)
    settings = RunnerSettings(
        root=files.root,
        bindings={},
        package=ship_package(files, run),
        master=MASTER,
        submit=options_for(master, SubmitOptions()),
    )
    start_runner(files, run, settings)
    runner = newest_runner(files, run, settings.key)
    assert runner is not None
    if not ROOT:
        until(lambda: files.exists(runner.closed), SECONDS)
        assert b"there is no Java at /nowhere/bin/java" in files.read(runner.log)
        assert not list(tmp_path.rglob("handover*"))


def test_a_master_of_a_service_that_is_not_installed_is_none() -> None:
    with pytest.raises(ConfigError, match="is not a master URL"):
        parse_master("other-cloud://etl")


@pytest.mark.skipif(bool(ROOT), reason="the page's own")
def test_a_service_that_cannot_be_used_is_rejected_before_anything_is_made(files: Filesystem) -> None:
    run = RunFolder("views", "run-1")
    with pytest.raises(StageFailed, match="own-cloud has no project 'closed'"):
        ensure_runner(files, run, RunnerSettings(root=files.root, bindings={}, master="own-cloud://closed"))

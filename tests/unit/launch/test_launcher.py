"""Submitters and their drivers: one that comes, and one that does not.

A script plays spark-submit, without any Spark.
"""

from __future__ import annotations

import dataclasses
import json
import re
import socket
import sys
import tempfile
import time
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import psutil
import pytest

from airflow_samza.errors import RuntimeMissing, StageFailed
from airflow_samza.launch import launcher
from airflow_samza.launch.code_shipping import ship_package
from airflow_samza.launch.drivers import driver_pod, submitted_driver
from airflow_samza.launch.drivers.driver_files import HANDOVER_SECRET
from airflow_samza.launch.launcher import ensure_runner, start_runner
from airflow_samza.launch.masters import SubmitOptions
from airflow_samza.launch.runner_settings import RunnerSettings
from airflow_samza.runs.records.folders import RunFolder, replace, write_once
from airflow_samza.runs.records.liveness import identity
from airflow_samza.runs.stages.stage_runners import (
    DID_NOT_START,
    Claim,
    Heartbeat,
    RunnerEnd,
    RunnerFolder,
    newest_runner,
)
from airflow_samza.systems.filesystems.local import LocalFilesystem
from airflow_samza.systems.system import SystemBinding
from tests.support.files_with import files_with
from tests.support.kubernetes_api_server import api_server
from tests.support.waiting import until

RUN = RunFolder("views", "run-1")
SECRET = "a secret that is handed over"


class Launch:
    """A root, and a spark-submit that is a Python script."""

    def __init__(self, folder: Path, master: str, root: type[LocalFilesystem] = LocalFilesystem) -> None:
        self.folder = folder
        self.files = root(str(folder / "root"))
        self.master = master

    def settings(self, *script: str, deploy_mode: str = "cluster", start_seconds: float = 60) -> RunnerSettings:
        program = self.folder / "spark-submit"
        program.write_text("\n".join([f"#!{sys.executable}", "import os, subprocess, sys, time", *script]))
        program.chmod(0o755)
        return RunnerSettings(
            root=self.files.root,
            bindings={"lake": SystemBinding("log", {"password": SECRET}, frozenset({"password"}))},
            package=ship_package(self.files, RUN),
            master=self.master,
            submit=SubmitOptions(deploy_mode, str(program), start_seconds),
        )

    def left(self) -> list[str]:
        """The files that are of use only until the driver is there."""
        return [path.name for path in (self.folder / "root").rglob("*") if path.name.startswith(("handover", "spark-"))]


class FarFilesystem(LocalFilesystem):
    """A root that is no folder to the submitter, as one on HDFS is not."""

    def local_path(self, path: str) -> str | None:
        return None

    def link(self, path: str, seconds: float) -> str:
        return f"file://{self.location(path)}"


CLIENT = "driver = sys.argv[sys.argv.index('--load-spark-defaults') + 1:]"
"""Act as a client of a standalone cluster: the driver runs here."""


CLUSTER = """
at = sys.argv.index('{{USER_JAR}}')
program = sys.argv[at - 1].removeprefix('file:').replace('//', '/')
driver = [program, *[part for part in sys.argv[at + 1:] if part]]
"""
"""Act as a standalone cluster: it fetches the jar, and puts its path among the driver's arguments."""


@pytest.fixture
def launch(tmp_path: Path) -> Iterator[Launch]:
    with socket.create_server(("127.0.0.1", 0)) as master:
        yield Launch(tmp_path, f"spark://127.0.0.1:{master.getsockname()[1]}")


@pytest.fixture
def far(launch: Launch, monkeypatch: pytest.MonkeyPatch) -> Launch:
    """The same with a root that is no folder to the submitter, whose temporary files lie apart."""
    temporary = launch.folder / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    return Launch(launch.folder, launch.master, FarFilesystem)


def test_a_spark_submit_that_fails_is_told_with_its_most_specific_line(launch: Launch) -> None:
    settings = launch.settings(
        "print('Exception in thread \"main\" java.net.UnknownHostException: nowhere', '  at x.Y', 'INFO bye', "
        "sep='\\n')",
        "sys.exit(1)",
    )
    with pytest.raises(StageFailed, match=r"exit code 1\. Its last line: .*UnknownHostException: nowhere") as caught:
        ensure_runner(launch.files, RUN, settings)
    assert launch.files.read(str(caught.value.facts["log"])).endswith(b"INFO bye\n")
    assert launch.left() == []


def test_a_spark_submit_that_is_not_there_leaves_nothing_that_was_for_the_driver(launch: Launch) -> None:
    settings = launch.settings("pass")
    (launch.folder / "spark-submit").unlink()
    with pytest.raises(RuntimeMissing, match="There is no spark-submit at"):
        start_runner(launch.files, RUN, settings)
    assert launch.left() == []


def test_a_driver_that_the_api_server_rejects_is_reported_with_its_words_and_no_guess(launch: Launch) -> None:
    settings = launch.settings(
        'print(\'Exception in thread "main" io.fabric8.kubernetes.client.KubernetesClientException: Failure executing: '
        'POST at: https://host:6443/api/v1/namespaces/etl/pods. Message: Pod "views-driver" is invalid: '
        "spec.containers[0].ports[2].containerPort: Required value. Received status: Status(apiVersion=v1, code=422)', "
        "'  at x.Y', sep='\\n')",
        "sys.exit(1)",
    )
    with pytest.raises(
        StageFailed, match=r'rejects the driver of .*: Pod "views-driver" is invalid: .*containerPort: Required value'
    ) as caught:
        ensure_runner(launch.files, RUN, settings)
    assert "shared folder" not in caught.value.hint
    assert caught.value.hint.startswith("Correct what it names, or get the right to it. Its log is ")


WAITS = """
if "--kill" in sys.argv:
    open(sys.argv[sys.argv.index("--properties-file") + 1])
    open(os.path.join(os.path.dirname(sys.argv[0]), "killed"), "w").write(" ".join(sys.argv[1:]))
    sys.exit()
time.sleep(600)
"""
"""Act as a spark-submit whose driver's pod never runs."""


NO_IMAGE = {"reason": "ErrImagePull", "message": "not found"}
NO_ROOM = {"reason": "Unschedulable", "message": "0/1 nodes are available: 1 Insufficient memory."}


@pytest.mark.parametrize(
    ("status", "patience", "says"),
    [
        (
            {"containerStatuses": [{"image": "registry/none:1", "state": {"waiting": NO_IMAGE}}]},
            600,
            r"cannot run the driver of .* pod etl:.* is pending: ErrImagePull: not found, .* registry/none:1\. It is del",
        ),
        (
            {"conditions": [{"type": "PodScheduled", "status": "False", **NO_ROOM}]},
            3,
            r"never reported .*: 3 s were not enough, .* etl:.* is pending: Unschedulable: 0/1 .* Insufficient memory\.",
        ),
    ],
    ids=["no image", "no room"],
)
@pytest.mark.few(1)
def test_the_pod_of_a_driver_that_never_runs_is_reported_in_the_words_of_kubernetes_and_deleted(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    status: dict[str, Any],
    patience: float,
    says: str,
) -> None:
    import_module("kubernetes.client")  # not within the time that is measured below
    monkeypatch.setattr(launcher, "HOPELESS_SECONDS", 0.5)
    monkeypatch.setattr(launcher, "NOTABLE_SECONDS", 0.1)
    monkeypatch.setattr(driver_pod, "LOOK_SECONDS", 0.1)
    monkeypatch.setenv("KUBECONFIG", "")
    with api_server() as server:
        server.pods = {"phase": "Pending", **status}
        launch = Launch(tmp_path, f"k8s://{server.url}")
        settings = launch.settings(WAITS, start_seconds=patience)
        settings = dataclasses.replace(settings, conf={"spark.kubernetes.namespace": "etl"})
        with pytest.raises(StageFailed, match=says):
            ensure_runner(launch.files, RUN, settings)
    killed = (launch.folder / "killed").read_text()
    assert killed.startswith(f"--master {launch.master} --properties-file ")
    assert [line for line in caplog.messages if " is pending: " in line]
    assert re.search(r" --kill etl:samza-views-run-1-\w{8}-driver$", killed)
    assert launch.left() == []


EVICTED = {"phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: memory."}
CRASHED = {"containerStatuses": [{"state": {"terminated": {"exitCode": 1, "reason": "Error"}}}]}


@pytest.mark.parametrize("code", [0, 1])
@pytest.mark.parametrize(
    ("status", "says", "asks_for_root"),
    [(EVICTED, "Evicted: The node was low on resource: memory", False), (CRASHED, r"with exit code 1 \(Error\)", True)],
    ids=["evicted", "crashed"],
)
def test_a_driver_whose_pod_has_ended_before_it_reports_is_told_in_the_words_of_kubernetes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: dict[str, Any], says: str, asks_for_root: bool, code: int
) -> None:
    monkeypatch.setenv("KUBECONFIG", "")
    monkeypatch.setattr(submitted_driver, "CLAIM_SEEN_SECONDS", 0.1)
    with api_server() as server:
        server.pods = status
        launch = Launch(tmp_path, f"k8s://{server.url}")
        with pytest.raises(StageFailed, match=rf"never reported .*: its pod \S+ has ended:? {says}\.") as caught:
            ensure_runner(launch.files, RUN, launch.settings(f"sys.exit({code})"))
    assert ("one shared folder" in caught.value.hint) == asks_for_root
    assert launch.left() == []


def test_a_spark_submit_that_fails_before_it_has_made_a_pod_is_told_with_its_own_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", "")
    with api_server() as server:
        launch = Launch(tmp_path, f"k8s://{server.url}")
        settings = launch.settings("print('Error: Unrecognized option: --conff')", "sys.exit(1)")
        with pytest.raises(StageFailed, match=r"never reported .*: spark-submit ended with exit code 1\. .*--conff"):
            ensure_runner(launch.files, RUN, settings)
    assert launch.left() == []


@pytest.mark.extended
def test_a_driver_on_a_host_without_the_root_is_told_with_the_root(launch: Launch) -> None:
    settings = launch.settings(
        CLUSTER, f"elsewhere = [part.replace({launch.files.root!r}, '/not/mounted') for part in driver[1:]]",
        "sys.exit(subprocess.call([sys.executable, driver[0], *elsewhere]))",
    )  # fmt: skip
    with pytest.raises(
        StageFailed, match=r"never reported under the root .* does not see /not/mounted, which has to be the same"
    ) as caught:
        ensure_runner(launch.files, RUN, settings)
    assert "one shared folder" in caught.value.hint
    assert launch.left() == []


def test_a_driver_that_finds_no_handover_says_that_its_root_is_another(launch: Launch) -> None:
    settings = launch.settings(
        CLUSTER, "os.unlink(os.path.join(driver[1], driver[5]))", "sys.exit(subprocess.call([sys.executable, *driver]))"
    )
    with pytest.raises(
        StageFailed, match=r"There is no hand-over .*: the submitter gave up waiting, or this host's root is another"
    ):
        ensure_runner(launch.files, RUN, settings)


@pytest.mark.extended
def test_a_driver_that_does_not_come_in_time_is_told_and_its_handover_withdrawn(launch: Launch) -> None:
    settings = launch.settings(
        "open(os.path.join(os.path.dirname(sys.argv[0]), 'pid'), 'w').write(str(os.getpid()))",
        "print('INFO Client: Application report (state: ACCEPTED)', flush=True)",
        "time.sleep(600)",
        start_seconds=2,
    )
    with pytest.raises(
        StageFailed, match=r"never reported under the root .*: 2 s were not enough\. Its last line: .*state: ACCEPTED"
    ):
        ensure_runner(launch.files, RUN, settings)
    assert launch.left() == []
    assert not psutil.pid_exists(int((launch.folder / "pid").read_text()))


@pytest.mark.parametrize("name", ["SPARK_REMOTE", "SPARK_LOCAL_REMOTE", "SPARK_CONNECT_MODE_ENABLED", "SPARK_API_MODE"])
def test_a_runner_of_a_process_that_is_a_client_of_spark_connect_takes_its_master_from_its_settings(
    launch: Launch, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(name, "connect")
    settings = launch.settings(f"sys.exit('{name} is ' + os.environ.get('{name}', 'unset'))")
    with pytest.raises(StageFailed, match=rf"Its last line: {name} is unset"):
        ensure_runner(launch.files, RUN, settings)


SEEN = (
    "conf = sys.argv[sys.argv.index('--properties-file') + 1]",
    "seen = [open(conf).read(), str(dict(os.environ)), ' '.join(sys.argv)]",
    "open(os.path.join(os.path.dirname(sys.argv[0]), 'seen.json'), 'w').write(__import__('json').dumps(seen))",
)


@pytest.mark.parametrize("deploy_mode", ["client", "cluster"])
@pytest.mark.extended
def test_the_driver_gets_the_secrets_and_nobody_else(launch: Launch, deploy_mode: str) -> None:
    """The driver's program is run for real, as far as it goes without a Spark.

    It claims its place, and says why it ends.
    """
    settings = launch.settings(
        CLUSTER if deploy_mode == "cluster" else CLIENT,
        *SEEN,
        f"sealed = open(os.path.join({launch.files.root!r}, driver[5]), 'rb').read()",
        f"assert {SECRET.encode()!r} not in sealed",
        "os.environ['JAVA_HOME'] = '/nowhere'",
        "sys.exit(subprocess.call([sys.executable, *driver]))",
        deploy_mode=deploy_mode,
    )
    start_runner(launch.files, RUN, settings)
    runner = newest_runner(launch.files, RUN, settings.key)
    assert runner is not None
    assert not [text for text in json.loads((launch.folder / "seen.json").read_text()) if SECRET in text]
    assert launch.left() == (["spark-submit.log"] if deploy_mode == "cluster" else [])
    while not launch.files.exists(runner.closed):
        time.sleep(0.02)
    log = launch.files.read(runner.log).decode()
    assert "there is no Java at /nowhere/bin/java" in log
    assert SECRET not in log


@pytest.mark.parametrize("deploy_mode", ["client", "cluster"])
def test_a_driver_deletes_its_folder_for_temporary_files_when_it_ends(launch: Launch, deploy_mode: str) -> None:
    """Its Java ends at once, for which it has made the folder."""
    java = launch.folder / "jdk" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text("#!/bin/sh\nexit 1\n")
    java.chmod(0o755)
    (java.parents[1] / "release").write_text('JAVA_VERSION="17.0.1"\n')
    temporary = launch.folder / "temporary"
    temporary.mkdir()
    settings = launch.settings(
        CLUSTER if deploy_mode == "cluster" else CLIENT,
        f"os.environ.update(JAVA_HOME={str(java.parents[1])!r}, TMPDIR={str(temporary)!r})",
        "sys.exit(subprocess.call([sys.executable, *driver]))",
        deploy_mode=deploy_mode,
    )
    start_runner(launch.files, RUN, settings)
    runner = newest_runner(launch.files, RUN, settings.key)
    assert runner is not None
    driver = (runner.who(launch.files) or {})["pid"]
    until(lambda: not psutil.pid_exists(driver))
    assert "Spark does not start: Java ended" in launch.files.read(runner.log).decode()
    (folder,) = temporary.glob("airflow-samza-*/p")
    assert list(folder.iterdir()) == []


@pytest.mark.extended
def test_a_driver_that_shares_only_the_root_gets_the_secrets_sealed_and_nobody_else(far: Launch) -> None:
    settings = far.settings(
        CLUSTER,
        *SEEN,
        f"sealed = open(os.path.join({far.files.root!r}, driver[5]), 'rb').read()",
        f"assert {SECRET.encode()!r} not in sealed",
        "os.environ['JAVA_HOME'] = '/nowhere'",
        "os.environ.pop('PYTHONPATH')",
        "sys.exit(subprocess.call([sys.executable, *driver], cwd='/'))",
    )
    start_runner(far.files, RUN, settings)
    runner = newest_runner(far.files, RUN, settings.key)
    assert runner is not None
    assert not [text for text in json.loads((far.folder / "seen.json").read_text()) if SECRET in text]
    assert far.left() == ["spark-submit.log"]
    while not far.files.exists(runner.closed):
        time.sleep(0.02)
    log = far.files.read(runner.log).decode()
    assert "there is no Java at /nowhere/bin/java" in log
    assert SECRET not in log
    assert files_with(far.folder / "temporary", SECRET) == []


@pytest.mark.extended
def test_a_driver_that_has_ended_without_a_word_is_reported_with_its_reason_at_once(far: Launch) -> None:
    """A standalone spark-submit ends with code 0 when its driver has failed."""
    settings = far.settings(
        CLUSTER,
        f"os.environ.pop({HANDOVER_SECRET!r})",
        "subprocess.call([sys.executable, *driver])",
        start_seconds=600,
    )
    with pytest.raises(
        StageFailed, match=rf"never reported under the root .*: it has ended\..* was started without {HANDOVER_SECRET}"
    ) as caught:
        ensure_runner(far.files, RUN, settings)
    assert "Can the driver's host reach this root" in caught.value.hint
    assert far.left() == []


def test_a_driver_that_gave_way_to_one_that_was_quicker_is_no_failure(
    far: Launch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A standalone spark-submit ends with code 0 then, too; the quicker one had claimed before it was even started."""
    monkeypatch.setattr(submitted_driver, "CLAIM_SEEN_SECONDS", 0.0)
    settings = far.settings("sys.exit(0)", start_seconds=600)
    quicker = RunnerFolder(RUN, settings.key, 1)
    write_once(far.files, quicker.claim, Claim(**identity(), claimed_at=time.time()))
    replace(far.files, quicker.heartbeat, Heartbeat(time.time()))
    start_runner(far.files, RUN, settings)
    assert newest_runner(far.files, RUN, settings.key) == quicker
    assert far.left() == []


@pytest.mark.extended
def test_a_driver_that_comes_too_late_finds_nothing_and_says_so(far: Launch) -> None:
    settings = far.settings(
        CLUSTER,
        f"os.unlink(os.path.join({far.files.root!r}, driver[5]))",
        "sys.exit(subprocess.call([sys.executable, *driver]))",
    )
    with pytest.raises(StageFailed, match=r"There is no hand-over .*: the submitter gave up waiting"):
        ensure_runner(far.files, RUN, settings)


@pytest.mark.extended
def test_a_spark_that_does_not_come_up_is_started_once_and_its_reason_is_reported(
    launch: Launch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may have ended before anybody could leave a request to it."""
    settings = launch.settings("pass", deploy_mode="client")

    def start(*_: object) -> None:
        before = newest_runner(launch.files, RUN, settings.key)
        runner = RunnerFolder(RUN, settings.key, 1 if before is None else before.number + 1)
        assert runner.number < 3
        write_once(launch.files, runner.claim, Claim(**identity(), claimed_at=time.time()))
        error = StageFailed(f"Spark does not start: no memory for {runner.number}", hint="Give it more.")
        write_once(launch.files, runner.closed, RunnerEnd(DID_NOT_START, time.time(), error.to_dict()))

    monkeypatch.setattr(launcher, "start_runner", start)
    monkeypatch.setattr(launcher, "check_place", lambda *_: None)
    for attempt in (1, 2):
        with pytest.raises(StageFailed, match=f"no memory for {attempt}"):
            ensure_runner(launch.files, RUN, settings)

"""Rows that whoever submits a stage is told of the Spark that it should run on; no Spark comes up."""

from __future__ import annotations

import errno
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable

import psutil

from airflow_samza.cli.environment import find_environment
from airflow_samza.cli.warm_commands import end_runners
from airflow_samza.engine.heartbeat import RunnerHeartbeat, silent
from airflow_samza.engine.runner_records import RunnerRecords
from airflow_samza.launch import spark_versions
from airflow_samza.launch.java import installed_java
from airflow_samza.launch.java.installed_java import check_user
from airflow_samza.launch.masters import SubmitOptions
from airflow_samza.launch.warm import places
from airflow_samza.prepare.run_request import RunRequest
from airflow_samza.runs.records import liveness
from airflow_samza.runs.records.folders import RunFolder, write_once
from airflow_samza.runs.records.liveness import identity
from airflow_samza.runs.records.names import Generation
from airflow_samza.runs.stages.disk_room import full_disk
from airflow_samza.runs.stages.stage_runners import Claim, Heartbeat, RunnerFolder, RunnerPlace, StageRequest
from airflow_samza.runs.stages.stage_state import StageHandle
from airflow_samza.spark.spark_engine import SparkEngine
from airflow_samza.systems.filesystems.filesystem import link_to
from airflow_samza.systems.filesystems.opening import open_filesystem
from tests.e2e.bad_input.page import row
from tests.e2e.bad_input.scene import APPLICATION, OUT, VIEWS, Scene, raised
from tests.support.second_environment import make_environment
from tests.support.stand_ins import Session

FIRST = "before anything else"
SUBMIT = "when a stage is submitted"
MASTER = "spark://127.0.0.1:7077"
NEW_YEAR = 1_767_225_600.0


@row("launch", "A master that Spark does not know", FIRST)
def _(scene: Scene) -> str:
    scene.application(f"{VIEWS}.send_to({OUT})")
    return scene.command("run", APPLICATION, "--master", "spark:/spark:7077")


@row("launch", "A deploy mode that Spark does not know", FIRST)
def _(scene: Scene) -> str:
    scene.application(f"{VIEWS}.send_to({OUT})")
    return scene.command("run", APPLICATION, "--master", MASTER, "--deploy-mode", "clutser")


@row("launch", "An invalid number of warm runners", FIRST)
def _(scene: Scene) -> str:
    scene.application(f"{VIEWS}.send_to({OUT})")
    scene.monkeypatch.setenv("AIRFLOW__SAMZA__WARM_RUNNERS", "two")
    return scene.command("run", APPLICATION)


@row("launch", "A bound that warm runners do not have", FIRST)
def _(scene: Scene) -> str:
    scene.application(f"{VIEWS}.send_to({OUT})")
    scene.monkeypatch.setenv("AIRFLOW__SAMZA__WARM_RUNNERS", "2,idel=600")
    return scene.command("run", APPLICATION)


@row("launch", "A warm runner that does not exist", FIRST)
def _(scene: Scene) -> str:
    scene.monkeypatch.setattr(places, "warm_places", lambda: [])
    return raised(lambda: end_runners(["0123-4567"], now=False))


@row("launch", "The master among the Spark settings", FIRST)
def _(scene: Scene) -> str:
    return raised(lambda: scene.runtime(spark_conf={"spark.master": MASTER}))


@row("launch", "A spark-submit that does not exist", SUBMIT)
def _(scene: Scene) -> str:
    return _submitted(scene, MASTER, SubmitOptions(binary="spark3-submit"))


@row("launch", "A master that does not answer", SUBMIT)
def _(scene: Scene) -> str:
    return _submitted(scene, "spark://127.0.0.1:1")


@row("launch", "Two versions of pyspark in one folder", SUBMIT)
def _(scene: Scene) -> str:
    versions = {"pyspark": "4.1.3", "pyspark-client": "4.2.0"}
    scene.monkeypatch.setattr(spark_versions, "version", versions.__getitem__)
    return _submitted(scene, "local[1]")


@row("launch", "A SPARK_HOME with another Spark than pyspark's", SUBMIT)
def _(scene: Scene) -> str:
    home = scene.folder / "spark"
    (home / "jars").mkdir(parents=True)
    (home / "jars" / "spark-core_2.12-3.5.7.jar").touch()
    scene.monkeypatch.setattr(spark_versions, "version", lambda name: "4.2.0")
    scene.monkeypatch.setenv("SPARK_HOME", str(home))
    return _submitted(scene, "local[1]")


@row("launch", "A Spark Connect server of another version", "by the stage")
def _(scene: Scene) -> str:
    place = "The Spark Connect server sc://localhost:15002/"
    return raised(lambda: spark_versions.check_server(place, "4.1.3", "4.2.0"))


@row("launch", "YARN without a HADOOP_CONF_DIR", SUBMIT)
def _(scene: Scene) -> str:
    scene.monkeypatch.delenv("HADOOP_CONF_DIR", raising=False)
    scene.monkeypatch.delenv("YARN_CONF_DIR", raising=False)
    return _submitted(scene, "yarn")


@row("launch", "A HADOOP_CONF_DIR without YARN's settings", SUBMIT)
def _(scene: Scene) -> str:
    scene.monkeypatch.delenv("YARN_CONF_DIR", raising=False)
    scene.monkeypatch.setenv("HADOOP_CONF_DIR", str(scene.folder / "hadoop"))
    return _submitted(scene, "yarn")


@row("launch", "A user without a name, as in containers that choose a number", SUBMIT)
def _(scene: Scene) -> str:
    def unknown(uid: int) -> None:
        raise KeyError(uid)

    scene.monkeypatch.setattr("pwd.getpwuid", unknown)
    scene.monkeypatch.setattr("os.geteuid", lambda: 1000660000)
    return raised(check_user)


@row("launch", "A container without a folder for temporary files", SUBMIT)
def _(scene: Scene) -> str:
    def read_only(*below: str) -> str:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    scene.monkeypatch.setattr(installed_java, "scratch_folder", read_only)
    return raised(installed_java.check_scratch)


@row("launch", "A driver's archive behind a URL with a delegation token", SUBMIT)
def _(scene: Scene) -> str:
    files = open_filesystem("webhdfs://namenode:9870/samza", {"token": "hidden"})
    return raised(lambda: link_to(files, "runs/page-views/run-1/code/driver-1.jar", 600))


@row("launch", "An archive that does not exist", SUBMIT)
def _(scene: Scene) -> str:
    return _listening(scene, lambda master: _submitted(scene, master, archives=["/data/words.tar.gz#words"]))


@row("launch", "A root that the driver's host does not have", SUBMIT)
def _(scene: Scene) -> str:
    root = str(scene.folder / "samza")
    submit = _spark_submit(
        scene,
        "at = sys.argv.index('{{USER_JAR}}')",
        f"elsewhere = [part.replace({root!r}, '/not/mounted') for part in sys.argv[at + 1:] if part]",
        "sys.exit(subprocess.call([sys.executable, sys.argv[at - 1].removeprefix('file:'), *elsewhere]))",
    )
    return _listening(scene, lambda master: _submitted(scene, master, submit))


@row("launch", "A cluster that has no place for the driver", SUBMIT)
def _(scene: Scene) -> str:
    submit = _spark_submit(
        scene, "print('Application report for application_1_0001 (state: ACCEPTED)', flush=True)", "time.sleep(60)"
    )
    return _listening(scene, lambda master: _submitted(scene, master, submit))


@row("launch", "A runner_python that is no absolute path", FIRST)
def _(scene: Scene) -> str:
    scene.application(f"{VIEWS}.send_to({OUT})")
    return scene.command("run", APPLICATION, "--runner-python", "python3.12")


@row("launch", "A runner_python that does not exist", SUBMIT)
def _(scene: Scene) -> str:
    return _submitted(scene, "local", runner_python="/opt/environments/etl/bin/python")


@row("launch", "A runner_python that names a folder", SUBMIT)
def _(scene: Scene) -> str:
    make_environment(scene.folder / "etl")
    return _submitted(scene, "local", runner_python=str(scene.folder / "etl"))


@row("launch", "A runner_python that does not start", SUBMIT)
def _(scene: Scene) -> str:
    python = _answering(scene, "echo 'error while loading shared libraries: libpython3.12.so.1.0' >&2", "exit 127")
    return _submitted(scene, "local", runner_python=python)


@row("launch", "A runner_python that is too old", SUBMIT)
def _(scene: Scene) -> str:
    python = _answering(scene, """echo 'airflow-samza-probe:{"version": [3, 9, 18]}'""")
    return _submitted(scene, "local", runner_python=python)


@row("launch", "A runner_python whose environment lacks this package", SUBMIT)
def _(scene: Scene) -> str:
    python = make_environment(scene.folder / "etl", package=None, libraries=False)
    return _submitted(scene, "local", runner_python=str(python))


@row("launch", "A runner_python whose environment has another version of a package", SUBMIT)
def _(scene: Scene) -> str:
    older = scene.folder / "older" / "airflow_samza"
    older.mkdir(parents=True)
    (older / "__init__.py").write_text('__version__ = "0.0.9"\n')
    python = make_environment(scene.folder / "etl", package=older.parent)
    return _submitted(scene, "local", runner_python=str(python))


@row("launch", "Workers of another Python than the runner's", SUBMIT)
def _(scene: Scene) -> str:
    python = _answering(scene, """echo 'airflow-samza-probe:{"version": [3, 99, 1], "lacks": []}'""")
    text = _submitted(scene, "local", spark_conf={"spark.pyspark.python": python})
    mine = ".".join(map(str, sys.version_info[:3]))
    return text.replace(mine, "3.12.1").replace(sys.executable, "/opt/airflow/bin/python")


@row("launch", "Java options or packages that keep Spark from starting", "by the stage")
def _(scene: Scene) -> str:
    scene.application(f"{VIEWS}.send_to({OUT})")
    scene.views()
    runtime = scene.runtime(spark_conf={"spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:+UseParallelGC"})
    run = runtime.prepare(RunRequest(APPLICATION, "run-1"))
    return _without_names(raised(lambda: runtime.run_stage(run, "views")))


@row("launch", "A stage runner that is frozen, or whose storage is", "by the stage")
def _(scene: Scene) -> str:
    scene.application(f"{VIEWS}.send_to({OUT})")
    scene.views()
    runtime = scene.runtime()
    run = runtime.prepare(RunRequest(APPLICATION, "run-1"))
    files = open_filesystem(str(scene.folder / "samza"))
    handle = StageHandle(run.application, run.run_id, "views", Generation(1, 1), 1)
    runner = RunnerFolder(handle.run, "key", 1)
    scene.monkeypatch.setattr(liveness, "CONFIRM_SECONDS", 0.0)
    frozen = psutil.Process()  # it is there
    write_once(files, runner.claim, Claim(**{**identity(), "host": "worker-7"}, claimed_at=NEW_YEAR))
    write_once(files, runner.heartbeat, Heartbeat(NEW_YEAR))
    request = StageRequest("views", "1.1", 1, runner=RunnerPlace("key", 1))
    write_once(files, handle.folder.attempt(1, "request"), request)
    return raised(lambda: runtime.finish(handle)).replace(f"process {frozen.pid}", "process 4711")


@row("launch", "A stage runner that died, with an output that is at least once", "by the stage")
def _(scene: Scene) -> str:
    scene.application(
        'app.system("warehouse", kind="spark")',
        f'{VIEWS}.send_to(app.output_stream("copy", system="warehouse", options={{"table": "copies"}}))',
    )
    scene.views()
    runtime = scene.runtime()
    run = runtime.prepare(RunRequest(APPLICATION, "run-1"))
    handle = StageHandle(run.application, run.run_id, "views", Generation(1, 1), 1)
    write_once(
        open_filesystem(str(scene.folder / "samza")),
        handle.folder.attempt(1, "request"),
        StageRequest("views", "1.1", 1),
    )
    return raised(lambda: runtime.finish(handle))


@row("launch", "A Java that is frozen", "by the stage")
def _(scene: Scene) -> str:
    session = Session()
    session.place = "Spark (local[*])"
    engine = SparkEngine(session)

    def fail() -> None:
        raise silent(engine, NEW_YEAR, "views")

    return raised(fail)


@row("launch", "A Java that is frozen while it starts", "by the stage")
def _(scene: Scene) -> str:
    files = open_filesystem(str(scene.folder / "samza"))
    folder = RunnerFolder(RunFolder("page-views", "run-1"), "key", 1)
    java = scene.folder / "java"
    java.symlink_to(shutil.which("sleep") or "sleep")
    started = subprocess.Popen([str(java), "600"])
    started.send_signal(signal.SIGSTOP)
    scene.monkeypatch.setattr("airflow_samza.engine.heartbeat.HEARTBEAT_SECONDS", 41.0)
    heart = RunnerHeartbeat(files, folder, RunnerRecords(files, folder), "")
    while heart.lost is None:
        heart._look_after_start()
    started.wait()

    def fail() -> None:
        assert heart.lost is not None
        raise heart.lost

    return raised(fail).replace(f"process {started.pid}", "process 4712")


@row("launch", "A disk that is full, so that a stage runner can report nothing", "by the task or command that waits")
def _(scene: Scene) -> str:
    here = os.statvfs(scene.folder)
    full = os.statvfs_result((*here[:3], 0, 0, *here[5:]))
    scene.monkeypatch.setattr(os, "statvfs", lambda path: full)
    found = full_disk(
        open_filesystem(str(scene.folder / "samza")),
        is_here=True,
        why=", and the stage runner (worker-1, process 4711) can report nothing",
    )
    assert found is not None
    return str(found)


@row("launch", "A link below a root", "by whoever reads, writes or deletes there; `gc` goes on with the rest")
def _(scene: Scene) -> str:
    files = open_filesystem(str(scene.folder / "samza"))
    files.make_dirs("topics/clicks")
    os.symlink(scene.folder, files.location("topics/clicks/segments"))
    return raised(lambda: files.list("topics/clicks/segments"))


@row("launch", "A pipe among the files of a root", "by whoever reads it; `gc` goes on with the rest")
def _(scene: Scene) -> str:
    files = open_filesystem(str(scene.folder / "samza"))
    files.make_dirs("topics/clicks")
    os.mkfifo(files.location("topics/clicks/topic.json"))
    return raised(lambda: files.read("topics/clicks/topic.json"))


@row("launch", "A `samza.toml` that others may write, and nobody has named", "by every command that looks for one")
def _(scene: Scene) -> str:
    file = scene.folder / "samza.toml"
    file.write_text('[env.dev]\nroot = "samza"\n')
    file.chmod(0o666)
    scene.monkeypatch.chdir(scene.folder)
    return raised(lambda: find_environment("dev"))


def _spark_submit(scene: Scene, *lines: str) -> SubmitOptions:
    """A script in the place of spark-submit, which does what a cluster would."""
    program = scene.write("bin/spark-submit", f"#!{sys.executable}", "import subprocess, sys, time", *lines)
    program.chmod(0o755)
    return SubmitOptions("cluster", str(program), start_seconds=2)


def _listening(scene: Scene, call: Callable[[str], str]) -> str:
    """With something that listens where the master should be."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        text = call(f"spark://127.0.0.1:{port}").replace(f"127.0.0.1:{port}", "127.0.0.1:7077")
    return _without_names(text).replace(f"this host ({os.uname().nodename})", "this host (worker-7)")


def _without_names(text: str) -> str:
    """Without what is another one each time, as is the number of a runner that ended while it was asked for a stage."""
    return re.sub(r"airflow_samza-[0-9a-f]{16}|(?<=/servers/)[0-9a-f]{12}(/\d+(?=/))?", "…", text)


def _answering(scene: Scene, *lines: str) -> str:
    """A program in the place of a Python."""
    path = scene.folder / "bin" / "python"
    path.parent.mkdir()
    path.write_text("\n".join(["#!/bin/sh", *lines]))
    path.chmod(0o755)
    return str(path)


def _submitted(scene: Scene, master: str, submit: SubmitOptions | None = None, **more: object) -> str:
    """The error for whoever submits a stage; no runner is started."""
    scene.application(f"{VIEWS}.send_to({OUT})")
    scene.views()
    runtime = scene.runtime(master=master, submit=submit, **more)
    run = runtime.prepare(RunRequest(APPLICATION, "run-1"))
    text = raised(lambda: runtime.submit(run, "views"))
    assert runtime.live_runners(run) == []
    return text

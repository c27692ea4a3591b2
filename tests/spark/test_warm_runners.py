"""Warm runners: one Java for run after run, of which no run finds what another has left."""

from __future__ import annotations

import json
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from airflow_samza.errors import SamzaError
from airflow_samza.launch.runtime import SparkRuntime
from airflow_samza.launch.warm import places
from airflow_samza.launch.warm.messages import STATE
from airflow_samza.launch.warm.places import WarmPlace, warm_places
from airflow_samza.launch.warm.taking import ask, end_warm
from airflow_samza.prepare.run_request import RunRequest
from airflow_samza.private_folder import private_folder
from airflow_samza.runs.records.folders import RunFolder, read
from airflow_samza.runs.stages.stage_runners import Claim, all_runners
from airflow_samza.runs.stages.stage_state import RUNNING, stage_status
from airflow_samza.systems.filesystems.opening import open_filesystem
from airflow_samza.systems.system import SystemBinding
from tests.support.changing_modules import ChangingModules
from tests.support.waiting import until

pytestmark = [pytest.mark.extended, pytest.mark.spark, pytest.mark.timeout(600)]

WAIT_SECONDS = 120.0

APPLICATION = """
import builtins, os, sys, threading, time
from airflow_samza import count, stream_application
import warm_helper

def kept(view):
    if not hasattr(builtins, "met"):
        builtins.met = []
    builtins.met.append("{name} {version} " + warm_helper.VERSION)
    while os.path.exists({hold!r}):
        time.sleep(0.05)
    if {fails}:
        raise ValueError("as it should")
    return True

def told(view):
    return {{"told": "|".join(sorted(set(builtins.met)) + [os.environ.get("OF_A_RUN", "nothing")])}}

@stream_application("{name}")
def application(app):
    source = app.input_stream("views", system="logs", schema="member bigint", partitions=2, path="views")
    source.filter(kept).map(told, schema="told string").send_to(app.output_stream("out", system="out", path="{name}"))
"""

LEAVES = """
import builtins, os, sys, threading
from airflow_samza import stream_application

def in_the_driver(frame):
    if hasattr(builtins, "found{nonce}"):  # Spark analyses it more than once in a run
        return frame.selectExpr(builtins.found{nonce})
    spark = frame.sparkSession
    found = [
        hasattr(builtins, "left"), "LEFT" in os.environ, "/left" in sys.path,
        any(thread.name == "left" for thread in threading.enumerate()),
        spark.catalog.tableExists("left_view"), spark.catalog.tableExists("global_temp.left_global"),
        spark.conf.get("spark.sql.shuffle.partitions") == "77", spark.sparkContext._jsc.getPersistentRDDs().size() > 0,
    ]
    builtins.left = os.environ["LEFT"] = "left"
    sys.path.append("/left")
    threading.Thread(target=threading.Event().wait, name="left", daemon=True).start()
    spark.conf.set("spark.sql.shuffle.partitions", "77")
    spark.range(3).createOrReplaceTempView("left_view")
    spark.range(3).createOrReplaceGlobalTempView("left_global")
    kept = spark.range(3).cache()
    kept.count()
    if {catalog}:
        spark.sql("create database if not exists left_over")
    builtins.found{nonce} = "'" + "".join("x" if one else "." for one in found) + "' as found"
    return frame.selectExpr(builtins.found{nonce})

@stream_application("leaves")
def application(app):
    source = app.input_stream("views", system="logs", schema="member bigint", partitions=2, path="views")
    source.transform(in_the_driver, id="t", schema="found string").send_to(
        app.output_stream("out", system="out", path="leaves"))
"""


@pytest.fixture(scope="module")
def host() -> Iterator[None]:
    """A folder of this module's own for what a host keeps: the tests share one warm runner, and nobody else's."""
    with tempfile.TemporaryDirectory(prefix="w") as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(places, "scratch_folder", lambda name: private_folder(os.path.join(folder, name)))
        yield
        for place in warm_places():
            end_warm(place, now=True)
        until(lambda: not warm_places())


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lake")
    (folder / "views").mkdir()
    (folder / "views" / "1.jsonl").write_text("".join(f'{{"member": {number}}}\n' for number in range(20)))
    return folder


class Runs:
    """Runs of applications that are written anew, each by a warm runner of the module's."""

    def __init__(self, lake: Path, modules: ChangingModules, work: Path, bounds: str = "1") -> None:
        self._modules = modules
        self.lake = lake
        self.hold = work / "hold"
        systems = {
            "logs": SystemBinding("files", {"root": str(lake)}),
            "out": SystemBinding("files", {"root": str(work / "out")}),
        }
        self.out = work / "out"
        self.runtime = SparkRuntime(str(lake / "root"), systems, master="local[2]", warm_runners=bounds)
        self.files = open_filesystem(str(lake / "root"))
        self._count = 0

    def write(self, name: str, version: str, *, fails: bool = False) -> None:
        self._modules.write("warm_helper", f"VERSION = {version!r}")
        text = APPLICATION.format(name=name, version=version, fails=fails, hold=str(self.hold))
        self._modules.write(f"warm_{name}", text)

    def request(self, module: str) -> RunRequest:
        self._count += 1
        return RunRequest(f"{module}:application", f"run-{time.time_ns()}")

    def run(self, module: str) -> str:
        """Run it to its end; return the run's id."""
        request = self.request(module)
        shutil.rmtree(self.out, ignore_errors=True)
        self.runtime.run_application(request)
        return request.run_id

    def claim(self, name: str, run_id: str) -> Claim:
        (runner,) = all_runners(self.files, RunFolder(name, run_id))
        claim = read(self.files, runner.claim, Claim)
        assert claim is not None
        return claim

    def rows(self, name: str) -> set[str]:
        import pyarrow.parquet as pq

        return {str(value) for row in pq.read_table(self.out / name).to_pylist() for value in row.values()}


@pytest.fixture
def runs(host: None, lake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Runs:
    folder = tmp_path / "modules"
    folder.mkdir()
    return Runs(lake, ChangingModules(folder, monkeypatch), tmp_path)


def the_runner() -> tuple[WarmPlace, dict[str, Any]]:
    """The one warm runner, and what it says of itself once it is idle."""

    def idle() -> tuple[WarmPlace, dict[str, Any]] | None:
        places = warm_places()
        told = (ask(places[0], STATE) or {}) if len(places) == 1 else {}
        return (places[0], told) if told.get("state") == "idle" else None

    found = until(idle, WAIT_SECONDS)
    assert found is not None
    return found


def test_two_versions_of_a_module_never_meet_in_one_java(runs: Runs) -> None:
    told = []
    servers = []
    for version in ("1", "2", "1"):
        runs.write("views", version)
        servers.append(runs.claim("views", runs.run("warm_views")).warm)
        told.append(runs.rows("views"))
    assert told == [{"views 1 1|nothing"}, {"views 2 2|nothing"}, {"views 1 1|nothing"}]
    names = {server.partition(",")[0] for server in servers}
    assert len(names) == 1, "the run's records say that one warm runner has served them all"
    assert len(set(servers)) == 3


def test_spark_starts_while_a_run_is_planned(runs: Runs) -> None:
    for place in warm_places():
        end_warm(place, now=True)
    until(lambda: not warm_places())
    runs.write("views", "1")
    run = runs.runtime.prepare(runs.request("warm_views"))
    (ahead,) = warm_places()
    runs.runtime.run_stage(run, run.plan.stages[0].stage_id)
    runs.runtime.close(run, wait_seconds=WAIT_SECONDS)
    assert runs.claim("views", run.run_id).warm.startswith(f"{ahead.name}, run 1,")
    assert warm_places() == [ahead]


def test_what_a_run_leaves_in_driver_and_java_is_gone_for_the_next(runs: Runs) -> None:
    found = []
    for nonce in range(2):
        runs._modules.write("warm_leaves", LEAVES.format(catalog=False, nonce=nonce))
        runs.run("warm_leaves")
        found.append(runs.rows("leaves"))
    assert found == [{"........"}, {"........"}]


@pytest.mark.nightly
def test_a_run_has_the_environment_of_the_one_who_submits_it(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    runs.write("views", "1")
    first = runs.claim("views", runs.run("warm_views")).warm
    monkeypatch.setenv("AIRFLOW_CTX_TASK_ID", "another")  # of one task: it does not matter
    assert runs.claim("views", runs.run("warm_views")).warm.partition(",")[0] == first.partition(",")[0]
    monkeypatch.setenv("OF_A_RUN", "this one's")
    runs.run("warm_views")
    assert runs.rows("views") == {"views 1 1|this one's"}, "in its workers, too"


def test_a_run_that_fails_and_one_that_is_killed_harm_no_later_one(runs: Runs) -> None:
    runs.write("fails", "1", fails=True)
    with pytest.raises(SamzaError, match="as it should"):
        runs.run("warm_fails")
    runs.hold.touch()
    runs.write("held", "1")
    run = runs.runtime.prepare(runs.request("warm_held"))
    stage = run.plan.stages[0].stage_id
    handle = runs.runtime.submit(run, stage)
    until(lambda: stage_status(runs.files, handle).state == RUNNING)
    os.kill(runs.claim("held", run.run_id).pid, signal.SIGKILL)
    runs.hold.unlink()
    runs.runtime.wait(handle)
    again = runs.runtime.submit(run, stage)
    runs.runtime.wait(again)
    runs.runtime.finish(again)
    runs.runtime.close(run, wait_seconds=WAIT_SECONDS)
    assert runs.rows("held") == {"held 1 1|nothing"}
    runs.write("views", "3")
    runs.run("warm_views")
    assert runs.rows("views") == {"views 3 3|nothing"}


def test_a_runner_is_replaced_when_its_java_has_died(runs: Runs) -> None:
    runs.write("views", "1")
    runs.run("warm_views")
    place, about = the_runner()
    java = next(child for child in psutil.Process(about["pid"]).children(recursive=True) if child.name() == "java")
    java.kill()
    until(lambda: place not in warm_places())
    runs.run("warm_views")
    assert place not in warm_places()
    assert runs.rows("views") == {"views 1 1|nothing"}


def test_a_runner_ends_when_a_run_has_left_what_cannot_be_removed(runs: Runs) -> None:
    runs._modules.write("warm_leaves", LEAVES.format(catalog=True, nonce=2))
    runs.run("warm_leaves")
    server = runs.claim("leaves", sorted(os.listdir(runs.lake / "root" / "runs" / "leaves"))[-1]).warm
    until(lambda: server.partition(",")[0] not in [place.name for place in warm_places()])


@pytest.mark.nightly
def test_a_continuing_run_and_another_have_a_java_each(runs: Runs) -> None:
    """With room for one warm runner the second run has a cold one, of its own, at the same time."""
    runs.write("views", "1")
    runs.run("warm_views")
    the_runner()
    runs.hold.touch()
    runs.write("held", "1")
    run = runs.runtime.prepare(runs.request("warm_held"))
    stage = run.plan.stages[0].stage_id
    handle = runs.runtime.submit(run, stage)
    until(lambda: stage_status(runs.files, handle).state == RUNNING)
    other = Runs(runs.lake, runs._modules, runs.hold.parent / "other")
    other.write("held", "2")
    served = other.claim("held", other.run("warm_held")).warm
    assert served == ""
    assert other.rows("held") == {"held 2 2|nothing"}
    runs.hold.unlink()
    runs.runtime.wait(handle)
    runs.runtime.finish(handle)
    runs.runtime.close(run, wait_seconds=WAIT_SECONDS)
    assert runs.rows("held") == {"held 1 1|nothing"}
    assert json.dumps(runs.claim("held", run.run_id).warm) != '""'

"""Epochs of few messages run beside the driver: what runs there, what goes to a Spark job, and what either leaves."""

from __future__ import annotations

import logging
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pyarrow.csv as csv
import pytest

from airflow_samza import stream_application
from airflow_samza.engine.stage_context import StageContext
from airflow_samza.engine.stage_setup import StageSetup
from airflow_samza.errors import MessageError, StageCancelled
from airflow_samza.runs.records.epoch_records import Intent
from airflow_samza.runs.records.run_plan import BoundStream
from airflow_samza.spark import small_epochs, task_process
from airflow_samza.spark.small_epochs import SmallEpochs
from airflow_samza.spark.task_process import TaskForker, cores_of, fork_task_forker, may_run_beside
from airflow_samza.systems.system import SystemBinding
from tests.support.local_engine import LocalEngine, LocalStage
from tests.support.runs_here import Here, run_stage
from tests.support.stand_ins import Attempt
from tests.support.topic_rows import topic_rows

HERE = "tests.unit.spark.test_small_epochs:"
PARTITIONS = 3


@stream_application("by-process", default_system="log")
def by_process(app: Any) -> None:
    """Writes the process that has run a message, and the digest that the Python there makes of a text."""
    numbers = app.input_stream("numbers", schema="n bigint", partitions=PARTITIONS)
    ran = numbers.map(work, schema="n bigint, pid bigint, digest bigint")
    ran.send_to(app.output_stream("ran"))


@stream_application("sums", default_system="log")
def sums(app: Any) -> None:
    """Two stages, of which the second keeps state."""
    numbers = app.input_stream("numbers", schema="n bigint", partitions=PARTITIONS)
    numbers.partition_by("n", id="by-n").map(work, schema="n bigint, pid bigint, digest bigint", id="work").send_to(
        app.output_stream("ran")
    )


@stream_application("joined", default_system="log")
def joined(app: Any) -> None:
    numbers = app.input_stream("numbers", schema="n bigint", partitions=PARTITIONS, key="n")
    names = app.side_input("names", schema="n bigint, name string", key="n", partitions=PARTITIONS)
    table = app.table("named", key="n", side_inputs=[names])
    numbers.join(table, how="left", id="named").send_to(app.output_stream("ran"))


def work(row: Any) -> dict[str, int]:
    """Do what the environment says to a message."""
    what, _, value = os.environ.get("BESIDE", "").partition(" ")
    if what == "fails":
        raise ValueError("a bad number")
    if what == "meets":
        meet(*value.split())
    if what == "dies" and os.getppid() != int(value):
        os.kill(os.getpid(), signal.SIGKILL)
    if what == "leaves":
        leave(value)
    if what == "ends-program":
        with subprocess.Popen(["sleep", "8"]) as program:
            program.send_signal(int(value))
    if what == "holds":
        Path(value).write_text(str(os.getpid()))
        re.match("(a+)+$", "a" * 60 + "b")  # in C, with the interpreter's lock
    if what == "hangs":
        Path(value).write_text(str(os.getpid()))
        time.sleep(60)
    return {"n": row.n, "pid": os.getpid(), "digest": hash("a text")}


def meet(folder: str, processes: str) -> None:
    """Wait until as many processes have a message in hand."""
    (Path(folder) / str(os.getpid())).touch()
    until = time.monotonic() + 60
    while len(os.listdir(folder)) < int(processes):
        if time.monotonic() > until:
            raise TimeoutError(folder)
        time.sleep(0.01)


def leave(way: str) -> None:
    """Die, and leave a child that has all open files of this process."""
    if way == "program":
        os.system("sleep 30 &")
    elif os.fork() == 0:
        time.sleep(30)
        os._exit(0)
    os.kill(os.getpid(), signal.SIGKILL)


@dataclass
class BesideEngine(LocalEngine):
    """An engine whose Spark jobs are tasks in this process; it has the numbers of tasks of each."""

    forker: TaskForker | None
    jobs: list[int] = field(default_factory=list)

    @contextmanager
    def start_stage(self, context: StageContext, inputs: Mapping[str, BoundStream]) -> Iterator[LocalStage]:
        with super().start_stage(context, inputs) as stage:
            yield stage
            assert isinstance(stage, BesideStage)
            stage.small.close()

    def stage(self, context: StageContext, setup: StageSetup) -> LocalStage:
        return BesideStage(context, setup, self)


class BesideStage(LocalStage):
    def __init__(self, context: StageContext, setup: StageSetup, engine: BesideEngine) -> None:
        super().__init__(context, setup)
        self._engine = engine
        self.small = SmallEpochs(engine.forker, context, setup)

    def run_epoch(self, intent: Intent, messages: int | None) -> None:
        if not self.small.run(intent, messages):
            self._engine.jobs.append(len(intent.running))
            super().run_epoch(intent, messages)


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Iterator[BesideEngine]:
    """An engine with a forker that has all imports, as that of a warm runner has."""
    monkeypatch.setattr(small_epochs, "HELLO_SECONDS", 30.0)
    monkeypatch.setattr(task_process, "_import", lambda: None)
    made = BesideEngine(None)
    yield made
    if made.forker is not None:
        made.forker.close()


@pytest.fixture
def here(tmp_path: Path, engine: BesideEngine) -> Here:
    made = Here(tmp_path, engine)
    made.log.append("numbers", pa.table({"n": pa.array(range(9), pa.int64())}), key=["n"], partitions=PARTITIONS)
    return made


def forked(engine: BesideEngine, what: str = "", cores: int = 1) -> BesideEngine:
    """Give an engine its forker, whose processes do with messages what is said.

    Arrow has a pipe for signals by then, which it makes anew in each process that is forked, but no threads that read:
    what is forked beside one that holds a lock waits for it for ever.
    """
    csv.read_csv(BytesIO(b"a\n1\n"), csv.ReadOptions(use_threads=False))
    os.environ["BESIDE"] = what
    try:
        engine.forker = fork_task_forker(cores=cores)
    finally:
        del os.environ["BESIDE"]
    return engine


def test_tasks_of_a_small_epoch_run_in_a_process_that_is_not_the_driver(here: Here, engine: BesideEngine) -> None:
    forked(engine)
    here.whole(f"{HERE}by_process", "run-1")
    rows = topic_rows(here.log, "ran")
    assert sorted(row["n"] for row in rows) == list(range(9))
    assert {row["pid"] for row in rows}.isdisjoint({os.getpid()})
    assert len({row["pid"] for row in rows}) == 1
    assert engine.jobs == []


def test_a_process_serves_one_stage_after_the_other(here: Here, engine: BesideEngine) -> None:
    forked(engine)
    here.whole(f"{HERE}by_process", "run-1")
    here.whole(f"{HERE}by_process", "run-2")
    assert len({row["pid"] for row in topic_rows(here.log, "ran")}) == 1


def test_a_process_that_has_ended_while_it_was_idle_is_replaced(here: Here, engine: BesideEngine) -> None:
    forked(engine)
    here.whole(f"{HERE}by_process", "run-1")
    (pid,) = {row["pid"] for row in topic_rows(here.log, "ran")}
    os.kill(pid, signal.SIGKILL)
    assert is_gone(pid)
    here.whole(f"{HERE}by_process", "run-2")
    assert len({row["pid"] for row in topic_rows(here.log, "ran")}) == 2
    assert engine.jobs == []


def test_processes_end_with_the_forker(here: Here, engine: BesideEngine) -> None:
    forked(engine)
    here.whole(f"{HERE}sums", "run-1")
    (pid,) = {row["pid"] for row in topic_rows(here.log, "ran")}
    assert engine.forker is not None
    engine.forker.close()
    engine.forker = None
    assert is_gone(pid)


def test_tasks_that_take_long_run_on_as_many_processes_as_there_are_cores(
    here: Here, engine: BesideEngine, tmp_path: Path
) -> None:
    (tmp_path / "met").mkdir()
    forked(engine, f"meets {tmp_path / 'met'} 2", cores=2)
    here.whole(f"{HERE}by_process", "run-1")
    rows = topic_rows(here.log, "ran")
    assert sorted(row["n"] for row in rows) == list(range(9))
    assert len({row["pid"] for row in rows}) == 2
    assert engine.jobs == []


def test_an_epoch_of_many_messages_has_all_processes_from_its_beginning(
    here: Here, engine: BesideEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(small_epochs, "ALONE_MESSAGES", 0)
    (tmp_path / "met").mkdir()
    forked(engine, f"meets {tmp_path / 'met'} {PARTITIONS}", cores=8)
    here.whole(f"{HERE}by_process", "run-1")
    assert len({row["pid"] for row in topic_rows(here.log, "ran")}) == PARTITIONS
    assert engine.jobs == []


def test_stages_together_have_no_more_further_processes_than_cores(engine: BesideEngine) -> None:
    forker = forked(engine, cores=3).forker
    assert forker is not None
    first, second = forker.open(), forker.open()
    further = [forker.open(further=True), forker.open(further=True)]
    assert None not in (first, second, *further)
    assert forker.open(further=True) is None
    forker.give_back(further[0], further=True)  # type: ignore[arg-type]
    assert forker.open(further=True) is not None
    assert forker.open(further=True) is None


@pytest.mark.parametrize("what", ["fails", "dies 0"])
def test_when_one_of_several_processes_fails_all_are_ended(
    here: Here, engine: BesideEngine, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    monkeypatch.setattr(small_epochs, "ALONE_MESSAGES", 0)
    killed: list[int | None] = []
    kill = task_process.TaskProcess.kill

    def noted(process: task_process.TaskProcess) -> None:
        killed.append(process._pid)
        kill(process)

    monkeypatch.setattr(task_process.TaskProcess, "kill", noted)
    forked(engine, what, cores=PARTITIONS)
    if what == "fails":
        with pytest.raises(MessageError, match="a bad number"):
            here.whole(f"{HERE}by_process", "run-1")
        assert engine.jobs == []
    else:
        here.whole(f"{HERE}by_process", "run-1")
        assert engine.jobs == [PARTITIONS]
        assert sorted(row["n"] for row in topic_rows(here.log, "ran")) == list(range(9))
    assert len(killed) == PARTITIONS
    assert all(is_gone(pid) for pid in killed if pid is not None)


def test_an_epoch_of_more_messages_than_configured_is_a_job(here: Here, engine: BesideEngine) -> None:
    forked(engine)
    here.whole(f"{HERE}by_process", "run-1", config={"job.driver.max.messages": "8"})
    assert engine.jobs == [PARTITIONS]


def test_with_0_every_epoch_is_a_job(here: Here, engine: BesideEngine) -> None:
    forked(engine)
    here.whole(f"{HERE}sums", "run-1", config={"job.driver.max.messages": "0"})
    assert engine.jobs == [PARTITIONS, PARTITIONS]


@pytest.mark.parametrize(("lines", "jobs"), [(1, []), (600, [1])])
def test_of_files_32_bytes_count_as_a_message(
    tmp_path: Path, engine: BesideEngine, lines: int, jobs: list[int]
) -> None:
    here = Here(tmp_path, forked(engine), {"lake": SystemBinding("files", {"root": str(tmp_path / "lake")})})
    (tmp_path / "lake/in").mkdir(parents=True)
    (tmp_path / "lake/in/a.jsonl").write_text('{"n": 1}\n' * lines)
    here.whole("tests.unit.spark.test_small_epochs:from_files", "run-1", config={"job.driver.max.messages": "100"})
    assert engine.jobs == jobs


@stream_application("from-files")
def from_files(app: Any) -> None:
    app.input_stream("lines", system="lake", path="in/*.jsonl", schema="n bigint", partitions=1).send_to(
        app.output_stream("ran", system="log")
    )


@pytest.mark.parametrize(("mode", "jobs"), [("staged", []), ("pipelined", [PARTITIONS])])
def test_a_stage_of_several_epochs_stays_with_the_workers_that_have_its_table(
    here: Here, engine: BesideEngine, mode: str, jobs: list[int]
) -> None:
    forked(engine)
    here.log.append("names", pa.table({"n": [1], "name": ["one"]}), key=["n"], partitions=PARTITIONS)
    here.whole(f"{HERE}joined", "run-1", mode=mode)
    assert engine.jobs == jobs
    assert {row["name"] for row in topic_rows(here.log, "ran") if row["n"] == 1} == {"one"}


def test_an_error_of_a_callable_is_that_of_the_stage(here: Here, engine: BesideEngine) -> None:
    forked(engine, "fails")
    with pytest.raises(MessageError, match="a bad number") as raised:
        here.whole(f"{HERE}by_process", "run-1")
    assert "test_small_epochs.py" in str(raised.value.to_dict())
    assert engine.jobs == []


def test_tasks_of_a_process_that_died_are_run_by_a_job(
    here: Here, engine: BesideEngine, caplog: pytest.LogCaptureFixture
) -> None:
    forked(engine, "dies 0")
    with caplog.at_level(logging.WARNING):
        here.whole(f"{HERE}by_process", "run-1")
    assert engine.jobs == [PARTITIONS]
    assert sorted(row["n"] for row in topic_rows(here.log, "ran")) == list(range(9))
    assert "the process that ran its tasks has died; Spark runs them" in caplog.text


@pytest.mark.parametrize("way", ["program", "fork"])
def test_a_process_that_died_is_noticed_though_a_child_of_it_lives(here: Here, engine: BesideEngine, way: str) -> None:
    forked(engine, f"leaves {way}")
    started = time.monotonic()
    here.whole(f"{HERE}by_process", "run-1")
    assert time.monotonic() - started < 25
    assert engine.jobs == [PARTITIONS]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_program_that_a_callable_starts_can_be_ended(here: Here, engine: BesideEngine, number: int) -> None:
    forked(engine, f"ends-program {int(number)}")
    started = time.monotonic()
    here.whole(f"{HERE}by_process", "run-1")
    assert time.monotonic() - started < 50
    assert engine.jobs == []


def test_a_cancelled_attempt_ends_its_process_in_the_middle_of_a_task(
    here: Here, engine: BesideEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "hangs"
    forked(engine, f"hangs {place}")
    plan = here.plan(f"{HERE}by_process", "run-1")
    monkeypatch.setattr(Attempt, "cancel_requested", lambda _: place.exists())
    with pytest.raises(StageCancelled):
        run_stage(str(here.root), plan, "numbers", 1, here.bindings, engine)
    pid = int(place.read_text())
    assert is_gone(pid)


DRIVER = """
import os, sys, threading, time
import pyarrow as pa
from pathlib import Path
from airflow_samza.spark import small_epochs
from tests.support.runs_here import Here
from tests.unit.spark.test_small_epochs import HERE, BesideEngine, forked

small_epochs.HELLO_SECONDS = 30.0
folder = Path(sys.argv[1])
engine = forked(BesideEngine(None), f"{sys.argv[2]} {folder / 'hangs'}")
here = Here(folder / "root", engine)
here.log.append("numbers", pa.table({"n": [1]}), key=["n"], partitions=3)
def run():
    try:
        here.whole(f"{HERE}by_process", "run-1")
    finally:  # the process that was to stay in the task did not come: the driver has run it
        print("jobs in the driver:", engine.jobs, file=sys.stderr)
        os._exit(3)
threading.Thread(target=run, daemon=True).start()
while not (folder / "hangs").exists() or not (folder / "hangs").read_text():
    time.sleep(0.01)
os._exit(0)
"""


@pytest.mark.parametrize("what", ["hangs", "holds"])
@pytest.mark.few(1)
def test_processes_end_with_the_driver_also_in_the_middle_of_a_task(tmp_path: Path, what: str) -> None:
    subprocess.run([sys.executable, "-c", DRIVER, str(tmp_path), what], check=True, timeout=300)
    assert is_gone(int((tmp_path / "hangs").read_text()))


def is_gone(pid: int) -> bool:
    """Return whether a process ends within ten seconds."""
    until = time.monotonic() + 10
    while psutil.pid_exists(pid) and time.monotonic() < until:
        time.sleep(0.01)
    return not psutil.pid_exists(pid)


LOCAL = {"master": "local[2]", "conf": {}}


def test_tasks_run_beside_the_driver_of_a_local_master(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_process, "_has_hash_seed_of_workers", lambda: True)
    assert may_run_beside(LOCAL)


@pytest.mark.parametrize(
    "other",
    [
        {"master": "spark://host:7077"},
        {"master": "sc://host:15002"},
        {"archives": ["models.zip#models"]},
        {"conf": {"spark.executor.pyspark.memory": "1g"}},
        {"conf": {"spark.executorEnv.MODELS": "/models"}},
        {"conf": {"spark.pyspark.python": "/opt/python"}},
        {"conf": {"spark.python.daemon.module": "theirs"}},
        {"conf": {"spark.files": "/models/a.bin"}},
        {"conf": {"spark.archives": "models.zip"}},
        {"conf": {"spark.submit.pyFiles": "more.py"}},
    ],
    ids=str,
)
def test_workers_that_are_not_what_the_driver_is_get_all_tasks(
    other: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task_process, "_has_hash_seed_of_workers", lambda: True)
    assert not may_run_beside({**LOCAL, **other})


@pytest.mark.parametrize(
    ("master", "conf", "cores"),
    [
        ("local", {}, 1),
        ("local[4]", {}, 4),
        ("local[4, 2]", {}, 4),
        ("local[4]", {"spark.task.cpus": "2"}, 2),
        ("local[1]", {"spark.task.cpus": "2"}, 1),
        ("local[4]", {"spark.task.cpus": "two"}, 4),
        ("local[*]", {}, 6),
    ],
)
def test_as_many_processes_run_beside_the_driver_as_spark_would_run_tasks(
    monkeypatch: pytest.MonkeyPatch, master: str, conf: dict[str, str], cores: int
) -> None:
    monkeypatch.setattr(task_process, "cores_here", lambda: 6)
    assert cores_of({"master": master, "conf": conf}) == cores


def test_a_driver_whose_texts_have_other_hashes_than_those_of_workers_leaves_all_tasks_to_them() -> None:
    code = (
        "from airflow_samza.spark.task_process import may_run_beside;"
        "print(may_run_beside({'master': 'local[2]', 'conf': {}}))"
    )
    for seed, beside in (("0", "True"), ("random", "False"), ("7", "False")):
        made = subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        )
        assert made.stdout.strip() == beside

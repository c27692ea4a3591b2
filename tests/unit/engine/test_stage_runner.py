"""A stage runner in this process: what it takes from its queue, what it answers, and when it ends."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from airflow_samza.engine import stage_runner
from airflow_samza.engine.heartbeat import RunnerHeartbeat
from airflow_samza.engine.stage_runner import StageRunner, run_process, start_failure
from airflow_samza.errors import RuntimeMissing, SamzaError, StageFailed, StageLost
from airflow_samza.launch.bindings import bindings_to_json
from airflow_samza.launch.runner_settings import GAVE_WAY
from airflow_samza.prepare.bound_systems import run_bindings
from airflow_samza.runs.records.folders import RunFolder, must_read, read, write_once
from airflow_samza.runs.records.liveness import identity
from airflow_samza.runs.records.names import Generation
from airflow_samza.runs.stages.run_ends import RunEnd
from airflow_samza.runs.stages.spark_page import SparkPage, read_spark_page
from airflow_samza.runs.stages.stage_runners import (
    DID_NOT_START,
    Claim,
    RunnerEnd,
    RunnerFolder,
    RunnerPlace,
    StageRequest,
    claim_runner,
    enqueue,
    newest_runner,
)
from airflow_samza.runs.stages.stage_state import CANCELLED, FAILED, SUCCEEDED, StageHandle, StatusRecord
from airflow_samza.systems.filesystems.local import LocalFilesystem
from tests.support.local_engine import LocalEngine
from tests.support.runs_here import Here
from tests.support.waiting import until

PRODUCING = "tests.support.carrying_apps:producing"
CLICKS = pa.schema([("member", pa.int64()), ("page", pa.string()), ("n", pa.int64())])


class Engine(LocalEngine):
    """An engine of this process, before and behind whose stages a test acts."""

    def __init__(self) -> None:
        self.before: Callable[[str], object] = lambda stage: None
        self.page_: Any = None
        self.cancelled: list[str] = []
        self.stopped: list[bool] = []

    def connect(self, context: Any) -> None:
        self.before(context.handle.stage_id)

    def page(self) -> Any:
        if isinstance(self.page_, Exception):
            raise self.page_
        return self.page_

    def cancel(self, tag: str) -> None:
        self.cancelled.append(tag)

    def stop(self, *, in_a_hurry: bool = False) -> None:
        self.stopped.append(in_a_hurry)


class Ground:
    """A planned run of two stages, and the folder of its runner, which ends as soon as it has nothing to do."""

    def __init__(self, root: Path) -> None:
        self.here = Here(root)
        rows = [{"member": n % 3, "page": f"p{n}", "n": n} for n in range(6)]
        self.here.log.append("clicks", pa.Table.from_pylist(rows, CLICKS), key=["member"], partitions=2)
        self.run = self.here.plan(PRODUCING, "run-1")
        self.files = self.here.log.filesystem
        self.folder = RunnerFolder(RunFolder(self.run.application, "run-1"), "key", 1)
        self.stages = [stage.stage_id for stage in self.run.plan.stages]
        self.engine = Engine()
        write_once(self.files, self.folder.claim, Claim(**identity(), claimed_at=1.0))

    def handle(self, stage: str) -> StageHandle:
        return StageHandle(self.run.application, "run-1", stage, Generation(1, 1), 1)

    def ask(self, *stages: str) -> None:
        for stage in stages:
            request = StageRequest(stage, "1.1", 1, runner=RunnerPlace("key", 1))
            write_once(self.files, self.handle(stage).folder.attempt(1, "request"), request)
            enqueue(self.files, self.folder, request)

    def serve(self, open_engine: Callable[..., Any] | None = None, **settings: Any) -> None:
        """Be the runner until it ends."""
        bindings = bindings_to_json(run_bindings(self.run.systems, {}))
        asked = {"bindings": bindings, "idle_seconds": 0.0, **settings}
        StageRunner(self.files, self.folder, asked, open_engine or (lambda *_: self.engine)).serve()

    def status(self, stage: str) -> StatusRecord:
        return must_read(self.files, self.handle(stage).folder.attempt(1, "status"), StatusRecord)

    def sentence(self, stage: str) -> str:
        return str((self.status(stage).error or {})["sentence"])

    def why(self) -> str:
        return must_read(self.files, self.folder.closed, RunnerEnd).why


@pytest.fixture
def ground(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ground]:
    former = signal.getsignal(signal.SIGTERM)
    for method in ("start", "listen_to"):  # their threads would outlive the test
        monkeypatch.setattr(RunnerHeartbeat, method, lambda *_: None)
    yield Ground(tmp_path)
    signal.signal(signal.SIGTERM, former)


def test_a_runner_runs_what_is_in_its_queue_and_ends_when_nothing_comes(ground: Ground) -> None:
    first = ground.stages[0]
    ground.ask(first)
    ground.serve()
    assert (ground.status(first).state, ground.why()) == (SUCCEEDED, "idle")
    assert (ground.engine.stopped, ground.engine.cancelled) == ([False], [])


def test_a_runner_that_nobody_asks_for_anything_ends(ground: Ground) -> None:
    ground.serve()
    assert (ground.why(), ground.engine.cancelled) == ("idle", [])


def test_a_runner_whose_last_look_fails_ends_all_the_same(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    as_it_is = StageRunner._take_requests

    def take(self: StageRunner) -> bool:
        if ground.files.exists(ground.folder.closed):
            raise OSError("the storage is away")
        return as_it_is(self)

    monkeypatch.setattr(StageRunner, "_take_requests", take)
    ground.serve()
    assert (ground.why(), ground.engine.stopped) == ("idle", [False])


def test_a_runner_waits_for_what_it_runs_before_it_is_idle(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[float] = []
    as_it_is = StageRunner._wait

    def wait(self: StageRunner, seconds: float) -> None:
        looks.append(seconds)
        as_it_is(self, seconds)

    monkeypatch.setattr(StageRunner, "_wait", wait)
    first = ground.stages[0]

    def slow(stage: str) -> None:
        while len(looks) < 3:  # it looks at its queue meanwhile
            time.sleep(0.001)

    ground.engine.before = slow
    ground.ask(first)
    ground.serve()
    assert (ground.status(first).state, ground.engine.cancelled) == (SUCCEEDED, [])


def test_an_attempt_that_is_cancelled_before_it_begins_does_nothing(ground: Ground) -> None:
    first = ground.stages[0]
    ground.ask(first)
    ground.files.put(ground.handle(first).folder.attempt(1, "cancel"), b"{}")
    ran: list[str] = []
    ground.engine.before = ran.append
    ground.serve()
    assert (ground.status(first).state, ran) == (CANCELLED, [])


def test_a_stage_fails_by_the_error_that_it_meets(ground: Ground) -> None:
    def fail(stage: str) -> None:
        raise StageFailed("It failed.", stage=stage)

    ground.engine.before = fail
    ground.ask(ground.stages[0])
    ground.serve()
    assert (ground.status(ground.stages[0]).state, ground.sentence(ground.stages[0])) == (FAILED, "It failed.")
    assert ground.why() == "idle"


def test_an_error_that_nobody_foresaw_fails_the_stage_with_its_kind(ground: Ground) -> None:
    def fail(stage: str) -> None:
        raise ZeroDivisionError("by zero")

    ground.engine.before = fail
    ground.ask(ground.stages[0])
    ground.serve()
    assert ground.sentence(ground.stages[0]) == f"The stage {ground.stages[0]} failed: ZeroDivisionError: by zero"


def test_a_runner_whose_spark_is_lost_takes_no_more_requests(ground: Ground) -> None:
    first, second = ground.stages

    def lose(stage: str) -> None:
        raise StageLost("Spark is gone.", stage=stage)

    ground.engine.before = lose
    ground.ask(first)
    ground.serve(idle_seconds=3600.0)
    assert (ground.status(first).state, ground.why()) == (FAILED, "Spark is gone")
    assert ground.engine.stopped == []  # there is nothing to stop
    assert read(ground.files, ground.handle(second).folder.attempt(1, "status"), StatusRecord) is None


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (RuntimeMissing("There is no Java here."), "There is no Java here."),
        (ValueError("no such setting\nat line 1"), "Spark does not start: ValueError: no such setting"),
        (ValueError(), "Spark does not start: ValueError: "),
        (
            ValueError(
                "An error occurred while calling None.x.\n: a.SparkException: no scheduler\n\tat a.B\nCaused by: "
                "io.KubernetesClientException: Failure executing: GET at: https://host/pods/d. Message: pods 'd' is "
                "forbidden. Received status: Status(code=403)\n\tat c.D"
            ),
            "Spark does not start: pods 'd' is forbidden",
        ),
    ],
)
def test_a_spark_that_does_not_start_fails_all_that_is_asked(ground: Ground, error: Exception, sentence: str) -> None:
    def open_engine(*_: Any) -> Any:
        raise error

    ground.ask(*ground.stages)
    ground.serve(open_engine)
    assert [ground.sentence(stage) for stage in ground.stages] == [sentence] * 2
    assert ground.why() == DID_NOT_START


def test_the_reason_of_a_java_that_has_ended_is_what_java_has_printed_and_not_our_own_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "runner.log"
    log.write_text("Error: Two collectors\n")
    monkeypatch.setattr(stage_runner.log, "error", lambda *_, **__: log.write_text("ERROR Spark does not start"))
    error = start_failure(
        RuntimeError("[JAVA_GATEWAY_EXITED] Java has exited"), LocalFilesystem(tmp_path), log.name, ""
    )
    assert error.sentence == "Spark does not start: Error: Two collectors"
    assert log.read_text() == "ERROR Spark does not start"


def test_a_runner_of_a_run_that_is_closed_cancels_what_it_runs_and_ends(ground: Ground) -> None:
    first = ground.stages[0]

    def close_and_wait(stage: str) -> None:
        write_once(ground.files, ground.folder.run.closed, RunEnd(False, 0.0))
        while not ground.engine.cancelled:
            time.sleep(0.001)

    ground.engine.before = close_and_wait
    ground.ask(first)
    ground.serve(idle_seconds=3600.0)
    assert (ground.status(first).state, ground.engine.cancelled[0]) == (CANCELLED, f"{first}@1.1@1")
    assert ground.why() == "over"


def test_a_runner_whose_folder_is_gone_ends_without_a_word(ground: Ground) -> None:
    ground.files.delete(ground.folder.claim)
    ground.serve(idle_seconds=3600.0)
    assert not ground.files.exists(ground.folder.closed)


def test_a_cancelled_attempt_is_cancelled_in_its_engine_also_where_that_does_not_answer(ground: Ground) -> None:
    first = ground.stages[0]

    def wait_until_cancelled(stage: str) -> None:
        ground.files.put(ground.handle(first).folder.attempt(1, "cancel"), b"{}")
        while len(asked) < 2:
            time.sleep(0.001)

    asked: list[str] = []

    def cancel(tag: str) -> None:
        asked.append(tag)
        raise ConnectionError("Spark is gone")

    ground.engine.before = wait_until_cancelled
    ground.engine.cancel = cancel  # type: ignore[method-assign]
    ground.ask(first)
    ground.serve()
    assert (ground.status(first).state, set(asked)) == (CANCELLED, {f"{first}@1.1@1"})


@pytest.mark.parametrize("page", [SparkPage("app-1", "http://driver:4040"), None, ConnectionError("no answer")])
def test_the_page_of_its_spark_is_noted_and_costs_no_run(ground: Ground, page: Any) -> None:
    ground.engine.page_ = page
    ground.ask(ground.stages[0])
    ground.serve()
    assert ground.status(ground.stages[0]).state == SUCCEEDED
    noted = read_spark_page(ground.files, ground.folder)
    if isinstance(page, Exception):
        assert noted is None
    else:
        assert noted == (page or SparkPage())


def test_a_root_that_cannot_be_read_for_long_ends_the_runner(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*_: Any) -> Any:
        raise SamzaError("The root is away.")

    monkeypatch.setattr(StageRunner, "_take_requests", away)
    monkeypatch.setattr(stage_runner, "PATIENCE_SECONDS", -1.0)
    ground.serve(idle_seconds=3600.0)
    assert ground.why() == "over"


def test_a_root_that_comes_back_is_served(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    as_it_is, away = StageRunner._take_requests, [OSError("It is away.")] * 2

    def take(self: StageRunner) -> bool:
        if away:
            raise away.pop()
        return as_it_is(self)

    def close_when_done() -> None:
        until(lambda: ground.files.exists(ground.handle(first).folder.result), 60)
        write_once(ground.files, ground.folder.run.closed, RunEnd(True, 0.0))

    monkeypatch.setattr(StageRunner, "_take_requests", take)
    first = ground.stages[0]
    ground.ask(first)
    closing = threading.Thread(target=close_when_done)
    closing.start()
    ground.serve(idle_seconds=3600.0)
    closing.join()
    assert away == []
    assert ground.files.exists(ground.handle(first).folder.result)


@pytest.mark.parametrize(("in_cluster", "code"), [(False, GAVE_WAY), (True, 0)])
def test_a_process_that_finds_another_alive_gives_way_and_leaves_nothing(
    tmp_path: Path, in_cluster: bool, code: int
) -> None:
    files, run = LocalFilesystem(tmp_path), RunFolder("app", "run-1")
    there = claim_runner(files, run, "key")
    assert there is not None
    files.put("starting.log", b"says nothing")
    settings = {"starting_log": "starting.log", "bindings": {}, "in_cluster": in_cluster}
    assert run_process([str(tmp_path), "app", "run-1", "key"], lambda *_: Engine(), settings) == code
    assert not files.exists("starting.log")
    assert newest_runner(files, run, "key") == there

"""Contract of every kind of session, whichever Spark runs the stages: one suite over all of them.

The tests of one kind share a run and its runner, and go from the harmless to the deadly.
"""

from __future__ import annotations

import datetime
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import psutil
import pyarrow as pa
import pytest

from airflow_samza.errors import MessageError, PushError, StageCancelled, StageFailed, StageLost
from airflow_samza.prepare.run_request import RunRequest
from airflow_samza.provider.failures import log_runner
from airflow_samza.runs.stages.runner_log import last_lines
from airflow_samza.runs.stages.stage_state import CANCELLED, LOST, RUNNING, SUCCEEDED
from airflow_samza.runs.tables import versions
from airflow_samza.runs.tables.table_version import FULL
from airflow_samza.runs.tables.versions import rollback
from airflow_samza.systems.filesystems.opening import open_filesystem
from airflow_samza.systems.log.system import LogSystem
from airflow_samza.systems.system import SystemBinding
from tests.spark.clusters.pushes import KEPT, Pushes
from tests.spark.clusters.sessions import KINDS, SECRET, Session, session_of
from tests.spark.conftest import APPS
from tests.support.files_with import files_with
from tests.support.topic_rows import topic_rows
from tests.support.waiting import until

# A Spark starts in seconds, and in a minute where eight people share two cores.
pytestmark = [pytest.mark.extended, pytest.mark.spark, pytest.mark.timeout(900)]

BOTH = [{"number": 0}, {"number": 1}]


@pytest.fixture(scope="module", params=KINDS)
def session_kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def shared(session_kind: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    with session_of(session_kind, tmp_path_factory.mktemp(session_kind)) as session:
        yield session


@pytest.fixture
def session(shared: Session) -> Session:
    shared.forget()
    return shared


def numbers(session: Session, output: str) -> list[int]:
    return sorted(row["number"] for row in session.rows(output))


def test_stages_run_one_after_the_other_in_one_runner(session: Session) -> None:
    session.runtime.run_stage(session.run, "counted")
    first = session.runners()
    session.runtime.run_stage(session.run, "by-number")
    assert session.rows("counted") == [{"number": 0, "marks": 1}, {"number": 1, "marks": 1}]
    assert len(first) == 1
    assert session.runners() == first


def test_submitting_again_attaches_to_what_is_there(session: Session) -> None:
    handle = session.runtime.submit(session.run, "held")
    until(session.holders)
    assert session.runtime.submit(session.run, "held") == handle
    assert session.runtime.status(handle).state == RUNNING
    session.go.touch()
    assert session.runtime.wait(handle, timeout=300).state == SUCCEEDED
    assert session.runtime.submit(session.run, "held") == handle
    assert session.runtime.finish(handle).outputs[0].messages == 2
    assert len(session.holders()) == 1


def test_cancel_ends_one_stage_and_no_other(session: Session) -> None:
    handle = session.runtime.submit(session.run, "held", generation=2)
    until(session.holders)
    assert session.runtime.run_stage(session.run, "counted", generation=2).outputs[0].messages == 2
    assert session.runtime.status(handle).state == RUNNING
    session.runtime.cancel(handle)
    assert session.runtime.wait(handle, timeout=300).state == CANCELLED
    with pytest.raises(StageCancelled, match="was cancelled"):
        session.runtime.finish(handle)
    (worker,) = session.holders()
    until(lambda: not psutil.pid_exists(worker))


def test_workers_get_our_package_the_modules_and_the_archives(session: Session) -> None:
    session.runtime.run_stage(session.run, "shipped")
    rows = session.rows("shipped")
    assert [(row["rule"], row["word"]) for row in rows] == [("shipped", "unpacked")] * 2
    if session.place.ships_package:
        assert all(".zip/airflow_samza/" in row["package"] for row in rows)


def test_an_error_of_a_callable_arrives_with_its_place(session: Session) -> None:
    with pytest.raises(MessageError, match="never") as caught:
        session.runtime.run_stage(session.run, "rejected")
    assert caught.value.facts["file"] == str(APPS / "samza_spark_apps" / "contract.py")


def test_the_last_lines_of_the_driver_of_a_failed_stage_come_into_the_tasks_log(session: Session) -> None:
    files = open_filesystem(session.root)
    service: Any = SimpleNamespace(last_lines=lambda path: last_lines(files, path, [SECRET]))
    said: list[str] = []
    log = SimpleNamespace(info=lambda event, *args: said.append(event % args if args else event))
    with pytest.raises(MessageError, match="never") as caught:
        session.runtime.run_stage(session.run, "rejected", generation=2)
    log_runner(service, log, caught.value)
    assert said[0].startswith("::group::The last ")
    assert said[-1] == "::endgroup::"
    # The status follows the log: whoever sees that the stage has failed finds the line of this very attempt.
    assert [line for line in said[1:-1] if "rejected@1.2@" in line and "never" in line], "\n".join(said)


def test_a_task_that_fails_once_is_tried_again_and_its_output_is_there_once(session: Session) -> None:
    session.runtime.run_stage(session.run, "failing")
    assert session.tries("failing") == 2
    assert numbers(session, "failing") == [0, 1]


def test_a_worker_that_is_killed_costs_a_try_and_its_output_is_there_once(session: Session) -> None:
    session.runtime.run_stage(session.run, "dying")
    assert session.tries("dying") == 2
    assert numbers(session, "dying") == [0, 1]


def test_a_worker_that_is_killed_in_a_group_of_tasks_costs_a_try_and_their_output_is_there_once(
    session: Session,
) -> None:
    session.runtime.run_stage(session.run, "grouped")
    assert session.tries("grouped", 5) == 2
    assert numbers(session, "grouped") == list(range(16))
    by_spark = len(list(session.marks.glob("tried-by-*")))
    assert by_spark == 17 if session.kind == "connect" else by_spark < 16


def test_a_slow_task_in_a_group_is_run_twice_and_the_output_of_all_is_there_once(session: Session) -> None:
    if not session.place.speculates:
        pytest.skip("Spark speculates on several hosts only")
    (session.marks / "straggles").touch()
    session.runtime.run_stage(session.run, "grouped", generation=2)
    assert session.tries("grouped", 5) == 2
    assert numbers(session, "grouped") == list(range(16))


def test_a_slow_task_is_run_twice_and_its_output_is_there_once(session: Session) -> None:
    if not session.place.speculates:
        pytest.skip("Spark speculates on several hosts only")
    handle = session.runtime.submit(session.run, "straggling")
    assert session.runtime.wait(handle, timeout=300).state == SUCCEEDED
    assert session.tries("straggling") == 2
    assert numbers(session, "straggling") == [0, 1]


def test_an_executor_that_is_killed_costs_a_try_and_its_output_is_there_once(session: Session) -> None:
    if not session.place.executors():
        pytest.skip("there is no executor but the runner itself")
    handle = session.runtime.submit(session.run, "held", generation=3)
    until(session.holders)
    above = psutil.Process(session.holders()[0]).parents()
    (executor,) = [process for process in session.place.executors() if process in above]
    executor.kill()
    until(lambda: len(session.holders()) == 2)
    session.go.touch()
    assert session.runtime.wait(handle, timeout=300).state == SUCCEEDED
    assert numbers(session, "held") == [0, 1]


def kill_a_submitter(session: Session, submits: str, *given: object) -> None:
    """Kills a process that submits (``runtime`` and ``given``) and waits, once a worker is held."""
    program = (
        "import pickle, sys; from airflow_samza.systems.filesystems.root_access import give_access; "
        "runtime, access, given = pickle.load(sys.stdin.buffer); "
        f"give_access(runtime.root, access); runtime.wait({submits})"
    )
    path = os.pathsep.join([str(APPS), os.getcwd()])
    submitter = subprocess.Popen(
        [sys.executable, "-c", program],
        stdin=subprocess.PIPE,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert submitter.stdin is not None
    with submitter.stdin as pipe:
        pickle.dump((session.runtime, session.place.access, given), pipe)
    until(lambda: session.holders() or submitter.poll() is not None)
    assert submitter.poll() is None
    os.killpg(submitter.pid, signal.SIGKILL)
    submitter.wait()


def test_the_submitter_may_be_killed_and_another_process_goes_on(session: Session) -> None:
    kill_a_submitter(session, "runtime.submit(given[0], 'held', generation=4)", session.run)
    handle = session.runtime.submit(session.run, "held", generation=4)
    assert handle.attempt == 1
    assert session.runtime.status(handle).state == RUNNING
    session.go.touch()
    assert session.runtime.wait(handle, timeout=300).state == SUCCEEDED
    assert numbers(session, "held") == [0, 1]
    assert len(session.holders()) == 1


def test_no_secret_is_in_a_file_or_on_a_command_line(session: Session) -> None:
    handle = session.runtime.submit(session.run, "held", generation=5)
    until(session.holders)
    shown = [" ".join(process.info["cmdline"] or ()) for process in psutil.process_iter(["cmdline"])]
    assert not [line for line in shown if SECRET in line]
    assert any(place.endswith("claim.json") for place in session.places_with(""))
    assert session.places_with(SECRET) == []
    session.go.touch()
    assert session.runtime.wait(handle, timeout=300).state == SUCCEEDED


def test_a_runner_that_is_killed_loses_and_doubles_nothing(session: Session) -> None:
    handle = session.runtime.submit(session.run, "held", generation=6)
    until(session.holders)
    (runner,) = session.runners()
    runner.kill()
    assert session.runtime.wait(handle, timeout=300).state == LOST
    with pytest.raises(StageLost, match="The runner of the stage held died"):
        session.runtime.finish(handle)
    session.go.touch()
    result = session.runtime.run_stage(session.run, "held", generation=6)
    assert result.outputs[0].messages == 2
    assert numbers(session, "held") == [0, 1]
    assert session.runtime.status(handle).attempt == 2


def test_a_java_that_is_killed_loses_and_doubles_nothing(session: Session) -> None:
    """The runner lives on without its Spark, and has to see that."""
    if session.kind == "standalone-cluster":
        pytest.skip("it is the same as with the driver on this machine, and takes half a minute")
    handle = session.runtime.submit(session.run, "held", generation=7)
    until(session.holders)
    java = session.java()
    if java is None:
        pytest.skip("the runner has no Java")
    java.kill()
    session.runtime.wait(handle, timeout=300)
    with pytest.raises(StageLost) as caught:
        session.runtime.finish(handle)
    assert caught.value.retryable
    session.go.touch()
    result = session.runtime.run_stage(session.run, "held", generation=7)
    assert result.outputs[0].messages == 2
    assert numbers(session, "held") == [0, 1]


def test_closing_the_run_ends_everything_that_it_started(session: Session) -> None:
    # The retry of the test before needs no runner if executors ended the tasks of the one that was killed.
    session.runtime.run_stage(session.run, "counted", generation=3)
    (runner,) = session.runners()
    session.runtime.close(session.run, wait_seconds=120)
    assert session.runtime.live_runners(session.run) == []
    until(lambda: not psutil.pid_exists(runner.pid) and not session.place.executors(), 240)


@pytest.mark.nightly
def test_stages_of_many_epochs_run_together_and_an_executor_that_is_killed_doubles_nothing(session: Session) -> None:
    session.runtime.close(session.run, wait_seconds=60)  # a cluster of two cores has none for another run's runner
    log = LogSystem("log", SystemBinding("log", {"root": session.root}))
    at = datetime.datetime(2026, 1, 1, tzinfo=datetime.timezone.utc)
    visits = [{"member_id": number, "country": "nl", "dwell_ms": number, "at": at} for number in range(200)]
    schema = pa.schema(
        [("member_id", "int64"), ("country", "string"), ("dwell_ms", "int64"), ("at", pa.timestamp("us", "UTC"))]
    )
    log.append("visits", pa.Table.from_pylist(visits, schema), key=["member_id"], partitions=2)
    run = session.runtime.prepare(
        RunRequest(
            "samza_spark_apps.modes:five_stages", "run 2", mode="pipelined", config={"job.epoch.max.messages": "20"}
        )
    )
    handles = [session.runtime.submit(run, stage.stage_id) for stage in run.plan.stages]
    try:
        until(
            lambda: (
                (told := session.runtime.status(handles[2])).is_final or (told.progress and told.progress.epochs >= 1)
            )
        )
        for executor in session.place.executors()[:1]:
            executor.kill()
        for handle in handles:
            assert session.runtime.wait(handle, timeout=600).state == SUCCEEDED
            assert session.runtime.finish(handle).epochs > 1
    finally:
        session.runtime.close(run, wait_seconds=60)
    members = [{"member_id": number, "visits": 1, "dwell": number + 4} for number in range(200)]
    assert session.rows("per-member") == sorted(members, key=repr)


@pytest.fixture
def pushes(session: Session) -> Pushes:
    if session.kind == "local":
        pytest.skip("tests/spark/test_table_push.py is all about this one")
    return Pushes(session)


HELD = {"callable": "samza_spark_apps.contract_tables:held"}
IRON = dict.fromkeys(range(8), "iron")


@pytest.mark.nightly
def test_a_push_that_is_rejected_says_why_and_may_be_tried_again_in_the_same_runner(pushes: Pushes) -> None:
    odd = pushes.parquet("odd.parquet", [{"member_id": 1, "level": 5}])
    with pytest.raises(
        PushError, match=r"tier is missing \(the table has string\); level \(bigint\) is not in the table"
    ):
        pushes.push("first", odd)
    few = pushes.parquet("few.parquet", [{"member_id": 1, "tier": "tin"}])
    with pytest.raises(PushError, match="has 1 row, and at least 5 are asked for"):
        pushes.push("first", few, min_rows=5)
    with pytest.raises(
        StageFailed, match=r"ValueError: 8 of them never were \(\S+/samza_spark_apps/contract_tables.py:\d+\)"
    ):
        pushes.push("first", {"callable": "samza_spark_apps.contract_tables:broken"})
    assert pushes.numbers() == []
    assert len(pushes.runners("first")) == 1


@pytest.mark.nightly
def test_cancel_ends_the_work_of_a_push(pushes: Pushes) -> None:
    handle = pushes.begin("first", HELD)
    until(pushes.session.holders)
    pushes.runtime.cancel(handle)
    assert pushes.runtime.wait(handle, timeout=300).state == CANCELLED
    with pytest.raises(StageCancelled, match="was cancelled"):
        pushes.runtime.finish_push(handle)
    (worker,) = pushes.session.holders()
    until(lambda: not psutil.pid_exists(worker))
    assert pushes.numbers() == []


@pytest.mark.nightly
def test_a_push_whose_submitter_and_driver_are_killed_shows_nothing_and_a_retry_completes_it(pushes: Pushes) -> None:
    submits = f"runtime.push({KEPT!r}, 'tiers', given[0], 'first')"
    kill_a_submitter(pushes.session, submits, HELD)
    handle = pushes.begin("first", HELD)
    assert pushes.runtime.status(handle).state == RUNNING
    assert len(pushes.session.holders()) == 1
    (runner,) = pushes.runners("first")
    runner.kill()
    assert pushes.runtime.wait(handle, timeout=300).state == LOST
    with pytest.raises(StageLost, match="The runner of the stage push died"):
        pushes.runtime.finish_push(handle)
    assert pushes.numbers() == []
    pushes.session.go.touch()
    version = pushes.push("first", HELD)
    assert (version.number, version.kind, version.rows) == (1, FULL, 8)
    assert pushes.rows(1) == IRON


@pytest.mark.nightly
def test_changes_come_from_a_database_whose_password_nobody_sees_and_are_compacted(pushes: Pushes) -> None:
    query = """SELECT CAST(7 AS BIGINT) AS "member_id", 'gold' AS "tier" FROM SYSIBM.SYSDUMMY1"""
    source = {"jdbc": {"url": "jdbc:derby:memory:nothing;create=true", "query": query}}
    version = pushes.push(
        "second", source, mode="incremental", compact_after=1, secrets={"user": "reader", "password": SECRET}
    )
    assert (version.number, version.base, version.rows) == (2, 1, 1)
    assert versions.by_number(pushes.files, "log", "tiers-push", 2).compacted is not None
    assert (pushes.rows(1), pushes.rows(2)) == (IRON, {**IRON, 7: "gold"})
    # All that Spark's page shows lies in the log of its events.
    until(
        lambda: [path for path in files_with(pushes.session.folder, "PushJob") if path.name.startswith("events_")], 60
    )
    assert pushes.session.places_with(SECRET) == []


@pytest.mark.nightly
def test_stages_look_the_pinned_version_up_in_stores_on_the_executors_hosts(pushes: Pushes) -> None:
    session = pushes.session
    if session.kind == "standalone-cluster":
        pytest.skip("the executors are the same as with the driver on this machine")
    visits = [{"member_id": number, "page": "home"} for number in range(10)]
    pushes.put("views", "member_id bigint, page string", visits, key=["member_id"], partitions=2)
    pushes.put("rate-changes", "page string, rate bigint", [{"page": "home", "rate": 3}], partitions=1)
    hosts = session.place.hosts or str(session.folder / "cluster" / "worker-0")
    run = session.runtime.prepare(RunRequest(KEPT, "run 3", config={"job.store.local.dir": f"{hosts}/samza"}))
    rollback(pushes.files, "log", "tiers-push", 1, "back")
    session.runtime.run_stage(run, run.plan.stages[0].stage_id)
    session.runtime.close(run, wait_seconds=60)
    rated = sorted((row["member_id"], row["tier"], row["rate"]) for row in topic_rows(pushes.log, "rated"))
    assert rated == [(number, "iron" if number < 7 else "gold", 3) for number in range(8)]
    stores = [path.parts for path in (session.folder / "cluster").glob("worker-*/samza/stores/*/*/*/*/store.json")]
    assert {(parts[-4].rpartition("-")[0], parts[-3]) for parts in stores} == {
        ("tiers", "0"),
        ("tiers", "1"),
        ("rates", "0"),
    }

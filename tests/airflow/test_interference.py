"""Tasks that are killed, marked, or that fail: in a real Airflow, with real processes."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import httpx
import pytest

from demo.flights_answers import rows_of
from demo.flights_data import PLANES
from tests.support.signals import is_gone, let_go, started, wait_for_start

pytestmark = [pytest.mark.airflow, pytest.mark.spark, pytest.mark.timeout(1800)]


def stage_folder(flights: Any, dag_id: str, run_id: str, stage: str) -> Path:
    ticket = flights.airflow.xcom(dag_id, run_id, f"{dag_id}.plan")
    found: Path = flights.root / "runs" / ticket["application"] / ticket["run_id"] / "stages" / stage
    return found


def submitted(flights: Any, dag_id: str, run_id: str, stage: str) -> bool:
    return (stage_folder(flights, dag_id, run_id, stage) / "1.1" / "attempts" / "1" / "request.json").exists()


def test_a_killed_task_re_attaches_and_doubles_nothing(flights: Any) -> None:
    run_id = flights.airflow.trigger("held")
    wait_for_start(flights, "alone")
    pid = flights.airflow.wait_until(
        lambda: flights.airflow.task("held", run_id, "held.planes")["pid"], 60, "the task's process"
    )
    os.kill(pid, signal.SIGKILL)
    second = flights.airflow.wait_until(
        lambda: (
            (task := flights.airflow.task("held", run_id, "held.planes"))["try_number"] == 2
            and task["state"] == "running"
            and task
        ),
        300,
        "the second try",
    )
    assert second["pid"] != pid
    let_go(flights, "alone")
    assert flights.airflow.wait_for_run("held", run_id)["state"] == "success"
    done = flights.airflow.xcom("held", run_id, "held.planes")
    assert done["generation"] == "1.1"
    assert rows_of(Path(done["outputs"]["out"]["path"])) == PLANES
    # The runner went on while nobody watched; the second try found it.
    attempts = stage_folder(flights, "held", run_id, "planes") / "1.1" / "attempts"
    assert [path.name for path in attempts.iterdir()] == ["1"]


@pytest.mark.nightly
def test_killed_tasks_of_a_pipelined_run_re_attach_and_double_nothing(flights: Any) -> None:
    run_id = flights.airflow.trigger("chain")
    wait_for_start(flights, "chain")
    tasks = ("chain.planes", "chain.by-tail")
    for task_id in tasks:  # both at work: the consumer reads what the producer is still writing
        flights.airflow.wait_for_task("chain", run_id, task_id, ("running",))
    flights.airflow.wait_until(
        lambda: submitted(flights, "chain", run_id, "by-tail"), 120, "the consumer to be submitted"
    )
    for task_id in tasks:
        os.kill(flights.airflow.task("chain", run_id, task_id)["pid"], signal.SIGKILL)
    flights.airflow.wait_until(
        lambda: all(flights.airflow.task("chain", run_id, task_id)["try_number"] == 2 for task_id in tasks),
        300,
        "the second tries",
    )
    let_go(flights, "chain")
    assert flights.airflow.wait_for_run("chain", run_id)["state"] == "success"
    done = flights.airflow.xcom("chain", run_id, "chain.by-tail")
    assert done["generation"] == "1.1"
    assert rows_of(Path(done["outputs"]["out"]["path"])) == PLANES


@pytest.mark.nightly
def test_a_deferred_task_survives_its_runner_and_when_it_is_marked_failed_cancels_its_spark_work(flights: Any) -> None:
    run_id = flights.airflow.trigger("deferred")
    wait_for_start(flights, "deferred")
    flights.airflow.wait_for_task("deferred", run_id, "deferred.planes", ("deferred",))
    # Spark came up after the task had deferred, so its link is its trigger's.
    spark = flights.airflow.wait_until(
        lambda: flights.airflow.links("deferred", run_id, "deferred.planes")["Spark"], 120, "the link to Spark"
    )
    assert flights.airflow.task("deferred", run_id, "deferred.planes")["state"] == "deferred"
    assert httpx.get(spark, follow_redirects=True, trust_env=False).status_code == 200
    (claim,) = stage_folder(flights, "deferred", run_id, "planes").parents[1].glob("servers/*/1/claim.json")
    os.kill(json.loads(claim.read_text())["pid"], signal.SIGKILL)
    # The trigger notices, the task fails, and its retry has another runner do the work, and defers, too.
    attempts = stage_folder(flights, "deferred", run_id, "planes") / "1.1" / "attempts"
    flights.airflow.wait_until(
        lambda: len(started(flights, "deferred")) == 2, 600, "another worker to hold the message"
    )
    flights.airflow.wait_until(
        lambda: (
            (task := flights.airflow.task("deferred", run_id, "deferred.planes"))["try_number"] == 2
            and task["state"] == "deferred"
        ),
        120,
        "the second try to defer",
    )
    workers = started(flights, "deferred")
    flights.airflow.mark("deferred", run_id, "deferred.planes", "failed")
    status = attempts / "2" / "status.json"
    flights.airflow.wait_until(
        lambda: json.loads(status.read_text())["state"] == "cancelled", 120, "the record of the cancel"
    )
    flights.airflow.wait_until(
        lambda: all(is_gone(worker) for worker in workers), 120, "the Spark worker of the marked task to end"
    )
    assert flights.airflow.wait_for_run("deferred", run_id)["state"] == "failed"
    let_go(flights, "deferred")
    flights.airflow.clear("deferred", run_id, "deferred.planes", downstream=True)
    assert flights.airflow.wait_for_run("deferred", run_id)["state"] == "success"
    done = flights.airflow.xcom("deferred", run_id, "deferred.planes")
    assert done["generation"] == "1.3"
    assert rows_of(Path(done["outputs"]["out"]["path"])) == PLANES


@pytest.mark.nightly
def test_a_producer_that_fails_for_good_stops_its_consumers_with_a_clear_error(flights: Any) -> None:
    run_id = flights.airflow.trigger("broken_chain")
    assert flights.airflow.wait_for_run("broken_chain", run_id)["state"] == "failed"
    states = flights.airflow.task_states("broken_chain", run_id)
    assert (states["broken_chain.planes"], states["broken_chain.by-tail"], states["broken_chain.cleanup"]) == (
        "failed",
        "failed",
        "success",
    )
    assert "ValueError: no such plane" in flights.airflow.log("broken_chain", run_id, "broken_chain.planes")
    assert "The stage 'by-tail' reads what 'planes' writes" in flights.airflow.log(
        "broken_chain", run_id, "broken_chain.by-tail"
    )


def test_tasks_that_are_wired_by_hand_find_each_other_and_their_run(flights: Any) -> None:
    run_id = flights.airflow.trigger("by_hand")
    assert flights.airflow.wait_for_run("by_hand", run_id)["state"] == "failed"
    states = flights.airflow.task_states("by_hand", run_id)
    assert (states["run-planes"], states["run-by-tail"], states["cleanup"]) == ("failed", "failed", "success")
    assert "The stage 'by-tail' reads what 'planes' writes" in flights.airflow.log("by_hand", run_id, "run-by-tail")
    note = flights.airflow.xcom("by_hand", run_id, "plan", key="samza_run")
    assert note["tasks"] == {"planes": "run-planes", "by-tail": "run-by-tail"}
    # The cleanup was given no plan, and has closed the run.
    assert "may be deleted after 168 h" in flights.airflow.log("by_hand", run_id, "cleanup")
    assert (flights.root / "runs" / note["application"] / note["run_id"] / "closed.json").exists()


@pytest.mark.nightly
def test_marking_a_running_task_failed_cancels_its_spark_work_and_no_other_and_the_run_can_be_resumed(
    flights: Any,
) -> None:
    run_id = flights.airflow.trigger("two_sides")
    left = wait_for_start(flights, "left")
    right = wait_for_start(flights, "right")
    flights.airflow.mark("two_sides", run_id, "two_sides.left-planes", "failed")
    flights.airflow.wait_until(lambda: is_gone(left), 120, "the Spark worker of the marked task to end")
    status = stage_folder(flights, "two_sides", run_id, "left-planes") / "1.1" / "attempts" / "1" / "status.json"
    flights.airflow.wait_until(
        lambda: json.loads(status.read_text())["state"] == "cancelled", 60, "the record of the cancel"
    )
    assert not is_gone(right)
    let_go(flights, "right")
    assert flights.airflow.wait_for_run("two_sides", run_id)["state"] == "failed"
    states = flights.airflow.task_states("two_sides", run_id)
    assert (states["two_sides.right-planes"], states["two_sides.right"]) == ("success", "success")
    assert (states["two_sides.left-planes"], states["two_sides.left"]) == ("failed", "upstream_failed")
    assert "may be deleted after 168 h" in flights.airflow.log("two_sides", run_id, "two_sides.cleanup")
    # The failed run can be resumed: only what failed runs again.
    let_go(flights, "left")
    flights.airflow.clear("two_sides", run_id, "two_sides.left-planes", downstream=True)
    assert flights.airflow.wait_for_run("two_sides", run_id)["state"] == "success"
    done = flights.airflow.xcom("two_sides", run_id, "two_sides.left")
    assert rows_of(Path(done["outputs"]["left-out"]["path"])) == PLANES


@pytest.mark.extended
def test_a_failing_callable_is_named_with_message_operator_file_and_line(flights: Any) -> None:
    run_id = flights.airflow.trigger("faulty")
    assert flights.airflow.wait_for_run("faulty", run_id)["state"] == "failed"
    log = flights.airflow.log("faulty", run_id, "faulty.planes")
    source = Path(__file__).parent / "dags" / "interference.py"
    line = next(number for number, text in enumerate(source.read_text().splitlines(), 1) if "raise ValueError" in text)
    for told in ("ValueError: no such plane", "N103US", "check", f"interference.py:{line}"):
        assert told in log, log
    folded, _, below = log.partition("::group::The last ")[2].partition("::endgroup::")
    assert "planes@1.1@1: failed" in folded
    assert below.count("no such plane") == 1
    assert "Traceback" not in below

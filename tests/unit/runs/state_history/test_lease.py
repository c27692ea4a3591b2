"""One run at a time carries an application's state on; who was replaced finds out before it commits anything."""

from __future__ import annotations

import dataclasses
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from airflow_samza.errors import StateBusy, StateError, StateFenced
from airflow_samza.runs.records.folders import must_read, replace, write_once
from airflow_samza.runs.records.liveness import identity
from airflow_samza.runs.records.run_plan import RunPlan
from airflow_samza.runs.stages.run_ends import RunEnd
from airflow_samza.runs.stages.stage_runners import Claim, Heartbeat, RunnerFolder
from airflow_samza.runs.state_history.lease import (
    ABANDONED,
    AT_WORK,
    DONE,
    GONE,
    HALF_DONE,
    PLANNING_SECONDS,
    Lease,
    begin,
    end,
    newest_lease,
    reject_ended,
    standing_of,
    take,
    take_away,
)
from airflow_samza.runs.state_history.state_at_end import leave_state
from airflow_samza.runs.state_history.state_at_start import Patience, give_back, take_lease
from tests.support.carried import Carried


@pytest.fixture
def carried(tmp_path: Path) -> Carried:
    return Carried(tmp_path)


def lease_of(carried: Carried) -> Lease:
    found = newest_lease(carried.files, carried.history)
    assert found is not None
    return found


def standing(carried: Carried, grace: float = 600.0, now: float | None = None) -> str:
    return standing_of(carried.files, carried.history, lease_of(carried), grace, now=now).state


def close(carried: Carried, run: RunPlan) -> None:
    write_once(carried.files, carried.folder(run.run_id).closed, RunEnd(False, 0.0))


def test_the_first_run_starts_from_nothing_under_fence_1(carried: Carried) -> None:
    run = carried.plan("a")
    assert run.state is not None
    assert (run.state.version, run.state.fence) == (0, 1)


def test_planning_again_is_the_same_lease(carried: Carried) -> None:
    assert carried.plan("a").state == carried.plan("a").state


def test_a_run_waits_for_the_one_that_is_about_to_start(carried: Carried) -> None:
    carried.plan("a")
    assert standing(carried) == AT_WORK
    with pytest.raises(StateBusy, match="is held by the run 'a', which is planned and about to start") as caught:
        carried.plan("b")
    assert caught.value.retryable


@pytest.mark.extended
def test_who_waits_is_told_for_whom_since_when_it_is_silent_and_until_when(carried: Carried) -> None:
    carried.plan("a")
    path = carried.history.lease(1, "taken")
    replace(
        carried.files, path, dataclasses.replace(must_read(carried.files, path, Lease), claimed_at=time.time() - 60)
    )
    told: list[str] = []
    with pytest.raises(StateBusy):
        carried.plan("b", patience=Patience(wait_seconds=1.2, on_wait=told.append))
    (said,) = told  # however often it has looked
    assert re.search(
        r"run 'a', which is planned .* nothing was heard of it since .* UTC, and .* it counts as dead at .* UTC\.$",
        said,
    )


def test_a_process_that_plans_for_too_long_holds_nobody_up(carried: Carried) -> None:
    """It writes no heartbeats; frozen, it would keep the state for ever. What it plans later is fenced."""
    planning = take(carried.files, carried.history, 1, "a", 1, start=0, head=0)
    assert planning is not None
    assert standing(carried) == AT_WORK
    assert standing(carried, now=time.time() + PLANNING_SECONDS + 1) == GONE


def test_a_planned_run_that_never_starts_is_passed_by_after_a_while(carried: Carried) -> None:
    carried.plan("a")
    assert standing(carried, grace=600, now=time.time() + 601) == GONE
    assert carried.plan("b", patience=Patience(grace_seconds=0)).state.fence == 2  # type: ignore[union-attr]


def runner_of(carried: Carried, run: RunPlan, seen: float) -> None:
    """A runner of a run that died, and was last heard of at a time."""
    runner = RunnerFolder(carried.folder(run.run_id), "key", 1)
    write_once(
        carried.files,
        runner.claim,
        Claim("gone", "gone", 1, 0.0, seen - 60),
    )
    write_once(carried.files, runner.heartbeat, Heartbeat(seen))


@pytest.mark.parametrize("begun", [False, True])
def test_a_run_whose_runner_died_is_given_time_to_be_tried_again(carried: Carried, begun: bool) -> None:
    run = carried.plan("a")
    if begun:
        carried.run_stage(run, "views")
    taken = lease_of(carried).claimed_at
    runner_of(carried, run, taken - 100)
    assert standing(carried, grace=600, now=taken + 300) == AT_WORK
    assert standing(carried, grace=600, now=taken + 601) == (HALF_DONE if begun else GONE)
    close(carried, run)
    assert standing(carried, grace=600, now=taken) == (HALF_DONE if begun else GONE)


def test_a_run_that_was_passed_by_cannot_commit(carried: Carried) -> None:
    late = carried.plan("a")
    carried.whole("b", patience=Patience(grace_seconds=0))
    with pytest.raises(
        StateFenced, match=r"may no longer write the state of 'app' \(fence 1\): 'b' has taken it over"
    ) as caught:
        carried.run_stage(late, "views")
    assert "Clear its plan task" in caught.value.hint
    assert not any(producer.startswith("app/a/") for producer in carried.sink.published)


def test_a_run_that_was_passed_by_goes_on_when_it_is_planned_anew(carried: Carried) -> None:
    carried.plan("a")
    carried.whole("b", patience=Patience(grace_seconds=0))
    version = carried.whole("a", generation=2)
    assert version is not None
    assert (version.number, version.parent) == (2, 1)


def test_a_run_that_ended_before_it_committed_is_passed_by(carried: Carried) -> None:
    close(carried, carried.plan("a"))
    assert standing(carried) == GONE
    assert carried.plan("b").state.fence == 2  # type: ignore[union-attr]


def test_a_half_done_run_is_named_with_the_remedy(carried: Carried) -> None:
    run = carried.plan("a")
    carried.run_stage(run, "views")
    close(carried, run)
    assert standing(carried) == HALF_DONE
    with pytest.raises(StateBusy, match=r"which has committed a part of its work \(1 of 2 stages done\)\.") as caught:
        carried.plan("b")
    assert "airflow-samza state abandon app a" in caught.value.hint


def test_a_half_done_run_is_continued_by_whoever_clears_it(carried: Carried) -> None:
    run = carried.plan("a")
    carried.run_stage(run, "views")
    close(carried, run)
    carried.run_stage(run, "by-member")
    assert standing(carried) == DONE
    assert carried.plan("b").state.version == 1  # type: ignore[union-attr]


def test_a_half_done_run_that_is_planned_anew_takes_its_own_place(carried: Carried) -> None:
    first = carried.plan("a")
    carried.run_stage(first, "views")
    again = carried.plan("a", 2)
    assert again.state is not None
    assert (again.state.version, again.state.fence) == (0, 2)
    with pytest.raises(StateFenced, match="the run was planned anew"):
        carried.run_stage(first, "by-member")


def test_a_half_done_run_that_is_planned_anew_is_not_passed_by(carried: Carried) -> None:
    """Its first plan has published, and the second one will replace that: another run would write it twice."""
    carried.run_stage(carried.plan("a"), "views")
    close(carried, carried.plan("a", 2))
    assert standing(carried) == HALF_DONE
    with pytest.raises(StateBusy, match="is held by the run 'a'"):
        carried.plan("b")


def test_a_half_done_run_whose_new_plan_is_rejected_stays_half_done(carried: Carried) -> None:
    carried.run_stage(carried.plan("a"), "views")
    lease = take_lease(carried.files, carried.history, "a", 2, Patience())
    give_back(carried.files, carried.history, lease)
    with pytest.raises(StateBusy, match="is held by the run 'a', which is being planned"):
        carried.plan("b")
    write_once(
        carried.files, carried.history.lease(3, "taken"), dataclasses.replace(lease, fence=3, who={}, claimed_at=0.0)
    )  # long gone
    with pytest.raises(StateBusy, match="has committed a part of its work, and was not planned anew to the end"):
        take_lease(carried.files, carried.history, "b", 1, Patience())


def test_an_older_plan_does_not_replace_a_newer_one(carried: Carried) -> None:
    carried.plan("a", 2)
    with pytest.raises(StateFenced, match="plan 2 of it is newer than plan 1"):
        carried.plan("a", 1)


def test_an_abandoned_run_commits_nothing_more(carried: Carried) -> None:
    run = carried.plan("a")
    carried.run_stage(run, "views")
    end(carried.files, carried.history, lease_of(carried), ABANDONED)
    with pytest.raises(StateFenced, match="the run was abandoned"):
        carried.run_stage(run, "by-member")
    assert carried.plan("b").state.version == 0  # type: ignore[union-attr]


def test_beginning_and_taking_over_exclude_each_other(carried: Carried) -> None:
    carried.plan("a")
    lease = lease_of(carried)
    begin(carried.files, carried.history, lease)
    assert not take_away(carried.files, carried.history, lease, "b")
    reject_ended(carried.files, carried.history, lease)


def test_a_lease_given_back_is_free(carried: Carried) -> None:
    give_back(carried.files, carried.history, take_lease(carried.files, carried.history, "a", 1, Patience()))
    assert take_lease(carried.files, carried.history, "b", 1, Patience()).fence == 2


def test_the_planner_of_a_run_that_died_is_passed_by(carried: Carried) -> None:
    taken = take(carried.files, carried.history, 1, "a", 1, start=0, head=0)
    assert taken is not None
    assert standing(carried) == AT_WORK  # this process is planning it
    script = "from airflow_samza.runs.records.liveness import identity; import json; print(json.dumps(identity()))"
    import json

    dead = json.loads(subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout)
    assert dead["place"] == identity()["place"]
    end(carried.files, carried.history, taken, ABANDONED)
    write_once(carried.files, carried.history.lease(2, "taken"), dataclasses.replace(taken, fence=2, who=dead))
    assert standing(carried) == GONE


def test_waiting_ends_when_the_run_before_has_finished(carried: Carried) -> None:
    import threading

    first = carried.plan("a")

    def finish() -> None:
        time.sleep(0.2)
        for stage in ("views", "by-member"):
            carried.run_stage(first, stage)

    thread = threading.Thread(target=finish)
    thread.start()
    run = carried.plan("b", patience=Patience(wait_seconds=30))
    thread.join()
    assert run.state is not None
    assert run.state.version == 1


RACE = """
import sys
from airflow_samza.errors import StateBusy
from airflow_samza.runs.state_history.folder import StateHistory
from airflow_samza.runs.state_history.state_at_start import Patience, take_lease
from airflow_samza.systems.filesystems.local import LocalFilesystem
root, run_id = sys.argv[1:]
sys.stdin.readline()
try:
    print(take_lease(LocalFilesystem(root), StateHistory("app"), run_id, 1, Patience()).run)
except StateBusy as error:
    print("busy with", error.facts["holder"])
sys.stdout.flush()
sys.stdin.readline()
"""


def test_of_racing_processes_one_gets_the_lease(tmp_path: Path) -> None:
    started = [
        subprocess.Popen(
            [sys.executable, "-c", RACE, str(tmp_path), name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for name in ("a", "b", "c")
    ]
    said = []
    for process in started:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    for process in started:
        assert process.stdout is not None
        said.append(process.stdout.readline().strip())
    for process in started:
        process.communicate("end\n", timeout=300)
    winner = next(name for name in said if not name.startswith("busy"))
    assert sorted(said) == sorted([winner, *[f"busy with {winner}"] * 2])


def test_a_finished_run_is_rejected_when_later_runs_went_on_from_it(carried: Carried) -> None:
    carried.whole("a")
    carried.whole("b")
    carried.whole("c")
    with pytest.raises(StateError, match="The run 'a' is planned anew, and 2 later runs have continued from") as caught:
        carried.plan("a", 2)
    assert "state reset app --to 0" in caught.value.hint


def test_the_newest_finished_run_starts_again_from_the_version_before_it(carried: Carried) -> None:
    carried.whole("a")
    carried.whole("b")
    again = carried.plan("b", 2)
    assert again.state is not None
    assert again.state.version == 1
    for stage in ("views", "by-member"):
        carried.run_stage(again, stage)
    version = leave_state(carried.files, again)
    assert version is not None
    assert (version.number, version.parent) == (3, 1)
    assert carried.plan("c").state.version == 3  # type: ignore[union-attr]

"""Giving up runs and going back to earlier versions: what people may do to a state, and what is rejected."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_samza.errors import StateBusy, StateError, StateFenced
from airflow_samza.runs.records.folders import numbers, write_once
from airflow_samza.runs.records.run_plan import RunPlan
from airflow_samza.runs.stages.run_ends import RunEnd
from airflow_samza.runs.state_history.lease import HALF_DONE
from airflow_samza.runs.state_history.state_at_end import leave_state
from airflow_samza.runs.state_history.state_at_start import Patience
from airflow_samza.runs.state_history.state_upkeep import abandon, report_state, reset
from tests.support.carried import STAGES, Carried


@pytest.fixture
def carried(tmp_path: Path) -> Carried:
    return Carried(tmp_path)


def half_done(carried: Carried, run_id: str = "a") -> RunPlan:
    run = carried.plan(run_id)
    carried.run_stage(run, "views")
    write_once(carried.files, carried.folder(run_id).closed, RunEnd(False, 0.0))
    return run


def start_of(run: RunPlan) -> int:
    assert run.state is not None
    return run.state.version


def test_an_abandoned_run_makes_room_for_the_next(carried: Carried) -> None:
    half_done(carried)
    assert abandon(carried.files, carried.history, "a") is None
    version = carried.whole("b")
    assert version is not None
    assert (version.number, version.offsets["views"]) == (1, (10,))  # the slice of the abandoned run is read again


def test_a_run_that_has_finished_is_not_given_up(carried: Carried) -> None:
    run = carried.plan("a")
    for stage in STAGES:
        carried.run_stage(run, stage)
    left = abandon(carried.files, carried.history, "a")
    assert left is not None
    assert left.number == 1


def test_only_the_holder_is_given_up(carried: Carried) -> None:
    half_done(carried)
    with pytest.raises(StateError, match="The run 'b' does not hold the state of 'app': it is held by 'a'"):
        abandon(carried.files, carried.history, "b")


def test_a_run_at_work_is_given_up_only_by_force(carried: Carried) -> None:
    run = carried.plan("a")
    with pytest.raises(StateBusy, match="is planned and about to start"):
        abandon(carried.files, carried.history, "a")
    assert abandon(carried.files, carried.history, "a", force=True) is None
    with pytest.raises(StateFenced):
        carried.run_stage(run, "views")


def test_a_reset_goes_back_to_a_version(carried: Carried) -> None:
    for name in ("a", "b", "c"):
        carried.whole(name)
    made = reset(carried.files, carried.history, 1)
    assert (made.number, made.offsets["views"], made.copy_of) == (4, (10,), 1)
    assert carried.state_of(made) == "10"
    assert start_of(carried.plan("d")) == 4


def test_a_reset_to_nothing_forgets_offsets_and_counts(carried: Carried) -> None:
    carried.whole("a")
    made = reset(carried.files, carried.history, 0)
    assert (made.offsets, made.stages, made.plan.streams) == ({}, {}, ())


def test_the_files_of_a_version_stay_as_long_as_its_copy(carried: Carried) -> None:
    carried.whole("a", keep=2)
    made = reset(carried.files, carried.history, 1)
    carried.whole("b", keep=2)
    assert carried.state_of(made) == "10"
    assert carried.version(2).copy_of == 1


def test_after_a_reset_the_undone_runs_can_be_planned_anew(carried: Carried) -> None:
    for name in ("a", "b", "c"):
        carried.whole(name)
    reset(carried.files, carried.history, 1)
    again = carried.plan("b", 2)
    assert start_of(again) == 4
    for stage in STAGES:
        carried.run_stage(again, stage)
    left = leave_state(carried.files, again)
    assert left is not None
    assert left.offsets["views"][0] > 10


def test_the_run_that_left_the_version_gone_back_to_starts_before_it(carried: Carried) -> None:
    carried.whole("a")
    carried.whole("b")
    carried.whole("c")
    reset(carried.files, carried.history, 2)
    assert start_of(carried.plan("b", 2)) == 1


def test_no_reset_while_a_run_is_half_done(carried: Carried) -> None:
    half_done(carried)
    with pytest.raises(StateBusy, match="is held by the run 'a'") as caught:
        reset(carried.files, carried.history, 0)
    assert (caught.value.hint or "").endswith("if it will not end: airflow-samza state abandon app a")


def test_resets_do_not_count_among_the_versions_that_are_kept(carried: Carried) -> None:
    for name in ("a", "b", "c"):
        carried.whole(name, keep=3)
    for _ in range(4):
        reset(carried.files, carried.history, 2)
    carried.whole("d", keep=3)
    assert numbers(carried.files, carried.history.versions) == [2, 3, 4, 5, 6, 7, 8]
    for name in ("e", "f", "g"):
        carried.whole(name, keep=3)
    assert numbers(carried.files, carried.history.versions) == [9, 10, 11]


def test_a_version_that_is_not_there_is_rejected_before_anything_is_taken(carried: Carried) -> None:
    carried.whole("a")
    with pytest.raises(StateError, match="Version 7 of the state of 'app' is not there any more"):
        reset(carried.files, carried.history, 7)
    assert start_of(carried.plan("b", patience=Patience())) == 1


def test_a_report_says_who_holds_the_state(carried: Carried) -> None:
    carried.whole("a")
    half_done(carried, "b")
    report = report_state(carried.files, carried.history)
    assert [version.run for version in report.versions] == ["a"]
    assert report.holder is not None
    assert report.standing is not None
    assert (report.holder.run, report.standing.state) == ("b", HALF_DONE)

"""Versions of the history that runs leave, each made once, and states of runs apart from it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from airflow_samza.errors import StateError
from airflow_samza.records import decode, encode
from airflow_samza.runs.records.epoch_records import newest_intent
from airflow_samza.runs.records.folders import write_once
from airflow_samza.runs.records.names import Generation
from airflow_samza.runs.state_history.folder import StateHistory
from airflow_samza.runs.state_history.state_at_end import leave_state, reject_fenced
from airflow_samza.runs.state_history.state_at_start import source_version
from airflow_samza.runs.state_history.versions import Version, find_version, newest_number, version_of_run
from tests.support.carried import STAGES, Carried


@pytest.fixture
def carried(tmp_path: Path) -> Carried:
    return Carried(tmp_path)


def test_a_version_survives_json(carried: Carried) -> None:
    version = carried.whole("a")
    assert version is not None
    assert decode(Version, encode(version), "v") == version


def test_each_run_goes_on_where_the_one_before_ended(carried: Carried) -> None:
    versions = [carried.whole(name) for name in ("a", "b", "c")]
    assert [v.offsets["views"] for v in versions if v is not None] == [(10,), (20,), (30,)]
    assert [v.parent for v in versions if v is not None] == [0, 1, 2]
    assert [carried.state_of(v) for v in versions if v is not None] == ["10", "20", "30"]


def test_there_is_no_version_before_every_stage_has_succeeded(carried: Carried) -> None:
    run = carried.plan("a")
    carried.run_stage(run, "views")
    assert leave_state(carried.files, run) is None
    assert newest_number(carried.files, carried.history) == 0


def test_a_version_is_made_once_whoever_asks(carried: Carried) -> None:
    first = carried.whole("a")
    run = carried.plan("a")
    assert leave_state(carried.files, run) == first
    assert newest_number(carried.files, carried.history) == 1


def test_the_state_outlives_the_runs_folder(carried: Carried) -> None:
    version = carried.whole("a")
    assert version is not None
    carried.files.delete_tree(carried.folder("a").path)
    assert carried.state_of(carried.version(1)) == "10"


def test_missed_runs_are_caught_up_by_the_next(carried: Carried) -> None:
    carried.whole("a")
    version = carried.whole("d", step=70)
    assert version is not None
    assert version.offsets["views"] == (80,)


def test_a_stage_that_is_cleared_later_changes_no_version(carried: Carried) -> None:
    run = carried.plan("a")
    for stage in STAGES:
        carried.run_stage(run, stage)
    first = leave_state(carried.files, run)
    carried.run_stage(run, "by-member", generation=2)
    assert leave_state(carried.files, run) == first


def test_old_versions_go_and_the_newest_stay(carried: Carried) -> None:
    for number in range(7):
        carried.whole(f"run-{number}", keep=3)
    assert carried.files.list(carried.history.versions) == [f"{number:020}.json" for number in (5, 6, 7)]
    assert carried.files.list(f"{carried.history.path}/files") == [f"{fence:020}" for fence in (5, 6, 7)]
    with pytest.raises(StateError, match="Version 4 of the state of 'app' is not there any more"):
        carried.version(4)


def test_a_run_apart_touches_neither_lineage_nor_lease(carried: Carried) -> None:
    carried.whole("a")
    holder = carried.plan("b")
    backfill = carried.apart("backfill", source_version(carried.files, carried.history, "backfill", "a"))
    for stage in STAGES:
        carried.run_stage(backfill, stage)
    left = leave_state(carried.files, backfill)
    assert left is not None
    assert left.parent == 1
    assert newest_number(carried.files, carried.history) == 1
    for stage in STAGES:
        carried.run_stage(holder, stage)
    assert leave_state(carried.files, holder) is not None


def test_a_run_apart_may_go_on_from_another_one(carried: Carried) -> None:
    first = carried.apart("one", None)
    carried.head = 10
    for stage in STAGES:
        carried.run_stage(first, stage)
    left = leave_state(carried.files, first)
    assert left is not None
    assert source_version(carried.files, carried.history, "two", "one") == left


def test_a_version_that_a_run_apart_reads_stays(carried: Carried) -> None:
    carried.whole("a", keep=2)
    backfill = carried.apart("backfill", source_version(carried.files, carried.history, "backfill", "a"))
    for name in ("b", "c", "d"):
        carried.whole(name, keep=2)
    assert carried.state_of(carried.version(1)) == "10"
    for stage in STAGES:
        carried.run_stage(backfill, stage)
    leave_state(carried.files, backfill)
    carried.whole("e", keep=2)
    assert version_of_run(carried.files, carried.history, "a") is None


def test_a_state_that_nobody_left_is_rejected_with_those_that_are(carried: Carried) -> None:
    carried.whole("a")
    with pytest.raises(StateError, match="is to start from the state of the run 'z', which left no state") as caught:
        source_version(carried.files, carried.history, "backfill", "z")
    assert caught.value.hint.startswith("Runs with a state are: a;")


def test_a_finished_run_that_left_no_version_yet_can_be_started_from(carried: Carried) -> None:
    run = carried.plan("a")
    for stage in STAGES:
        carried.run_stage(run, stage)
    assert source_version(carried.files, carried.history, "backfill", "a").number == 1


def test_old_states_of_runs_apart_go(carried: Carried) -> None:
    carried.head = 10
    for number in range(4):
        run = carried.apart(f"backfill-{number}", None, keep=2)
        for stage in STAGES:
            carried.run_stage(run, stage)
        leave_state(carried.files, run)
    assert carried.files.list(carried.history.runs) == ["backfill-2", "backfill-3"]


def test_a_stage_whose_start_is_not_kept_any_more_is_rejected(carried: Carried) -> None:
    carried.whole("a", keep=2)
    second = carried.plan("b", keep=2)
    for stage in STAGES:
        carried.run_stage(second, stage)
    leave_state(carried.files, second)
    reject_fenced(carried.files, second)
    for name in ("c", "d"):
        carried.whole(name, keep=2)
    with pytest.raises(StateError, match="Version 1 of the state of 'app' is not there any more"):
        reject_fenced(carried.files, second)


def test_a_state_in_the_folder_of_an_earlier_release_is_gone_on_from(tmp_path: Path) -> None:
    carried = Carried(tmp_path)
    version = carried.whole("a")
    assert version is not None
    mine = StateHistory("app", "eu-1")
    for number, owner in ((3, "eu-1"), (4, "other")):  # the folder held the states of both
        plan = replace(version.plan, app_id=owner)
        record = replace(version, number=number, plan=plan)
        write_once(carried.files, f"state/app-eu-1/versions/{number:020}.json", record)
    assert newest_number(carried.files, mine) == 3
    taken = find_version(carried.files, mine, 3)
    assert taken is not None
    assert carried.state_of(taken) == "10"
    assert newest_number(carried.files, StateHistory("app", "eu-2")) == 0


def test_a_version_of_another_application_is_rejected(carried: Carried) -> None:
    version = carried.whole("a")
    assert version is not None
    other = StateHistory("other")
    write_once(carried.files, other.version(1), version)
    with pytest.raises(StateError, match=r"Version 1 of the state of 'other' \(id '1'\) belongs to 'app' \(id '1'\)"):
        find_version(carried.files, other, 1)


def test_a_stage_that_ended_with_its_second_epoch_open_leaves_the_state_of_its_first(carried: Carried) -> None:
    run = carried.plan("a")
    for stage in STAGES:
        carried.run_stage(run, stage)
    folder = carried.folder("a").stage("views", Generation(1, 1))
    intent = newest_intent(carried.files, folder)
    assert intent is not None
    write_once(carried.files, folder.intent(1), replace(intent, epoch=1))
    version = leave_state(carried.files, run)
    assert version is not None
    assert carried.state_of(version) == "10"

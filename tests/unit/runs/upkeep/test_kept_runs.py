"""Runs that are over: closed ones, ones that nobody has closed, and ones whose removal was interrupted."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from airflow_samza.runs.records.folders import RunFolder, write_once
from airflow_samza.runs.records.liveness import identity
from airflow_samza.runs.stages.run_ends import RunEnd
from airflow_samza.runs.stages.stage_runners import Claim, Heartbeat, RunnerFolder
from airflow_samza.runs.upkeep.kept_runs import (
    SILENT_SECONDS,
    OverRun,
    Reasons,
    is_half_removed,
    load_plans,
    over_runs,
    over_since,
)
from airflow_samza.systems.filesystems.local import LocalFilesystem

NOW = 2_000_000_000.0


class Store(LocalFilesystem):
    """A root on which folders are not renamed, as on an object store."""

    renames_folders = False


class Runs:
    """A root with runs of an application."""

    def __init__(self, root: Path) -> None:
        self.files = Store(root)

    def note(self, path: str, at: float) -> None:
        """Write a file of a run as of a time."""
        self.files.put(path, b"{}")
        os.utime(self.files.location(path), (at, at))

    def close(self, run_id: str, at: float | str | None) -> RunFolder:
        folder = RunFolder("app", run_id)
        write_once(self.files, folder.closed, RunEnd(True, at))
        return folder


@pytest.fixture
def runs(tmp_path: Path) -> Runs:
    return Runs(tmp_path)


def test_a_closed_run_is_over_since_it_was_closed(runs: Runs) -> None:
    assert over_since(runs.files, runs.close("a", 5.0), NOW) == 5.0


@pytest.mark.parametrize("at", [None, "2026-01-01T00:00:00+00:00"])
def test_where_the_time_is_not_noted_that_of_the_record_counts(runs: Runs, at: str | None) -> None:
    folder = runs.close("a", at)
    os.utime(runs.files.location(folder.closed), (77.0, 77.0))
    assert over_since(runs.files, folder, NOW) == 77.0


def test_a_closed_run_is_not_over_while_a_process_of_it_lives(runs: Runs) -> None:
    folder = runs.close("a", 5.0)
    runner = RunnerFolder(folder, "key", 1)
    write_once(runs.files, runner.claim, Claim(**identity(), claimed_at=1.0))
    write_once(runs.files, runner.heartbeat, Heartbeat(1.0))
    assert over_since(runs.files, folder, NOW) is None


@pytest.mark.parametrize("name", ["push.json", "origin.json", "plan"])
@pytest.mark.parametrize("silent", [SILENT_SECONDS, SILENT_SECONDS + 1])
def test_a_run_that_nobody_has_closed_is_over_after_a_month_of_silence(runs: Runs, name: str, silent: float) -> None:
    folder = RunFolder("app", "a")
    runs.note(folder.plan(1) if name == "plan" else f"{folder.path}/{name}", NOW - silent)
    assert over_since(runs.files, folder, NOW) == (NOW - silent if silent > SILENT_SECONDS else None)
    runs.note(folder.plan(2), NOW - 5)
    assert over_since(runs.files, folder, NOW) is None


def test_a_folder_in_which_nothing_is_known_is_being_made(runs: Runs) -> None:
    assert over_since(runs.files, RunFolder("app", "a"), NOW) is None


@pytest.mark.parametrize(("left", "half"), [("removing", True), ("plan", False), ("push", False)])
def test_a_removal_was_interrupted_where_its_mark_stands_and_no_plan_does(runs: Runs, left: str, half: bool) -> None:
    folder = RunFolder("app", "a")
    assert not is_half_removed(runs.files, folder)
    runs.note(folder.removing, NOW)
    if left != "removing":
        runs.note(folder.plan(1) if left == "plan" else f"{folder.path}/push.json", NOW)
    assert is_half_removed(runs.files, folder) is half
    assert not is_half_removed(LocalFilesystem(runs.files.location("")), folder)  # folders go there as a whole


def test_runs_that_are_over_come_newest_first_and_open_and_damaged_ones_are_left_out(runs: Runs) -> None:
    for run_id, at in (("b", 5.0), ("a", 5.0), ("c", 9.0)):
        runs.close(run_id, at)
    runs.note(RunFolder("app", "open").plan(1), NOW)
    runs.files.put(RunFolder("app", "damaged").closed, b"{")
    runs.note(RunFolder("app", "half").removing, NOW)
    found = [(run.folder.run_id, run.at) for run in over_runs(runs.files, "app", NOW)]
    assert [run for run in found if run[0] != "damaged"] == [("c", 9.0), ("a", 5.0), ("b", 5.0), ("half", 0.0)]


def test_nothing_keeps_a_run_without_a_plan(runs: Runs) -> None:
    folder = runs.close("a", 5.0)
    assert load_plans(runs.files, folder) == ()
    assert list(Reasons(runs.files, lambda run: {}, NOW).of(OverRun(folder, 5.0))) == []

"""Requests that a run ends: which of several counts, of which plan, and from when on."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_samza.runs.records.folders import RunFolder
from airflow_samza.runs.records.names import Generation
from airflow_samza.runs.stages.run_ends import (
    abort,
    ask_to_drain,
    ask_to_stop,
    is_aborted,
    is_ending,
    set_deadline,
)
from airflow_samza.systems.filesystems.local import LocalFilesystem

RUN = RunFolder("views", "run-1")


@pytest.fixture
def files(tmp_path: Path) -> LocalFilesystem:
    return LocalFilesystem(tmp_path)


def test_a_run_goes_on_that_nobody_has_asked_to_end(files: LocalFilesystem) -> None:
    assert is_ending(files, RUN, 1) is None


def test_a_drain_is_for_good_and_a_stop_beside_it_for_now(files: LocalFilesystem) -> None:
    ask_to_drain(files, RUN, 1)
    assert is_ending(files, RUN, 1) is True
    ask_to_stop(files, RUN, 1)
    assert is_ending(files, RUN, 1) is False
    assert is_ending(files, RUN, 2) is None  # another plan


def test_the_first_deadline_stands_and_stops_the_run_from_its_time_on(files: LocalFilesystem) -> None:
    for at in (1000.0, 2000.0):
        set_deadline(files, RUN, 1, at)
    assert [is_ending(files, RUN, 1, now) for now in (999.5, 1000.0, 1000.5)] == [None, False, False]
    assert is_ending(files, RUN, 1) is False


def test_a_drain_counts_before_a_deadline(files: LocalFilesystem) -> None:
    set_deadline(files, RUN, 1, 1000.0)
    ask_to_drain(files, RUN, 1)
    assert is_ending(files, RUN, 1, now=5000.0) is True


def test_a_stage_that_was_given_up_says_so_in_this_generation_only(files: LocalFilesystem) -> None:
    first, second = (RUN.stage("views", Generation(1, number)) for number in (1, 2))
    abort(files, first, "it failed for good")
    assert (is_aborted(files, first), is_aborted(files, second)) == (True, False)

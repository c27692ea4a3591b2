"""Folders of records whose first record is about to be written: nobody takes them for what they will be."""

from __future__ import annotations

import time
from pathlib import Path

from airflow_samza.runs.records.folders import RunFolder, write_once
from airflow_samza.runs.records.names import Generation
from airflow_samza.runs.stages.stage_runners import RunnerFolder, StageRequest, claim_runner, newest_runner
from airflow_samza.runs.stages.stage_state import StageHandle, newest_attempt
from airflow_samza.systems.filesystems.local import LocalFilesystem

RUN = RunFolder("app", "run 1")
STAGE = StageHandle("app", "run 1", "by-key", Generation(1, 1)).folder


def test_of_two_runners_that_start_at_once_one_claims_the_place_whenever_the_other_makes_its_folder(
    tmp_path: Path,
) -> None:
    files = LocalFilesystem(tmp_path)
    files.make_dirs(f"{RUN.servers}/key/1")  # the other is about to write its claim there
    assert newest_runner(files, RUN, "key") is None
    mine = claim_runner(files, RUN, "key")
    assert mine == RunnerFolder(RUN, "key", 1)
    assert claim_runner(files, RUN, "key") is None


def test_a_successor_of_a_runner_is_known_by_its_claim(tmp_path: Path) -> None:
    files = LocalFilesystem(tmp_path)
    first = claim_runner(files, RUN, "key")
    files.make_dirs(f"{RUN.servers}/key/2")
    assert newest_runner(files, RUN, "key") == first


def test_a_damaged_claim_is_a_claim(tmp_path: Path) -> None:
    files = LocalFilesystem(tmp_path)
    files.put(RunnerFolder(RUN, "key", 1).claim, b"{")
    assert newest_runner(files, RUN, "key") == RunnerFolder(RUN, "key", 1)


def test_an_attempt_is_known_by_its_request(tmp_path: Path) -> None:
    files = LocalFilesystem(tmp_path)
    files.make_dirs(f"{STAGE.attempts}/1")
    assert newest_attempt(files, STAGE) == 0
    write_once(files, STAGE.attempt(1, "request"), StageRequest("by-key", "1.1", 1, requested_at=time.time()))
    files.make_dirs(f"{STAGE.attempts}/2")
    assert newest_attempt(files, STAGE) == 1
    files.put(STAGE.attempt(2, "request"), b"{")
    assert newest_attempt(files, STAGE) == 2

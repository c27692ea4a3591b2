"""Signs of life of stage runners, as others judge them by the records under a root where looks are charged."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_samza.runs.records.folders import RunFolder, replace, write_once
from airflow_samza.runs.records.liveness import identity
from airflow_samza.runs.stages.stage_runners import Claim, Heartbeat, RunnerFolder, claim_runner
from airflow_samza.systems.filesystems.local import LocalFilesystem
from airflow_samza.systems.filesystems.object_store import requests
from airflow_samza.systems.filesystems.opening import open_filesystem
from demo.store_servers import S3Server


@pytest.fixture
def process() -> Iterator[subprocess.Popen[bytes]]:
    """A process of this host."""
    started = subprocess.Popen(["sleep", "600"])
    yield started
    started.kill()
    started.wait()


def test_a_runner_of_this_host_that_has_just_died_gives_no_sign_of_life(
    s3: S3Server, tmp_path: Path, process: subprocess.Popen[bytes]
) -> None:
    files = open_filesystem(s3.url(f"{tmp_path.parent.name}/{tmp_path.name}"))
    runner = RunnerFolder(RunFolder("app", "run 1"), "key", 1)
    who = identity(process.pid)
    write_once(files, runner.claim, Claim(**who, claimed_at=who["started"]))
    for second in (1, 2):  # it was seen to move
        replace(files, runner.heartbeat, Heartbeat(who["started"] + second))
        assert runner.is_alive(files)
    before = requests.snapshot()
    assert runner.gives_sign(files)
    assert runner.was_heard(files)
    assert requests.since(before) == {}
    process.kill()
    process.wait()
    assert not runner.was_heard(files)
    assert not runner.accepts(files)
    assert not runner.gives_sign(files)


def test_a_runner_behind_one_that_has_died_has_the_next_number_and_a_living_one_is_left_alone(
    tmp_path: Path, process: subprocess.Popen[bytes]
) -> None:
    files, run = LocalFilesystem(str(tmp_path)), RunFolder("app", "run 1")
    who = identity(process.pid)
    write_once(files, RunnerFolder(run, "key", 4).claim, Claim(**who, claimed_at=who["started"]))
    process.kill()
    process.wait()
    mine = claim_runner(files, run, "key")
    assert mine is not None
    assert mine.number == 5
    assert claim_runner(files, run, "key") is None

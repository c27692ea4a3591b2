"""Intervals that the command line runs again, under another run id: what is replaced, and what the command says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.runner_without_spark import VARIABLE, Dials

PATIENCE = 120.0

APPLICATION = """
from airflow_samza import stream_application


def checked(batch):
    return batch


@stream_application("daily")
def daily(app):
    rows = app.input_stream("rows", system="data", path="in/{ds}.jsonl", schema="n bigint")
    rows.map_batches(checked, schema="n bigint").send_to(app.output_stream("out", system="data", path="out", format="json"))


@stream_application("partitioned")
def partitioned(app):
    rows = app.input_stream("rows", system="data", path="in/2013-01-01.jsonl", schema="n bigint")
    rows.send_to(app.output_stream("out", system="data", path="out", format="json"))
"""


class Shell:
    """The command line over a folder with an application, whose runners have no Spark."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.dials = Dials(folder / "dials")
        (folder / "in").mkdir()
        (folder / "daily_app.py").write_text(APPLICATION)

    def day(self, day: int, *rows: int) -> None:
        (self.folder / f"in/2013-01-{day:02}.jsonl").write_text("".join(f'{{"n": {row}}}\n' for row in rows))

    def call(self, *words: str) -> subprocess.CompletedProcess[str]:
        path = os.pathsep.join([str(Path(__file__).parents[3]), str(self.folder)])
        return subprocess.run(
            [sys.executable, "-m", "tests.support.command_without_spark", *words],
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
            env={**os.environ, "PYTHONPATH": path, VARIABLE: str(self.dials.folder)},
        )

    def run(self, run_id: str, *more: str, application: str = "daily", day: int | None = 1) -> str:
        """Run an interval; return what the command said."""
        interval = ["--interval", f"2013-01-{day:02}/2013-01-{day + 1:02}"] if day is not None else []
        done = self.call("run", f"daily_app:{application}", "--run-id", run_id, *self.place, *interval, *more)
        assert done.returncode == 0, done.stderr
        return done.stderr + done.stdout

    @property
    def place(self) -> list[str]:
        return ["--root", "root", "--system", f"data=files:{self.folder}"]

    def rows(self) -> list[int]:
        files = (self.folder / "out").glob("*.json")
        return sorted(json.loads(line)["n"] for file in files for line in file.read_text().splitlines())


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


@pytest.mark.nightly
def test_a_day_that_is_run_again_under_another_id_is_there_once(shell: Shell) -> None:
    shell.day(1, 1, 2)
    shell.day(2, 3)
    shell.run("scheduled")
    shell.run("scheduled-2", day=2)
    shell.day(1, 1, 2, 9)
    told = shell.call("plan", "daily_app:daily", *shell.place, "--interval", "2013-01-01/2013-01-02")
    assert "replaces what the run 'scheduled' wrote for the data interval" in told.stdout, told.stderr
    shell.run("by-hand")
    assert shell.rows() == [1, 2, 3, 9]


@pytest.mark.nightly
def test_again_keeps_a_stage_whose_output_stands_and_runs_one_whose_output_was_replaced(shell: Shell) -> None:
    shell.day(1, 1)
    shell.run("scheduled")
    assert "kept from generation 1.1" in shell.run("scheduled", "--again")
    shell.run("by-hand")
    assert "runs: the run 'by-hand' has replaced what it wrote to out" in shell.run("scheduled", "--again")
    told = shell.call("plan", "daily_app:daily", *shell.place, "--interval", "2013-01-01/2013-01-02")
    assert "replaces what the run 'scheduled' wrote" in told.stdout
    assert shell.rows() == [1]


@pytest.mark.nightly
def test_a_partition_key_is_of_the_run_and_its_output(shell: Shell) -> None:
    shell.day(1, 1)
    shell.run("nl", "--partition-key", "nl", application="partitioned", day=None)
    shell.run("be", "--partition-key", "be", application="partitioned", day=None)
    assert shell.rows() == [1, 1]
    shell.day(1, 2)
    shell.run("nl-again", "--partition-key", "nl", application="partitioned", day=None)
    assert shell.rows() == [1, 2]
    other = shell.call("run", "daily_app:partitioned", *shell.place, "--run-id", "nl", "--partition-key", "fr")
    assert other.returncode == 2
    assert "--partition-key was nl, and is fr now" in other.stderr


@pytest.mark.nightly
def test_a_key_that_is_a_date_reads_and_replaces_the_interval_that_it_names(shell: Shell) -> None:
    shell.day(1, 1)
    shell.day(2, 2)
    shell.run("first", "--partition-key", "2013-01-01", day=None)
    shell.run("second", "--partition-key", "2013-01-02", day=None)
    shell.day(1, 3)
    told = shell.call("plan", "daily_app:daily", *shell.place, "--partition-key", "2013-01-01")
    assert "replaces what the run 'first' wrote for" in told.stdout, told.stderr
    shell.run("by-interval", day=1)
    assert shell.rows() == [2, 3]
    shell.run("first", "--partition-key", "2013-01-01", "--again", day=None)
    assert shell.rows() == [2, 3]
    other = shell.call("run", "daily_app:daily", *shell.place, "--run-id", "second", "--partition-key", "2013-01-03")
    assert "--partition-key was 2013-01-02, and is 2013-01-03 now" in other.stderr

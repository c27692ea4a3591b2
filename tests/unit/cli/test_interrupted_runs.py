"""``airflow-samza run`` that is interrupted, terminated or killed.

What it says, what stays behind, and that it can be resumed.
"""

from __future__ import annotations

import dataclasses
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from airflow_samza.runs.records.folders import RunFolder, must_read, replace
from airflow_samza.runs.records.liveness import process_is_there
from airflow_samza.runs.stages.stage_runners import Heartbeat, all_runners
from airflow_samza.runs.stages.stage_state import RUNNING
from airflow_samza.runs.state_history.folder import StateHistory
from airflow_samza.runs.state_history.lease import Lease
from airflow_samza.systems.filesystems.opening import open_filesystem
from tests.support.looping import APPLICATION, Place
from tests.support.runner_without_spark import VARIABLE, Dials

PATIENCE = 60.0


class Shell:
    """Runs the command over a root with lines; runners are real processes, their Spark is none."""

    def __init__(self, folder: Path) -> None:
        (folder / "looping_app.py").write_text(APPLICATION)
        self.folder = folder
        self.place = Place(folder)
        self.place.send(0, 40)
        self.dials = Dials(folder / "dials")
        self.files = open_filesystem(self.place.runtime.root)

    def start(self, *more: str, app: str = "bounded", run_id: str = "one") -> subprocess.Popen[str]:
        path = os.pathsep.join([str(Path(__file__).parents[3]), str(self.folder)])
        command = [
            "-m",
            "tests.support.command_without_spark",
            "run",
            f"looping_app:{app}",
            "--run-id",
            run_id,
            "--root",
            "root",
            *more,
        ]
        return subprocess.Popen(
            [sys.executable, *command],
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": path, VARIABLE: str(self.dials.folder), "CANCEL_SECONDS": "3"},
        )

    def until_running(self, process: subprocess.Popen[str]) -> None:
        assert process.stderr is not None
        assert any(RUNNING in line for line in process.stderr)

    def pids(self, application: str = "looping", run_id: str = "one") -> list[int]:
        """The processes of a run's runners that are there."""
        found = [runner.who(self.files) or {} for runner in all_runners(self.files, RunFolder(application, run_id))]
        return [claim["pid"] for claim in found if process_is_there(claim)]

    def make_it_older(self, application: str) -> None:
        """A minute passes after the first run was killed."""
        lease = StateHistory(application, "1").lease(1, "taken")
        replace(
            self.files, lease, dataclasses.replace(must_read(self.files, lease, Lease), claimed_at=time.time() - 60)
        )
        for runner in all_runners(self.files, RunFolder(application, "one")):
            replace(self.files, runner.heartbeat, Heartbeat(time.time() - 60))

    def resumed(self) -> None:
        self.dials.turn("hold", None)
        process = self.start()
        _, errors = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0, errors
        assert self.place.counted() == self.place.expected()
        assert self.place.copied() == sorted(self.place.sent)


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shell]:
    monkeypatch.syspath_prepend(str(tmp_path))
    made = Shell(tmp_path)
    yield made
    for name in ("hold", "spark-frozen"):
        made.dials.turn(name, None)
    for application in made.files.list("runs"):
        for run_id in made.files.list(f"runs/{application}"):
            for pid in made.pids(application, run_id):
                os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize(
    ("sent", "code", "word"),
    [
        (signal.SIGINT, 130, "Interrupted."),
        pytest.param(signal.SIGTERM, 143, "Terminated.", marks=pytest.mark.extended),
    ],
)
@pytest.mark.extended
def test_a_run_that_is_asked_to_end_cancels_its_work_says_how_to_go_on_and_goes_on(
    shell: Shell, sent: int, code: int, word: str
) -> None:
    shell.dials.turn("hold")
    process = shell.start()
    shell.until_running(process)
    shell.dials.turn("hold", None)
    process.send_signal(sent)
    _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == code, errors
    assert "Run one is cancelled" in errors
    assert errors.endswith(
        "To resume it: airflow-samza run looping_app:bounded --run-id one (with the same options, without --again)."
        f"\n{word}\n"
    )
    assert "has not ended" not in errors
    assert shell.pids() == []
    shell.resumed()


@pytest.mark.nightly
def test_a_runner_that_does_not_end_is_named_with_its_process(shell: Shell) -> None:
    shell.dials.turn("hold")
    process = shell.start()
    shell.until_running(process)
    (pid,) = shell.pids()
    frozen = psutil.Process(pid)
    frozen.suspend()
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130, errors
    assert re.search(rf"stage runner is still ending \(host \S+, process {pid}\)\. .*kill -9 {pid}\n", errors), errors
    frozen.resume()
    shell.dials.turn("hold", None)
    frozen.wait(PATIENCE)
    shell.resumed()


@pytest.mark.extended
def test_the_run_after_one_that_was_killed_says_since_when_nothing_was_heard(shell: Shell) -> None:
    carried = ["--mode", "continuous"]
    process = shell.start(*carried, app="unbounded")
    shell.until_running(process)
    (pid,) = shell.pids("flowing")
    process.kill()
    os.kill(pid, signal.SIGKILL)
    process.communicate()
    shell.make_it_older("flowing")
    second = shell.start(*carried, "--for", "1 second", app="unbounded", run_id="two")
    _, errors = second.communicate(timeout=PATIENCE)
    assert second.returncode == 1, errors
    assert re.search(
        r"The state of 'flowing' is held by the run 'one', which is at work \(0 of 2 stages done\); nothing was heard "
        r"of it since "
        r"\d\d:\d\d:\d\d UTC, and unless that changes it counts as dead at \d\d:\d\d:\d\d UTC\.",
        errors,
    ), errors
    assert "airflow-samza state abandon flowing one --force" in errors

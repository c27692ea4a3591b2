"""The demo that is left running: what it says to try next works as it is printed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from demo.local_airflow import process_family, still_running
from tests.support.waiting import until

pytestmark = [
    pytest.mark.extended,
    pytest.mark.airflow,
    pytest.mark.spark,
    pytest.mark.nightly,
    pytest.mark.timeout(1500),
]

REPOSITORY = Path(__file__).parents[2]


def test_the_three_things_to_try_next_work_as_printed(tmp_path: Path) -> None:
    printed = tmp_path / "printed"
    with printed.open("w") as out:
        demo = subprocess.Popen(
            [sys.executable, "-m", "demo", "--keep", "--home", str(tmp_path / "home")],
            cwd=REPOSITORY,
            env={**os.environ, "PYTHONPATH": str(REPOSITORY), "PYTHONUNBUFFERED": "1"},
            stdout=out,
            stderr=subprocess.STDOUT,
        )
        try:
            until(lambda: "stays up until" in printed.read_text() or demo.poll() is not None, 600)
            told = printed.read_text().split("== Three things to try next")[1].split("==")[0]
            _, clear, preview, *backfill = [line[6:] for line in told.splitlines() if line.startswith("      ")]
            started = _state("flights", told, "delays.by-maker-and-hour")
            _shell(clear)
            until(lambda: _state("flights", told, "delays.by-maker-and-hour") not in (started, []), 300)
            assert "makes 7 runs" in _shell(preview)
            for command in backfill:
                _shell(command)
            until(lambda: _runs("flights_daily", told).count("success") == 7, 600)
        finally:
            family = process_family(demo.pid)
            demo.send_signal(signal.SIGTERM)
            demo.wait(120)
    assert still_running(family, 30) == []


def _shell(command: str) -> str:
    return subprocess.run(
        command, shell=True, check=True, capture_output=True, text=True, cwd=REPOSITORY, timeout=300
    ).stdout


def _script(told: str) -> str:
    return next(line.split()[0] for line in told.splitlines() if "in-airflow" in line)


def _runs(dag_id: str, told: str) -> list[str]:
    return _shell(f"{_script(told)} airflow dags list-runs {dag_id} -o plain").split()


def _state(dag_id: str, told: str, task: str) -> list[str]:
    """Return when a task of the Dag's run that has succeeded began and ended; nothing while it goes on."""
    run_id = next(word for word in _runs(dag_id, told) if word.startswith("manual__"))
    lines = _shell(f"{_script(told)} airflow tasks states-for-dag-run {dag_id} {run_id} -o plain").splitlines()
    words = next(line for line in lines if f" {task} " in line).split()
    return words[-2:] if "success" in words else []

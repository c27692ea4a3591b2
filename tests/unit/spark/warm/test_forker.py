"""The forking process of a warm runner: what a run has needed and is slow to import, later runs find imported."""

from __future__ import annotations

import importlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from airflow_samza.launch.warm.messages import receive
from airflow_samza.spark import runner
from airflow_samza.spark.warm import forker
from airflow_samza.spark.warm.forker import Forker, fork_forker

SLOW = "slow_to_import"


@pytest.fixture
def imports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file with a line for each import of the slow module, by the process that imports it."""
    place = tmp_path / "imports"
    place.touch()
    (tmp_path / f"{SLOW}.py").write_text(f"import os\nopen({str(place)!r}, 'a').write(f'{{os.getpid()}}\\n')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    return place


@pytest.fixture
def forking(imports: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Forker]:
    def main(arguments: list[str], *_: Any) -> int:
        if arguments[0] != "needs nothing":
            importlib.import_module(SLOW)
        if arguments[0] == "is killed":
            os.kill(os.getpid(), signal.SIGKILL)
        return 0

    monkeypatch.setattr(runner, "main", main)
    monkeypatch.setattr(forker, "PRELOADED", ())
    monkeypatch.setattr(forker, "REMEMBERED", (SLOW, "a_module_that_nobody_has"))
    process = fork_forker()
    yield process
    process.end()


def run(forking: Forker, what: str) -> tuple[int, int]:
    """Let a run come to its end; return its process id and its exit code."""
    ours, theirs = socket.socketpair()
    settings = {"output": os.devnull}
    with ours, theirs:
        pid = forking.start_run({"arguments": [what], "settings": settings, "environment": {}}, theirs)
    assert pid is not None
    return pid, (receive(forking.channel) or {})["exit"]


def test_what_a_run_has_needed_is_imported_once_for_all_later_ones(forking: Forker, imports: Path) -> None:
    run(forking, "needs nothing")
    assert not imports.read_text()
    pids = [run(forking, "needs it") for _ in range(3)]
    assert [code for _, code in pids] == [0, 0, 0]
    assert imports.read_text().split() == [str(pids[0][0]), str(forking.pid)]


def test_a_killed_run_leaves_nothing_to_import(forking: Forker, imports: Path) -> None:
    pid, code = run(forking, "is killed")
    assert code == -signal.SIGKILL
    run(forking, "needs nothing")
    assert imports.read_text().split() == [str(pid)]


def test_what_is_remembered_starts_no_thread_and_reads_no_settings_of_a_run() -> None:
    program = (
        "import importlib, os, sys\n"
        "from airflow_samza.spark.warm.forker import PRELOADED, REMEMBERED\n"
        "for name in PRELOADED: importlib.import_module(name)\n"
        "threads = len(os.listdir('/proc/self/task'))\n"
        "for name in REMEMBERED: importlib.import_module(name)\n"
        "assert len(os.listdir('/proc/self/task')) == threads\n"
        "assert 'pyiceberg.catalog' not in sys.modules and 'deltalake' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)

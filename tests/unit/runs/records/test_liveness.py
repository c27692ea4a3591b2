from __future__ import annotations

import os
import subprocess
import sys

import pytest

from airflow_samza.runs.records import liveness
from airflow_samza.runs.records.liveness import (
    identity,
    process_is_there,
)


def test_a_process_that_is_there_is_found() -> None:
    assert process_is_there(identity()) is True


def test_a_process_that_ended_is_dead() -> None:
    process = subprocess.Popen([sys.executable, "-c", "pass"])
    process.wait()
    assert process_is_there({**identity(), "pid": process.pid}) is False


def test_a_zombie_is_dead() -> None:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    import psutil

    who = {**identity(), "pid": process.pid, "started": psutil.Process(process.pid).create_time()}
    assert process_is_there(who) is True
    assert process.stdin is not None
    process.stdin.close()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # ended, and not yet reaped
    assert process_is_there(who) is False
    process.wait()


def test_a_process_id_that_was_used_again_is_another_process() -> None:
    assert process_is_there({**identity(), "started": identity()["started"] - 3600}) is False


def test_a_process_of_another_host_cannot_be_looked_up() -> None:
    assert process_is_there({**identity(), "place": "another host"}) is None


def test_a_process_in_a_sandbox_that_names_no_process_namespace_cannot_be_looked_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two containers of one name, neither of which knows its own namespace: process 1 there is not process 1 here."""

    def hidden(path: str) -> str:
        raise FileNotFoundError(path)

    monkeypatch.setattr(os, "readlink", hidden)
    monkeypatch.setattr(sys, "platform", "linux")
    there = identity()
    assert process_is_there(there) is True  # this very process is known
    monkeypatch.setattr(liveness, "_NOWHERE", "another container")
    assert process_is_there(there) is None
    assert process_is_there({**there, "pid": 1, "started": 0.0}) is None

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from airflow_samza.runs.records import liveness
from airflow_samza.runs.records.liveness import (
    FROZEN_AFTER_SECONDS,
    STALE_AFTER_SECONDS,
    identity,
    is_alive,
    process_is_there,
)


def test_a_process_that_is_there_and_writes_no_heartbeats_lives() -> None:
    assert is_alive(identity(), heartbeat=None)


def test_a_process_that_is_there_and_has_stopped_to_write_heartbeats_is_dead() -> None:
    assert is_alive(identity(), heartbeat=100.0, now=100.0 + FROZEN_AFTER_SECONDS - 1)
    assert not is_alive(identity(), heartbeat=100.0, now=100.0 + FROZEN_AFTER_SECONDS + 1)


def test_a_process_that_ended_is_dead_whatever_its_heartbeat_says() -> None:
    process = subprocess.Popen([sys.executable, "-c", "pass"])
    process.wait()
    assert not is_alive({**identity(), "pid": process.pid}, heartbeat=time.time())


def test_a_zombie_is_dead() -> None:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    import psutil

    who = {**identity(), "pid": process.pid, "started": psutil.Process(process.pid).create_time()}
    assert is_alive(who, None)
    assert process.stdin is not None
    process.stdin.close()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # ended, and not yet reaped
    assert not is_alive(who, time.time())
    process.wait()


def test_a_process_id_that_was_used_again_is_another_process() -> None:
    assert not is_alive({**identity(), "started": identity()["started"] - 3600}, heartbeat=time.time())


def test_on_another_host_the_heartbeat_decides() -> None:
    who = {**identity(), "place": "another host"}
    assert is_alive(who, heartbeat=100.0, now=100.0 + STALE_AFTER_SECONDS - 1)
    assert not is_alive(who, heartbeat=100.0, now=100.0 + STALE_AFTER_SECONDS + 1)


def test_on_another_host_without_a_heartbeat_the_claim_counts() -> None:
    assert is_alive({**identity(), "place": "another host", "claimed_at": 100.0}, None, now=101.0)


def test_a_process_in_a_sandbox_that_names_no_process_namespace_is_judged_by_its_heartbeat(
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
    assert is_alive(there, heartbeat=100.0, now=101.0)
    assert not is_alive(there, heartbeat=100.0, now=100.0 + STALE_AFTER_SECONDS + 1)

"""A trigger's event waits until Airflow's scheduler knows that the process which deferred has ended."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest
from asgiref.sync import sync_to_async

from airflow_samza.provider.triggers import settling
from airflow_samza.runs.records.liveness import identity, process_is_there

SETTLE = 0.4
LONG = 30.0
"""Half of the time for which a process that hangs is awaited."""


@pytest.fixture(autouse=True)
def _seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settling, "SETTLE_SECONDS", SETTLE)
    monkeypatch.setattr(settling, "_LOOK_SECONDS", 0.05)


@pytest.fixture
def process() -> Iterator[subprocess.Popen[str]]:
    """A process that ends when its standard input does."""
    found = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, text=True)
    yield found
    found.kill()
    found.communicate()


async def _found(value: Any) -> Any:
    if isinstance(value, Exception):
        raise value
    return value


def seconds(who: dict[str, Any]) -> float:
    began = time.monotonic()
    assert asyncio.run(settling.settled(_found(7), who)) == 7
    return time.monotonic() - began


def test_the_event_waits_while_the_process_is_there_and_a_while_behind_its_end(
    process: subprocess.Popen[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[float] = []

    def is_there(who: dict[str, Any]) -> bool | None:
        found = process_is_there(who)
        if found:
            seen.append(time.monotonic())
        if len(seen) == 5:
            process.kill()
            process.wait()
        return found

    monkeypatch.setattr(settling, "process_is_there", is_there)
    seconds(identity(process.pid))
    assert len(seen) == 5
    assert time.monotonic() - seen[-1] >= SETTLE


def test_a_process_that_has_ended_holds_up_nothing(process: subprocess.Popen[str]) -> None:
    who = identity(process.pid)
    process.kill()
    process.wait()
    assert SETTLE <= seconds(who) < LONG


@pytest.mark.parametrize(
    "of", [{}, {"place": "another host"}, {"started": 1.0}], ids=["its own", "of another host", "of a former process"]
)
def test_a_process_that_cannot_be_the_one_that_deferred_holds_up_nothing(of: dict[str, Any]) -> None:
    assert SETTLE <= seconds({**identity(), **of}) < LONG


def test_a_process_that_hangs_holds_up_the_event_for_a_limited_time(
    process: subprocess.Popen[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settling, "ENDING_SECONDS", 0.5)
    assert SETTLE <= seconds(identity(process.pid)) < LONG


def test_a_failure_waits_as_an_event_does() -> None:
    began = time.monotonic()
    with pytest.raises(RuntimeError, match="no such stage"):
        asyncio.run(settling.settled(_found(RuntimeError("no such stage")), identity()))
    assert time.monotonic() - began >= SETTLE


@pytest.mark.parametrize("phase", ["work", "work in a thread", "settling"])
def test_a_cancellation_does_not_wait_and_keeps_its_message(process: subprocess.Popen[str], phase: str) -> None:
    """By its message Airflow's triggerer knows that a user has acted, and calls ``on_kill``."""
    released = threading.Event()
    works: dict[str, Callable[[], Coroutine[Any, Any, Any]]] = {
        "work": lambda: asyncio.sleep(600),
        "work in a thread": lambda: sync_to_async(lambda: released.wait(60), thread_sensitive=False)(),
        "settling": lambda: _found(7),
    }

    async def cancelled() -> float:
        waiting = asyncio.ensure_future(settling.settled(works[phase](), identity(process.pid)))
        await asyncio.sleep(0.2)
        began = time.monotonic()
        waiting.cancel("a user acted")
        with pytest.raises(asyncio.CancelledError) as raised:
            await waiting
        released.set()
        assert raised.value.args == ("a user acted",)
        return time.monotonic() - began

    assert asyncio.run(cancelled()) < LONG

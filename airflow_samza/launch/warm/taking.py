"""A run's stage runner from a warm one: taken if one is free, else started with a new one.

The launcher tries it before it starts a runner of its own.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from multiprocessing.connection import wait
from typing import Any

from airflow_samza.launch.java.container_limits import memory_rooms
from airflow_samza.launch.programs import start_detached
from airflow_samza.launch.runner_settings import RunnerSettings
from airflow_samza.launch.warm.key import lasting_environment, warm_key
from airflow_samza.launch.warm.messages import END, SERVE, STATE, receive, send
from airflow_samza.launch.warm.places import (
    NONE_STARTED,
    WarmPlace,
    counted,
    new_place,
    note_end,
    sweep_orphans,
    warm_places,
)
from airflow_samza.launch.warm.settings import NEEDED, why_not_kept
from airflow_samza.runs.records import liveness

log = logging.getLogger("airflow_samza.warm")

KEEPER_MODULE = "airflow_samza.spark.warm.keeper"

ANSWER_SECONDS = 15.0
"""The time limit of an answer: a warm runner waits for a run that is just ending, and cleans up after it."""

LISTENS_SECONDS = 30.0
"""The time limit of a new one until it listens, on a machine under load."""

LOOK_SECONDS = 0.02


@dataclass
class LentProcess:
    """The process that a warm runner has made for a run; like a :class:`subprocess.Popen` where it matters.

    ``who`` is its identity, as records have it; ``channel`` brings its end.
    """

    who: Mapping[str, Any]
    channel: socket.socket
    returncode: int | None = None

    @property
    def pid(self) -> int:
        """Its id."""
        return int(self.who["pid"])

    def poll(self) -> int | None:
        """Return its exit code, once it has ended."""
        if self.returncode is None:
            self._listen(0.0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end; :class:`subprocess.TimeoutExpired` when that takes longer."""
        if self.returncode is None:
            self._listen(timeout)
        if self.returncode is None:
            raise subprocess.TimeoutExpired("warm runner", timeout or 0.0)
        return self.returncode

    def terminate(self) -> None:
        """Ask it to end."""
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it."""
        self._signal(signal.SIGKILL)

    def close(self) -> None:
        """Listen no longer; the process goes on."""
        self.channel.close()

    def _signal(self, number: signal.Signals) -> None:
        if liveness.process_is_there(self.who):
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def _listen(self, seconds: float | None) -> None:
        if wait([self.channel], seconds):
            said = receive(self.channel) or {}  # nothing is said where the warm runner is gone, and with it Java
            self.returncode = int(said.get("exit", -signal.SIGKILL))


def take_warm(
    settings: RunnerSettings,
    python: str,
    arguments: Sequence[str],
    handed: Mapping[str, Any],
    environment: Mapping[str, str],
) -> LentProcess | None:
    """Return the process that a warm runner lends to a run; None where the run has to start a runner of its own.

    ``python``, ``arguments`` and ``handed`` are those of the stage runner. A free one of the same key is taken; who
    asks first has it. Where there is none and the host keeps fewer than it may, one is started; where it keeps as many,
    or memory is short, one that serves other runs, and has nothing to do, ends for it.
    """
    key = warm_key(settings, environment)
    request = {"do": SERVE, "arguments": list(arguments), "settings": dict(handed), "environment": dict(environment)}
    for place in [place for place in warm_places() if place.key == key]:
        lent = _ask_for(place, request)
        if lent is not None:
            log.info("the run takes the warm runner %s", place.name)
            return lent
    with counted():
        sweep_orphans()
        run, ahead = json.dumps(list(arguments)), _ahead(settings, arguments[2])
        starting = [place for place in warm_places() if place.key == key and place.is_started_for({run, ahead})]
        others = [place for place in warm_places() if not place.is_ending()]
        short = why_not_kept(memory_rooms(), is_for_commands=not settings.tenant, needed=NEEDED)
        if not starting and (short or len(others) >= settings.warm.most) and not _make_room(others, key):
            if short:
                note_end(NONE_STARTED, short)
            why = short or f"the warm runners of this host, {len(others)}, serve other runs"
            log.info("the run starts a Spark of its own, which ends with it, and no warm runner: %s", why)
            return None
        place = starting[0] if starting else new_place(key)
        place.start_for(run)
        process = None if starting else _start_keeper(place, settings, python, environment)
    deadline = time.monotonic() + LISTENS_SECONDS
    while not os.path.exists(place.socket) and not _has_ended(place, process) and time.monotonic() < deadline:
        time.sleep(LOOK_SECONDS)
    return _ask_for(place, request)


def want_spark(settings: RunnerSettings, environment: Mapping[str, str]) -> None:
    """Have Spark started in the warm runners that may serve a run whose first stage waits its turn."""
    key = warm_key(settings, environment)
    for place in warm_places():
        if place.key == key:
            place.want_spark()


def start_ahead(settings: RunnerSettings, python: str, run_id: str, environment: Mapping[str, str]) -> None:
    """Start a warm runner for a run that is being planned: it imports what runs need meanwhile.

    None is started where one of the same key is there, free or not, or where the host keeps as many as it may, or
    memory is short.
    """
    key = warm_key(settings, environment)
    with counted():
        sweep_orphans()
        running = [place for place in warm_places() if not place.is_ending()]
        if any(place.key == key for place in running) or len(running) >= settings.warm.most:
            return
        if why_not_kept(memory_rooms(), is_for_commands=not settings.tenant, needed=NEEDED):
            return
        place = new_place(key)
        place.start_for(_ahead(settings, run_id))
        _start_keeper(place, settings, python, environment)


def _ahead(settings: RunnerSettings, run_id: str) -> str:
    """Return the text that names a run before it has a stage runner, whose arguments name it then."""
    return json.dumps([settings.root, run_id])


def _has_ended(place: WarmPlace, process: subprocess.Popen[bytes] | None) -> bool:
    """Return whether a warm runner has ended before it listened; without ``process``, another process started it."""
    return place.is_ending() or not os.path.exists(place.folder) if process is None else process.poll() is not None


def end_warm(place: WarmPlace, *, now: bool = False) -> bool:
    """Ask a warm runner to end; return whether it does. One that serves a run does only with ``now``."""
    answer = ask(place, END, now=now)
    return answer is not None and bool(answer.get("ends"))


def ask(place: WarmPlace, what: str, **more: object) -> dict[str, Any] | None:
    """Return the answer of a warm runner to a question; None when it gives none."""
    with suppress(OSError), place.connect(ANSWER_SECONDS) as channel:
        send(channel, {"do": what, **more})
        return receive(channel)
    return None


def _ask_for(place: WarmPlace, request: Mapping[str, Any]) -> LentProcess | None:
    with suppress(OSError), ExitStack() as opened:
        channel = opened.enter_context(place.connect(ANSWER_SECONDS))
        send(channel, request)
        answer = receive(channel)
        if answer is not None and "pid" in answer:
            opened.pop_all()  # the connection stays open as long as the run
            return LentProcess(answer, channel)
    return None


def _make_room(places: Sequence[WarmPlace], key: str) -> bool:
    """End the warm runner of other runs that has been idle for longest; return whether there was one."""
    idle = [(about["since"], place) for place in places if place.key != key and (about := _idle(place)) is not None]
    return any(end_warm(place) for _, place in sorted(idle, key=lambda one: float(one[0])))


def _idle(place: WarmPlace) -> dict[str, Any] | None:
    about = ask(place, STATE)
    return about if about is not None and about.get("state") == "idle" else None


def _start_keeper(
    place: WarmPlace, settings: RunnerSettings, python: str, environment: Mapping[str, str]
) -> subprocess.Popen[bytes]:
    lasting = {**lasting_environment(environment), "PYTHONUNBUFFERED": "1"}
    process = start_detached([python, "-m", KEEPER_MODULE, place.folder], place.log, lasting, settings.to_warm_json())
    log.info("the run starts the warm runner %s, kept for later runs while memory allows", place.name)
    return process

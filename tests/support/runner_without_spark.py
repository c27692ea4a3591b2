"""A stage runner whose Spark is a stand-in: tasks run in its own process, and files in a folder say what befalls it.

``python -m tests.support.runner_without_spark ROOT APPLICATION RUN KEY``, as the real one; the environment's
``RUNNER_DIALS`` names the folder. While the file ``disk-full`` is there, nothing can be written under any root;
``hold`` keeps tasks from starting; ``spark-frozen`` is a Spark that answers nothing; ``clock`` holds the seconds by
which the clock is wrong, ``slow`` those that a job takes more. ``start-frozen`` is a Java that is frozen before it is a
Spark.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from airflow_samza.engine import heartbeat
from airflow_samza.engine.stage_context import StageContext
from airflow_samza.engine.stage_runner import end_process, run_process
from airflow_samza.engine.stage_setup import StageSetup
from airflow_samza.launch import launcher, own_process
from airflow_samza.runs.records.epoch_records import Intent
from airflow_samza.systems.filesystems.local import LocalFilesystem
from tests.support.local_engine import LocalEngine, LocalStage

VARIABLE = "RUNNER_DIALS"
PULSE_SECONDS = "RUNNER_PULSE_SECONDS"

WATCHED = "watched"
"""The dial with which a runner watches its publications on Kafka."""

PUBLICATION = "publication"
"""The dial for one of them: a step, the how manieth time, and the signal that its process gets then."""

LOOK_SECONDS = 0.01


class Dials:
    """Faults of runners, as files in a folder; for the test, which turns them, and for the runner, which looks."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(exist_ok=True)

    def turn(self, name: str, value: str | None = "") -> None:
        """Sets a dial, or (None) takes it back."""
        if value is None:
            (self.folder / name).unlink(missing_ok=True)
            return
        (self.folder / f".{name}").write_text(value)
        (self.folder / f".{name}").rename(self.folder / name)

    def is_on(self, name: str) -> bool:
        """Return True if a dial is set."""
        return (self.folder / name).exists()

    def wait_while(self, name: str) -> None:
        """Returns when a dial is not set any more."""
        while self.is_on(name):
            time.sleep(LOOK_SECONDS)

    @property
    def clock(self) -> float:
        """The seconds by which the clock is wrong."""
        return self.number("clock")

    def number(self, name: str) -> float:
        """Return the value of a dial; 0.0 when it is not set."""
        try:
            return float((self.folder / name).read_text())
        except FileNotFoundError:
            return 0.0


def use_instead(monkeypatch: pytest.MonkeyPatch, folder: Path) -> Dials:
    """Has the launcher start such runners from now on; returns their dials."""
    monkeypatch.setenv(VARIABLE, str(folder))
    monkeypatch.setattr(own_process, "RUNNER_MODULE", __name__)
    monkeypatch.setattr(launcher, "check_place", lambda master, submit, python="": None)
    return Dials(folder)


class DialledEngine(LocalEngine):
    """An engine that may be frozen: then it neither answers nor ends."""

    def __init__(self, dials: Dials) -> None:
        super().__init__()
        self._dials = dials

    @property
    def place(self) -> str:
        return "Spark"

    def answers(self) -> bool:
        if self._dials.is_on("spark-frozen"):
            grow_impatient()
            self._dials.wait_while("spark-frozen")
        return True

    def stage(self, context: StageContext, setup: StageSetup) -> LocalStage:
        return DialledStage(context, setup, self._dials)


class DialledStage(LocalStage):
    """A stage whose epochs begin when they may, or when they are cancelled, which ends them."""

    def __init__(self, context: StageContext, setup: StageSetup, dials: Dials) -> None:
        super().__init__(context, setup)
        self._dials = dials

    def run_epoch(self, intent: Intent, messages: int | None) -> None:
        while self._dials.is_on("hold") and not self._context.attempt.cancel_requested():
            time.sleep(LOOK_SECONDS)
        self._dials.wait_while("spark-frozen")
        time.sleep(self._dials.number("slow"))
        super().run_epoch(intent, messages)


class Signalled:
    """Sends this process the signal that the dial of publications names, when it comes to the step, once."""

    def __init__(self, dials: Dials) -> None:
        self._dial = dials.folder / PUBLICATION
        self._seen = Counter[str]()

    def __call__(self, step: str, count: int) -> None:
        with suppress(FileNotFoundError):
            asked = self._dial.read_text()
            wanted, times, name = asked.split()
            self._seen[asked] += step == wanted
            if step == wanted and self._seen[asked] == int(times):
                self._dial.unlink()  # by whoever is first
                os.kill(os.getpid(), signal.Signals[name])


def quicken(dials: Dials) -> None:
    """Has this process, a runner, obey the dials of clock and disk."""
    real = time.time
    time.time = lambda: real() + dials.clock

    def step(self: LocalFilesystem, operation: str, path: str) -> None:
        if operation in ("create", "write", "sync", "link", "replace") and dials.is_on("disk-full"):
            raise OSError(errno.ENOSPC, "No space left on device")

    vars_of: Any = LocalFilesystem
    vars_of.step = step
    if dials.is_on(WATCHED):
        from tests.support.publication_steps import watch

        watch(Signalled(dials))


def grow_impatient() -> None:
    """Has this process, a runner, give up a silent Spark as soon as the environment says.

    A stand-in does so only when it is frozen: on a machine under load anybody is silent for seconds.
    """
    heartbeat.SILENT_AFTER_SECONDS = float(os.environ.get(PULSE_SECONDS, heartbeat.SILENT_AFTER_SECONDS))
    heartbeat.ASK_SECONDS = min(heartbeat.ASK_SECONDS, heartbeat.SILENT_AFTER_SECONDS / 4)
    heartbeat.LEAVE_SECONDS = min(heartbeat.LEAVE_SECONDS, heartbeat.SILENT_AFTER_SECONDS)


def open_engine(dials: Dials) -> DialledEngine:
    """Start a stand-in of Spark, here a process called java where it is to be frozen."""
    if dials.is_on("start-frozen"):
        grow_impatient()
        java = dials.folder / "java"
        java.symlink_to(shutil.which("sleep") or "sleep")
        started = subprocess.Popen([str(java), "600"])
        started.send_signal(signal.SIGSTOP)
        started.wait()
        raise RuntimeError("[JAVA_GATEWAY_EXITED] Java ended.")
    return DialledEngine(dials)


def main() -> int:
    """Becomes the runner."""
    dials = Dials(Path(os.environ[VARIABLE]))
    quicken(dials)
    return run_process(sys.argv[1:], lambda name, settings, files: open_engine(dials), json.load(sys.stdin))


if __name__ == "__main__":
    end_process(main())

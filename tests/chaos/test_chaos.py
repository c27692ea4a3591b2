"""Runs to which everything happens that happens to hosts, and which end as undisturbed ones. ``make nightly`` runs it.

``CHAOS_SECONDS`` (1800) is the time of each of the two tests; ``CHAOS_SEED`` repeats what a run has printed. The disk
that fills up is a small tmpfs where this process may mount one; else only the runners' own writes fail, and the first
line of the output says so.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from airflow_samza.cli.environment import Environment
from airflow_samza.cli.fsck_command import fsck
from airflow_samza.errors import SamzaError
from airflow_samza.launch import launcher
from airflow_samza.launch.runtime import SparkRuntime
from airflow_samza.runs.records import liveness
from airflow_samza.runs.records.folders import RunFolder
from airflow_samza.runs.records.run_plan import RunPlan
from airflow_samza.runs.stages import heartbeats
from airflow_samza.runs.stages.stage_state import SUCCEEDED, UNFINISHED, StageHandle
from airflow_samza.systems.filesystems.opening import open_filesystem
from tests.chaos import spark_runner
from tests.chaos.mischief import Disk, Mischief
from tests.support import runner_without_spark
from tests.support.looping import APPLICATION, Place
from tests.support.runner_without_spark import Dials

SECONDS = float(os.environ.get("CHAOS_SECONDS", "1800"))
ROUND_SECONDS = 400.0
"""After this long a round hangs."""

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(int(2 * SECONDS + 1800))]

MODES = ("staged", "pipelined", "continuous")


@pytest.fixture
def ground(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder for the roots: a small filesystem of its own where that can be had."""
    (tmp_path / "looping_app.py").write_text(APPLICATION)
    monkeypatch.syspath_prepend(str(tmp_path))
    sys.modules.pop("looping_app", None)
    monkeypatch.setattr(liveness, "FROZEN_AFTER_SECONDS", 5.0)
    monkeypatch.setattr(heartbeats, "CONFIRM_SECONDS", 1.5)
    monkeypatch.setenv(runner_without_spark.PULSE_SECONDS, "5")
    disk = tmp_path / "disk"
    disk.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(disk)]
    mounted = subprocess.run(command, capture_output=True, check=False).returncode == 0
    what = "a tmpfs of 64 MiB" if mounted else "no real one: mounting is not allowed here, and only runners notice"
    print(f"The disk that fills up is {what}.")
    yield disk
    if mounted:
        subprocess.run(["umount", "-l", str(disk)], check=True)
    sys.modules.pop("looping_app", None)


class Round:
    """One run of an application, looked after as a scheduler does: what fails and may be tried again is tried again."""

    def __init__(self, ground: Path, number: int, seed: int, *, on_spark: bool) -> None:
        self.seed = seed
        self.chance = random.Random(seed)
        self.dials = Dials(ground.parent / f"dials-{number}")
        os.environ[runner_without_spark.VARIABLE] = str(self.dials.folder)
        folder = ground / str(number)
        folder.mkdir()
        self.place = Place(folder)
        if on_spark:
            self.place.runtime = SparkRuntime(
                str(folder / "root"), master="local[2]", spark_conf={"spark.ui.enabled": "false"}
            )
        self.files = open_filesystem(self.place.runtime.root)
        self.on_spark = on_spark
        self.mode = self.chance.choice(MODES)
        self.tries: Counter[str] = Counter()
        self.began = time.monotonic()
        self.noticed: list[float] = []
        self.mischief: Mischief | None = None

    def play(self, ground: Path) -> None:
        """The run, from its plan to its end, and what it must have come to."""
        live = self.mode == "continuous"
        self.dials.turn("slow", str(self.chance.uniform(0.2, 1.0)))
        for first in range(0, 90, 30):
            self.place.send(first, 30)
        limit = str(self.chance.choice([7, 20, 1000]))
        run = self.place.prepare("unbounded" if live else "bounded", self.mode, **{"job.epoch.max.messages": limit})
        disk = Disk(ground, self.dials, ground.is_mount())
        folder = RunFolder(run.application, run.run_id)
        self.mischief = Mischief(self.chance, self.files, folder, disk, self.dials, on_spark=self.on_spark)
        try:
            self._look_after(run, disk)
        finally:
            self.mischief.end()
        self._close(run, folder)
        self._check(run)

    def _look_after(self, run: RunPlan, disk: Disk) -> None:
        left = {stage.stage_id: stage for stage in run.plan.stages}
        on: dict[str, StageHandle] = {}
        to_send = 20 if self.mode == "continuous" else 0
        drained = self.mode != "continuous"
        while left:
            assert time.monotonic() - self.began < ROUND_SECONDS, "the round hangs"
            try:
                if to_send:
                    with disk.full:  # what fails here would only be sent again
                        self.place.send(len(self.place.sent), 10)
                    to_send -= 10
                elif not drained:
                    self.place.runtime.drain(run)
                    drained = True
                for stage_id, stage in list(left.items()):
                    if stage_id not in on and (run.stages_run_concurrently or not set(stage.upstream) & left.keys()):
                        on[stage_id] = self.place.runtime.submit(run, stage_id)
                for stage_id, handle in list(on.items()):
                    status = self.place.runtime.status(handle)
                    if not status.is_final:
                        continue
                    del on[stage_id]
                    self.tries[status.state] += 1
                    if status.state in (SUCCEEDED, UNFINISHED):
                        self.place.runtime.finish(handle)
                        del left[stage_id]
                    else:
                        assert self.mischief is not None
                        self.mischief.say(f"(the stage {stage_id} is {status.state})")
            except SamzaError as error:
                if not error.retryable:
                    raise
                self.tries[type(error).__name__] += 1
                time.sleep(0.2)
            time.sleep(0.05)

    def _close(self, run: RunPlan, folder: RunFolder) -> None:
        """Runners end by themselves once the run is closed, also those that were frozen and are awake again."""
        self.place.runtime.close(run)
        assert self.mischief is not None
        deadline = time.monotonic() + 90
        while there := self.mischief.processes():
            assert time.monotonic() < deadline, f"runners do not end: {[process.pid for process in there]}"
            time.sleep(0.1)

    def _check(self, run: RunPlan) -> None:
        """The outputs are exactly the model's, and nothing under the root is damaged."""
        assert self.place.copied() == sorted(self.place.sent)
        assert self.place.counted() == self.place.expected()
        assert self.place.minutes() == self.place.expected_minutes()
        assert [look for look in fsck(Environment("chaos", self.place.runtime.root)) if not look.sound] == []

    def kill_all(self) -> None:
        """After a round that failed: no process stays."""
        for process in self.mischief.processes() if self.mischief is not None else ():
            for one in [*process.children(recursive=True), process]:
                try:
                    one.kill()
                except psutil.Error:
                    continue


def rounds(ground: Path, *, on_spark: bool) -> None:
    seed = int(os.environ.get("CHAOS_SEED", str(random.randrange(2**32))))
    print(f"CHAOS_SEED={seed}")
    deadline = time.monotonic() + SECONDS
    done: Counter[str] = Counter()
    tries: Counter[str] = Counter()
    longest, number = 0.0, 0
    while number == 0 or time.monotonic() < deadline:
        round_ = Round(ground, number, seed + number, on_spark=on_spark)
        try:
            round_.play(ground)
        except BaseException:
            print(
                f"The round with CHAOS_SEED={round_.seed} ({round_.mode}) failed:",
                *(round_.mischief.log if round_.mischief else ()),
                sep="\n  ",
            )
            round_.kill_all()
            raise
        assert round_.mischief is not None
        seconds = time.monotonic() - round_.began
        longest = max(longest, seconds)
        done += round_.mischief.done
        tries += round_.tries
        print(
            f"round {number}, seed {round_.seed}, {round_.mode}: {seconds:.1f} s, {dict(round_.tries)}",
            *round_.mischief.log,
            sep="\n  ",
        )
        subprocess.run(["rm", "-rf", str(ground / str(number))], check=True)
        number += 1
    print(
        f"{number} rounds, the longest {longest:.0f} s; {sum(done.values())} actions: {dict(done)}; ends of tries: "
        f"{dict(tries)}"
    )


def test_runs_without_spark_end_as_undisturbed_ones(ground: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runner_without_spark.use_instead(monkeypatch, ground.parent / "dials")
    rounds(ground, on_spark=False)


@pytest.mark.spark
def test_runs_on_spark_end_as_undisturbed_ones(ground: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launcher, "RUNNER_MODULE", spark_runner.__name__)
    monkeypatch.setenv(runner_without_spark.VARIABLE, str(ground.parent / "dials"))
    rounds(ground, on_spark=True)

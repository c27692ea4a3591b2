"""Rounds of chaos: a run each, looked after as a scheduler does, while mischief befalls it.

``CHAOS_SECONDS`` (1800) is the time of each test of rounds; ``CHAOS_SEED`` repeats what a run has printed;
``CHAOS_KINDS`` has names of actions, with commas: only these are done.
"""

from __future__ import annotations

import os
import random
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import psutil

from airflow_samza.cli.environment import Environment
from airflow_samza.cli.fsck_command import fsck
from airflow_samza.errors import SamzaError
from airflow_samza.launch.runtime import SparkRuntime
from airflow_samza.runs.records.folders import RunFolder
from airflow_samza.runs.records.run_plan import RunPlan
from airflow_samza.runs.stages.stage_state import SUCCEEDED, UNFINISHED, StageHandle
from airflow_samza.systems.filesystems.opening import open_filesystem
from tests.chaos.mischief import Disk, Mischief
from tests.support import runner_without_spark
from tests.support.looping import Place
from tests.support.runner_without_spark import Dials

SECONDS = float(os.environ.get("CHAOS_SECONDS", "1800"))
ROUND_SECONDS = 400.0
"""After this long a round hangs."""

MODES = ("staged", "pipelined", "continuous")


class Round:
    """One run of an application, looked after as a scheduler does: what fails and may be tried again is tried again."""

    def __init__(self, ground: Path, number: int, seed: int, *, on_spark: bool) -> None:
        self.seed = seed
        self.chance = random.Random(seed)
        self.dials = Dials(ground.parent / f"dials-{number}")
        os.environ[runner_without_spark.VARIABLE] = str(self.dials.folder)
        folder = ground / str(number)
        folder.mkdir()
        self.title = self.mode = self.chance.choice(MODES)
        self.place = self.open_place(folder)
        if on_spark:
            self.place.runtime = SparkRuntime(
                str(folder / "root"), master="local[2]", spark_conf={"spark.ui.enabled": "false"}
            )
        self.files = open_filesystem(self.place.runtime.root)
        self.on_spark = on_spark
        self.tries: Counter[str] = Counter()
        self.began = time.monotonic()
        self.noticed: list[float] = []
        self.mischief: Mischief | None = None

    def open_place(self, folder: Path) -> Place:
        """The root, with the streams around it."""
        return Place(folder)

    def begin_mischief(self, ground: Path, run: RunFolder) -> Mischief:
        """Return the faults of the round."""
        disk = Disk(ground, self.dials, ground.is_mount())
        return Mischief(self.chance, self.files, run, disk, self.dials, on_spark=self.on_spark)

    def play(self, ground: Path) -> None:
        """The run, from its plan to its end, and what it must have come to."""
        live = self.mode == "continuous"
        self.dials.turn("slow", str(self.chance.uniform(0.2, 1.0)))
        for first in range(0, 90, 30):
            self.place.send(first, 30)
        limit = str(self.chance.choice([7, 20, 1000]))
        run = self._prepare("unbounded" if live else "bounded", limit)
        folder = RunFolder(run.application, run.run_id)
        self.mischief = self.begin_mischief(ground, folder)
        try:
            self._look_after(run, self.mischief.disk)
        finally:
            self.mischief.end()
        self._close(run, folder)
        self.check()

    def _prepare(self, name: str, limit: str) -> RunPlan:
        while True:
            try:
                return self.place.prepare(name, self.mode, **{"job.epoch.max.messages": limit})
            except SamzaError as error:
                if not error.retryable or time.monotonic() - self.began > ROUND_SECONDS:
                    raise
                self.tries[f"plan: {type(error).__name__}"] += 1

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
                        why = f": {status.error['sentence']}" if status.error else ""
                        self.mischief.say(f"(the stage {stage_id} is {status.state}{why})")
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

    def check(self) -> None:
        """The outputs are exactly the model's, and nothing under the root is damaged."""
        self.compare()
        assert [look for look in fsck(Environment("chaos", self.place.runtime.root)) if not look.sound] == []

    def compare(self) -> None:
        """Compare the outputs with the model's."""
        assert self.place.copied() == sorted(self.place.sent)
        assert self.place.counted() == self.place.expected()
        assert self.place.minutes() == self.place.expected_minutes()

    def kill_all(self) -> None:
        """After a round that failed: no process stays."""
        for process in self.mischief.processes() if self.mischief is not None else ():
            for one in [*process.children(recursive=True), process]:
                try:
                    one.kill()
                except psutil.Error:
                    continue


def rounds(ground: Path, make: Callable[[int, int], Round], seconds: float = SECONDS, seed: int | None = None) -> None:
    """Play rounds, at least one, until the time is over; ``make`` makes one of its number and seed."""
    seed = int(os.environ.get("CHAOS_SEED", str(random.randrange(2**32)))) if seed is None else seed
    print(f"CHAOS_SEED={seed}")
    deadline = time.monotonic() + seconds
    done: Counter[str] = Counter()
    tries: Counter[str] = Counter()
    longest, number = 0.0, 0
    while number == 0 or time.monotonic() < deadline:
        round_ = make(number, seed + number)
        try:
            round_.play(ground)
        except BaseException:
            print(
                f"The round with CHAOS_SEED={round_.seed} ({round_.title}) failed:",
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
            f"round {number}, seed {round_.seed}, {round_.title}: {seconds:.1f} s, {dict(round_.tries)}",
            *round_.mischief.log,
            sep="\n  ",
        )
        subprocess.run(["rm", "-rf", str(ground / str(number))], check=True)
        number += 1
    print(
        f"{number} rounds, the longest {longest:.0f} s; {sum(done.values())} actions: {dict(done)}; ends of tries: "
        f"{dict(tries)}"
    )

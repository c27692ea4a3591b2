"""The figures of stages in every state, with retries, clears and clocks that jump, against a plain count of the truth."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path

import pytest

from airflow_samza.cli.environment import Environment
from airflow_samza.cli.status_command import RunStatus
from airflow_samza.provider.page.stage_answers import stage_answer
from airflow_samza.provider.stats import gauges_of
from airflow_samza.provider.xcoms import summary
from airflow_samza.runs.progress.progress import ProgressReport, describe_progress
from airflow_samza.runs.progress.stage_progress import heads_that_answer, stage_progress
from airflow_samza.runs.records.folders import must_read
from airflow_samza.runs.records.stage_result import StageResult, describe_result
from airflow_samza.runs.stages.stage_state import CANCELLED, FAILED, QUEUED, RUNNING, SUCCEEDED
from tests.support.budgets import share
from tests.support.timed_runs import DIES, FAILS, FIRST, IS_CANCELLED, JUMPS, PARTITIONS, SECOND, World

EXAMPLES = int(os.environ.get("FIGURES_EXAMPLES") or share(30))
GROUPS = 10
NAMES = 5
"""Rows of the table beside the lines."""


@pytest.mark.random
@pytest.mark.parametrize("group", range(GROUPS))
@pytest.mark.few(3)
def test_every_face_shows_what_is_true(group: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(group, EXAMPLES, GROUPS):
        world = World(tmp_path / str(seed))
        with world.clocks(monkeypatch):
            Story(world, random.Random(seed), f"seed {seed}").play()


class Story:
    """A random run, each state of which is looked at."""

    def __init__(self, world: World, rng: random.Random, told: str) -> None:
        self.world, self.rng, self.told = world, rng, told
        self.count = rng.randint(12, 20)

    def play(self) -> None:
        """Play the run to its end, or to the last of its tries."""
        world, rng = self.world, self.rng
        rows = [
            {"n": n, "seconds": rng.choice([0.25, 1.5, 4.0, 8.0]), "act": "", "score": rng.choice([-7200.0, 90_000.0])}
            for n in range(self.count)
        ]
        world.send(rows, NAMES)
        several = rng.random() < 0.4
        world.plan("pipelined" if several else "staged", **({"job.epoch.max.messages": "3"} if several else {}))
        self.look("nobody has asked for it")
        for _ in range(rng.randint(1, 4)):
            world.acts = {
                rng.randrange(self.count): [rng.choice([FAILS, DIES, IS_CANCELLED, JUMPS])]
                for _ in range(rng.choice([0, 1, 1, 2]))
            }
            attempt = world.submit()
            self.rests("it waits")
            world.on_line = lambda: self.look("it works") if self.rng.random() < 0.2 else None
            world.runs(attempt)
            self.look("it has just ended")
            self.rests("it is over")
            if world.truth().state == SUCCEEDED:
                break
            if rng.random() < 0.25:
                world.clear()
                self.look("it is cleared")
        if world.truth().state == SUCCEEDED:
            world.on_line = lambda: None
            world.runs(world.submit(SECOND))
            self.look("the next one has ended, too")

    def rests(self, when: str) -> None:
        """Let time pass in which nobody works; the clocks on the wall may be set meanwhile."""
        self.world.passes(self.rng.choice([0.0, 2.0, 500.0, 86_400.0]))
        self.world.wrong += self.rng.choice([0.0, 0.0, -4_000.0, 4_000.0])
        self.look(when)

    def look(self, when: str) -> None:
        """Compare all that is shown with what is true."""
        world, truth = self.world, self.world.truth()
        report = stage_progress(
            world.files, heads_that_answer({"log": world.log}, {}), world.run, FIRST, world.handle().generation
        )
        try:
            assert report.state == truth.state
            self.check_time(report)
            self.check_tasks(report)
            self.check_messages(report)
            self.check_faces(report)
        except AssertionError as error:
            raise AssertionError(f"{self.told}, when {when} ({truth}): {error}") from error

    def check_time(self, report: ProgressReport) -> None:
        worked, state = self.world.truth().worked, report.state
        if not worked and state in (QUEUED, "not started"):
            assert report.seconds in (None, 0.0)
            return
        unknown = float(self.world.truth().deaths)  # of each the last second, at most
        if report.seconds is None:
            assert worked < unknown
            return
        slack = 1.0 if state == RUNNING else 1e-3  # a clock may have jumped since the last sign of life
        assert worked - slack - unknown <= report.seconds <= worked + slack, f"{report.seconds} s of {worked} s"
        if report.overall is not None:
            assert report.overall.seconds == pytest.approx(report.seconds, abs=1e-3)
            assert report.overall.read == pytest.approx(report.read / report.seconds, abs=0.051)
            assert report.overall.sent == pytest.approx(report.sent / report.seconds, abs=0.051)
        assert report.now is None or (state == RUNNING and 0 <= report.now.seconds <= worked + slack)

    def check_tasks(self, report: ProgressReport) -> None:
        truth = self.world.truth()
        assert report.tasks in (0, PARTITIONS)
        assert report.tasks_ended <= report.tasks_done <= report.tasks
        if report.tasks and not report.several_epochs:
            assert report.tasks_done == report.tasks_ended == len(truth.done)
        if truth.state == SUCCEEDED:
            assert report.tasks_ended == PARTITIONS

    def check_messages(self, report: ProgressReport) -> None:
        world, truth = self.world, self.world.truth()
        everything = sum(len(lines) for lines in world.lines.values())
        assert everything == self.count
        if truth.state == SUCCEEDED:
            assert (report.read, report.sent) == (everything, everything)
        elif report.several_epochs:
            assert report.read <= everything
        elif report.tasks:
            assert report.read == report.sent == sum(len(world.lines[task]) for task in truth.done)

    def check_faces(self, report: ProgressReport) -> None:
        world, truth = self.world, self.world.truth()
        headline = describe_progress(report)[0]
        page = stage_answer(world.run, report, "", "", {})
        assert (page.seconds, page.read, page.sent) == (report.seconds, report.read, report.sent)
        assert (page.tasks, page.tasks_done, page.tasks_ended) == (report.tasks, report.tasks_done, report.tasks_ended)
        sent = {gauge.name: gauge.value for gauge in gauges_of(report)}
        assert (sent["read"], sent["sent"], sent["tasks_ended"]) == (report.read, report.sent, report.tasks_ended)
        assert sent["running"] == (truth.state == RUNNING)
        status = RunStatus(Environment("test", str(world.root)), ["timed", "run-1"])
        told = json.loads(status.json(status.reports()))["stages"][0]
        if told["generation"] == report.generation:
            assert (told["seconds"], told["read"], told["tasks_done"]) == (
                report.seconds,
                report.read,
                report.tasks_done,
            )
        if truth.state in (FAILED, CANCELLED) and report.read:
            assert f"read {report.read:,} messages" in headline
        if truth.state == SUCCEEDED:
            result = must_read(world.files, world.handle().folder.result, StageResult)
            assert result.seconds == report.seconds
            assert summary(world.run, [result])["seconds"] == pytest.approx(report.seconds, abs=1e-3)
            assert summary(world.run, [result])["read"]["lines"]["messages"] == self.count
            assert f"{self.count} messages" in "\n".join(describe_result(result))

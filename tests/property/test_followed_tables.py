"""Side inputs of a continuous run, epoch by epoch.

Whatever is written is read in the end, and no epoch takes more than its share.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest import mock

import pytest

from airflow_samza.application.loader import load_application
from airflow_samza.engine.stage_context import StageContext
from airflow_samza.engine.tables import followed_tables
from airflow_samza.engine.tables.followed_tables import FollowedTables
from airflow_samza.runs.records.epoch_records import InputIntent, Intent, Manifest
from airflow_samza.runs.records.names import Generation
from airflow_samza.runs.records.run_plan import CONTINUOUS
from airflow_samza.runs.stages.stage_state import StageHandle
from airflow_samza.systems.system import StreamSpec
from tests.support.budgets import extended_but
from tests.support.local_engine import LocalStage
from tests.support.runs_here import Here
from tests.unit.prepare.test_side_inputs import profiles, views

TOPIC = "profile-changes"


class Unfilled(LocalStage):
    """A stage that fills no tables, whenever it is asked."""

    def fill_tables(self, side_inputs: Mapping[str, InputIntent], tag: str) -> None:
        pass


class Stage:
    """The side input of a stage, epoch by epoch; nothing runs but the decisions."""

    def __init__(self, folder: Path, application: str) -> None:
        self.here = Here(folder)
        self.here.log.create([StreamSpec("views", 2, "member_id bigint, page string")])
        profiles(self.here, m1="gold")
        views(self.here, 1)
        self.run = self.here.plan(f"tests.support.side_input_apps:{application}", "run-1", mode=CONTINUOUS)
        plan = self.run.plan
        spec = load_application(self.run.reference).spec()
        program = SimpleNamespace(spec=spec, plan=plan, stage=plan.stage("views"), operators={})
        setup: Any = SimpleNamespace(program=program, task=SimpleNamespace(stage="views", digests={}))
        handle = StageHandle(self.run.application, self.run.run_id, "views", Generation(1, 1))
        self._context: Any = SimpleNamespace(
            run=self.run,
            handle=handle,
            systems={"log": self.here.log},
            files=self.here.log.filesystem,
            attempt=SimpleNamespace(group="g"),
        )
        self._stage: Any = Unfilled(cast(StageContext, self._context), setup)
        self.former: Intent | None = None
        self.restart()

    def restart(self) -> None:
        """Another process takes the stage over, with the last intent."""
        self.tables = FollowedTables(self._context, self._stage, self.former)

    def write(self, number: int) -> None:
        """Appends messages of any members in one commit."""
        profiles(self.here, **{f"m{n}": "silver" for n in range(number)})

    def look(self) -> Mapping[str, InputIntent]:
        """One turn of the loop that waits for something to do."""
        thread = self.tables._thread
        wanted = self.tables.look(self.former)
        if thread is not None:
            thread.join()
        return wanted

    def epoch(self, wanted: Mapping[str, InputIntent]) -> list[int]:
        """Decides an epoch; how much further each partition is read."""
        before = self.held
        number = 0 if self.former is None else self.former.epoch + 1
        self.former = Intent("views", "1.1", number, 2, {}, {}, side_inputs=dict(wanted))
        return [now - was for was, now in zip(before, self.held, strict=True)]

    @property
    def held(self) -> list[int]:
        intents = (
            self.former.side_inputs
            if self.former is not None
            else {TOPIC: InputIntent(TOPIC, self.run.side_input(TOPIC).slice or {})}
        )
        return [int(end) for _, end in intents[TOPIC].slice["offsets"]]

    @property
    def head(self) -> list[int]:
        return [int(end) for _, end in self.here.log.slice(StreamSpec(TOPIC))["offsets"]]


@pytest.mark.parametrize("application", ["following", "following_processed"])
@pytest.mark.parametrize("seed", extended_but(range(2), range(12)))
def test_all_that_is_written_to_a_side_input_is_read_in_the_end_by_epochs_that_are_bounded(
    tmp_path: Path, application: str, seed: int
) -> None:
    chance = random.Random(f"{application} {seed}")
    limit = chance.choice([1, 3, 10])
    with mock.patch.object(followed_tables, "FEW_MESSAGES", limit):
        stage = Stage(tmp_path, application)
        beforehand: list[list[int]] = []
        for _ in range(25):
            step = chance.choice(["write", "look", "epoch", "epoch", "restart"])
            if step == "write":
                for _ in range(chance.randint(1, 4)):  # small commits one after the other, while nothing else comes
                    stage.write(chance.randint(1, 3 * limit))
                    stage.look()
            elif step == "restart":
                stage.restart()
            elif step == "look":
                stage.look()
            else:
                wanted = stage.look()
                prepared = stage.tables._prepared.get(TOPIC)
                if prepared is not None:
                    beforehand.append([int(end) for _, end in prepared.slice["offsets"]])
                starts = [stage.held, *beforehand]
                stage.epoch(wanted)
                assert any(
                    all(0 <= end - start <= limit for start, end in zip(place, stage.held, strict=True))
                    for place in starts
                )
                assert all(end <= head for end, head in zip(stage.held, stage.head, strict=True))
        for turn in itertools.count():
            if stage.held == stage.head:
                break
            assert turn < sum(stage.head) + 10, f"{stage.held} of {stage.head} is read, and nothing further comes"
            stage.epoch(stage.look())


@pytest.mark.parametrize("seconds", [0.0, 0.05, 100.0])
def test_a_processor_gets_as_many_messages_as_fit_into_its_share_of_an_epoch(tmp_path: Path, seconds: float) -> None:
    stage = Stage(tmp_path, "following_processed")
    facts = {f"side_input_seconds.{TOPIC}": seconds}
    aside = {"side_inputs": {TOPIC: {"messages": 5}}}
    stage.tables.took([Manifest(task, 0, "a", 1.0, {}, {}, facts, report=aside) for task in range(2)])
    for _ in range(3):
        stage.write(15_000)
    wanted = stage.look()
    assert max(stage.epoch(wanted)) == {0.0: followed_tables.FEW_MESSAGES, 0.05: 20, 100.0: 1}[seconds]
    assert stage.tables.is_behind

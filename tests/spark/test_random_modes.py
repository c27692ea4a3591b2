"""Random applications on Spark: every mode gives what the test driver gives, by the same code in the tasks."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import pytest
from samza_spark_apps import random_apps
from samza_spark_apps.random_apps import Plan, plan_of

from airflow_samza.schema import Schema
from tests.support.budgets import share
from tests.support.one_session import Runs, join
from tests.support.random_runs import driver_of, whole

pytestmark = [pytest.mark.extended, pytest.mark.random, pytest.mark.spark, pytest.mark.timeout(600)]

SHIPPED = random_apps

FIRST = int(os.environ.get("SPARK_MODES_FIRST", "0"))
SEEDS = range(FIRST, FIRST + share(10, 5))


class RandomRuns(Runs):
    """Runs of one random application."""

    def __init__(self, session: Any, folder: Path, plan: Plan) -> None:
        folder.mkdir(parents=True)
        super().__init__(session, folder)
        self._plan = plan
        spec = plan.application(bounded=True).spec()
        self._schemas: dict[str, Schema] = {
            name: stream.schema for name, stream in spec.inputs.items() if stream.schema is not None
        }
        for name, schema in self._schemas.items():
            self.make(name, schema, plan.partitions)

    def pipe(self, messages: list[tuple[str, dict[str, Any]]]) -> None:
        """Sends messages to their inputs."""
        for name, schema in self._schemas.items():
            rows = [message for stream, message in messages if stream == name]
            if rows:
                self.send(name, schema, rows)

    def planned(self, run_id: str, *, bounded: bool, **more: Any) -> Any:
        """A run of the application."""
        kind = "bounded" if bounded else "unbounded"
        return self.prepare(
            f"{random_apps.__name__}:{kind}_{self._plan.seed}", run_id, config=self._plan.config, **more
        )


@pytest.mark.parametrize("seed", SEEDS)
def test_every_mode_on_spark_gives_what_the_test_driver_gives(session: Any, tmp_path: Path, seed: int) -> None:
    rng, plan = random.Random(seed), plan_of(seed)
    messages = plan.messages()
    driver = whole(plan, driver_of(plan, bounded=True)).run()
    expected = {
        stream: sorted(repr(row) for row in driver.output_table(stream).to_pylist()) for stream in driver.spec.outputs
    }

    staged = RandomRuns(session, tmp_path / "staged", plan)
    staged.pipe(messages)
    run = staged.planned("run", bounded=True)
    staged.one_by_one(run)
    assert staged.outputs(run) == expected, "staged"

    pipelined = RandomRuns(session, tmp_path / "pipelined", plan)
    pipelined.pipe(messages)
    run = pipelined.planned("run", bounded=True, mode="pipelined")
    pipelined.together(run)
    assert pipelined.outputs(run) == expected, "pipelined"

    if (
        "rows" in plan.inputs
    ):  # what a table holds when it is looked up depends on the time, unless it is filled first (rule M8)
        return
    cuts = sorted(rng.sample(range(len(messages) + 1), 2)) if len(messages) > 1 else [0, 0]
    pieces = [messages[: cuts[0]], messages[cuts[0] : cuts[1]], messages[cuts[1] :]]
    going_on = RandomRuns(session, tmp_path / "going-on", plan)
    for number, piece in enumerate(pieces[:2]):  # scheduled runs, and then a continuous one that goes on from them
        going_on.pipe(piece)
        run = going_on.planned(f"run {number}", bounded=False)
        going_on.one_by_one(run)
        going_on.runtime.close(run)
    run = going_on.planned("continuous", bounded=False, mode="continuous")
    stages = [going_on.start(run, stage.stage_id) for stage in run.plan.stages]
    going_on.pipe(pieces[2])
    going_on.runtime.drain(run, "a test")
    join(stages)
    assert going_on.outputs(run) == expected, "run by run, then continuously"

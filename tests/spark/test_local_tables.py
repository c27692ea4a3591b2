"""Tables that an application writes, on a real Spark.

Written here and joined there, read and written again, in all modes.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from samza_spark_apps import tables

from airflow_samza.runs.records.names import Generation
from airflow_samza.runs.records.run_plan import RunPlan
from airflow_samza.runs.stages.stage_state import StageHandle
from airflow_samza.schema import Schema
from airflow_samza.testing import TestDriver
from tests.support.one_session import Runs, join

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

SHIPPED = tables

FACTS = [{"id": number % 40, "payload": f"payload {number:08}"} for number in range(120)]
VISITS = [{"id": number % 50, "n": number} for number in range(300)]
FEW = {"job.epoch.max.messages": "20"}


def runs_in(session: Any, folder: Path) -> Runs:
    runs = Runs(session, folder)
    runs.make("facts", Schema.of(tables.FACT), 4)
    runs.make("visits", Schema.of(tables.VISIT), 4)
    return runs


def expected(name: str) -> list[str]:
    driver = TestDriver(getattr(tables, name), partitions=4)
    if "facts" in driver.spec.inputs:
        driver.pipe("facts", FACTS)
    (output,) = driver.spec.outputs
    return sorted(repr(row) for row in driver.pipe("visits", VISITS).run().output_table(output).to_pylist())


class Case:
    """One application over the same messages, in a root of its own."""

    def __init__(self, session: Any, folder: Path, name: str) -> None:
        self.runs = runs_in(session, folder)
        self.runs.send("facts", Schema.of(tables.FACT), FACTS)
        self.bounded, self.unbounded = (f"{tables.__name__}:{name}{end}" for end in ("", "_on"))

    def visit(self, first: int, last: int) -> None:
        self.runs.send("visits", Schema.of(tables.VISIT), VISITS[first:last])

    def staged(self) -> RunPlan:
        self.visit(0, len(VISITS))
        run = self.runs.prepare(self.bounded, "run", config=FEW)
        self.runs.one_by_one(run)
        return run

    def pipelined(self) -> RunPlan:
        self.visit(0, len(VISITS))
        run = self.runs.prepare(self.bounded, "run", mode="pipelined", config=FEW)
        self.runs.together(run)
        return run

    def continuous(self) -> RunPlan:
        """Unbounded inputs have no first and last: the table is full before it is asked."""
        run = self.runs.prepare(self.unbounded, "run", mode="continuous", config=FEW)
        stages = [self.runs.start(run, stage.stage_id) for stage in run.plan.stages]
        if "facts" in run.streams:
            _until_read(self.runs, run, len(FACTS))
        self.visit(0, len(VISITS))
        self.runs.runtime.drain(run)
        join(stages)
        return run

    def caught_up(self) -> RunPlan:
        """Runs after one another, each from the state that the one before has left."""
        for part in range(4):
            if part:
                self.visit(100 * (part - 1), 100 * part)
            run = self.runs.prepare(self.unbounded, f"run {part}", config=FEW)
            self.runs.one_by_one(run)
            self.runs.runtime.close(run)
        return run


@pytest.mark.parametrize("mode", ["staged", "pipelined", "continuous", "caught_up"])
@pytest.mark.parametrize("name", ["written_and_joined", "read_and_written", "by_a_task"])
@pytest.mark.few(4)
def test_every_mode_gives_what_the_test_driver_gives(session: Any, tmp_path: Path, name: str, mode: str) -> None:
    wanted = expected(name)
    assert len(wanted) == len(VISITS)
    case = Case(session, tmp_path, name)
    run = getattr(case, mode)()
    (found,) = case.runs.outputs(run).values()
    assert found == wanted


def _until_read(runs: Runs, run: Any, messages: int) -> None:
    (stage,) = run.plan.stages
    handle = StageHandle(run.application, run.run_id, stage.stage_id, Generation(run.generation, 1), 1)
    deadline = time.monotonic() + 120
    while runs.runtime.progress(handle).read < messages:
        assert time.monotonic() < deadline, "it is not read"
        time.sleep(0.05)

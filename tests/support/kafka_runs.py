"""Runs over a topic of Kafka in this process, without Spark, for tests."""

from __future__ import annotations

import datetime
import threading
from pathlib import Path
from typing import Any

from airflow_samza.errors import SamzaError
from airflow_samza.runs.records.data_interval import DataInterval
from airflow_samza.runs.records.names import Generation
from airflow_samza.runs.records.run_plan import RunPlan
from airflow_samza.runs.stages.stage_state import StageHandle
from airflow_samza.systems.system import SystemBinding
from tests.support.kafka_topics import Topics, numbered
from tests.support.runs_here import Here
from tests.support.stand_ins import Attempt
from tests.support.waiting import until
from tests.support.without_spark import run_stage

APPS = "tests.support.kafka_apps"
HOUR = 3_600_000
NOON = 1_700_000_000_000


class Runs:
    """Runs over one topic under one root."""

    def __init__(self, root: Path, topics: Topics, **settings: Any) -> None:
        self.topics = topics
        self.topic = topics.make(**settings)
        self.here = Here(root, bindings={"events": SystemBinding("kafka", {"bootstrap.servers": topics.address})})
        self._run = 0

    def plan(self, application: str, run_id: str | None = None, **more: Any) -> RunPlan:
        self._run += 1
        config = {"streams.views.samza.physical.name": self.topic}
        return self.here.plan(f"{APPS}:{application}", run_id or f"run-{self._run}", config=config, **more)

    def finish(self, plan: RunPlan) -> None:
        self.here.stages(plan)
        self.here.runtime.close(plan)

    def whole(self, application: str, **more: Any) -> RunPlan:
        plan = self.plan(application, **more)
        self.finish(plan)
        return plan

    def ids(self) -> list[int]:
        return sorted(row["id"] for row in self.here.rows("copies"))

    def send(self, *numbers: int, partition: int = 0) -> None:
        self.topics.send(self.topic, numbered(numbers, partition))


def hour(number: int) -> DataInterval:
    start = datetime.datetime.fromtimestamp((NOON + number * HOUR) / 1000, datetime.timezone.utc)
    return DataInterval(start, start + datetime.timedelta(hours=1))


class Running:
    """The one stage of a continuous run, in a thread."""

    def __init__(self, runs: Runs, application: str) -> None:
        self.runs = runs
        self.plan = runs.plan(application, mode="continuous")
        (stage,) = self.plan.plan.stages
        self.handle = StageHandle(self.plan.application, self.plan.run_id, stage.stage_id, Generation(1, 1), 1)
        self.attempt = Attempt(self.handle)
        self.errors: list[SamzaError] = []
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            run_stage(self.runs.here.runtime, self.plan, self.handle.stage_id, 1, self.runs.here.bindings, self.attempt)
        except SamzaError as error:
            self.errors.append(error)

    def reads(self, *expected: int) -> None:
        until(lambda: bool(self.errors) or self.runs.ids() == list(expected), 120)
        assert not self.errors, self.errors

    def cancel(self) -> None:
        """Ends the stage between two epochs; another attempt would go on."""
        self.attempt.is_cancelled = True
        self.join()

    def join(self) -> None:
        self._thread.join(60)
        assert not self._thread.is_alive()

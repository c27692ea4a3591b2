"""Tables fed by side inputs on a real Spark.

Rows and processors, low-level, and a continuous run that follows its topics.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from airflow_samza.errors import MessageError
from airflow_samza.launch.runtime import SparkRuntime
from airflow_samza.prepare.run_request import RunRequest
from airflow_samza.runs.records.run_plan import CONTINUOUS, RunPlan
from airflow_samza.schema import Schema
from airflow_samza.systems.log.system import LogSystem
from airflow_samza.systems.system import SystemBinding
from tests.support.topic_rows import topic_rows
from tests.support.waiting import until

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

SCORING, LOOKING_UP = "samza_spark_apps.side_inputs:scoring", "samza_spark_apps.side_inputs:looking_up"
VIEWS, PROFILES, SCORES = (
    "member_id bigint, page string",
    "member_id bigint, tier string",
    "member_id bigint, score bigint",
)


class Place:
    """A root with topics, and one runtime over it."""

    def __init__(self, folder: Path) -> None:
        self.root = str(folder)
        self.log = LogSystem("log", SystemBinding("log", {"root": self.root}))
        self.runtime = SparkRuntime(self.root, master="local[2]", idle_seconds=300)
        self.runs: list[RunPlan] = []

    def send(self, topic: str, schema: str, rows: list[dict[str, Any]]) -> None:
        self.log.append(
            topic, pa.Table.from_pylist(rows, Schema.of(schema).to_arrow()), key=["member_id"], partitions=2
        )

    def views(self, *members: int) -> None:
        self.send("views", VIEWS, [{"member_id": member, "page": "p"} for member in members])

    def profiles(self, tier: str, *members: int) -> None:
        self.send("profile-changes", PROFILES, [{"member_id": member, "tier": tier} for member in members])

    def scores(self, *pairs: tuple[int, int]) -> None:
        self.send("scores", SCORES, [{"member_id": member, "score": score} for member, score in pairs])

    def plan(self, application: str, run_id: str, **more: Any) -> RunPlan:
        self.runs.append(self.runtime.prepare(RunRequest(application, run_id, **more)))
        return self.runs[-1]

    def whole(self, application: str, run_id: str) -> RunPlan:
        plan = self.plan(application, run_id)
        for stage in plan.plan.stages:
            self.runtime.run_stage(plan, stage.stage_id)
        return plan

    def rows(self, topic: str) -> Counter[tuple[Any, ...]]:
        return Counter(tuple(row[name] for name in row if name != "page") for row in topic_rows(self.log, topic))


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    made = Place(tmp_path / "root")
    yield made
    for plan in made.runs:
        made.runtime.close(plan, wait_seconds=60)


def test_tables_are_complete_before_the_first_message(place: Place) -> None:
    place.profiles("gold", *range(200))
    place.profiles("silver", 1)
    place.scores((1, 2), (2, 5), (1, 3))
    place.views(1, 2, 300)
    plan = place.whole(SCORING, "run")
    assert place.rows("scored") == Counter([(1, "silver", 5), (2, "gold", 5), (300, None, None)])
    assert "reads 201 offsets up to the latest offset at plan" in plan.notes["views"]["profile-changes"]
    place.whole(LOOKING_UP, "low-level")
    assert place.rows("looked-up") == Counter([(1, "silver"), (2, "gold"), (300, None)])


@pytest.mark.nightly
def test_a_processor_that_raises_is_named_with_the_message(place: Place) -> None:
    place.profiles("gold", 1)
    place.scores((1, 13))
    place.views(1)
    with pytest.raises(
        MessageError, match=r"Summing\.process, the processor of the table 'sums', failed with ValueError: an accident"
    ) as error:
        place.whole(SCORING, "run")
    assert (error.value.facts["stream"], error.value.facts["offset"]) == ("scores", 0)
    assert "samza_spark_apps/side_inputs.py" in str(error.value)


@pytest.mark.extended
def test_a_continuous_run_follows_its_side_inputs(place: Place) -> None:
    place.profiles("gold", 1)
    place.scores((1, 1))
    place.views(1)
    plan = place.plan(SCORING, "run", mode=CONTINUOUS)
    handle = place.runtime.submit(plan, "views")

    def sent(member: int, *row: Any) -> bool:
        """Return True if a view comes out like that now."""
        before = place.rows("scored")
        place.views(member)
        until(lambda: place.rows("scored").total() > before.total() or place.runtime.status(handle).is_final)
        return (place.rows("scored") - before) == Counter([(member, *row)])

    until(lambda: place.rows("scored") == Counter([(1, "gold", 1)]) or place.runtime.status(handle).is_final)
    place.profiles("silver", 1)
    place.scores((1, 10))
    until(lambda: sent(1, "silver", 11))
    place.profiles("bulk", *range(100_000))  # read beside the epochs
    until(lambda: sent(99_999, "bulk", None))
    place.scores(*((member, 1) for member in range(50_000)))  # for a processor: piece by piece
    until(lambda: sent(49_999, "bulk", 1))
    place.runtime.drain(plan)
    until(lambda: place.runtime.status(handle).is_final)
    place.runtime.finish(handle)

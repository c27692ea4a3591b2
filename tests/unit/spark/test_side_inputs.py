"""Tables fed by side inputs, as stages on Spark read them: what the plan fixes, and what each epoch holds. No Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from airflow_samza.errors import TopicError
from airflow_samza.schema import Schema
from tests.unit.spark.runs_here import Here
from tests.unit.spark.side_input_apps import PROFILES, VIEWS

SCORED = "tests.unit.spark.side_input_apps:scored_views"


@pytest.fixture
def here(tmp_path: Path) -> Here:
    return Here(tmp_path)


def send(here: Here, topic: str, schema: str, rows: list[dict[str, Any]], partitions: int = 2) -> None:
    """Appends rows by their first column."""
    table = pa.Table.from_pylist(rows, Schema.of(schema).to_arrow())
    here.log.append(topic, table, key=Schema.of(schema).names[:1], partitions=partitions)


def views(here: Here, *members: int) -> None:
    send(here, "views", VIEWS, [{"member_id": member, "page": "p"} for member in members])


def profiles(here: Here, **tiers: str) -> None:
    """Changes of profiles: ``m1="gold"``."""
    send(here, "profile-changes", PROFILES, [{"member_id": int(member[1:]), "tier": tier} for member, tier in tiers.items()])


def scored(here: Here) -> list[tuple[int, str | None]]:
    return sorted((row["member_id"], row["tier"]) for row in here.rows("scored"))


def test_a_table_holds_what_the_side_input_held_when_the_run_was_planned(here: Here) -> None:
    profiles(here, m1="gold", m2="silver")
    profiles(here, m1="bronze")
    views(here, 1, 2, 3)
    plan = here.plan(SCORED, "run-1")
    profiles(here, m2="too late")
    here.stages(plan)
    assert scored(here) == [(1, "bronze"), (2, "silver"), (3, None)]


def test_the_plan_says_how_much_is_read_of_a_side_input(here: Here) -> None:
    profiles(here, m1="gold", m2="silver", m3="gold")
    views(here, 1)
    plan = here.plan(SCORED, "run-1")
    assert plan.stream("profile-changes").role == "side_input"
    assert "reads 3 offsets up to the head at plan" in plan.notes["views"]["profile-changes"]


def test_rejects_a_side_input_that_does_not_exist(here: Here) -> None:
    views(here, 1)
    with pytest.raises(TopicError, match="side input 'profile-changes' of the table 'profiles' does not exist"):
        here.plan(SCORED, "run-1")

"""Expectations that rows refer to rows of a table: on outputs and inputs, to pushed tables and those of side inputs."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from airflow_samza import foreign_key, stream_application
from airflow_samza.errors import ExpectationFailed, InvalidApplication, PartitioningMismatch
from airflow_samza.runs.records.expectations import ExpectationResult
from airflow_samza.runs.records.names import Generation
from airflow_samza.runs.records.run_plan import CONTINUOUS, RunPlan
from airflow_samza.runs.records.stage_result import StageResult
from airflow_samza.runs.stages.stage_state import StageHandle
from airflow_samza.schema import Schema
from airflow_samza.systems.system import StreamSpec
from airflow_samza.testing import TestDriver
from tests.support import referring_apps
from tests.support.budgets import extended_but
from tests.support.planner_applications import errors_of
from tests.support.pushes import Pushes
from tests.support.referring_apps import EXPECT, VIEWS
from tests.support.runs_here import Here
from tests.support.waiting import until

APPS = "tests.support.referring_apps:"
TABLES = {"of_output": "pushed", "to_side_input": "side input", "to_broadcast": "broadcast", "of_input": "pushed"}


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Here]:
    EXPECT.clear()
    yield Here(tmp_path)
    EXPECT.clear()


def expect(on_error: str = "fail") -> None:
    EXPECT[:] = [
        lambda table, bad: [foreign_key("member", table, on_error=bad if on_error == "dead letter" else on_error)]
    ]


def send(here: Here, views: list[dict[str, Any]], *, keyed: bool = True) -> None:
    table = pa.Table.from_pylist(views, Schema.of(VIEWS).to_arrow())
    here.log.append("views", table, key=["member" if keyed else "n"], partitions=2)


def fill(here: Here, kind: str, members: set[int]) -> None:
    if kind == "pushed":
        Pushes(here.root).push("one", dict.fromkeys(members, "gold"), keep_versions=10)
        return
    rows = pa.table({"id": pa.array(sorted(members), pa.int64()), "tier": ["gold"] * len(members)})
    here.log.append("changes", rows, key=["id"], partitions=1 if kind == "broadcast" else 2)


def copies(here: Here, topic: str = "copies") -> list[Any]:
    return here.rows(topic) if topic in here.log.metadata([StreamSpec(topic)]) else []


def numbers(here: Here) -> list[int]:
    return sorted(row["n"] for row in copies(here))


def result(here: Here, plan: RunPlan) -> StageResult:
    (stage,) = plan.plan.stages
    handle = StageHandle(plan.application, plan.run_id, stage.stage_id, Generation(plan.generation, 1), 1)
    return here.runtime.finish(handle)


def found(here: Here, plan: RunPlan) -> list[ExpectationResult]:
    (results,) = result(here, plan).expectations.values()
    return list(results)


VIEWED = [{"n": n, "member": member} for n, member in enumerate([1, 2, 3, 9, None, 8, 9, 4])]


@pytest.mark.parametrize("app", TABLES)
def test_fails_before_publishing_where_a_row_is_missing(here: Here, app: str) -> None:
    expect()
    fill(here, TABLES[app], {1, 2, 3, 4})
    send(here, VIEWED, keyed=app != "to_broadcast")
    with pytest.raises(
        ExpectationFailed,
        match=r"does not meet the expectation foreign_key\(member, profiles\): 3 of 8 rows, such as \{",
    ):
        here.whole(APPS + app, "run-1")
    assert copies(here) == []


@pytest.mark.parametrize("app", TABLES)
def test_passes_rows_that_refer_to_a_row_and_those_with_a_null(here: Here, app: str) -> None:
    expect()
    fill(here, TABLES[app], {1, 2, 3, 4, 8, 9})
    send(here, VIEWED, keyed=app != "to_broadcast")
    plan = here.whole(APPS + app, "run-1")
    assert numbers(here) == list(range(8))
    assert [(each.kind, each.outcome, each.rows, each.failed) for each in found(here, plan)] == [
        ("foreign_key", "passed", 8, 0)
    ]


@pytest.mark.parametrize(("on_error", "left", "letters"), [("warn", 8, 0), ("drop", 5, 0), ("dead letter", 5, 3)])
@pytest.mark.parametrize("app", ["of_output", "of_input"])
def test_warns_drops_or_sends_away(here: Here, app: str, on_error: str, left: int, letters: int) -> None:
    expect(on_error)
    fill(here, "pushed", {1, 2, 3, 4})
    send(here, VIEWED)
    plan = here.whole(APPS + app, "run-1")
    assert len(numbers(here)) == left
    assert len(copies(here, "bad")) == letters
    (one,) = found(here, plan)
    assert (one.failed, one.found) == (3, "3 of 8 rows")


@pytest.mark.parametrize("seed", extended_but(range(4), range(60)))
def test_finds_the_rows_that_an_anti_join_finds(here: Here, seed: int) -> None:
    chance = random.Random(seed)
    expect("dead letter")
    app = chance.choice(list(TABLES))
    members = set(chance.sample(range(60), 30))
    views: list[dict[str, Any]] = [
        {"n": n, "member": None if chance.random() < 0.1 else chance.randrange(60)}
        for n in range(chance.choice([0, 1, 7, 400]))
    ]
    fill(here, TABLES[app], members)
    send(here, views, keyed=app != "to_broadcast")
    here.whole(APPS + app, "run-1")
    with duckdb.connect() as connection:
        views_table = pa.Table.from_pylist(views, Schema.of(VIEWS).to_arrow())
        members_table = pa.table({"id": pa.array(sorted(members), pa.int64())})
        connection.register("views", views_table)
        connection.register("members", members_table)
        lacking = connection.sql("SELECT n FROM views ANTI JOIN members ON member = id WHERE member IS NOT NULL")
        gone = {n for (n,) in lacking.fetchall()}
    assert numbers(here) == [view["n"] for view in views if view["n"] not in gone]
    assert len(copies(here, "bad")) == len(gone)


def test_an_unbounded_run_looks_keys_up_in_the_version_of_each_epoch(here: Here) -> None:
    expect("drop")
    pushes = Pushes(here.root)
    pushes.push("one", {1: "gold"}, keep_versions=10)
    send(here, [{"n": 0, "member": 1}, {"n": 1, "member": 2}])
    plan = here.plan(APPS + "following", "run-1", mode=CONTINUOUS)
    thread = threading.Thread(target=here.stages, args=(plan,), daemon=True)
    thread.start()
    until(lambda: numbers(here) == [0])
    pushes.push("two", {1: "gold", 2: "gold"}, mode="full")
    sent = iter(range(2, 10_000))

    def has_come() -> bool:
        send(here, [{"n": next(sent), "member": 2}, {"n": next(sent), "member": 3}])
        return len(numbers(here)) > 1

    until(has_come)
    here.runtime.drain(plan)
    thread.join(timeout=300)
    assert not thread.is_alive()
    assert {row["member"] for row in copies(here)} == {1, 2}


def test_a_test_driver_judges_it(here: Here) -> None:
    expect()
    driver = TestDriver(referring_apps.of_output).pipe("views", VIEWED)
    driver.table("profiles", [{"id": member, "tier": "gold"} for member in (1, 2, 3, 4)])
    with pytest.raises(ExpectationFailed, match=r"foreign_key\(member, profiles\): 3 of 8 rows"):
        driver.run()


def test_shows_it_in_the_plan(here: Here) -> None:
    expect("drop")
    fill(here, "pushed", {1})
    send(here, VIEWED)
    plan = here.plan(APPS + "of_output", "run-1")
    shown = {op.op: op for op in plan.plan.operators}
    assert shown["foreign_key"].table == "profiles"
    assert "foreign_key(member, profiles) (else drop)" in str(shown["send_to"])


def wrong_views(app: Any, key: str | None) -> None:
    views = app.input_stream("views", schema=VIEWS, key=key, partitions=2, system="log")
    profiles = app.pushed_table("profiles", key="id", schema="id bigint, tier string", partitions=2, system="log")
    views.send_to(app.output_stream("copies", expect=[foreign_key("member", profiles)], system="log"))


def test_rejects_rows_that_do_not_lie_where_the_table_does() -> None:
    (error,) = errors_of(lambda app: wrong_views(app, "n"))
    assert isinstance(error, PartitioningMismatch)
    assert "looks keys up by 'member', but 'views' is partitioned by n" in error.sentence
    assert ".partition_by('member', id=…)" in error.hint


WRONG = {
    "local": "foreign_key(member) names the table 'mine', which is local",
    "remote": "foreign_key(member) names the table 'afar', which is remote",
    "key": "foreign_key(member, n) names the table 'profiles', whose key id has another number of columns",
    "name": "foreign_key(member) names 'profiles', which is no table",
    "column": "There is no column 'members' for the expectation foreign_key(members, profiles)",
    "other": "got 'profiles' of another application",
}


@pytest.mark.parametrize("case", WRONG)
def test_rejects_what_cannot_be_looked_up(case: str) -> None:
    tables: dict[str, Any] = {}

    @stream_application("others", default_system="log")
    def others(app: Any) -> None:
        tables["other"] = app.pushed_table("profiles", key="id", schema="id bigint, tier string", partitions=2)
        app.input_stream("views", schema=VIEWS, key="member", partitions=2).send_to(app.output_stream("copies"))

    @stream_application("wrong", default_system="log")
    def wrong(app: Any) -> None:
        schema = "id bigint, tier string"
        profiles = app.pushed_table("profiles", key="id", schema=schema, partitions=2)
        made = {
            "local": lambda: foreign_key("member", app.local_table("mine", key="id", schema=schema)),
            "remote": lambda: foreign_key(
                "member", app.remote_table("afar", key="id", schema=schema, reader=lambda keys: {})
            ),
            "key": lambda: foreign_key(["member", "n"], profiles),
            "name": lambda: foreign_key("member", "profiles"),  # type: ignore[arg-type]
            "column": lambda: foreign_key("members", profiles),
            "other": lambda: foreign_key("member", tables["other"]),
        }
        views = app.input_stream("views", schema=VIEWS, key="member", partitions=2)
        views.send_to(app.output_stream("copies", expect=[made[case]()]))

    others.spec()
    with pytest.raises(InvalidApplication) as caught:
        wrong.spec()
    assert WRONG[case] in caught.value.sentence


def test_a_low_level_task_cannot_expect_it() -> None:
    from airflow_samza import task_application

    @task_application("low", default_system="log")
    def low(app: Any) -> None:
        profiles = app.pushed_table("profiles", key="id", schema="id bigint, tier string", partitions=2)
        app.output_stream("copies", schema=VIEWS, expect=[foreign_key("member", profiles, on_error="drop")])

    with pytest.raises(InvalidApplication, match="no planner sees which rows a low-level task sends where"):
        low.spec()

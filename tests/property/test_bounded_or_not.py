"""One application, bounded or not: the run says it, and the windows of all ways are those of DuckDB."""

from __future__ import annotations

import random
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from airflow_samza import TestDriver, stream_application
from airflow_samza.errors import ConfigError
from tests.support import carrying_apps
from tests.support.budgets import share
from tests.support.runs_here import Here, slice_of

OPEN = "tests.support.carrying_apps:open_ended"
UNBOUNDED = {"job.inputs.bounded": "false"}
FLUSH = {**UNBOUNDED, "job.inputs.flush": "true"}
SCHEMA = pa.schema([("country", pa.string()), ("at", pa.timestamp("us", "UTC")), ("n", pa.int64())])
NINE = datetime(2026, 1, 1, 9, tzinfo=timezone.utc)
Rows = list[dict[str, Any]]


def parts_of(seed: int) -> list[Rows]:
    """Return what arrives between runs: out of order, by less than the allowed delay."""
    draw, clock, parts = random.Random(seed), 0, []
    for _ in range(draw.randint(2, 4)):
        part: Rows = []
        for n in range(draw.randint(0, 25)):
            clock += draw.choice((0, 1, 20, 90, 400))
            at = NINE + timedelta(seconds=clock - draw.randint(0, 500))
            part.append({"country": draw.choice("abc"), "at": at, "n": n})
        parts.append(part)
    return parts


def append(here: Here, rows: Rows) -> None:
    here.log.append("views", pa.Table.from_pylist(rows, SCHEMA), partitions=1)


def counted(rows: Any) -> list[tuple[Any, ...]]:
    return sorted((row["country"], row["window_start"], row["views"], row["seen"]) for row in rows)


def by_duckdb(rows: Rows) -> list[tuple[Any, ...]]:
    views = pa.Table.from_pylist(rows, SCHEMA)  # noqa: F841 (DuckDB finds it by its name)
    with duckdb.connect() as database:
        database.execute("SET TimeZone = 'UTC'")
        text = "SELECT country, date_trunc('minute', views.at), count(*), sum(n)::BIGINT FROM views GROUP BY ALL"
        found = database.execute(text).fetchall()
    return sorted((country, start.astimezone(timezone.utc), views, seen) for country, start, views, seen in found)


def in_steps(config: dict[str, str], parts: list[Rows], *, continuously: bool) -> list[tuple[Any, ...]]:
    driver = TestDriver(carrying_apps.open_ended, config=config)
    for part in parts:
        driver.pipe("views", part)
        driver.step() if continuously else driver.catch_up()
    driver.drain()
    return counted(driver.output("per-minute"))


@pytest.mark.random
@pytest.mark.parametrize("seed", range(share(100)))
def test_all_ways_give_the_windows_of_duckdb(seed: int, tmp_path: Path) -> None:
    parts = parts_of(seed)
    wanted = by_duckdb([row for part in parts for row in part])
    whole, often = Here(tmp_path / "whole"), Here(tmp_path / "often")
    for number, part in enumerate(parts):
        append(whole, part)
        append(often, part)
        last = number == len(parts) - 1
        often.whole(OPEN, f"run-{number}", config=FLUSH if last else UNBOUNDED)
    whole.whole(OPEN, "run")
    assert counted(whole.rows("per-minute")) == wanted
    assert counted(often.rows("per-minute")) == wanted
    assert in_steps(UNBOUNDED, parts, continuously=True) == wanted
    assert in_steps(UNBOUNDED, parts, continuously=False) == wanted


def test_the_run_behind_a_flush_begins_where_it_ended_with_empty_windows(tmp_path: Path) -> None:
    here = Here(tmp_path)
    first = {"country": "a", "at": NINE, "n": 1}
    append(here, [first])
    here.whole(OPEN, "run-1", config=UNBOUNDED)
    assert here.rows("per-minute") == []
    here.whole(OPEN, "run-2", config=FLUSH)
    assert counted(here.rows("per-minute")) == by_duckdb([first])
    second = {"country": "a", "at": NINE + timedelta(hours=1), "n": 2}
    append(here, [second])
    plan = here.whole(OPEN, "run-3", config=UNBOUNDED)
    assert slice_of(plan, "views")["offsets"] == [[1, 2]]
    here.whole(OPEN, "run-4", config=FLUSH)
    assert counted(here.rows("per-minute")) == by_duckdb([first, second])


def test_a_bounded_run_reads_all_and_moves_no_state(tmp_path: Path) -> None:
    here = Here(tmp_path)
    append(here, [{"country": "a", "at": NINE, "n": 1}])
    here.whole(OPEN, "run-1", config=UNBOUNDED)
    bounded = here.whole(OPEN, "all", config={"job.inputs.bounded": "true"})
    assert slice_of(bounded, "views")["offsets"] == [[0, 1]]
    assert bounded.state is None
    append(here, [{"country": "a", "at": NINE, "n": 1}])
    assert slice_of(here.whole(OPEN, "run-2", config=UNBOUNDED), "views")["offsets"] == [[1, 2]]


def test_the_plan_says_which_input_has_no_end(tmp_path: Path) -> None:
    here = Here(tmp_path)
    append(here, [{"country": "a", "at": NINE, "n": 1}])
    assert not here.plan(OPEN, "open", config=UNBOUNDED).plan.stream("views").bounded
    assert here.plan(OPEN, "closed").plan.stream("views").bounded


def test_a_run_that_is_resumed_with_another_end_is_rejected(tmp_path: Path) -> None:
    here = Here(tmp_path)
    append(here, [{"country": "a", "at": NINE, "n": 1}])
    here.plan(OPEN, "run-1", config=UNBOUNDED)
    with pytest.raises(Exception, match=r"'views' was unbounded and is bounded|job\.inputs\.bounded"):
        here.plan(OPEN, "run-1")


@stream_application("fixed")
def fixed(app: Any) -> None:
    app.input_stream("views", schema="n bigint", path="{ds}/*.parquet").send_to(app.output_stream("copies"))


@stream_application("newest")
def newest(app: Any) -> None:
    app.input_stream("views", schema="n bigint", slice="checkpoint").send_to(app.output_stream("copies"))


def test_an_input_by_checkpoint_may_be_read_whole() -> None:
    views = newest.spec({"streams.views.samza.bounded": "true"}).inputs["views"]
    assert views.bounded
    assert views.slice_by is None


@pytest.mark.parametrize(
    ("config", "sentence"),
    [
        ({"job.inputs.bounded": "false"}, "every input of the application 'fixed' has an end by its declaration"),
        (
            {"streams.views.samza.bounded": "false"},
            r"the declaration of the input 'views' says it already: it has path=",
        ),
        ({"streams.vews.samza.bounded": "false"}, "has no input 'vews'"),
        ({"job.inputs.bounded": "perhaps"}, "job.inputs.bounded is 'perhaps'"),
    ],
)
def test_a_key_that_no_input_follows_is_rejected(config: dict[str, str], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        fixed.spec(config)


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ({"config": {"job.inputs.flush": "true"}}, "has no unbounded input, so it flushes everything anyway"),
        ({"config": FLUSH, "mode": "continuous"}, "the run of the application 'open-ended' is continuous"),
        ({"mode": "continuous"}, "has no unbounded input, so a continuous run"),
    ],
)
def test_a_flush_that_has_no_meaning_is_rejected(more: dict[str, Any], sentence: str, tmp_path: Path) -> None:
    here = Here(tmp_path)
    append(here, [{"country": "a", "at": NINE, "n": 1}])
    with pytest.raises(ConfigError, match=sentence):
        here.plan(OPEN, "run", **more)

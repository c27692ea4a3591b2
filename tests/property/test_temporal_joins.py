"""Joins with a pushed table as of event times, beside DuckDB's ASOF JOIN over the versions, however those were made."""

from __future__ import annotations

import random
import threading
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from airflow_samza import stream_application
from airflow_samza.engine.tables.table_compaction import compact_here
from airflow_samza.errors import ConfigError, InvalidApplication, NoSuchVersion
from airflow_samza.runs.records.data_interval import DataInterval
from airflow_samza.runs.records.run_plan import CONTINUOUS
from airflow_samza.runs.tables import versions
from airflow_samza.runs.tables.folder import TableFolder
from airflow_samza.runs.tables.retention import expire_versions
from airflow_samza.runs.tables.table_version import TableVersion
from airflow_samza.runs.tables.versions import rollback
from airflow_samza.schema import Schema
from airflow_samza.storage.timed_rows import RowVersions, VersionChange
from airflow_samza.systems.log.maintenance import sweep
from airflow_samza.systems.system import SystemBinding
from tests.support import as_of_cases
from tests.support.as_of_cases import Scored
from tests.support.budgets import extended_but, share
from tests.support.pushes import TOPIC, Pushes, Rows
from tests.support.runs_here import Here
from tests.support.side_input_apps import CHANGES, TIMED_VIEWS
from tests.support.waiting import until

APPLICATION = "tests.support.side_input_apps:views_as_of"
INNER = "tests.support.side_input_apps:known_views_as_of"
FOLLOWING = "tests.support.side_input_apps:following_as_of"
PLACE = ("log", TOPIC.name)
MEMBERS = 8
START = datetime(2026, 1, 1, tzinfo=timezone.utc)


def day(number: int) -> datetime:
    return START + timedelta(days=number)


def push(pushes: Pushes, push_id: str, rows: Rows, *, of: int, mode: str = "full") -> TableVersion:
    """A push for one day, which counts from the end of that."""
    return pushes.push(
        push_id, rows, mode=mode, interval=(day(of).isoformat(), day(of + 1).isoformat()), keep_versions=1_000
    )


def random_push(chance: random.Random, pushes: Pushes, step: int, latest: int) -> int:
    """Push a version more: all rows or changes, for a day that may be over, or what was before; the latest day."""
    kinds = ["full", "incremental", "late", "rollback"]
    kind = chance.choices(kinds, [2, 5, 2, 1])[0] if latest >= 0 else "full"
    rows: Rows = {
        member: None if kind == "incremental" and chance.random() < 0.3 else f"v{step if chance.random() < 0.7 else 0}"
        for member in chance.sample(range(MEMBERS), chance.randint(0, MEMBERS - 2))
    }
    if kind == "rollback":
        rollback(pushes.files, *PLACE, chance.randint(1, pushes.current().number), f"back-{step}")
        return latest
    if kind == "late":
        push(pushes, f"push-{step}", rows, of=chance.randint(-1, max(latest - 1, -1)))
        return latest
    of = latest + chance.choice([0, 1, 1, 2]) if latest >= 0 else 0
    push(pushes, f"push-{step}", rows, of=of, mode=kind)
    return max(latest, of)


def random_views(chance: random.Random, pushes: Pushes, count: int, first: int = 0) -> list[dict[str, Any]]:
    """Views at any time: between versions, just when one becomes valid, before all, or without a time."""
    moments = [datetime.fromisoformat(version.current_from) for version in versions.versions(pushes.files, *PLACE)]
    views: list[dict[str, Any]] = []
    for n in range(first, first + count):
        at: datetime | None = chance.choice(moments) + timedelta(microseconds=chance.choice([-1, 0, 0, 1]))
        if chance.random() < 0.5:
            at = day(-3) + timedelta(seconds=chance.randint(0, 12 * 86_400))
        views.append({"id": chance.randrange(MEMBERS), "n": n, "at": None if chance.random() < 0.1 else at})
    return views


def send(here: Here, views: list[dict[str, Any]]) -> None:
    here.log.append("views", pa.Table.from_pylist(views, Schema.of(TIMED_VIEWS).to_arrow()), key=["id"], partitions=2)


def by_duckdb(pushes: Pushes, views: list[dict[str, Any]]) -> Scored:
    """Return the tier of each view: of the newest row of its member from its time or before, if not deleted."""
    rows: list[dict[str, Any]] = []
    former: Rows = {}
    valid = {version.current_from: version for version in versions.versions(pushes.files, *PLACE)}  # the newest counts
    for current_from, version in sorted(valid.items()):
        now = pushes.rows_of(version)
        for member in sorted({*former, *now}):
            rows.append({"id": member, "valid_from": datetime.fromisoformat(current_from), "tier": now.get(member)})
        former = now
    return as_of_cases.by_duckdb(rows, views)


def scored(here: Here) -> Scored:
    return sorted((row["n"], row["tier"]) for row in here.rows("scored"))


@pytest.fixture
def here(tmp_path: Path) -> Here:
    return Here(tmp_path / "root")


@pytest.mark.parametrize("seed", extended_but(range(4), range(60), range(12, 60)))
def test_each_message_finds_the_row_that_was_valid_at_its_time(here: Here, seed: int) -> None:
    chance = random.Random(seed)
    pushes, latest = Pushes(here.root), -1
    for step in range(1, chance.randint(2, 12)):
        latest = random_push(chance, pushes, step, latest)
        if chance.random() < 0.3:
            binding = SystemBinding("log", {"root": str(pushes.path)})
            compact_here(pushes.files, binding, TableFolder(*PLACE), pushes.current())
        if chance.random() < 0.3:
            expire_versions(pushes.files, pushes.system, *PLACE, 1_000)  # gives up what compactions have replaced
            sweep(pushes.files, "log", grace_ms=-1, staged_grace_ms=-1)
    views = random_views(chance, pushes, 60)
    send(here, views)
    expected = by_duckdb(pushes, views)
    here.whole(APPLICATION, "left")
    assert scored(here) == expected
    here.whole(INNER, "inner")
    assert scored(here) == sorted([*expected, *(pair for pair in expected if pair[1] is not None)])


@pytest.mark.parametrize("seed", extended_but(range(1), range(8), range(4, 8)))
def test_bounded_runs_and_an_unbounded_one_give_the_same_rows(here: Here, tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    pushes, latest = Pushes(here.root), -1
    following = Here(tmp_path / "other")
    others = Pushes(following.root)
    for step in range(1, 8):
        same = chance.getstate()
        random_push(chance, pushes, step, latest)
        chance.setstate(same)
        latest = random_push(chance, others, step, latest)
    views: list[dict[str, Any]] = []
    expected: Scored = []
    for part in range(3):
        views += random_views(chance, pushes, 20, first=20 * part)
        send(here, views[-20:])
        here.whole(APPLICATION, f"part-{part}")  # each run reads all that there is
        expected += by_duckdb(pushes, views)
    assert scored(here) == sorted(expected)
    send(following, [])
    plan = following.plan(FOLLOWING, "run-1", mode=CONTINUOUS)
    thread = threading.Thread(target=following.stages, args=(plan,), daemon=True)
    thread.start()
    for part in range(3):
        send(following, views[20 * part : 20 * part + 20])
        until(lambda part=part: len(following.rows("scored")) == 20 * part + 20)  # type: ignore[misc]
    following.runtime.drain(plan)
    thread.join(timeout=300)
    assert not thread.is_alive()
    assert scored(following) == by_duckdb(others, views)


def test_an_unbounded_run_takes_versions_that_are_pushed_meanwhile_also_late_ones(here: Here) -> None:
    pushes = Pushes(here.root)
    push(pushes, "one", {1: "one"}, of=0)
    views = [{"id": 1, "n": 0, "at": day(20)}]
    send(here, views)
    plan = here.plan(FOLLOWING, "run-1", mode=CONTINUOUS)
    thread = threading.Thread(target=here.stages, args=(plan,), daemon=True)
    thread.start()
    until(lambda: len(here.rows("scored")) == 1)
    push(pushes, "two", {1: "two"}, of=9)
    push(pushes, "late", {1: "late"}, of=4)
    later = [{"id": 1, "n": n, "at": day(at)} for n, at in enumerate([0, 1, 4, 5, 9, 10, 20], start=1)]
    send(here, later)
    until(lambda: len(here.rows("scored")) == 8)
    here.runtime.drain(plan)
    thread.join(timeout=300)
    assert scored(here) == [(0, "one"), *by_duckdb(pushes, later)]
    assert [tier for _, tier in scored(here)] == ["one", None, "one", "one", "late", "late", "two", "two"]


def test_rejects_a_run_whose_interval_began_in_a_version_that_has_expired(here: Here) -> None:
    pushes = Pushes(here.root)
    for number in range(4):
        push(pushes, f"push-{number}", {1: str(number)}, of=number)
    expire_versions(pushes.files, pushes.system, *PLACE, 2)
    send(here, [{"id": 1, "n": 0, "at": day(5)}])
    with pytest.raises(NoSuchVersion, match=r"Version 1 of table 'profiles' \(push 'push-0'\) was valid when the data"):
        here.plan(APPLICATION, "early", interval=DataInterval(day(1), day(2)))
    plan = here.plan(APPLICATION, "run-1", interval=DataInterval(day(3), day(4)))
    assert plan.tables["profiles"]["numbers"] == [3, 4]
    expire_versions(pushes.files, pushes.system, *PLACE, 1)
    sweep(pushes.files, "log", grace_ms=-1, staged_grace_ms=-1)
    here.stages(plan)  # both versions are kept for it
    assert scored(here) == [(0, "3")]
    assert "reads 2 versions as of the event times of messages" in plan.notes["views"][TOPIC.name]


def test_warns_of_a_run_whose_interval_begins_before_the_first_version(here: Here) -> None:
    pushes = Pushes(here.root)
    push(pushes, "first", {1: "now"}, of=5)
    send(here, [{"id": 1, "n": 0, "at": day(1)}])
    (warning,) = here.plan(APPLICATION, "run-1", interval=DataInterval(day(1), day(2))).plan.warnings
    assert warning == (
        "The data interval begins at 2026-01-02T00:00:00+00:00, and the first version of the table 'profiles' is valid "
        "from 2026-01-07T00:00:00+00:00 on: messages before find no row (as_of). No message of it finds a row. A push "
        "without a data interval, and what is pushed after it, counts from when it was made: give pushes their data "
        "intervals."
    )
    push(pushes, "early", {1: "then"}, of=0)
    assert here.plan(APPLICATION, "run-2", interval=DataInterval(day(1), day(2))).plan.warnings == ()
    (warning,) = here.plan(APPLICATION, "run-3", interval=DataInterval(day(0), day(2))).plan.warnings
    assert "No message of it" not in warning
    assert here.plan(APPLICATION, "run-4").plan.warnings == ()


def test_rejects_a_version_of_the_interval_beside_as_of(here: Here) -> None:
    push(Pushes(here.root), "one", {1: "one"}, of=0)
    send(here, [{"id": 1, "n": 0, "at": day(5)}])
    with pytest.raises(ConfigError, match="looks its rows up as of the event time of each message"):
        here.plan(APPLICATION, "run-1", tables={"profiles": "as_of_interval"}, interval=DataInterval(day(1), day(2)))


def test_rejects_a_table_without_a_version(here: Here) -> None:
    Pushes(here.root)
    send(here, [{"id": 1, "n": 0, "at": day(5)}])
    with pytest.raises(NoSuchVersion, match="has no version yet, and its rows are looked up as of event times"):
        here.plan(APPLICATION, "run-1")


def test_a_run_of_one_push_reads_the_versions_up_to_it(here: Here) -> None:
    pushes = Pushes(here.root)
    for number in range(3):
        push(pushes, f"push-{number}", {1: str(number)}, of=number)
    send(here, [{"id": 1, "n": n, "at": day(n)} for n in range(5)])
    here.whole(APPLICATION, "run-1", tables={"profiles": "push-1"})
    assert scored(here) == [(0, None), (1, "0"), (2, "1"), (3, "1"), (4, "1")]


def test_rows_that_versions_have_alike_are_kept_once() -> None:
    schema = pa.schema([("id", pa.int64()), ("x", pa.float64())])
    batches = [pa.record_batch({"id": [1, 2], "x": [0.5, float(number)]}, schema) for number in range(5)]
    changes = [VersionChange(number, batch, np.zeros(2, bool)) for number, batch in enumerate(batches)]
    held = RowVersions.of(changes, range(5), ["id"], schema)
    assert held.rows.to_pydict() == {"id": [1, 2, 2, 2, 2, 2], "x": [0.5, 0.0, 1.0, 2.0, 3.0, 4.0]}


EVENT_TIME_OF = "uses event time, and its input declares no event-time column"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"stream": "untimed"}, EVENT_TIME_OF),
        ({"table": "local"}, "is local, and has no versions of its rows"),
        ({"as_of": "eventtime"}, "has as_of='eventtime'"),
        ({"stream": "dropped"}, "uses event time, and select-0 .* leaves out its column 'at'"),
    ],
)
def test_rejects_an_impossible_declaration_when_it_is_described(options: dict[str, str], message: str) -> None:
    @stream_application("wrong", default_system="log")
    def wrong(app: Any) -> None:
        timed = app.input_stream("timed", schema=TIMED_VIEWS, key="id", timestamp="at")
        streams = {
            "timed": timed,
            "untimed": app.input_stream("untimed", schema=TIMED_VIEWS, key="id"),
            "dropped": timed.select("id", "n"),
        }
        tables = {
            "pushed": app.pushed_table("profiles", key="id", schema="id bigint, tier string", partitions=2),
            "local": app.local_table("mine", key="id", schema="id bigint, tier string"),
        }
        stream, table = streams[options.get("stream", "timed")], tables[options.get("table", "pushed")]
        stream.join(table, as_of=options.get("as_of", "event time"), id="join").send_to(app.output_stream("out"))

    with pytest.raises(InvalidApplication, match=message):
        wrong.spec()


@pytest.mark.random
@pytest.mark.parametrize("seed", extended_but(range(1), range(24), range(3, 24)))
def test_a_month_is_the_same_as_a_backfill_run_by_run_and_continuously(tmp_path: Path, seed: int) -> None:
    lake = tmp_path / "lake"
    here = Here(tmp_path / "root", bindings={"lake": SystemBinding("files", {"root": str(lake)})})
    month, pushes = as_of_cases.Month(seed), Pushes(here.root)
    as_of_cases.check_month(
        here,
        lake,
        month,
        lambda part: as_of_cases.push(pushes, part, month),
        lambda: as_of_cases.rows_of_versions(pushes),
        "tests.support.side_input_apps:pushed",
        share(as_of_cases.DAYS, 8),
    )


@pytest.mark.random
@pytest.mark.parametrize("seed", extended_but(range(1), range(60), range(3, 60)))
def test_a_month_of_a_side_input_is_the_same_as_a_backfill_run_by_run_and_continuously(
    tmp_path: Path, seed: int
) -> None:
    lake = tmp_path / "lake"
    here = Here(tmp_path / "root", bindings={"lake": SystemBinding("files", {"root": str(lake)})})
    month = as_of_cases.Month(seed)

    def put(part: int) -> None:
        as_of_cases.send(here.log, "changes", CHANGES, month.parts[part].changes)

    as_of_cases.check_month(
        here,
        lake,
        month,
        put,
        lambda: as_of_cases.rows_of_changes(month),
        "tests.support.side_input_apps:timed",
        share(as_of_cases.DAYS, 8),
    )

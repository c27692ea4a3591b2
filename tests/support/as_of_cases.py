"""Random months of messages and versions of rows, joined as of event times by a backfill, run by run and continuously.

The versions of a part of the month are there before its messages are, as in operation; within it they come in any order.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any, Protocol

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from airflow_samza.runs.records.data_interval import DataInterval
from airflow_samza.runs.records.run_plan import CONTINUOUS, RunPlan
from airflow_samza.runs.tables import versions
from airflow_samza.schema import Schema
from airflow_samza.systems.log.system import LogSystem
from tests.support.pushes import TOPIC, Pushes, Rows
from tests.support.side_input_apps import TIMED_VIEWS
from tests.support.waiting import until

START = datetime(2026, 1, 1, tzinfo=timezone.utc)
DAYS, PARTS = 30, 3
MEMBERS = 6
WAIT_DAYS = 3
"""Days that messages wait for rows of side inputs."""

LAST = 1_000_000
"""The numbers of messages of long after, which bring the watermark there and are not looked at."""

Scored = list[tuple[int, "str | None"]]
Row = dict[str, Any]


def day(number: int) -> datetime:
    return START + timedelta(days=number)


class Runner(Protocol):
    """A way to run applications under a root: in this process, or on Spark."""

    @property
    def log(self) -> LogSystem: ...
    @property
    def runtime(self) -> Any: ...
    def plan(self, application: str, run_id: str, **more: Any) -> RunPlan: ...
    def stages(self, plan: RunPlan) -> None: ...
    def rows(self, topic: str) -> list[Row]: ...


@dataclass(frozen=True)
class Part:
    """A part of the month: first its versions come, then its messages."""

    pushes: list[tuple[int, str, Rows]]
    """The day of each push, its mode and rows."""
    changes: list[Row]
    """Rows of a side input, also for times of former parts that messages still wait for."""
    views: list[Row]


@dataclass
class Month:
    """A random month: versions are pushed for its days, messages are late, at equal times, at a version's, or timeless."""

    seed: int
    parts: list[Part] = field(default_factory=list)

    def __post_init__(self) -> None:
        chance = random.Random(self.seed)
        length = DAYS // PARTS
        number, newest = 0, day(-WAIT_DAYS)
        for part in range(PARTS):
            days = [part * length + chance.randrange(length) for _ in range(chance.randint(1, 6))]
            pushes, latest = [], -1 if not part else part * length - 1
            for step, of in enumerate(days):
                is_full = (not part and not step) or of <= latest or chance.random() < 0.3
                rows: Rows = {
                    member: None
                    if not is_full and chance.random() < 0.3
                    else f"{part}.{step if chance.random() < 0.7 else 0}"
                    for member in chance.sample(range(MEMBERS), chance.randint(0, MEMBERS - 1))
                }
                pushes.append((of, "full" if is_full else "incremental", rows))
                latest = max(latest, of)
            since = newest - timedelta(days=WAIT_DAYS) + timedelta(microseconds=1)
            moments = [day(of + 1) for of in days]
            changes: list[Row] = []
            for change in range(chance.randint(0, 25)):
                valid = (
                    chance.choice(moments)
                    if chance.random() < 0.5
                    else since + (day((part + 1) * length) - since) * chance.random()
                )
                row: Row = {"id": chance.randrange(MEMBERS), "tier": f"{part}.{change}", "since": max(valid, since)}
                changes.append({**row, "_deleted": chance.random() < 0.2})
                if chance.random() < 0.1:
                    changes.append({**row, "since": None, "_deleted": False})
            views: list[Row] = [{"id": member, "n": number + member, "at": None} for member in range(MEMBERS)]
            number += MEMBERS
            for _ in range(20):
                at: datetime | None = chance.choice(moments) + timedelta(microseconds=chance.choice([-1, 0, 0, 1]))
                if chance.random() < 0.6:
                    since = day(0 if chance.random() < 0.2 else part * length)
                    at = since + (day((part + 1) * length) - since) * chance.random()
                if at is not None and at >= day(DAYS):
                    at = day(DAYS) - timedelta(microseconds=1)
                views.append(
                    {"id": chance.randrange(MEMBERS), "n": number, "at": at if chance.random() < 0.9 else None}
                )
                number += 1
            newest = max([newest, *(view["at"] for view in views if view["at"] is not None)])
            self.parts.append(Part(pushes, changes, views))

    def of_days(self, days: Collection[int]) -> list[Row]:
        """Return the messages that the data intervals of these days have."""
        timed = [view for part in self.parts for view in part.views if view["at"] is not None]
        return [view for view in timed if (view["at"] - day(0)).days in days]

    def all(self) -> list[Row]:
        """Return all messages."""
        return [view for part in self.parts for view in part.views]


def send(log: LogSystem, topic: str, schema: str, rows: list[Row]) -> None:
    log.append(topic, pa.Table.from_pylist(rows, Schema.of(schema).to_arrow()), key=["id"], partitions=2)


def put_days(lake: Path, month: Month) -> None:
    """Write the messages of each day into a folder of its own."""
    for number in range(DAYS):
        rows = month.of_days([number])
        folder = lake / "views" / day(number).date().isoformat()
        folder.mkdir(parents=True)
        pq.write_table(pa.Table.from_pylist(rows, Schema.of(TIMED_VIEWS).to_arrow()), folder / "all.parquet")


def by_duckdb(versions_of_rows: list[Row], views: list[Row]) -> Scored:
    """Return the tier of each message: of the newest row of its member from its time or before; null where deleted."""
    told = pa.schema([("id", pa.int64()), ("valid_from", pa.timestamp("us", "UTC")), ("tier", pa.string())])
    with duckdb.connect() as connection:
        connection.register("tiers", pa.Table.from_pylist(versions_of_rows, told))
        connection.register("views", pa.Table.from_pylist(views, Schema.of(TIMED_VIEWS).to_arrow()))
        return sorted(
            connection.sql(
                "SELECT n, tier FROM views ASOF LEFT JOIN tiers ON views.id = tiers.id AND views.at >= tiers.valid_from"
            ).fetchall()
        )


def rows_of_versions(pushes: Pushes) -> list[Row]:
    """Return the rows of all versions by the times from which they are valid; of equal times the newest version counts."""
    rows: list[Row] = []
    former: Rows = {}
    valid = {version.current_from: version for version in versions.versions(pushes.files, "log", TOPIC.name)}
    for current_from, version in sorted(valid.items()):
        now = pushes.rows_of(version)
        for member in sorted({*former, *now}):
            rows.append({"id": member, "valid_from": datetime.fromisoformat(current_from), "tier": now.get(member)})
        former = now
    return rows


def rows_of_changes(month: Month) -> list[Row]:
    """Return the rows of the side input by the times from which they are valid; of equal times the last one counts."""
    last = {(row["id"], row["since"]): row for part in month.parts for row in part.changes if row["since"] is not None}
    return [
        {"id": row["id"], "valid_from": row["since"], "tier": None if row["_deleted"] else row["tier"]}
        for row in last.values()
    ]


def push(pushes: Pushes, part: int, month: Month) -> None:
    """Push the versions of a part of the month."""
    for step, (of, mode, rows) in enumerate(month.parts[part].pushes):
        interval = (day(of).isoformat(), day(of + 1).isoformat())
        pushes.push(f"push-{part}.{step}", rows, mode=mode, interval=interval, keep_versions=1_000)


def check_month(
    runner: Runner,
    lake: Path,
    month: Month,
    put_versions: Callable[[int], None],
    reference: Callable[[], list[Row]],
    apps: str,
    days: int = DAYS,
) -> None:
    """Run a month in three ways, of which the backfill has so many days, and compare each with DuckDB."""
    send(runner.log, "views", TIMED_VIEWS, [])
    put_versions(0)
    plan = runner.plan(f"{apps}_continuous", "continuous", mode=CONTINUOUS)
    thread = threading.Thread(target=runner.stages, args=(plan,), daemon=True)
    thread.start()
    timeless: set[int] = set()
    for number, part in enumerate([*month.parts, None]):
        if number and part is not None:
            put_versions(number)
        views = END if part is None else part.views
        send(runner.log, "views", TIMED_VIEWS, views)
        caught_up = runner.plan(f"{apps}_caught_up", f"run-{number}")
        runner.stages(caught_up)
        runner.runtime.close(caught_up)
        timeless |= {view["n"] for view in views if view["at"] is None}
        until(lambda there=frozenset(timeless): there <= {row["n"] for row in runner.rows("continuous")})  # type: ignore[misc]
    runner.runtime.drain(plan)
    thread.join(timeout=300)
    assert not thread.is_alive()
    put_days(lake, month)
    backfill = random.Random(month.seed).sample(range(DAYS), days)
    for number in backfill:
        of_a_day = runner.plan(f"{apps}_by_day", f"day-{number}", interval=DataInterval(day(number), day(number + 1)))
        runner.stages(of_a_day)
        runner.runtime.close(of_a_day)
    rows = reference()
    assert scored(runner, "continuous") == by_duckdb(rows, month.all()), f"continuous, seed {month.seed}"
    assert scored(runner, "caught-up") == by_duckdb(rows, month.all()), f"run by run, seed {month.seed}"
    assert scored(runner, "by-day") == by_duckdb(rows, month.of_days(backfill)), f"backfill, seed {month.seed}"


END: list[Row] = [{"id": member, "n": LAST, "at": day(100)} for member in range(MEMBERS)]


def scored(runner: Runner, topic: str) -> Scored:
    return sorted((row["n"], row["tier"]) for row in runner.rows(topic) if row["n"] != LAST)

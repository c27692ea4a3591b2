"""Versions of pushed tables that runs read: fixed by the plan, and nothing else is seen of the topic. No Spark."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from airflow_samza.engine.tables.table_compaction import compact_here
from airflow_samza.errors import ConfigError, NoSuchVersion, SchemaError, UnknownName
from airflow_samza.runs.records.data_interval import DataInterval
from airflow_samza.runs.tables import versions as table_versions
from airflow_samza.runs.tables.folder import TableFolder
from airflow_samza.runs.tables.table_version import DELETED, FULL, INCREMENTAL, TableVersion, now
from airflow_samza.schema import Schema
from airflow_samza.systems.system import Publication, StreamSpec, SystemBinding
from tests.support.runs_here import Here
from tests.support.side_input_apps import PROFILES
from tests.unit.prepare.test_side_inputs import read_of, scored, views

PUSHED = "tests.support.side_input_apps:pushed_views"
TOPIC = "profiles-push"


@pytest.fixture
def here(tmp_path: Path) -> Here:
    made = Here(tmp_path)
    views(made, 1, 2, 3)
    made.log.create([StreamSpec(TOPIC, 2, f"{PROFILES}, {DELETED} boolean")])
    return made


def day(number: int) -> datetime:
    return datetime(2026, 1, number, tzinfo=timezone.utc)


def write(here: Here, push_id: str, rows: list[dict[str, Any]]) -> None:
    """Commit the segments of a push, as is done before its version stands; a tier None deletes."""
    spec = StreamSpec(TOPIC, 2, f"{PROFILES}, {DELETED} boolean", ("member_id",))
    producer = here.log.producer(spec, push_id)
    told = [{**row, DELETED: row["tier"] is None} for row in rows]
    producer.write_keyed(
        pa.RecordBatch.from_pylist(told, schema=Schema.of(f"{PROFILES}, {DELETED} boolean").to_arrow()), ["member_id"]
    )
    here.log.publish(spec, Publication(f"pushes/profiles/{push_id}", "1.1", 0, {0: producer.finish()}))


def push(
    here: Here, push_id: str, *, of: int | None = None, kind: str = FULL, schema: str = PROFILES, **tiers: str | None
) -> None:
    """A whole push of profiles: ``m1="gold"``."""
    write(here, push_id, [{"member_id": int(member[1:]), "tier": tier} for member, tier in tiers.items()])
    files = here.log.filesystem
    current = table_versions.newest(files, "log", TOPIC)
    known = here.log.slice(StreamSpec(TOPIC))
    own = (f"pushes/profiles/{push_id}", "1.1")
    version = TableVersion(
        number=table_versions.highest_number(files, "log", TOPIC) + 1,
        push_id=push_id,
        kind=kind,
        sections=(*(current.read_sections if current is not None and kind == INCREMENTAL else ()), own),
        offsets=tuple((int(first), int(end)) for first, end in known["offsets"]),
        commits=known["commit"],
        rows=len(tiers),
        bytes=0,
        schema=schema,
        key=("member_id",),
        pushed_at=now(),
        interval=(day(of).isoformat(), day(of + 1).isoformat()) if of is not None else None,
        base=current.number if current is not None and kind == INCREMENTAL else None,
        table="profiles",
        on=(current.on if current.compacted is None else current.number)
        if current is not None and kind == INCREMENTAL
        else None,
    )
    table_versions.add(files, "log", TOPIC, version)


def test_a_run_reads_the_newest_version_and_nothing_of_the_former_one(here: Here) -> None:
    push(here, "one", m1="gold", m2="gold")
    push(here, "two", m1="silver", m3="silver")
    plan = here.whole(PUSHED, "run-1")
    assert scored(here) == [(1, "silver"), (2, None), (3, "silver")]
    assert (plan.tables["profiles"]["number"], plan.tables["profiles"]["push_id"]) == (2, "two")
    assert "reads version 2 (push 'two')" in plan.notes["views"][TOPIC]


def test_an_incremental_version_adds_and_deletes(here: Here) -> None:
    push(here, "one", m1="gold", m2="gold")
    push(here, "two", kind=INCREMENTAL, m1=None, m3="new")
    here.whole(PUSHED, "run-1")
    assert scored(here) == [(1, None), (2, "gold"), (3, "new")]


def test_what_is_pushed_after_the_plan_is_not_seen(here: Here) -> None:
    push(here, "one", m1="gold")
    plan = here.plan(PUSHED, "run-1")
    push(here, "two", m1="silver")
    here.stages(plan)
    assert scored(here) == [(1, "gold"), (2, None), (3, None)]


def test_a_push_without_a_version_is_not_seen(here: Here) -> None:
    push(here, "one", m1="gold")
    write(here, "half", [{"member_id": 1, "tier": "half"}])
    here.whole(PUSHED, "run-1")
    assert scored(here) == [(1, "gold"), (2, None), (3, None)]


def test_rejects_a_table_whose_first_push_has_no_version_yet(here: Here) -> None:
    write(here, "half", [{"member_id": 1, "tier": "half"}])
    with pytest.raises(NoSuchVersion, match="its first push has not come to its end"):
        here.plan(PUSHED, "run-1")


def test_a_run_reads_the_version_of_the_push_that_it_asks_for(here: Here) -> None:
    push(here, "one", m1="gold")
    push(here, "two", m1="silver")
    plan = here.whole(PUSHED, "run-1", tables={"profiles": "one"})
    assert plan.options["tables"] == {"profiles": "one"}
    assert scored(here) == [(1, "gold"), (2, None), (3, None)]


def test_a_backfill_reads_the_version_that_was_current_when_its_interval_began(here: Here) -> None:
    push(here, "monday", of=5, m1="gold")
    push(here, "tuesday", of=6, m1="silver")
    interval = DataInterval(day(6), day(7))  # what was pushed for Monday is current from Tuesday 00:00 on
    plan = here.whole(PUSHED, "run-1", tables={"profiles": "as_of_interval"}, interval=interval)
    assert plan.tables["profiles"]["push_id"] == "monday"
    assert scored(here) == [(1, "gold"), (2, None), (3, None)]


def members(first: int, end: int, tier: str | None) -> dict[str, Any]:
    return {f"m{number}": tier for number in range(first, end)}


def compacted(here: Here) -> None:
    current = table_versions.newest(here.log.filesystem, "log", TOPIC)
    assert current is not None
    compact_here(
        here.log.filesystem, SystemBinding("log", {"root": str(here.root)}), TableFolder("log", TOPIC), current
    )


def test_a_host_that_has_a_former_version_reads_only_the_changes_also_when_they_were_compacted(here: Here) -> None:
    push(here, "one", **members(1, 101, "gold"))
    assert read_of(here, here.whole(PUSHED, "run-1"), TOPIC) == 100
    push(here, "two", kind=INCREMENTAL, m1="silver", m4=None)
    push(here, "three", kind=INCREMENTAL, m2="new")
    compacted(here)
    assert read_of(here, here.whole(PUSHED, "run-2"), TOPIC) == 3
    push(here, "four", kind=INCREMENTAL, m3=None)
    assert (
        read_of(here, here.whole(PUSHED, "run-3"), TOPIC) == 4
    )  # so few changes are not written to the host each time
    assert Counter(scored(here)) == Counter(
        [
            (1, "gold"),
            (2, "gold"),
            (3, "gold"),
            (1, "silver"),
            (2, "new"),
            (3, "gold"),
            (1, "silver"),
            (2, "new"),
            (3, None),
        ]
    )


def test_a_host_that_has_nothing_reads_the_compacted_section(here: Here) -> None:
    push(here, "one", **members(1, 101, "gold"))
    push(here, "two", kind=INCREMENTAL, **members(3, 101, None))
    compacted(here)
    plan = here.whole(PUSHED, "run-1")
    assert read_of(here, plan, TOPIC) == 2
    assert scored(here) == [(1, "gold"), (2, "gold"), (3, None)]
    assert plan.tables["profiles"]["number"] == 2


def test_a_run_that_was_planned_before_the_compaction_reads_what_was_planned(here: Here) -> None:
    push(here, "one", m1="gold", m2="gold")
    push(here, "two", kind=INCREMENTAL, m1="silver")
    plan = here.plan(PUSHED, "run-1")
    compacted(here)
    push(here, "three", kind=INCREMENTAL, m2="late")
    here.stages(plan)
    assert scored(here) == [(1, "silver"), (2, "gold"), (3, None)]


def test_the_version_of_a_run_is_pinned_while_it_is_open(here: Here) -> None:
    push(here, "one", m1="gold")
    here.plan(PUSHED, "run-1")
    pins = here.log.filesystem.list(TableFolder("log", TOPIC).pins)
    assert [int(number) for number in pins] == [1]


@pytest.mark.parametrize(
    ("asked", "error", "words"),
    [
        ({"profiles": "nobody"}, NoSuchVersion, "no version of the push 'nobody'"),
        ({"profiles": "as_of_interval"}, ConfigError, "as of the data interval, and this run has none"),
        ({"people": "current"}, UnknownName, "'people', which is no pushed table"),
    ],
)
def test_rejects_versions_that_are_not_there(
    here: Here, asked: dict[str, str], error: type[Exception], words: str
) -> None:
    push(here, "one", m1="gold")
    with pytest.raises(error, match=words):
        here.plan(PUSHED, "run-1", tables=asked)


def test_rejects_a_version_whose_column_cannot_be_read_as_the_table_declares_it(here: Here) -> None:
    push(here, "one", schema="member_id bigint, tier double", m1="gold")
    with pytest.raises(SchemaError, match="has the column 'tier' as double, and the table declares it as string"):
        here.plan(PUSHED, "run-1")


def test_rejects_a_version_that_lacks_a_column_of_the_table(here: Here) -> None:
    push(here, "one", schema="member_id bigint", m1="gold")
    with pytest.raises(SchemaError, match="Version 1 of table 'profiles' \\(push 'one'\\) has no column 'tier'"):
        here.plan(PUSHED, "run-1")

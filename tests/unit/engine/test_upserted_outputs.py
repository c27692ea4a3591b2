"""Runs that upsert changes into tables: scheduled, pipelined, cleared, repeated, and after an approval."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyiceberg.types import IntegerType

from airflow_samza import condition, not_null, unique
from airflow_samza.errors import (
    ConfigError,
    InvalidApplication,
    PartitioningMismatch,
    PlanChanged,
    SamzaError,
    SchemaError,
    StageError,
)
from tests.support.iceberg_lake import catalog_at
from tests.support.upserting_apps import APPLICATION, SAID, Members


@pytest.fixture(params=["delta", "iceberg"])
def here(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Members]:
    SAID.clear()
    SAID["kind"] = request.param
    yield Members(tmp_path)
    SAID.clear()


FIRST = [("c", 1, "silver", 1), ("c", 2, "silver", 2), ("u", 1, "gold", 5), ("c", 3, "late", 1)]
SECOND = [("u", 1, "late", 4), ("d", 2, None, 7), ("u", 3, "gold", 8), ("c", 4, "new", 9), ("c", 4, "new", 9)]
NEWEST = [(1, "gold"), (3, "gold"), (4, "new")]
HISTORY = [
    (1, "silver", 1, 5),
    (1, "gold", 5, None),
    (2, "silver", 2, 7),
    (3, "late", 1, 8),
    (3, "gold", 8, None),
    (4, "new", 9, None),
]


@pytest.mark.parametrize(
    ("mode", "config"), [("staged", {}), ("pipelined", {"job.epoch.max.messages": "2"})], ids=["batch", "pipelined"]
)
def test_runs_go_on_from_each_other(here: Members, mode: str, config: dict[str, str]) -> None:
    here.write("first", FIRST)
    here.whole(APPLICATION, "one", mode=mode, config=config)
    assert here.newest() == [(1, "gold"), (2, "silver"), (3, "late")]
    here.write("second", SECOND)
    plan = here.whole(APPLICATION, "two", mode=mode, config=config)
    assert here.newest() == NEWEST
    assert here.history() == HISTORY
    assert "mode='upsert': rows of the same key are replaced" in plan.notes["by-member"]["members"]
    assert not [file for file in here.tables.rglob("*.parquet") if "_deleted" in file.read_bytes().decode("latin-1")]


def test_a_cleared_stage_upserts_again(here: Members) -> None:
    here.write("first", FIRST)
    plan = here.whole(APPLICATION, "one")
    here.stages(plan, generation=2)
    assert here.newest() == [(1, "gold"), (2, "silver"), (3, "late")]
    assert here.history() == [(1, "silver", 1, 5), (1, "gold", 5, None), (2, "silver", 2, None), (3, "late", 1, None)]


def test_the_same_data_in_another_run_changes_nothing(here: Members) -> None:
    SAID["input"] = {"slice": None}
    here.write("first", FIRST)
    here.write("second", SECOND)
    for run in ("one", "two"):
        here.whole(APPLICATION, run)
        assert here.newest() == NEWEST
        assert here.history() == HISTORY


def test_nothing_is_upserted_before_the_approval(here: Members) -> None:
    SAID["output"] = {"publish": "after approval"}
    here.write("first", FIRST)
    plan = here.whole(APPLICATION, "one")
    assert here.newest() == []
    here.runtime.publish(plan, "ann")
    here.runtime.publish(plan, "ann")
    assert here.newest() == [(1, "gold"), (2, "silver"), (3, "late")]


def test_what_goes_on_from_a_run_is_approved_behind_it(here: Members) -> None:
    SAID["output"] = {"publish": "after approval"}
    here.write("first", FIRST)
    one = here.whole(APPLICATION, "one")
    here.write("second", SECOND)
    two = here.whole(APPLICATION, "two")
    with pytest.raises(StageError, match="older changes of the run 'one' still wait"):
        here.runtime.publish(two, "ann")
    assert here.newest() == []
    here.runtime.publish(one, "ann")
    here.runtime.publish(two, "ann")
    here.runtime.publish(one, "ann")  # again, which changes nothing
    assert here.newest() == NEWEST
    assert here.history() == HISTORY


def test_a_field_that_comes_within_a_struct_is_rejected_by_the_plan(here: Members) -> None:
    def write(name: str, info: dict[str, Any], version: int) -> None:
        change = {"op": "u", "member": 1, "info": info, "version": version}
        (here.lake / "in" / f"{name}.json").write_text(f"{json.dumps(change)}\n")

    SAID["schema"] = "member bigint, info struct<tier: string>, version bigint"
    write("first", {"tier": "a"}, 1)
    here.whole(APPLICATION, "one")
    SAID["schema"] = "member bigint, info struct<tier: string, since: int>, version bigint"
    write("second", {"tier": "b", "since": 5}, 2)
    for _ in range(2):  # a retry holds no state, either
        with pytest.raises(SchemaError, match=r"The table web\.members has no column 'info\.since'"):
            here.plan(APPLICATION, "two")
    for table in ("members", "history"):
        _with_since(here, table)
    with pytest.raises(PlanChanged, match=r"The state of apply_changes 'history' .* messages with info struct"):
        here.plan(APPLICATION, "two")
    SAID["schema"] = "member bigint, info struct<tier: string>, version bigint"  # changed back
    here.whole(APPLICATION, "two")
    assert [row["info"] for row in here.rows("members")] == [{"tier": "b", "since": None}]
    assert [row["info"]["tier"] for row in here.rows("history")] == ["a", "b"]


def _with_since(here: Members, table: str) -> None:
    """Give a table another field within its struct."""
    if SAID["kind"] == "iceberg":
        with catalog_at(here.tables) as catalog, catalog.load_table(f"web.{table}").update_schema() as update:
            update.add_column(("info", "since"), IntegerType())
        return
    delta = DeltaTable(str(here.tables / "web" / table))
    schema = pa.schema(delta.schema().to_arrow())
    info = pa.struct([("tier", pa.string()), ("since", pa.int32())])
    rows = schema.set(schema.get_field_index("info"), pa.field("info", info)).empty_table()
    write_deltalake(delta, rows, mode="append", schema_mode="merge")


@pytest.mark.parametrize("of", ["newest", "input"])
@pytest.mark.parametrize("on_error", ["fail", "drop"])
def test_rows_that_are_gone_need_not_meet_what_is_expected_of_rows(here: Members, of: str, on_error: str) -> None:
    expect: list[Any] = [not_null("tier", on_error=on_error), condition("tier <> 'silver'", on_error=on_error)]
    SAID[of] = {"expect": expect}
    here.write("first", [("c", 1, "gold", 1), ("c", 2, "gold", 2), ("c", 3, "gold", 3), ("update_before", 1, None, 4)])
    here.whole(APPLICATION, "one")
    here.write("second", [("d", 1, None, 7), ("d", 2, "silver", 8)])
    here.whole(APPLICATION, "two")
    assert here.newest() == [(3, "gold")]


def test_what_is_expected_of_the_mark_is_expected_of_rows_that_are_gone(here: Members) -> None:
    SAID["newest"] = {"expect": [condition("NOT coalesce(_deleted, false)", on_error="drop")]}
    here.write("first", [("c", 1, "gold", 1), ("d", 1, "gold", 2), ("d", 2, None, 8)])
    here.whole(APPLICATION, "one")
    assert here.newest() == [(1, "gold")]


@pytest.mark.parametrize(
    ("said", "kind", "says"),
    [
        ({"key": None}, InvalidApplication, 'has mode="upsert" and no key='),
        ({"key": "nobody"}, SamzaError, "There is no column 'nobody'"),
        ({"shared": True}, InvalidApplication, "is shared"),
        ({"expect": [unique("member")]}, InvalidApplication, "the last one counts"),
        ({"branch": "audit/{run_id}"}, ConfigError, 'has mode="upsert" and branch='),
        ({"run_column": "run"}, ConfigError, 'has mode="upsert" and run_column='),
        ({"key": "tier"}, PartitioningMismatch, "send_to"),
        ({"system": "lake", "create": None, "table": None}, ConfigError, "keeps no rows that could be replaced by key"),
    ],
)
def test_a_wrong_declaration_is_rejected_by_the_plan(
    here: Members, said: dict[str, Any], kind: type[SamzaError], says: str
) -> None:
    SAID["newest"] = said
    here.write("first", FIRST)
    with pytest.raises(kind, match=says):
        here.plan(APPLICATION, "one")


def test_a_table_without_the_key_is_rejected_by_the_plan(here: Members) -> None:
    here.write("first", FIRST)
    here.whole(APPLICATION, "one")
    SAID["newest"] = {"table": "web.history", "create": None}
    with pytest.raises(SchemaError, match="requires the column 'valid_from'"):
        here.plan(APPLICATION, "two")

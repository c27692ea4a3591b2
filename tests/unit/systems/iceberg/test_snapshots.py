"""The snapshot that a run reads: by id, by tag or branch, as of a time, else the current one."""

from __future__ import annotations

import dataclasses
import json
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.table import Table

from airflow_samza.errors import SchemaError, TopicError
from airflow_samza.systems.system import StreamSpec
from tests.support.iceberg_lake import append, rows_of, stream, system_at, table_of

SCHEMA = pa.schema([("id", pa.int64())])


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """A table of three snapshots; the second is tagged, and a branch has one more."""
    table = table_of(tmp_path, SCHEMA, [{"id": 1}], [{"id": 2}])
    with table.manage_snapshots() as managing:
        managing.create_tag(table.metadata.snapshots[1].snapshot_id, "monthly")
        managing.create_branch(table.metadata.snapshots[1].snapshot_id, "audit")
    append(table, [{"id": 3}])
    table.append(pa.table({"id": [9]}), branch="audit")
    return table


def reading(options: dict[str, str]) -> StreamSpec:
    return StreamSpec("views", partitions=1, options=(("table", "web.views"), *options.items()))


def ids(folder: Path, **options: str) -> list[int]:
    return [row["id"] for row in rows_of(system_at(folder), reading(options))]


def test_each_way_of_naming_a_snapshot(table: Table, tmp_path: Path) -> None:
    first, second, third, *_ = table.metadata.snapshots
    assert sorted(ids(tmp_path)) == [1, 2, 3]
    assert sorted(ids(tmp_path, snapshot=str(first.snapshot_id))) == [1]
    assert sorted(ids(tmp_path, ref="monthly")) == [1, 2]
    assert sorted(ids(tmp_path, ref="audit")) == [1, 2, 9]
    assert sorted(ids(tmp_path, ref="main")) == [1, 2, 3]
    for snapshot, found in ((first, [1]), (second, [1, 2]), (third, [1, 2, 3])):
        at = datetime.fromtimestamp(snapshot.timestamp_ms / 1000, timezone.utc)
        assert sorted(ids(tmp_path, as_of=at.isoformat())) == found
    assert sorted(ids(tmp_path, as_of=(datetime.now(timezone.utc) + timedelta(hours=1)).isoformat())) == [1, 2, 3]


def test_of_several_snapshots_the_newest_limits_what_is_read(table: Table, tmp_path: Path) -> None:
    first, second, third, audited = (str(one.snapshot_id) for one in table.refresh().metadata.snapshots)

    def read(*up_to: str, **options: str) -> list[int]:
        spec = dataclasses.replace(reading(options), up_to=up_to)
        return sorted(row["id"] for row in rows_of(system_at(tmp_path), spec))

    assert [read(first), read(second, first), read("5", first), read(third)] == [[1], [1, 2], [1], [1, 2, 3]]
    assert [read(second, ref="audit"), read(audited, ref="audit")] == [[1, 2], [1, 2, 9]]
    for up_to, ref in ((audited, ""), (third, "audit")):
        with pytest.raises(TopicError, match=rf"snapshot {up_to} of .* not in the history of .*: the table was rolled"):
            read(up_to, ref=ref)
    with pytest.raises(TopicError, match="no snapshot 5: it has expired"):
        read("5")


def test_the_range_of_a_plan_is_read_whatever_is_committed_later(table: Table, tmp_path: Path) -> None:
    system, spec = system_at(tmp_path), stream()
    fixed = system.slice(spec)
    assert fixed["snapshot"] == str(table.refresh().current_snapshot().snapshot_id)  # type: ignore[union-attr]
    assert (fixed["table"], fixed["rows"]) == ("web.views", 3)
    append(table, [{"id": 4}])
    table.delete("id = 1")
    with table.update_schema() as changing:
        changing.rename_column("id", "number")
    assert sorted(row["id"] for row in rows_of(system, spec, range_=fixed)) == [1, 2, 3]
    assert sorted(row["number"] for row in rows_of(system, spec)) == [2, 3, 4]


def test_a_snapshot_has_the_columns_that_it_was_written_with(table: Table, tmp_path: Path) -> None:
    first = str(table.metadata.snapshots[0].snapshot_id)
    with table.update_schema() as changing:
        changing.rename_column("id", "number")
    for options, column in (
        ({"snapshot": first}, "id"),
        ({"ref": "monthly"}, "id"),
        ({"ref": "audit"}, "number"),
        ({}, "number"),
    ):
        assert {name for row in rows_of(system_at(tmp_path), reading(options)) for name in row} == {column}


def test_an_empty_table_has_no_rows(tmp_path: Path) -> None:
    table_of(tmp_path, SCHEMA)
    fixed = system_at(tmp_path).slice(stream())
    assert (fixed["snapshot"], fixed["files"], fixed["schema"]) == (None, [], "id bigint")
    assert rows_of(system_at(tmp_path), stream()) == []


@pytest.mark.parametrize(
    ("options", "sentence", "hint"),
    [
        ({"snapshot": "7"}, "has no snapshot 7: it has expired", "Its newest snapshots are "),
        (
            {"ref": "montly"},
            "has no tag and no branch 'montly'",
            "Did you mean 'monthly'? It has audit, main, monthly.",
        ),
        ({"as_of": "2020-01-01"}, "no snapshot as of 2020-01-01T00:00:00+00:00", "Take a later time"),
    ],
)
@pytest.mark.usefixtures("table")
def test_a_snapshot_that_is_not_there_is_rejected(
    options: dict[str, str], sentence: str, hint: str, tmp_path: Path
) -> None:
    with pytest.raises(TopicError) as error:
        system_at(tmp_path).slice(reading(options))
    assert sentence in error.value.sentence
    assert hint in error.value.hint


def test_declared_columns_are_found_by_their_ids(table: Table, tmp_path: Path) -> None:
    system = system_at(tmp_path)
    with table.update_schema() as changing:
        changing.rename_column("id", "number")
        changing.add_column("gone", table.schema().find_type("id"))
    with table.update_schema() as changing:
        changing.delete_column("gone")
    for wanted, hint in (
        ("id", "named 'number' in this snapshot"),
        ("gone", "this one does not"),
        ("numbr", "mean 'number'"),
    ):
        with pytest.raises(SchemaError, match=f"no column '{wanted}'") as error:
            system.metadata([stream(schema=f"{wanted} bigint")])
        assert hint in error.value.hint
    with pytest.raises(
        SchemaError, match=r"'number' of the table web\.views is bigint, and stream 'views' declares it as"
    ):
        system.slice(stream(schema="number string"))
    assert {type(row["number"]) for row in rows_of(system, stream(schema="number double"))} == {float}


def test_a_removed_file_says_what_to_do(table: Table, tmp_path: Path) -> None:
    system, spec = system_at(tmp_path), stream()
    fixed = json.loads(json.dumps(system.slice(spec)))
    Path(fixed["files"][0]["path"].removeprefix("file://")).unlink()
    with pytest.raises(TopicError, match="is gone: the plan reads the snapshot") as error:
        rows_of(system, spec, range_=fixed)
    assert "Clear the plan task" in error.value.hint

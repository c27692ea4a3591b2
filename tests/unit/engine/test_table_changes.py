"""Tables whose changes are messages, from run to run: of both kinds, with retries, clears, and what is rejected."""

from __future__ import annotations

import dataclasses
import itertools
import re
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyiceberg.table.snapshots import Operation

from airflow_samza.errors import ConfigError, InvalidApplication, SchemaError, StateError, TopicError
from airflow_samza.provider.page.plan_graph import Detail, plan_answer
from airflow_samza.runs.records.run_plan import CONTINUOUS, RunPlan
from airflow_samza.systems.system import SystemBinding
from tests.support import delta_lake, iceberg_lake, table_apps
from tests.support.runs_here import Here
from tests.support.waiting import until

CHANGED = "tests.support.table_apps:changed"
SCHEMA = pa.schema([("n", pa.int64()), ("text", pa.string())])


class Lake:
    """A table, and runs of an application that reads its changes."""

    kind: str
    lake: Any

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "lake"
        self.make()
        self.here = Here(folder / "root", bindings={"tables": SystemBinding(self.kind, {"root": str(self.folder)})})
        self.runs = 0

    def make(self) -> None:
        raise NotImplementedError

    def append(self, *rows: int) -> None:
        raise NotImplementedError

    def delete(self, n: int) -> None:
        raise NotImplementedError

    def update(self, n: int, text: str) -> None:
        raise NotImplementedError

    def rewrite(self) -> None:
        raise NotImplementedError

    @property
    def rows(self) -> Counter[tuple[int, str]]:
        """The rows that the library reads."""
        raise NotImplementedError

    def table_of(self, rows: Any) -> pa.Table:
        return pa.Table.from_pylist(list(rows), schema=SCHEMA)

    def run(self, **request: Any) -> RunPlan:
        self.runs += 1
        return self.here.whole(CHANGED, f"run-{self.runs}", **request)

    def plan(self, **request: Any) -> RunPlan:
        self.runs += 1
        return self.here.plan(CHANGED, f"run-{self.runs}", **request)

    @property
    def said(self) -> list[str]:
        return [row["said"] for row in self.here.rows("said")]

    @property
    def sums(self) -> Counter[tuple[int, str]]:
        """The rows that all changes so far lead to; each must have been there before it went."""
        table: Counter[tuple[int, str]] = Counter()
        for row in self.here.rows("said"):
            table[row["n"], row["text"]] += row["sign"]
            assert min(table.values()) >= 0, row
        return +table


class IcebergTable(Lake):
    kind, lake = "iceberg", iceberg_lake

    def make(self) -> None:
        self.table = iceberg_lake.table_of(self.folder, SCHEMA)

    def append(self, *rows: int) -> None:
        self.refreshed.append(self.table_of({"n": n, "text": "new"} for n in rows))

    def delete(self, n: int) -> None:
        self.refreshed.delete(f"n = {n}")

    def update(self, n: int, text: str) -> None:
        self.refreshed.overwrite(self.table_of([{"n": n, "text": text}]), f"n = {n}")

    def rewrite(self) -> None:
        iceberg_lake.compact(self.refreshed, Operation.OVERWRITE)

    @property
    def refreshed(self) -> Any:
        self.table.refresh()
        return self.table

    @property
    def rows(self) -> Counter[tuple[int, str]]:
        return Counter((row["n"], row["text"]) for row in self.refreshed.scan().to_arrow().to_pylist())


class DeltaFiles(Lake):
    kind, lake, feed = "delta", delta_lake, False

    def make(self) -> None:
        properties = {"delta.enableChangeDataFeed": "true"} if self.feed else None
        delta_lake.table_of(self.folder, SCHEMA, configuration=properties)

    def append(self, *rows: int) -> None:
        write_deltalake(self.table, self.table_of({"n": n, "text": "new"} for n in rows), mode="append")

    def delete(self, n: int) -> None:
        self.table.delete(f"n = {n}")

    def update(self, n: int, text: str) -> None:
        self.table.update({"text": f"'{text}'"}, predicate=f"n = {n}")

    def rewrite(self) -> None:
        self.table.optimize.compact()

    @property
    def table(self) -> DeltaTable:
        return DeltaTable(str(self.folder / "web/views"))

    @property
    def rows(self) -> Counter[tuple[int, str]]:
        return Counter((row["n"], row["text"]) for row in self.table.to_pyarrow_table().to_pylist())


class DeltaFeed(DeltaFiles):
    feed = True


@pytest.fixture(params=[IcebergTable, DeltaFiles, DeltaFeed])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Lake]:
    yield request.param(tmp_path)
    table_apps.INPUT.clear()


@pytest.fixture
def tables(tmp_path: Path) -> Iterator[IcebergTable]:
    yield IcebergTable(tmp_path)
    table_apps.INPUT.clear()


def test_runs_read_what_was_changed_since_the_run_before(lake: Lake) -> None:
    lake.append(1, 2)
    lake.append(3)
    lake.run()
    assert sorted(lake.said) == ["insert 1", "insert 2", "insert 3"]
    lake.append(4)
    lake.update(1, "one")
    lake.rewrite()
    lake.delete(3)
    lake.update(4, "four")
    plan = lake.run()
    note = plan.notes["views"]["views"]
    assert re.search(r"reads the changes of [4-7] commits, \d files, .* since the run run-1 \(version 1\)", note)
    assert lake.sums == lake.rows
    words = ["update_preimage", "update_postimage"] if isinstance(lake, DeltaFeed) else ["delete", "insert"]
    news = Counter(lake.said) - Counter(["insert 1", "insert 2", "insert 3"])
    assert news == Counter([*(f"{word} {n}" for n in (1, 4) for word in words), "insert 4", "delete 3"])
    lake.run()  # nothing is new
    assert lake.sums == lake.rows


def test_a_cleared_run_and_a_retry_read_the_changes_of_the_plan(lake: Lake) -> None:
    lake.append(1, 2, 3)
    lake.run()
    lake.delete(2)
    plan = lake.plan()
    lake.append(4)
    lake.update(1, "one")
    for generation in (1, 2):  # the second is a clear: it replaces what the first has written
        lake.here.stages(plan, generation=generation)
        assert sorted(lake.said) == ["delete 2", "insert 1", "insert 2", "insert 3"]
    lake.here.runtime.close(plan)
    run = lake.run()
    assert lake.sums == lake.rows
    again = lake.here.plan(CHANGED, run.run_id, generation=2)
    assert again.stream("views").slice == run.stream("views").slice


def test_a_row_that_leaves_the_condition_is_gone_by_its_own(lake: Lake) -> None:
    lake.append(1, 2)
    lake.run()
    table_apps.INPUT["where"] = "text = 'new'"
    lake.update(1, "one")
    lake.run()
    assert lake.said[2:] == ["update_preimage 1" if isinstance(lake, DeltaFeed) else "delete 1"]
    assert lake.sums == Counter({(2, "new"): 1})


def test_what_a_run_has_left_unread_is_read_by_the_next(lake: Lake) -> None:
    lake.append(1)
    system = lake.lake.system_at(lake.folder)
    spec = dataclasses.replace(lake.lake.stream("web.views"), changes=True)
    whole = system.arrived(spec, None)
    lake.update(1, "one")
    lake.append(2)
    since = system.arrived(spec, whole["known"])
    entries = [*whole["files"], *since["files"]]
    left = {file["name"]: file["size"] for file in entries}
    again = system.arrived(spec, {**since["known"], "unread": left})
    assert [file["name"] for file in again["files"]] == list(left)
    assert again["known"] == {**since["known"], "files": again["known"]["files"], "bytes": again["known"]["bytes"]}
    for one, other in itertools.zip_longest(again["files"], entries):
        assert {**one, "commit": again["commits"][one["commit"]]["number"]} == {
            **other,
            "commit": (whole if other in whole["files"] else since)["commits"][other["commit"]]["number"],
        }
    with pytest.raises(StateError, match=r"has left changes of the table web\.views .* unread, those of "):
        system.arrived(spec, {**since["known"], "unread": {next(iter(left)).replace("/0", "/99"): 1}})
    with pytest.raises(StateError, match=r"unread, those of web/a\.parquet, and they are not there any more"):
        system.arrived(spec, {**since["known"], "unread": {"web/a.parquet": 1}})


def test_appended_rows_are_spread_and_changes_stay_in_the_order_of_commits(lake: Lake) -> None:
    table_apps.INPUT["partitions"] = 3
    for n in range(4):
        lake.append(n)
    first = lake.run().stream("views").slice
    assert first is not None
    assert [sum(bool(chunk[partition]) for chunk in first["chunks"]) for partition in range(3)] != [1, 0, 0]
    for text in "abc":
        lake.update(1, text)
    second = lake.run().stream("views").slice
    assert second is not None
    assert not any(chunk[1] or chunk[2] for chunk in second["chunks"])
    assert lake.sums == lake.rows


def test_the_plan_and_the_page_say_that_changes_are_read(tables: IcebergTable) -> None:
    tables.append(1)
    plan = tables.run()
    assert plan.schemas["views"].endswith(
        "_change_type string not null, _commit_version bigint not null, _commit_timestamp timestamp not null"
    )
    page = next(stream for stream in plan_answer(plan, {}, "staged").streams if stream.stream_id == "views")
    assert Detail(name="changes", text="of 1 commit") in page.slice
    assert plan.range_facts("views")["commits"] == 1


def test_the_first_run_may_pass_over_what_is_there(lake: Lake) -> None:
    lake.append(1)
    lake.run(config={"streams.views.samza.offset.default": "upcoming"})
    lake.delete(1)
    lake.run()
    assert lake.said == ["delete 1"]


@pytest.mark.extended
def test_a_continuous_run_follows_changes_until_it_is_drained(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("airflow_samza.systems.tables.system.LOOK_SECONDS", 0.0)
    lake.append(1, 2)
    plan = lake.plan(mode=CONTINUOUS)
    failed = list[BaseException]()

    def work(stage: str) -> None:
        try:
            lake.here.stages(plan, stage)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(stage.stage_id,), daemon=True) for stage in plan.plan.stages]
    for thread in threads:
        thread.start()
    for text in ("a", "b"):
        lake.update(1, text)
        lake.rewrite()
        until(lambda: failed or lake.sums == lake.rows)
    lake.delete(2)  # what is there when the drain comes is read
    lake.here.runtime.drain(plan)
    for thread in threads:
        thread.join(200)
    assert not failed
    assert not any(thread.is_alive() for thread in threads)
    assert lake.sums == lake.rows
    lake.here.runtime.close(plan)
    lake.append(5)
    lake.run()
    assert lake.sums == lake.rows


@pytest.mark.parametrize(
    ("input_", "kind", "said"),
    [
        (
            {"slice": None},
            InvalidApplication,
            "has changes=True and no slice=, and changes are those since the last run",
        ),
        ({"slice": "timestamp", "timestamp": "at"}, InvalidApplication, "has changes=True and slice='timestamp'"),
        (
            {"schema": "n bigint, text string"},
            InvalidApplication,
            "its schema= has no column _change_type, so that nobody",
        ),
        ({"schema": "n bigint, text string, _change_type int"}, SchemaError, "changes have it as string"),
        ({"options": {"as_of": "2100-01-01"}}, ConfigError, 'has slice="checkpoint" and the option as_of'),
        ({"options": {"overwrites": "skip"}}, ConfigError, "has changes=True and the option overwrites='skip'"),
        ({"changes": "yes"}, InvalidApplication, "has changes='yes'"),
    ],
)
def test_what_contradicts_changes_is_rejected(
    tables: IcebergTable, input_: dict[str, Any], kind: type[Exception], said: str
) -> None:
    tables.append(1)
    table_apps.INPUT.update(input_)
    with pytest.raises(kind, match=re.escape(said)):
        tables.plan()


def test_a_system_without_tables_has_no_changes(tables: IcebergTable) -> None:
    table_apps.INPUT.update(table=None, system="log")
    with pytest.raises(ConfigError, match="the system 'log' has no tables of which changes are known"):
        tables.plan()


@pytest.mark.parametrize("name", ["_change_type", "_Commit_Version"])
def test_a_column_with_a_name_of_changes_is_rejected(lake: Lake, name: str) -> None:
    lake.lake.table_of(lake.folder, pa.schema([("n", pa.int64()), (name, pa.string())]), name="web.other")
    table_apps.INPUT["table"] = "web.other"
    with pytest.raises(SchemaError, match=rf"The table web\.other has a column '{name}', and the input 'views' with"):
        lake.plan()


def test_snapshots_that_are_no_more_in_the_history_are_an_error(tables: IcebergTable) -> None:
    tables.append(1)
    former = tables.refreshed.metadata.current_snapshot_id
    tables.append(2)
    tables.run()
    with tables.refreshed.manage_snapshots() as managing:
        managing.set_current_snapshot(former)
    with pytest.raises(StateError, match="was rolled back"):
        tables.plan()
    tables.append(3)
    with pytest.raises(StateError, match="was rolled back"):
        tables.plan()
    with iceberg_lake.catalog_at(tables.folder) as catalog:
        catalog.drop_table("web.views")
        catalog.create_table("web.views", SCHEMA)
    with pytest.raises(StateError, match="it was dropped and made anew"):
        tables.plan()


def test_changes_of_snapshots_that_have_expired_since_come_together(tables: IcebergTable) -> None:
    tables.append(1, 2)
    tables.run()
    tables.update(1, "a")
    tables.delete(2)
    tables.update(1, "b")
    held = {ref.snapshot_id for ref in tables.refreshed.metadata.refs.values()}
    between = [one.snapshot_id for one in tables.table.snapshots() if one.snapshot_id not in held]
    tables.table.maintenance.expire_snapshots().by_ids(between).commit()
    tables.run()
    assert tables.sums == tables.rows
    assert Counter(tables.said[2:]) == Counter(["delete 1", "delete 2", "insert 1"])
    for tag in [name for name in tables.refreshed.metadata.refs if name != "main"]:
        tables.refreshed.manage_snapshots().remove_tag(tag).commit()
    tables.append(3)
    old = [one.snapshot_id for one in tables.refreshed.snapshots()][:-1]
    tables.table.maintenance.expire_snapshots().by_ids(old).commit()
    with pytest.raises(StateError, match=r"The snapshot \d+ .* has expired since"):
        tables.plan()


def test_files_that_are_gone_are_an_error_with_what_helps(tmp_path: Path) -> None:
    lake = DeltaFiles(tmp_path)
    lake.append(1, 2)
    lake.run()
    lake.delete(1)
    lake.table.vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False)
    plan = lake.plan()
    with pytest.raises(TopicError, match=r"(?s)is gone: .*deletedFileRetentionDuration.*state reset"):
        lake.here.stages(plan)


def test_a_commit_that_does_not_describe_what_it_removes_is_read_by_the_state_before(tmp_path: Path) -> None:
    table = delta_lake.HandMade(tmp_path, [delta_lake.column("n", "long")])
    table.begin()
    table.commit(table.file("a.parquet", pa.table({"n": [1, 2]})))
    removal = {"remove": {"path": "a.parquet", "dataChange": True}}
    table.commit(removal, table.file("b.parquet", pa.table({"n": [2, 3]})))
    system = delta_lake.system_at(tmp_path)
    spec = dataclasses.replace(delta_lake.stream(), changes=True)
    known = {**system.arrived(spec, None)["known"], "version": 1}
    range_ = system.arrived(spec, known)
    read = delta_lake.rows_of(system, spec, range_=range_)
    assert [(row["n"], row["_change_type"]) for row in read] == [(1, "delete"), (3, "insert")]
    assert {row["_commit_version"] for row in read} == {2}


@pytest.mark.parametrize("mode", ["name", "id"])
def test_a_feed_of_a_table_with_mapped_columns_is_read(mode: str, tmp_path: Path) -> None:
    columns = [delta_lake.mapped("n", "long", 1, "col-1"), delta_lake.mapped("part", "string", 2, "col-2")]
    configuration = {"delta.columnMapping.mode": mode}
    table = delta_lake.HandMade(tmp_path, columns, partitions=["part"], reader=2, configuration=configuration)
    table.begin()
    numbers = pa.schema([pa.field("col-1", pa.int64(), metadata={"PARQUET:field_id": "1"})])
    rows = pa.table({"col-1": [1, 2]}, numbers)
    table.commit(table.file("a.parquet", rows, partitionValues={"col-2": "x"}))
    said = pa.array(["update_postimage", "update_preimage"])
    feed = table.file("_change_data/a b.parquet", rows.append_column("_change_type", said))["add"]
    feed |= {"path": "_change_data/a%20b.parquet", "partitionValues": {"col-2": "x"}, "dataChange": False}
    table.commit({"cdc": feed}, {"remove": {"path": "a.parquet", "dataChange": True}})
    system = delta_lake.system_at(tmp_path)
    spec = dataclasses.replace(delta_lake.stream(), changes=True)
    range_ = system.arrived(spec, {**system.arrived(spec, None)["known"], "version": 1})
    read = delta_lake.rows_of(system, spec, range_=range_)
    assert [tuple(row.values())[:4] for row in read] == [
        (2, "x", "update_preimage", 2),
        (1, "x", "update_postimage", 2),
    ]


def test_deletion_vectors_take_rows_away_beside_files_that_bring_some(tmp_path: Path) -> None:
    table = delta_lake.HandMade(tmp_path, [delta_lake.column("n", "long")], reader=3, features=["deletionVectors"])
    table.begin()
    first, second = (delta_lake.inline_vector(positions) for positions in ([0], [0, 2]))
    rows = pa.table({"n": [1, 2, 3, 4]})
    table.commit(table.file("a.parquet", rows))
    for former, vector, news in (({}, first, [1]), ({"deletionVector": first}, second, [5])):
        removal = {"remove": {"path": "a.parquet", "dataChange": True, **former}}
        added = table.file(f"{news}.parquet", pa.table({"n": news}))
        table.commit(removal, table.file("a.parquet", rows, deletionVector=vector), added)
    system = delta_lake.system_at(tmp_path)
    spec = dataclasses.replace(delta_lake.stream(), changes=True)
    range_ = system.arrived(spec, {**system.arrived(spec, None)["known"], "version": 1})
    read = delta_lake.rows_of(system, spec, range_=range_)
    assert [(row["n"], row["_change_type"]) for row in read] == [(3, "delete"), (5, "insert")], "1 was only moved"

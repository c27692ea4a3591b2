"""Publication of epochs to a table: exactly once, whatever happens between the load of the table and the commit."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema
from pyiceberg.table.update import update_table_metadata
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import IntegerType, LongType, NestedField, StringType

from airflow_samza.errors import StorageUnavailable, TopicError
from airflow_samza.systems.iceberg import catalogs
from airflow_samza.systems.system import Publication
from airflow_samza.systems.tables import publishing
from tests.support.iceberg_catalog_server import CatalogServer
from tests.support.iceberg_lake import catalog_at, delete_positions, table_of
from tests.support.iceberg_outputs import Output, ids, output_stream
from tests.support.slotted import day

SECRET = "hunter2"
SCHEMA = Schema(NestedField(1, "id", LongType()), NestedField(2, "part", StringType()))


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("airflow_samza.systems.tables.publishing.time.sleep", lambda _: None)


@pytest.fixture
def output(tmp_path: Path) -> Output:
    table_of(tmp_path, SCHEMA, name="web.out")
    return Output(tmp_path)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[CatalogServer]:
    with CatalogServer(tmp_path, token=SECRET) as server:
        server.catalog.create_namespace("web")
        server.catalog.create_table("web.out", SCHEMA)
        yield server


@pytest.fixture
def remote(server: CatalogServer, tmp_path: Path) -> Output:
    return Output(tmp_path, server=server)


def parts(**rows: list[int]) -> list[dict[str, Any]]:
    return [{"id": number, "part": part} for part, numbers in rows.items() for number in numbers]


def test_a_commit_copies_all_metadata_once_for_each_thing_that_it_changes(
    output: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    epoch = output.publication(ids([1]))
    copies: list[int] = []

    def counted(base: Any, updates: Any, *rest: Any, **named: Any) -> Any:
        copies.append(len(updates))
        return update_table_metadata(base, updates, *rest, **named)

    monkeypatch.setattr("pyiceberg.table.update_table_metadata", counted)
    output.system.publish(output.spec, epoch)
    assert copies == sorted(set(copies))
    assert output.ids() == [1]


@pytest.mark.parametrize("slotted", [False, True])
def test_files_that_older_snapshots_have_outlive_a_late_repetition(output: Output, slotted: bool) -> None:
    slot = day(1) if slotted else None
    first = output.publication(ids([1]), run="monday", slot=slot)
    output.system.publish(output.spec, first)
    table = output.table()
    snapshot = table.metadata.current_snapshot_id
    assert snapshot is not None
    table.manage_snapshots().create_tag(snapshot, "audited").commit()
    other = {"run": "backfill"} if slotted else {"run": "monday", "generation": "1.2"}
    output.publish(ids([2]), slot=slot, **other)
    with pytest.raises(TopicError):
        output.system.publish(output.spec, first)
    assert output.ids() == [2]
    assert output.table().scan(snapshot_id=snapshot).to_arrow()["id"].to_pylist() == [1]


def test_deleted_rows_of_others_stay_deleted(output: Output) -> None:
    output.foreign(*ids([7, 8, 9]))
    (task,) = output.table().scan().plan_files()
    delete_positions(output.table(), {task.file.file_path: [1]})
    output.publish(ids([1]))
    output.publish(ids([2]), generation="1.2")
    assert output.ids() == [2, 7, 9]


FAULTS: list[int | tuple[int, str]] = [409, 500, 503, 504, 502, 0]
FAULTS += [(status, "landed") for status in (500, 503, 504, 502, 0, 409)]


@pytest.mark.parametrize("clears", [False, True])
@pytest.mark.parametrize("fault", FAULTS, ids=str)
@pytest.mark.few(6, 12)
def test_a_commit_whose_answer_is_a_fault(
    server: CatalogServer, remote: Output, fault: int | tuple[int, str], clears: bool
) -> None:
    remote.publish(ids([1]))
    work = remote.publication(ids([2]), generation="1.2") if clears else remote.publication(ids([2]), epoch=1)
    server.commits, server.faults = 0, [fault, None]
    remote.system.publish(remote.spec, work)
    remote.system.publish(remote.spec, work)
    assert server.commits == (1 if isinstance(fault, tuple) else 2)
    assert remote.ids() == ([2] if clears else [1, 2])
    table = remote.table()
    assert len(table.snapshots()) == 2
    for snapshot in table.snapshots():
        for manifest in snapshot.manifests(table.io):
            assert Path(manifest.manifest_path.removeprefix("file://")).exists()


@pytest.mark.parametrize("clears", [False, True])
@pytest.mark.parametrize("when", ["after a look", "after a commit"])
@pytest.mark.few(1)
def test_a_commit_that_a_catalog_makes_when_nobody_waits_for_it_any_more(
    server: CatalogServer, remote: Output, monkeypatch: pytest.MonkeyPatch, when: str, clears: bool
) -> None:
    remote.publish(ids([1]))
    work = remote.publication(ids([2]), generation="1.2") if clears else remote.publication(ids([2]), epoch=1)
    monkeypatch.setattr(catalogs, "ANSWER_SECONDS", 0.5)
    server.commits, server.faults = 0, [when, None]
    remote.system.publish(remote.spec, work)
    assert not server.late
    assert server.commits == 3, "the late one, made after the look or the commit of the next try"
    assert remote.ids() == ([2] if clears else [1, 2])
    assert len(remote.table().snapshots()) == 2


def test_lost_races_leave_no_manifests(server: CatalogServer, remote: Output) -> None:
    work = remote.publication(ids([1]))
    server.faults = [409, 409, 409]
    remote.system.publish(remote.spec, work)
    table = remote.table()
    (snapshot,) = table.snapshots()
    used = {Path(manifest.manifest_path).name for manifest in snapshot.manifests(table.io)}
    used.add(Path(snapshot.manifest_list).name)
    assert {path.name for path in Path(remote.folder).rglob("*.avro")} == used


@pytest.mark.parametrize("landed", [False, True])
def test_a_catalog_that_stays_down_may_be_there_later(
    server: CatalogServer, remote: Output, landed: bool, caplog: pytest.LogCaptureFixture
) -> None:
    work = remote.publication(ids([1]))
    fault: Any = (500, "landed") if landed else 500
    server.faults = [fault] * publishing.UNKNOWN_TRIES
    caplog.set_level(logging.DEBUG)
    if landed:
        remote.system.publish(remote.spec, work)
    else:
        with pytest.raises(StorageUnavailable, match="does not answer, or fails") as error:
            remote.system.publish(remote.spec, work)
        assert error.value.retryable
        assert SECRET not in str(error.value)
        assert error.value.__cause__ is None
    assert SECRET not in caplog.text
    server.faults = []
    for _ in range(2):
        remote.system.publish(remote.spec, work)
    assert remote.ids() == [1]
    assert len(remote.table().snapshots()) == 1


def compact(output: Output) -> None:
    """Rewrite all rows into new files, as an engine does."""
    table = output.table()
    table.overwrite(table.scan().to_arrow())


def test_the_remedy_after_a_compaction_works(output: Output) -> None:
    output.publish(ids([1]))
    compact(output)
    work = output.publication(ids([3]), generation="1.2")
    with pytest.raises(TopicError, match="are left") as error:
        output.system.publish(output.spec, work)
    assert "Delete its rows" in error.value.hint
    output.table().delete("id = 1")
    assert "another run_id and mode=append" in error.value.hint
    appending = Output(output.folder, output_stream(mode="append"))
    appending.publish(ids([3]), run="again")
    assert output.ids() == [3]


def test_a_part_of_the_files_that_is_gone_is_noticed(output: Output) -> None:
    output.publish(ids([1]))
    output.publish(ids([2]), epoch=1)
    output.table().delete("id = 1")
    with pytest.raises(TopicError, match="of its 2 data files 1 are left"):
        output.publish(ids([3]), generation="1.2")
    assert output.ids() == [2]


def drop_and_make(output: Output) -> None:
    with catalog_at(output.folder) as catalog:
        catalog.drop_table("web.out")
        catalog.create_table("web.out", SCHEMA)


def repartition(output: Output) -> None:
    with output.table().update_spec() as update:
        update.add_field("part", IdentityTransform())


def retype(output: Output) -> None:
    with output.table().update_schema(allow_incompatible_changes=True) as update:
        update.delete_column("part")
    with output.table().update_schema() as update:
        update.add_column("part", IntegerType())


def renew(output: Output) -> None:
    with output.table().update_schema(allow_incompatible_changes=True) as update:
        update.delete_column("part")
    with output.table().update_schema() as update:
        update.add_column("part", StringType())


def require(output: Output) -> None:
    with output.table().update_schema(allow_incompatible_changes=True) as update:
        update.add_column("new", StringType(), required=True, default_value=None)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (drop_and_make, "was dropped and made anew"),
        (repartition, "has other partitions now"),
        (renew, "has another column 'part' now: the one of this name was dropped"),
        (retype, "has another column 'part' now: the one of this name was dropped"),
        (require, "has the new required column 'new'"),
    ],
)
def test_a_table_that_the_files_do_not_fit_is_rejected(
    output: Output, change: Callable[[Output], None], words: str
) -> None:
    work = output.publication(parts(a=[1]))
    change(output)
    with pytest.raises(TopicError, match=re.escape(words)) as error:
        output.system.publish(output.spec, work)
    assert "planned anew" in error.value.hint
    assert output.ids() == []
    output.publish([{"id": 2, "new": "x"}] if change is require else ids([2]))
    assert output.ids() == [2]


def test_a_column_that_became_required_is_rejected_where_null_may_be_in_the_files(output: Output) -> None:
    work = output.publication(ids([1]))
    with output.table().update_schema(allow_incompatible_changes=True) as update:
        update.update_column("part", required=True)
    with pytest.raises(TopicError, match="'part'"):
        output.system.publish(output.spec, work)


def test_columns_that_were_renamed_added_or_swapped_are_right(output: Output) -> None:
    work = output.publication(parts(a=[1], b=[2]))
    with output.table().update_schema() as update:
        update.rename_column("part", "section")
    with output.table().update_schema() as update:
        update.add_column("part", StringType())
    output.system.publish(output.spec, work)
    wanted = [{"id": 1, "section": "a", "part": None}, {"id": 2, "section": "b", "part": None}]
    assert sorted(output.scanned(), key=lambda row: int(row["id"])) == wanted
    table = output.table()
    assert sorted(table.scan("part is null").to_arrow()["id"].to_pylist()) == [1, 2]
    assert table.scan("section = 'b'").to_arrow()["id"].to_pylist() == [2]
    assert output.ids() == [1, 2]


def test_columns_that_were_dropped_or_widened_are_right(tmp_path: Path) -> None:
    schema = Schema(
        NestedField(1, "id", LongType()), NestedField(2, "n", IntegerType()), NestedField(3, "old", StringType())
    )
    table_of(tmp_path, schema, name="web.out")
    output = Output(tmp_path)
    work = output.publication([{"id": 1, "n": 7, "old": "x"}, {"id": 2, "n": -7, "old": "y"}])
    with output.table().update_schema(allow_incompatible_changes=True) as update:
        update.update_column("n", LongType())
        update.delete_column("old")
    output.system.publish(output.spec, work)
    assert output.ids() == [1, 2]
    assert output.table().scan("n = 7").to_arrow().to_pylist() == [{"id": 1, "n": 7}]


def test_two_outputs_of_a_stage_to_one_table_are_replaced_each(output: Output) -> None:
    second = Output(output.folder, output_stream(name="second"))
    output.publish(ids([1]))
    second.publish(ids([2]))
    output.publish(ids([3]), generation="1.2")
    assert output.ids() == [2, 3]
    second.publish(ids([4]), generation="1.2")
    assert output.ids() == [3, 4]


def test_a_table_with_files_of_older_partitions_is_replaced(tmp_path: Path) -> None:
    table_of(tmp_path, SCHEMA, name="web.out")
    output = Output(tmp_path, output_stream(mode="replace table"))
    output.foreign(*ids([7]))
    repartition(output)
    output.foreign(*parts(a=[8]))
    output.publish(parts(b=[1]))
    assert output.ids() == [1]


def test_a_branch_of_others_is_left_alone(output: Output) -> None:
    output.publish(ids([1]))
    table = output.table()
    assert table.metadata.current_snapshot_id is not None
    table.manage_snapshots().create_branch(table.metadata.current_snapshot_id, "audit").commit()
    table = output.table()
    table.append(pa.Table.from_pylist(ids([9]), schema_to_pyarrow(table.schema())), branch="audit")
    output.publish(ids([2]), generation="1.2")
    assert output.ids() == [2]
    assert sorted(output.table().scan().use_ref("audit").to_arrow()["id"].to_pylist()) == [1, 9]


def test_many_tasks_are_one_snapshot(output: Output) -> None:
    staged = {task: output.stage(ids([task]), task=task) for task in range(5)}
    facts = output.system.publish(output.spec, Publication("app/run/stage", "1.1", 0, staged))
    assert (facts["rows"], len(facts["files"]), output.versions()) == (5, 5, 1)
    assert output.ids() == [0, 1, 2, 3, 4]


def test_no_setting_of_this_process_is_stored(output: Output) -> None:
    output.publish(ids([1]))
    output.publish(ids([2]), generation="1.2")
    assert "commit.retry.num-retries" not in output.table().properties


def test_a_damaged_record_is_not_overwritten(output: Output) -> None:
    output.publish(ids([1]))
    (key,) = [name for name in output.table().properties if name.startswith("samza.producer.")]
    with output.table().transaction() as transaction:
        transaction.set_properties({key: "{"})
    with pytest.raises(TopicError, match=rf"The property {re.escape(key)} of the table web\.out is damaged"):
        output.publish(ids([2]), epoch=1)


def test_descriptions_of_staged_files_are_json(output: Output) -> None:
    described = output.stage(parts(a=[1]))
    assert json.loads(json.dumps(described)) == described

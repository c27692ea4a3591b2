"""Publication of epochs to a table: exactly once, whatever happens between the load of the table and the commit."""

from __future__ import annotations

import json
import logging
import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema
from pyiceberg.table.update import update_table_metadata
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import IntegerType, LongType, NestedField, StringType

from airflow_samza.errors import StorageUnavailable, TopicError
from airflow_samza.systems.iceberg import catalogs
from airflow_samza.systems.output_slots import OutputSlot
from airflow_samza.systems.system import Publication
from airflow_samza.systems.tables import publishing
from tests.support.iceberg_catalog_server import CatalogServer
from tests.support.iceberg_lake import append, catalog_at, delete_positions, table_of
from tests.support.iceberg_outputs import Output, files_of, ids, output_stream
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


def partitioned(folder: Path, mode: str = "replace") -> Output:
    """Return an output to a table that is partitioned by ``part``."""
    table = table_of(folder, SCHEMA, name="web.out")
    with table.update_spec() as update:
        update.add_field("part", IdentityTransform())
    return Output(folder, output_stream(mode=mode))


def parts(**rows: list[int]) -> list[dict[str, Any]]:
    return [{"id": number, "part": part} for part, numbers in rows.items() for number in numbers]


def foreign(output: Output, *numbers: int, part: str | None = None) -> None:
    """Append rows as another writer does, who knows nothing of this package."""
    table = output.table()
    rows = pa.Table.from_pylist([{"id": n, "part": part} for n in numbers], schema_to_pyarrow(table.schema()))
    if not table.spec().is_unpartitioned():
        table.append(rows)
    else:
        append(table, rows.to_pylist())


def at_each_commit(monkeypatch: pytest.MonkeyPatch, act: Callable[[int], None]) -> list[int]:
    """Have something done just before each commit of a catalog in a database; return a list that grows with them."""
    commit, made, inside = SqlCatalog.commit_table, list[int](), threading.local()

    def wrapped(self: SqlCatalog, *arguments: Any) -> Any:
        if not getattr(inside, "acts", False):
            made.append(len(made))
            inside.acts = True
            try:
                act(len(made))
            finally:
                inside.acts = False
        return commit(self, *arguments)

    monkeypatch.setattr(SqlCatalog, "commit_table", wrapped)
    return made


def snapshots(output: Output) -> int:
    return len(output.table().snapshots())


def test_publishing_again_changes_nothing(output: Output) -> None:
    work = output.publication(ids([1, 2]))
    facts = output.system.publish(output.spec, work)
    before = output.table().metadata_location
    again = output.system.publish(output.spec, work)
    assert again == facts
    assert facts["rows"] == 2
    assert facts["snapshot"] == str(output.table().metadata.current_snapshot_id)
    assert output.table().metadata_location == before
    output.publish(ids([3]), epoch=1)
    output.system.publish(output.spec, work)
    assert output.ids() == [1, 2, 3]


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


def test_a_lower_generation_is_rejected_and_what_it_staged_removed(output: Output) -> None:
    output.publish(ids([1]))
    late = output.publication(ids([2]), epoch=1)
    output.publish(ids([3]), generation="1.2")
    with pytest.raises(TopicError, match=r"Generation 1\.1 .* generation 1\.2 of it has published already"):
        output.system.publish(output.spec, late)
    assert not any(path.exists() for path in files_of(late.staged[0]))
    assert output.ids() == [3]


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


def test_a_clear_replaces_in_one_snapshot(output: Output) -> None:
    output.publish(ids([1, 2]))
    output.publish(ids([3]), epoch=1)
    foreign(output, 9)
    before = snapshots(output)
    facts = output.publish(ids([4]), generation="1.2")
    assert len(facts["superseded"]) == 2
    assert snapshots(output) == before + 1
    summary = output.table().metadata.current_snapshot().summary  # type: ignore[union-attr]
    assert summary is not None
    assert (summary.operation.value, summary["deleted-data-files"], summary["samza.epoch"]) == ("overwrite", "2", "0")
    assert output.ids() == [4, 9]


def test_a_clear_of_nothing_by_nothing(output: Output) -> None:
    output.publish([])
    output.publish(ids([1]), epoch=1)
    output.publish([], generation="1.2")
    assert output.ids() == []
    output.publish([], generation="1.2", epoch=1)
    output.publish(ids([2]), generation="1.2", epoch=2)
    assert output.ids() == [2]


def test_deleted_rows_of_others_stay_deleted(output: Output) -> None:
    foreign(output, 7, 8, 9)
    (task,) = output.table().scan().plan_files()
    delete_positions(output.table(), {task.file.file_path: [1]})
    output.publish(ids([1]))
    output.publish(ids([2]), generation="1.2")
    assert output.ids() == [2, 7, 9]


@pytest.mark.parametrize("threads", [2, 4])
def test_many_publish_the_same_epoch_at_the_same_moment(output: Output, threads: int) -> None:
    output.publish(ids([0]))
    work = output.publication(ids([1, 2]), epoch=1)
    barrier, failed = threading.Barrier(threads), list[BaseException]()

    def publish() -> None:
        try:
            system = output.system
            barrier.wait(60)
            system.publish(output.spec, work)
        except BaseException as error:
            failed.append(error)

    running = [threading.Thread(target=publish) for _ in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join(60)
    assert not failed
    assert output.ids() == [0, 1, 2]
    assert snapshots(output) == 2


@pytest.mark.parametrize("act", ["same", "clear", "backfill"])
def test_another_publisher_between_the_load_and_the_commit(
    output: Output, monkeypatch: pytest.MonkeyPatch, act: str
) -> None:
    slot = day(1) if act == "backfill" else None
    output.publish(ids([1]), slot=slot)
    work = output.publication(ids([2]), epoch=1, slot=slot)
    others = {
        "same": work,
        "clear": output.publication(ids([3]), generation="1.2"),
        "backfill": output.publication(ids([3]), run="other", slot=slot),
    }

    def first(number: int) -> None:
        if number == 1:
            output.system.publish(output.spec, others[act])

    tries = at_each_commit(monkeypatch, first)
    if act == "same":
        output.system.publish(output.spec, work)
    else:
        with pytest.raises(TopicError, match=r"has published already|has replaced"):
            output.system.publish(output.spec, work)
    assert len(tries) == 1, "the library has tried again by itself"
    assert output.ids() == ([1, 2] if act == "same" else [3])


@pytest.mark.parametrize("clears", [False, True])
def test_a_foreign_appender_between_each_load_and_commit(
    output: Output, monkeypatch: pytest.MonkeyPatch, clears: bool
) -> None:
    output.publish(ids([1]))
    work = output.publication(ids([2]), generation="1.2") if clears else output.publication(ids([2]), epoch=1)
    tries = at_each_commit(monkeypatch, lambda number: foreign(output, 100 + number) if number <= 5 else None)
    output.system.publish(output.spec, work)
    assert len(tries) == 6
    assert output.ids() == sorted([*([] if clears else [1]), 2, 101, 102, 103, 104, 105])


def test_who_always_comes_too_late_may_try_again(output: Output, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publishing, "PATIENCE_SECONDS", -1.0)
    work = output.publication(ids([1]))
    at_each_commit(monkeypatch, lambda number: foreign(output, 100 + number))
    with pytest.raises(StorageUnavailable, match=r"Others commit to the table web\.out") as error:
        output.system.publish(output.spec, work)
    assert error.value.retryable
    monkeypatch.undo()
    output.system.publish(output.spec, work)
    assert output.ids() == [1, 101]


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


def test_a_clear_after_a_compaction_changes_nothing_and_names_the_remedy(output: Output) -> None:
    output.publish(ids([1]))
    output.publish(ids([2]), epoch=1)
    compact(output)
    before = output.table().metadata_location
    with pytest.raises(TopicError, match="of its 2 data files 0 are left") as error:
        output.publish(ids([3]), generation="1.2")
    assert "mode=append" in error.value.hint
    assert output.table().metadata_location == before
    assert output.ids() == [1, 2]
    output.publish(ids([4]), epoch=2)  # what goes on is not disturbed
    assert output.ids() == [1, 2, 4]


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


@pytest.mark.parametrize("slot", [None, day(1)], ids=["of no slot", "of a day"])
@pytest.mark.parametrize("generation", ["1.1", "1.2", "2.1"])
def test_a_run_of_the_same_name_under_another_root_replaces_nothing(
    generation: str, slot: OutputSlot | None, output: Output
) -> None:
    output.publish(ids([1]), root="here", slot=slot)
    for rows in (ids([2]), []):
        with pytest.raises(TopicError, match=r"generation 1\.1 of app/run/stage has committed, .* under another root"):
            output.publish(rows, generation=generation, root="there", slot=slot)
    assert output.ids() == [1]
    output.publish(ids([3]), generation="2.1", root="here", slot=slot)
    assert output.ids() == [3]


def test_records_without_a_root_are_those_of_any(output: Output) -> None:
    output.publish(ids([1]))
    output.publish(ids([2]), epoch=1, root="here")
    with pytest.raises(TopicError, match="under another root"):
        output.publish(ids([3]), generation="1.2", root="there")
    output.publish(ids([4]), generation="1.2", root="here")
    assert output.ids() == [4]


def test_a_run_of_the_same_name_under_another_root_is_rejected(output: Output) -> None:
    output.publish(ids([1]))
    other = Output(output.folder, root="staging")
    for epoch in range(2):
        with pytest.raises(TopicError, match="another run of this name, under another root"):
            other.publish(ids([2]), epoch=epoch)
    with pytest.raises(TopicError, match="another run of this name, under another root"):
        other.publish(ids([2]), epoch=5)
    assert output.ids() == [1]


def test_two_outputs_of_a_stage_to_one_table_are_replaced_each(output: Output) -> None:
    second = Output(output.folder, output_stream(name="second"))
    output.publish(ids([1]))
    second.publish(ids([2]))
    output.publish(ids([3]), generation="1.2")
    assert output.ids() == [2, 3]
    second.publish(ids([4]), generation="1.2")
    assert output.ids() == [3, 4]


def test_appending_replaces_nothing_but_its_own(tmp_path: Path) -> None:
    output = partitioned(tmp_path, "append")
    output.publish(parts(a=[1]))
    output.publish(parts(a=[2]), run="other")
    foreign(output, 9, part="a")
    output.publish(parts(a=[3]), generation="1.2")
    assert output.ids() == [2, 3, 9]


@pytest.mark.parametrize("slotted", [False, True])
@pytest.mark.few(1)
def test_partitions_are_replaced(tmp_path: Path, slotted: bool) -> None:
    output = partitioned(tmp_path, "replace partitions")
    slot = day(1) if slotted else None
    foreign(output, 7, part="a")
    foreign(output, 8, part="b")
    foreign(output, 9)
    output.publish(parts(a=[1], c=[2]), run="monday", slot=slot)
    assert output.ids() == [1, 2, 8, 9]
    output.publish(parts(a=[3]), run="monday", epoch=1, slot=slot)  # epochs of a run add up
    output.publish(parts(a=[4], b=[5]), run="monday", stage="second", slot=slot)  # so do its stages
    assert output.ids() == [1, 2, 3, 4, 5, 9]
    output.publish([{"id": 6, "part": None}], run="tuesday", slot=day(2) if slotted else None)
    assert output.ids() == [1, 2, 3, 4, 5, 6]


def test_partitions_of_a_compacted_table_are_replaced(tmp_path: Path) -> None:
    output = partitioned(tmp_path, "replace partitions")
    output.publish(parts(a=[1], b=[2]))
    compact(output)
    output.publish(parts(a=[3], b=[4]), generation="1.2")
    assert output.ids() == [3, 4]


@pytest.mark.parametrize("slotted", [False, True])
@pytest.mark.few(1)
def test_a_table_is_replaced(output: Output, slotted: bool) -> None:
    slot = day(1) if slotted else None
    whole = Output(output.folder, output_stream(mode="replace table"))
    foreign(output, 7, 8)
    output.publish(ids([1]), run="earlier")
    whole.publish(ids([2]), run="monday", slot=slot)
    assert output.ids() == [2]
    whole.publish(ids([3]), run="monday", epoch=1, slot=slot)
    whole.publish(ids([4]), run="monday", stage="second", slot=slot)  # epochs and stages of a run add up
    assert output.ids() == [2, 3, 4]
    foreign(output, 9)
    whole.publish(ids([5]), run="monday", generation="1.2", slot=slot)  # a clear replaces what the stage wrote
    assert output.ids() == [4, 5, 9]
    whole.publish(ids([6]), run="tuesday", slot=slot)
    assert output.ids() == [6]


def test_a_table_with_files_of_older_partitions_is_replaced(tmp_path: Path) -> None:
    table_of(tmp_path, SCHEMA, name="web.out")
    output = Output(tmp_path, output_stream(mode="replace table"))
    foreign(output, 7)
    repartition(output)
    foreign(output, 8, part="a")
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


def test_a_data_file_that_is_gone_is_said_before_anything_changes(output: Output) -> None:
    work = output.publication(ids([1]))
    for path in files_of(work.staged[0]):
        path.unlink()
    with pytest.raises(TopicError, match="is gone before it was committed"):
        output.system.publish(output.spec, work)
    assert snapshots(output) == 0


def test_many_tasks_are_one_snapshot(output: Output) -> None:
    staged = {task: output.stage(ids([task]), task=task) for task in range(5)}
    facts = output.system.publish(output.spec, Publication("app/run/stage", "1.1", 0, staged))
    assert (facts["rows"], len(facts["files"]), snapshots(output)) == (5, 5, 1)
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

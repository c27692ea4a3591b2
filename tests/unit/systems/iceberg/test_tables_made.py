"""Tables that outputs make: by one of many processes, and with metadata that stays small."""

from __future__ import annotations

import os
import shutil
import threading
import time
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog.sql import SqlCatalog

from airflow_samza.errors import ConfigError, SamzaError
from airflow_samza.schema import Schema
from airflow_samza.systems.iceberg import expiry
from airflow_samza.systems.tables.sweeping import ORPHAN_SECONDS
from tests.support.iceberg_catalog_server import CatalogServer
from tests.support.iceberg_lake import catalog_at, table_of
from tests.support.iceberg_outputs import Output, ids, output_stream

DDL = "id bigint, at timestamp, part string"


def made_output(
    folder: Path,
    server: CatalogServer | None = None,
    partition_by: str = "",
    properties: Mapping[str, str] | None = None,
) -> Output:
    options = {"create": "true", "partition_by": partition_by, **(properties or {})}
    return Output(folder, output_stream(schema=DDL, **options), server=server)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expiry, "KEPT_SNAPSHOTS", 12)
    monkeypatch.setattr(expiry, "KEPT_EPOCHS", 4)
    monkeypatch.setattr(expiry, "AT_ONCE", 3)
    monkeypatch.setattr(expiry, "YOUNG_SECONDS", 0)


def test_a_table_is_made_with_its_partitions_and_properties(tmp_path: Path) -> None:
    partitions = "day(at), bucket(4, id), part"
    output = made_output(tmp_path, partition_by=partitions, properties={"write.parquet.compression-codec": "gzip"})
    output.system.create([output.spec])
    table = output.table()
    assert [str(field.transform) for field in table.spec().fields] == ["day", "bucket[4]", "identity"]
    assert table.properties["write.parquet.compression-codec"] == "gzip"
    assert table.properties["samza.made"] == "true"
    location = table.metadata_location
    output.system.create([output.spec])
    assert output.table().metadata_location == location
    output.publish(ids([1, 2]))
    assert output.ids() == [1, 2]


def test_properties_that_the_output_says_win(tmp_path: Path) -> None:
    output = made_output(tmp_path, properties={"commit.manifest-merge.enabled": "false", "samza.made": "false"})
    output.system.create([output.spec])
    assert output.table().properties["commit.manifest-merge.enabled"] == "false"
    assert output.table().properties["samza.made"] == "false"


@pytest.mark.parametrize("partition", ["nope", "bucket(4, idd)"])
def test_a_partition_of_a_column_that_is_not_there_is_rejected_before_anything_is_made(
    tmp_path: Path, partition: str
) -> None:
    output = made_output(tmp_path, partition_by=partition)
    for act in (
        lambda: output.system.fix_output(output.spec, Schema.of(DDL)),
        lambda: output.system.create([output.spec]),
    ):
        with pytest.raises(ConfigError, match="which its messages do not have"):
            act()
    with catalog_at(tmp_path) as catalog:
        assert not catalog.table_exists("web.out")


@pytest.mark.parametrize(
    ("partition", "words", "remedy"),
    [
        (
            "month(at), hour(at)",
            "by month and by hour of the column 'at', of which a table has one",
            "hour(at) alone",
        ),
        ("hour(at), year(at)", "by hour and by year of the column 'at'", "hour(at) alone"),
        ("part, part", "by identity of the column 'part' twice", "Write it once"),
        ("bucket(4, id)", "a field that Iceberg names as the column 'id_bucket_4'", "another name"),
        ("truncate(2, part)", "a field that Iceberg names as the column 'part_trunc_2'", "another name"),
    ],
)
def test_partition_fields_that_no_table_has_together_are_rejected_by_the_plan(
    tmp_path: Path, partition: str, words: str, remedy: str
) -> None:
    output = made_output(tmp_path, partition_by=partition)
    columns = Schema.of("id bigint, part string, at timestamp, id_bucket_4 int, part_trunc_2 string")
    with pytest.raises(ConfigError) as error:
        output.system.fix_output(output.spec, columns)
    assert words in error.value.sentence
    assert remedy in error.value.hint


def test_fields_of_one_column_that_differ_in_kind_make_a_table(tmp_path: Path) -> None:
    output = made_output(tmp_path, partition_by="id, bucket(4, id), bucket(8, id), day(at)")
    output.system.create([output.spec])
    assert len(output.table().spec().fields) == 4


@pytest.mark.parametrize("partition", ["day(id)", "truncate(4, at)", "hour(part)"])
def test_a_transform_that_is_none_of_a_columns_type_makes_no_table(tmp_path: Path, partition: str) -> None:
    output = made_output(tmp_path, partition_by=partition)
    with pytest.raises(SamzaError) as error:
        output.system.create([output.spec])
    assert error.value.sentence.count(". ") == 0
    with catalog_at(tmp_path) as catalog:
        assert not catalog.table_exists("web.out")


def test_a_table_is_made_with_its_sort_order(tmp_path: Path) -> None:
    output = made_output(tmp_path, partition_by="part", properties={"sort_by": "day(at) desc, id"})
    output.system.create([output.spec])
    order = output.table().sort_order()
    assert [(str(field.transform), field.direction.value, field.null_order.value) for field in order.fields] == [
        ("day", "desc", "nulls-last"),
        ("identity", "asc", "nulls-first"),
    ]
    output.publish(ids([2, 3, 1]))
    assert [row["id"] for row in output.scanned()] == output.ids() == [1, 2, 3]


@pytest.mark.parametrize(
    ("order", "words"),
    [
        ("nope", "which its messages do not have"),
        ("day(id)", "has no such order"),
        ("hour(part) desc", "no such order"),
    ],
)
def test_an_order_that_a_column_does_not_have_makes_no_table(tmp_path: Path, order: str, words: str) -> None:
    output = made_output(tmp_path, properties={"sort_by": order})
    with pytest.raises(ConfigError, match=words):
        output.system.create([output.spec])
    with catalog_at(tmp_path) as catalog:
        assert not catalog.table_exists("web.out")


@pytest.mark.parametrize("place", ["folder", "server"])
def test_many_make_a_table_at_the_same_time(tmp_path: Path, place: str) -> None:
    with CatalogServer(tmp_path, token="x") as server:
        output = made_output(tmp_path, server=server if place == "server" else None, partition_by="part")
        barrier, failed = threading.Barrier(4), list[BaseException]()

        def make() -> None:
            try:
                system = output.system
                barrier.wait(60)
                system.create([output.spec])
            except BaseException as error:
                failed.append(error)

        makers = [threading.Thread(target=make) for _ in range(4)]
        for maker in makers:
            maker.start()
        for maker in makers:
            maker.join(60)
        assert not failed
        assert [str(field.transform) for field in output.table().spec().fields] == ["identity"]


@pytest.mark.parametrize("point", ["create_namespace", "commit_table"])
def test_another_process_that_is_quicker_at_any_point_makes_the_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    output, other = made_output(tmp_path), made_output(tmp_path)
    act, once = getattr(SqlCatalog, point), list[int]()

    def wrapped(self: SqlCatalog, *arguments: Any, **options: Any) -> Any:
        if not once:
            once.append(1)
            other.system.create([other.spec])
        return act(self, *arguments, **options)

    monkeypatch.setattr(SqlCatalog, point, wrapped)
    output.system.create([output.spec])
    assert once
    output.publish(ids([1]))
    assert output.ids() == [1]


@pytest.mark.extended
def test_old_snapshots_of_a_table_that_an_output_made_expire(tmp_path: Path, small: None) -> None:
    output = made_output(tmp_path)
    output.system.create([output.spec])
    kept: dict[str, int] = {}
    for epoch in range(30):
        output.publish(ids([epoch]), epoch=epoch)
        table = output.table()
        assert len(table.snapshots()) <= 4 + 3 + len(kept)
        if epoch in (2, 5):
            number = table.metadata.current_snapshot_id
            assert number is not None
            managing = table.manage_snapshots()
            (managing.create_tag if epoch == 2 else managing.create_branch)(number, f"at-{epoch}").commit()
            kept[f"at-{epoch}"] = number
    assert output.ids() == list(range(30))
    table = output.table()
    for name, number in kept.items():
        assert table.snapshot_by_name(name) is not None
        assert len(table.scan(snapshot_id=number).to_arrow()) == int(name[3:]) + 1
    assert len(list(tmp_path.rglob("*.metadata.json"))) < 60
    output.publish(ids([99]), generation="1.2")  # what is on record is found when its snapshots are gone
    assert output.ids() == [99]


@pytest.mark.extended
def test_snapshots_of_many_runs_expire(tmp_path: Path, small: None) -> None:
    output = made_output(tmp_path)
    output.system.create([output.spec])
    for run in range(20):
        output.publish(ids([run]), run=f"run-{run}")
    assert len(output.table().snapshots()) <= 12 + 3
    assert output.ids() == list(range(20))


@pytest.mark.extended
def test_a_commit_costs_as_much_after_many_as_after_few(tmp_path: Path, small: None) -> None:
    output = made_output(tmp_path)
    output.system.create([output.spec])
    snapshots, manifests = list[int](), list[int]()
    for epoch in range(60):
        output.publish(ids([epoch]), epoch=epoch)
        table = output.table()
        snapshots.append(len(table.snapshots()))
        current = table.metadata.current_snapshot()
        assert current is not None
        manifests.append(len(current.manifests(table.io)))
    assert max(snapshots[30:]) <= max(snapshots[:30])
    assert max(manifests[30:]) <= max(manifests[:30]) <= 20


@pytest.mark.extended
def test_tables_of_others_keep_their_snapshots(tmp_path: Path, small: None) -> None:
    table_of(tmp_path, Schema.of(DDL).to_arrow(), name="web.out")
    output = Output(tmp_path)
    for epoch in range(20):
        output.publish(ids([epoch]), epoch=epoch)
    assert len(output.table().snapshots()) == 20


def test_an_expiry_that_fails_fails_no_commit(tmp_path: Path, small: None, monkeypatch: pytest.MonkeyPatch) -> None:
    from airflow_samza.systems.iceberg import publishing

    def fails(_: Any) -> None:
        raise OSError("the catalog is away")

    monkeypatch.setattr(publishing, "expire_snapshots", fails)
    output = made_output(tmp_path)
    output.system.create([output.spec])
    output.publish(ids([1]))
    assert output.ids() == [1]


@pytest.mark.parametrize("is_ours", [True, False], ids=["made by an output", "of others"])
def test_gc_deletes_metadata_of_commits_that_never_landed(
    is_ours: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = made_output(tmp_path)
    output.system.create([output.spec])
    if not is_ours:
        shutil.rmtree(f"{tmp_path}.root")
    for epoch in range(3):
        output.publish(ids([epoch]), epoch=epoch)
    folder = Path(output.table().metadata_location.removeprefix("file://")).parent
    write, lost = SqlCatalog._write_metadata, set[str]()

    def overtaken(metadata: Any, io: Any, metadata_path: str) -> None:
        monkeypatch.setattr(SqlCatalog, "_write_metadata", staticmethod(write))
        write(metadata, io, metadata_path)
        lost.add(metadata_path.rpartition("/")[2])
        output.publish(ids([3]), epoch=3)

    monkeypatch.setattr(SqlCatalog, "_write_metadata", staticmethod(overtaken))
    output.publish(ids([4]), epoch=0, run="other")
    assert lost <= {path.name for path in folder.iterdir()}
    foreign, young = folder / "notes.json", folder / f"00009-{uuid.uuid4()}.metadata.json"
    foreign.write_text("{}")
    later = time.time() + 2 * ORPHAN_SECONDS
    os.utime(foreign, (0, 0))
    young.write_text("{}")
    os.utime(young, (later, later))
    there = set(folder.iterdir())
    dry = output.system.sweep_output(output.spec, lambda *_: False, later, dry=True)
    assert set(folder.iterdir()) == there
    assert output.system.sweep_output(output.spec, lambda *_: False, later) == dry
    assert {path.name for path in there - set(folder.iterdir())} == (lost if is_ours else set())
    table = output.table()
    for snapshot in table.metadata.snapshots:  # each can still be read
        assert table.scan(snapshot_id=snapshot.snapshot_id).to_arrow().num_rows
    assert output.ids() == [0, 1, 2, 3, 4]
    output.publish(ids([5]), epoch=5)
    assert output.ids() == [0, 1, 2, 3, 4, 5]

"""Old snapshots of tables that outputs make: what of their files goes, and what stays for whom."""

from __future__ import annotations

import json
import logging
import re
import time
import uuid
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import write_manifest_list
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation, Snapshot, Summary
from pyiceberg.table.update import AddSnapshotUpdate

from airflow_samza.errors import TopicError
from airflow_samza.prepare.notes import _table_note
from airflow_samza.schema import Schema
from airflow_samza.systems.iceberg import expiry, output_target
from tests.support.iceberg_lake import catalog_at, table_of
from tests.support.iceberg_outputs import Output, ids, output_stream

DDL = "id bigint"
MANY_SNAPSHOTS = {"commit.manifest.min-count-to-merge": "100", "samza.file-merge.enabled": "false"}


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expiry, "KEPT_SNAPSHOTS", 6)
    monkeypatch.setattr(expiry, "KEPT_EPOCHS", 3)
    monkeypatch.setattr(expiry, "AT_ONCE", 4)
    monkeypatch.setattr(expiry, "YOUNG_SECONDS", 0)


@pytest.fixture
def output(tmp_path: Path) -> Output:
    properties = {"commit.manifest.min-count-to-merge": "4", "write.metadata.previous-versions-max": "4"}
    output = Output(tmp_path, output_stream(schema=DDL, create="true", **properties))
    output.system.create([output.spec])
    return output


def metadata_files(output: Output) -> set[str]:
    return {str(path) for path in Path(output.folder).rglob("*.avro")}


def named(output: Output) -> set[str]:
    """Return what the files of metadata name that there are, of former versions of the table, too."""
    io = output.table().io
    lists = {
        one["manifest-list"]
        for path in Path(output.folder).rglob("*.metadata.json")
        for one in json.loads(path.read_text())["snapshots"]
    }
    return {path.removeprefix("file://") for path in expiry.files_of(io, lists)}


def grown(tmp_path: Path, properties: Mapping[str, str] = MappingProxyType({}), *, epochs: int = 14) -> Output:
    """An output to a table that it has made, with a snapshot for each epoch, of which none was expired yet."""
    output = Output(tmp_path, output_stream(schema=DDL, create="true", **MANY_SNAPSHOTS, **properties))
    output.system.create([output.spec])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(expiry, "YOUNG_SECONDS", 3600)
        for epoch in range(epochs):
            output.publish(ids([epoch]), epoch=epoch)
    return output


def gc(output: Output, *, days: float = 15) -> tuple[int, int]:
    return output.system.sweep_output(output.spec, lambda *_: False, time.time() + days * 86_400)


def readable(table: Table) -> int:
    """Return how many snapshots of a table can be read, all of which have to be."""
    return len([table.scan(snapshot_id=one.snapshot_id).to_arrow() for one in table.snapshots()])


@pytest.mark.extended
def test_the_folder_grows_by_data_files_alone(output: Output) -> None:
    counts = []
    for epoch in range(24):
        output.publish(ids([epoch]), epoch=epoch)
        counts.append(len(list(Path(output.folder).rglob("*.avro"))))
        assert metadata_files(output) == named(output)
    assert max(counts) <= 28
    assert output.ids() == list(range(24))


@pytest.mark.extended
def test_files_of_tags_and_branches_stay_and_so_do_those_of_others(output: Output) -> None:
    foreign = Path(output.table().location().removeprefix("file://")) / "metadata" / "foreign-m0.avro"
    for epoch in range(20):
        output.publish(ids([epoch]), epoch=epoch)
        if epoch in (1, 3):
            number = output.table().metadata.current_snapshot_id
            assert number is not None
            managing = output.table().manage_snapshots()
            (managing.create_tag if epoch == 1 else managing.create_branch)(number, f"at-{epoch}").commit()
            foreign.write_bytes(b"")
    table = output.table()
    for epoch in (1, 3):
        assert sorted(table.scan().use_ref(f"at-{epoch}").to_arrow()["id"].to_pylist()) == list(range(epoch + 1))
    for snapshot in table.metadata.snapshots:
        assert len(table.scan(snapshot_id=snapshot.snapshot_id).to_arrow()) > 0
    assert foreign.exists()
    assert metadata_files(output) == {*named(output), str(foreign)}


@pytest.mark.extended
def test_a_snapshot_that_took_files_out_stays_for_a_day(output: Output, monkeypatch: pytest.MonkeyPatch) -> None:
    output.publish(ids([0]))
    output.publish(ids([1]), generation="1.2")
    number = output.table().metadata.current_snapshot_id
    assert number is not None
    for epoch in range(1, 13):
        output.publish(ids([epoch + 1]), generation="1.2", epoch=epoch)
    assert output.table().metadata.snapshot_by_id(number) is not None
    monkeypatch.setattr(expiry, "HELD_MS", 0)
    for epoch in range(13, 18):
        output.publish(ids([epoch + 1]), generation="1.2", epoch=epoch)
    assert output.table().metadata.snapshot_by_id(number) is None


def test_young_snapshots_stay(output: Output, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expiry, "YOUNG_SECONDS", 3600)
    for epoch in range(14):
        output.publish(ids([epoch]), epoch=epoch)
    assert len(output.table().snapshots()) == 14


def test_tables_of_others_lose_nothing_and_the_plan_says_what_has_grown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table_of(tmp_path, Schema.of(DDL).to_arrow(), name="web.out")
    output = Output(tmp_path)
    for epoch in range(12):
        output.publish(ids([epoch]), epoch=epoch)
    assert len(output.table().snapshots()) == 12
    assert len(metadata_files(output)) == 24
    assert "snapshots" not in output.system.fix_output(output.spec, None)
    monkeypatch.setattr(output_target, "MANY", 10)
    fixed = output.system.fix_output(output.spec, None)
    assert "which has 12 snapshots and 12 manifests: each makes every commit slower" in _table_note(fixed, {})


@pytest.mark.parametrize("is_changed", [True, False], ids=["with a commit of its own", "as it was registered"])
def test_a_copy_that_was_registered_over_the_same_files_keeps_all_of_its_snapshots(
    is_changed: bool, tmp_path: Path
) -> None:
    output = grown(tmp_path)
    with catalog_at(tmp_path) as catalog:
        copy = catalog.register_table("web.copy", output.table().metadata_location)
        if is_changed:
            copy.transaction().set_properties({"gc.enabled": "false"}).commit_transaction()
        for epoch in (14, 15):
            output.publish(ids([epoch]), epoch=epoch)
        assert len(output.table().snapshots()) < 14
        assert readable(catalog.load_table("web.copy")) == 14
        if is_changed:
            for epoch in range(16, 46):
                output.publish(ids([epoch]), epoch=epoch)
        gc(output)
        assert readable(catalog.load_table("web.copy")) == 14
    assert output.ids() == list(range(46 if is_changed else 16))


def test_an_output_to_a_copy_expires_nothing(tmp_path: Path) -> None:
    output = grown(tmp_path)
    with catalog_at(tmp_path) as catalog:
        catalog.register_table("web.copy", output.table().metadata_location)
    copy = Output(tmp_path, output_stream("web.copy", schema=DDL))
    copy.publish(ids([14]), epoch=14)
    assert gc(copy) == (0, 0)
    assert readable(copy.table()) == 15
    assert readable(output.table()) == 14


def test_what_a_snapshot_or_the_log_names_in_another_folder_stays(tmp_path: Path) -> None:
    output = grown(tmp_path, epochs=6)
    other = tmp_path / "of-others"
    other.mkdir()
    output.locations = str(other)  # or a plan rejects the table
    number = "00000000-0000-0000-0000-000000000000"
    kept = [other / name for name in ("customers.avro", f"snap-1-0-{number}.avro", f"00001-{number}.metadata.json")]
    names_files(output.table(), kept)
    names_metadata(tmp_path, output.table(), kept[2])
    written = {path: path.read_bytes() for path in kept}
    for epoch in range(6, 30):
        output.publish(ids([epoch]), epoch=epoch)
    assert 3 <= len(output.table().snapshots()) < 10
    gc(output)
    assert {path: path.read_bytes() for path in kept} == written


def names_files(table: Table, files: list[Path]) -> None:
    """Commit a snapshot whose manifest list lies elsewhere, and names a manifest there, by another writer."""
    metadata = table.metadata
    current = metadata.current_snapshot()
    assert current is not None
    (manifest, *_) = current.manifests(table.io)
    foreign, listed, _ = files
    foreign.write_bytes(Path(manifest.manifest_path.removeprefix("file://")).read_bytes())
    manifest[0] = f"file://{foreign}"
    number, sequence = 7, (current.sequence_number or 0) + 1
    with write_manifest_list(
        2, PyArrowFileIO().new_output(f"file://{listed}"), number, current.snapshot_id, sequence, "deflate"
    ) as lists:
        lists.add_manifests([manifest])
    snapshot = Snapshot.model_validate(
        {
            "snapshot-id": number,
            "parent-snapshot-id": current.snapshot_id,
            "sequence-number": sequence,
            "timestamp-ms": current.timestamp_ms + 1,
            "manifest-list": f"file://{listed}",
            "summary": Summary(Operation.APPEND).model_dump(),
            "schema-id": metadata.current_schema_id,
        }
    )
    table._do_commit((AddSnapshotUpdate(snapshot=snapshot),), ())


def names_metadata(folder: Path, table: Table, file: Path) -> None:
    """Have the log of a table's metadata begin with a file elsewhere."""
    newest = Path(table.metadata_location.removeprefix("file://"))
    file.write_bytes(newest.read_bytes())
    described = json.loads(newest.read_text())
    described["metadata-log"].insert(0, {"metadata-file": f"file://{file}", "timestamp-ms": 1})
    changed = newest.with_name(f"{newest.name[:5]}-{uuid.uuid4()}.metadata.json")
    changed.write_text(json.dumps(described))
    with catalog_at(folder) as catalog:
        catalog.drop_table("web.out")
        catalog.register_table("web.out", f"file://{changed}")


def test_a_property_that_everybody_can_set_makes_no_table_ours(tmp_path: Path) -> None:
    table_of(tmp_path, Schema.of(DDL).to_arrow(), name="web.out", properties={"samza.made": "true", **MANY_SNAPSHOTS})
    output = Output(tmp_path)
    for epoch in range(12):
        output.publish(ids([epoch]), epoch=epoch)
    assert len(output.table().snapshots()) == 12
    assert gc(output) == (0, 0)
    assert readable(output.table()) == 12


def test_of_a_table_that_says_so_nothing_is_deleted(tmp_path: Path) -> None:
    output = grown(tmp_path, {"gc.enabled": "false"})
    before = set(tmp_path.rglob("*.*"))
    output.publish(ids([14]), epoch=14)
    gc(output)
    assert before <= set(tmp_path.rglob("*.*"))
    assert readable(output.table()) == 15


@pytest.mark.parametrize(
    ("properties", "left"),
    [
        ({"history.expire.min-snapshots-to-keep": "9"}, 9),
        ({"history.expire.max-snapshot-age-ms": "86400000"}, 15),
        ({"history.expire.max-snapshot-age-ms": "1"}, 1),
        ({"history.expire.max-snapshot-age-ms": "1", "history.expire.min-snapshots-to-keep": "5"}, 5),
    ],
    ids=lambda value: str(value),
)
@pytest.mark.few(2)
def test_as_many_and_as_young_snapshots_stay_as_the_table_says(
    properties: dict[str, str], left: int, tmp_path: Path
) -> None:
    output = grown(tmp_path, properties)
    output.publish(ids([14]), epoch=14)
    assert len(output.table().snapshots()) == left


def test_as_many_snapshots_of_a_branch_stay_as_it_says_and_a_tag_goes_at_its_age(tmp_path: Path) -> None:
    output = grown(tmp_path)
    table = output.table()
    order = [one.snapshot_id for one in table.snapshots()]
    managing = table.manage_snapshots()
    managing.create_branch(order[8], "kept", min_snapshots_to_keep=4)
    managing.create_branch(order[2], "old", max_ref_age_ms=1)
    managing.create_tag(order[0], "old-tag", max_ref_age_ms=1)
    managing.create_tag(order[1], "tag").commit()
    output.publish(ids([14]), epoch=14)
    table = output.table()
    left = [order.index(one.snapshot_id) for one in table.snapshots() if one.snapshot_id in order]
    assert left == [1, 5, 6, 7, 8, 12, 13]
    assert set(table.metadata.refs) == {"main", "kept", "tag"}


@pytest.mark.parametrize("name", [expiry.MAX_AGE, expiry.LEAST, expiry.MAX_REF_AGE])
def test_a_property_that_is_no_number_is_said_after_a_commit_and_by_gc(
    name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    output = grown(tmp_path, {name: "5 days"})
    with caplog.at_level(logging.WARNING):
        output.publish(ids([14]), epoch=14)
    sentence = f"The table web.out has the property {name}='5 days', which is no whole number: nothing of its past is"
    assert sentence in caplog.text
    assert len(output.table().snapshots()) == 15
    with pytest.raises(TopicError, match=re.escape(sentence)):
        gc(output)


def test_data_files_elsewhere_stay(tmp_path: Path) -> None:
    output = grown(tmp_path, epochs=3)
    elsewhere = tmp_path / "shared" / "data"
    elsewhere.mkdir(parents=True)
    output.locations = str(elsewhere.parent)
    foreign = elsewhere / f"samza-{'0' * 16}-{'1' * 32}.parquet"
    pq.write_table(pa.table({"id": [1]}), foreign)
    output.table().transaction().set_properties({"write.data.path": str(elsewhere)}).commit_transaction()
    gc(output)
    assert foreign.exists()
    place = f"{output.table().location()}/../../../shared/data"
    output.table().transaction().set_properties({"write.data.path": place}).commit_transaction()
    with pytest.raises(TopicError, match="which is not in its folder"):
        gc(output)
    assert foreign.exists()

"""Old snapshots of tables that outputs make: what of their files goes, and what stays for whom."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_samza.prepare.notes import _table_note
from airflow_samza.schema import Schema
from airflow_samza.systems.iceberg import expiry, output_target
from tests.support.iceberg_lake import table_of
from tests.support.iceberg_outputs import Output, ids, output_stream

DDL = "id bigint"


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expiry, "KEPT_SNAPSHOTS", 6)
    monkeypatch.setattr(expiry, "KEPT_EPOCHS", 3)
    monkeypatch.setattr(expiry, "AT_ONCE", 4)
    monkeypatch.setattr(expiry, "YOUNG_SECONDS", 0)


@pytest.fixture
def output(tmp_path: Path) -> Output:
    properties = {"commit.manifest.min-count-to-merge": "4"}
    output = Output(tmp_path, output_stream(schema=DDL, create="true", **properties))
    output.system.create([output.spec])
    return output


def metadata_files(output: Output) -> set[str]:
    return {str(path) for path in Path(output.folder).rglob("*.avro")}


def named(output: Output) -> set[str]:
    table = output.table()
    return {path.removeprefix("file://") for path in expiry.files_of(table, table.metadata.snapshots)}


@pytest.mark.extended
def test_the_folder_grows_by_data_files_alone(output: Output) -> None:
    counts = []
    for epoch in range(24):
        output.publish(ids([epoch]), epoch=epoch)
        counts.append(len(list(Path(output.folder).rglob("*.avro"))))
        assert metadata_files(output) == named(output)
    assert max(counts) <= 16
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

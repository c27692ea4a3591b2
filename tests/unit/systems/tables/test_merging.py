"""Small files of tables that who commits to them merges: which, when, and what readers and others see of it."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from deltalake.schema import Field, PrimitiveType
from pyiceberg.types import StringType

from airflow_samza.errors import TopicError
from airflow_samza.schema import Schema
from airflow_samza.systems.delta import publishing as delta_publishing
from airflow_samza.systems.iceberg import expiry, publishing as iceberg_publishing
from airflow_samza.systems.system import Publication
from airflow_samza.systems.tables import merging
from airflow_samza.systems.tables.merging import MergingPublisher, SmallFile, chosen_merges
from tests.support import delta_lake, delta_outputs, iceberg_lake
from tests.support.budgets import nightly_but
from tests.support.iceberg_deaths import publishers
from tests.support.table_kinds import KINDS, Output
from tests.support.table_outputs import ids
from tests.unit.systems.tables.test_upserts import batch, files_in, live_files, output_of, rows_of

DDL = "id bigint, part string"
OFF = {"iceberg": "samza.file-merge.enabled", "delta": "delta.autoOptimize.autoCompact"}
PUBLISHERS: dict[str, Any] = {"iceberg": iceberg_publishing._Publisher, "delta": delta_publishing._Publisher}


@pytest.fixture(params=["iceberg", "delta"])
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(expiry, "YOUNG_SECONDS", 0)
    return str(request.param)


def made(kind: str, folder: Path, **options: str) -> Output:
    output: Output = KINDS[kind].made(folder, DDL, **options)
    return output


def files(output: Output) -> list[Path]:
    """Return the live data files, as the library knows them."""
    table = output.table()
    if isinstance(table, DeltaTable):
        return [Path(uri.removeprefix("file://")) for uri in table.file_uris()]
    return [Path(path.removeprefix("file://")) for path in table.inspect.files()["file_path"].to_pylist()]


def on_disk(output: Output) -> int:
    return len(list(Path(output.folder).rglob("samza-*.parquet")))


def epochs(output: Output, numbers: Iterable[int], **options: str) -> None:
    for epoch in numbers:
        output.publish(ids([epoch]), epoch=epoch, **options)


def small(rows: int, size: int = 500, key: str = "") -> SmallFile[str]:
    return SmallFile("", "", size, rows, key)


def merged_rows(merges: list[list[SmallFile[str]]]) -> list[list[int]]:
    return [[one.rows for one in merge] for merge in merges]


def test_files_are_merged_with_those_of_as_many_digits_of_rows() -> None:
    files = [small(1 + n) for n in range(9)] + [small(10 + n) for n in range(10)] + [small(100)] * 9
    assert merged_rows(chosen_merges(files, 10**6)) == [list(range(10, 20))]


def test_files_of_other_keys_are_not_merged() -> None:
    assert chosen_merges([small(1, key="a")] * 9 + [small(1, key="b")] * 9, 10**6) == []


def test_fewer_files_are_merged_where_they_make_a_large_one_and_half_as_large_ones_stay() -> None:
    files = [small(1000, size=30), small(1000, size=40), small(1000, size=45), small(1000, size=50)]
    assert [[one.size for one in merge] for merge in chosen_merges(files, 100)] == [[30, 40]]


def test_the_cheapest_merges_come_first() -> None:
    files = [small(1, size=900, key="a")] * 10 + [small(1, size=5, key="b")] * 10
    assert [merge[0].key for merge in chosen_merges(files, 10**6)] == ["b", "a"]


def test_files_and_writes_grow_with_the_logarithm_of_epochs() -> None:
    files, written, most = list[SmallFile[str]](), 0, 0
    for epoch in range(10_000):
        files.append(small(1))
        if epoch % 10 == 9:
            for merge in chosen_merges(files, 10**9):
                files = [one for one in files if not any(one is other for other in merge)]
                files.append(small(sum(one.rows for one in merge)))
                written += files[-1].rows
        most = max(most, len(files))
    assert sum(one.rows for one in files) == 10_000
    assert most <= 5 * 10
    assert written <= 4 * 10_000


def test_files_of_many_epochs_stay_few_and_have_all_rows(kind: str, tmp_path: Path) -> None:
    output = made(kind, tmp_path)
    epochs(output, range(60))
    assert len(files(output)) <= 25
    assert output.ids() == list(range(60))


@pytest.mark.nightly
def test_files_of_300_epochs_stay_few_and_have_all_rows(kind: str, tmp_path: Path) -> None:
    output = made(kind, tmp_path)
    epochs(output, range(300))
    assert len(files(output)) <= 35
    assert output.ids() == list(range(300))


def test_a_clear_replaces_what_was_merged(kind: str, tmp_path: Path) -> None:
    output = made(kind, tmp_path)
    epochs(output, range(12))
    output.publish(ids([100]), run="other")
    output.publish(ids([7]), generation="1.2")
    assert output.ids() == [7, 100]
    assert len(files(output)) == 2


def test_a_batch_run_merges_what_its_tasks_leave_in_each_partition(kind: str, tmp_path: Path) -> None:
    output = made(kind, tmp_path, partition_by="part")
    staged = {task: output.stage([{"id": task, "part": "ab"[task % 2]}]) for task in range(24)}
    publication = output.publication([])
    output.system.publish(output.spec, type(publication)("app/run/stage", "1.1", 0, staged))
    assert len(files(output)) == 2
    assert {(row["id"], row["part"]) for row in output.rows()} == {(task, "ab"[task % 2]) for task in range(24)}
    assert output.ids() == list(range(24))


def test_files_of_before_a_column_was_added_are_merged_with_others(kind: str, tmp_path: Path) -> None:
    output = made(kind, tmp_path)
    epochs(output, range(5))
    table = output.table()
    if isinstance(table, DeltaTable):
        table.alter.add_columns([Field("more", PrimitiveType("string"))])
    else:
        with table.update_schema() as update:
            update.add_column("more", StringType())
    epochs(output, range(5, 10))
    assert len(files(output)) == 1
    assert output.ids() == list(range(10))


def test_a_repeated_publication_changes_nothing_more(kind: str, tmp_path: Path) -> None:
    output = made(kind, tmp_path)
    epochs(output, range(9))
    work = output.publication(ids([9]), epoch=9)
    output.system.publish(output.spec, work)
    merged = files(output)
    assert len(merged) == 1
    output.system.publish(output.spec, work)
    assert files(output) == merged
    assert output.ids() == list(range(10))


@pytest.mark.parametrize("theirs", [True, False])
def test_a_table_that_does_not_want_it_is_not_merged(kind: str, tmp_path: Path, theirs: bool) -> None:
    if not theirs:
        output = made(kind, tmp_path, **{OFF[kind]: "false"})
    elif kind == "delta":
        delta_lake.table_of(tmp_path, Schema.of(DDL).to_arrow(), name="web.out")
        output = delta_outputs.Output(tmp_path)
    else:
        iceberg_lake.table_of(tmp_path, Schema.of(DDL).to_arrow(), name="web.out")
        output = KINDS[kind](tmp_path)
    epochs(output, range(11))
    assert len(files(output)) == 11


def test_files_with_deleted_rows_and_files_of_others_stay(kind: str, tmp_path: Path) -> None:
    output = made(kind, tmp_path)
    epochs(output, range(9))
    kept = files(output)[0]
    deleted = pq.read_table(kept)["id"].to_pylist()
    table = output.table()
    if isinstance(table, DeltaTable):
        assert isinstance(output, delta_outputs.Output)
        log = output.place / "_delta_log"
        lines = [json.loads(line) for path in sorted(log.glob("*.json")) for line in path.read_text().splitlines()]
        (add,) = (line["add"] for line in lines if line.get("add", {}).get("path") == kept.name)
        meta = next(line["metaData"] for line in lines if "metaData" in line)
        meta["configuration"]["delta.enableDeletionVectors"] = "true"
        features = {"readerFeatures": ["deletionVectors"], "writerFeatures": ["deletionVectors"]}
        actions = [
            {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, **features}},
            {"metaData": meta},
            {"remove": {"path": kept.name, "deletionTimestamp": 1, "dataChange": True}},
            {"add": {**add, "deletionVector": delta_lake.inline_vector([0])}},
        ]
        (log / f"{table.version() + 1:020d}.json").write_text("\n".join(map(json.dumps, actions)) + "\n")
    else:
        iceberg_lake.delete_positions(table, {f"file://{kept}": [0]})
    epochs(output, range(9, 24))
    assert kept in files(output)
    assert len(files(output)) < 16
    assert [row["id"] for row in sorted(output.rows(), key=lambda row: row["id"])] == [
        one for one in range(24) if one not in deleted
    ]


def test_a_merge_that_comes_too_late_is_given_up(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    output = made(kind, tmp_path)
    epochs(output, range(9))
    write = MergingPublisher.write_merged

    def late(self: MergingPublisher[object, object], *arguments: Any) -> object:
        described = write(self, *arguments)
        output.publish(ids([100]), run="other")
        return described

    with monkeypatch.context() as patch:
        patch.setattr(MergingPublisher, "write_merged", late)
        epochs(output, [9])
    assert output.ids() == [*range(10), 100]
    assert len(files(output)) == on_disk(output) == 11
    epochs(output, range(10, 20))
    assert len(files(output)) < 11
    assert output.ids() == [*range(20), 100]


def test_what_landed_although_it_is_reported_as_lost_stays(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = made(kind, tmp_path)
    epochs(output, range(9))
    publisher = PUBLISHERS[kind]
    rewrite = publisher.rewrite

    def reported(self: object, *arguments: object) -> None:
        rewrite(self, *arguments)
        raise OSError

    monkeypatch.setattr(publisher, "rewrite", reported)
    monkeypatch.setattr(publisher, "is_lost", lambda self, error: isinstance(error, OSError))
    epochs(output, [9])
    assert len(files(output)) == 1
    assert output.ids() == list(range(10))


def test_an_older_generation_merges_nothing(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    output = made(kind, tmp_path)
    epochs(output, range(9))
    merge = MergingPublisher._merge

    def woken(self: MergingPublisher[object, object]) -> None:
        monkeypatch.setattr(MergingPublisher, "_merge", merge)
        output.publish(ids([50]), generation="1.2")
        known = files(output)
        merge(self)
        assert files(output) == known

    monkeypatch.setattr(MergingPublisher, "_merge", woken)
    epochs(output, [9])
    assert output.ids() == [50]
    with pytest.raises(TopicError):
        epochs(output, [10])
    assert output.ids() == [50]


def arrived(output: Output, since: dict[str, object] | None) -> tuple[list[int], dict[str, object]]:
    """Return the ids of an increment, and the record of it."""
    lake = delta_lake if isinstance(output, delta_outputs.Output) else iceberg_lake
    stream = lake.stream("web.out", schema=DDL)
    range_ = output.system.arrived(stream, since)
    rows = lake.rows_of(output.system, stream, range_=range_)
    return sorted(row["id"] for row in rows), range_["known"]


def test_readers_of_what_was_appended_see_nothing_of_a_merge(kind: str, tmp_path: Path) -> None:
    output = made(kind, tmp_path)
    epochs(output, range(7))
    read, known = arrived(output, None)
    assert read == list(range(7))
    epochs(output, range(7, 14))
    assert len(files(output)) < 14
    read, known = arrived(output, known)
    assert read == list(range(7, 14))
    assert arrived(output, known)[0] == []


@pytest.mark.parametrize("tagged", [True, False])
def test_a_reader_behind_expired_snapshots_reads_each_row_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tagged: bool
) -> None:
    monkeypatch.setattr(expiry, "YOUNG_SECONDS", 0 if tagged else 60)
    output = made("iceberg", tmp_path)
    system: Any = output.system
    epochs(output, range(7))
    _, known = arrived(output, None)
    if tagged:
        assert system.hold(iceberg_lake.stream("web.out"), "reader", str(known["snapshot"])) is None
    epochs(output, range(7, 14))
    if not tagged:  # the snapshots of the last minute are there, and so is what has just been read
        assert system.hold(iceberg_lake.stream("web.out"), "reader", str(known["snapshot"])) is None
        monkeypatch.setattr(expiry, "YOUNG_SECONDS", 0)
    epochs(output, range(14, 45))
    table = output.table()
    assert len(files(output)) < 35
    held = {ref.snapshot_id for ref in table.metadata.refs.values()}  # type: ignore[union-attr]
    old = [one.snapshot_id for one in table.snapshots() if one.snapshot_id not in held]  # type: ignore[union-attr]
    table.maintenance.expire_snapshots().by_ids(old).commit()  # type: ignore[union-attr]
    more, known = arrived(output, known)
    assert more == list(range(7, 45))
    assert arrived(output, known)[0] == []


def test_gc_deletes_what_was_merged_and_nothing_else(kind: str, tmp_path: Path) -> None:
    soon = {"delta.deletedFileRetentionDuration": "interval 1 millisecond"} if kind == "delta" else {}
    output = made(kind, tmp_path, **soon)
    epochs(output, range(30))
    foreign = files(output)[0].parent / "00000-0-a.parquet"
    foreign.write_bytes(b"")
    for path in foreign.parent.glob("*.parquet"):
        os.utime(path, (1, 1))
    table = output.table()
    if not isinstance(table, DeltaTable):
        old = [one.snapshot_id for one in table.snapshots()][:-1]
        table.maintenance.expire_snapshots().by_ids(old).commit()
        epochs(output, range(30, 51))  # until the table's log of metadata names nothing of what is gone
    assert output.system.sweep_output(output.spec, lambda *_: True, time.time()) == (0, 0)
    before = len(files(output))
    swept, _ = output.system.sweep_output(output.spec, lambda *_: False, time.time())
    assert swept > 0
    assert on_disk(output) < 30
    assert foreign.exists()
    assert len(files(output)) == before
    assert len(output.ids()) == (30 if kind == "delta" else 51)


STEPS = [
    *(f"{when} {point}" for point in ("written", "merged files", "rewrite") for when in ("before", "after")),
    "before swap again",
    "after swap again",
]
"""Steps of a merge at which a publisher dies."""


@pytest.mark.parametrize("step", nightly_but(STEPS[::2], STEPS))
@pytest.mark.few(1)
def test_a_publisher_that_is_killed_while_it_merges_has_lost_and_doubled_nothing(
    kind: str, tmp_path: Path, step: str
) -> None:
    output = made(kind, tmp_path)
    output.publish(ids([100]), run="other")

    def work(epoch: int) -> Publication:
        staged = {task: output.stage(ids([epoch * 10 + task]), epoch=epoch) for task in range(10)}
        return Publication("app/run/stage", "1.1", epoch, staged)

    options = dict(output.spec.options)
    with publishers(tmp_path, f"tests.support.{kind}_deaths") as dying:
        assert dying.publish(work(0), step, **options) == -signal.SIGKILL
    assert output.ids() == [*range(10), 100]
    assert len(files(output)) == (2 if step in ("after rewrite", "after swap again") else 11)
    output.system.publish(output.spec, work(1))
    assert output.ids() == [*range(20), 100]
    output.publish(ids([7]), generation="1.2")
    assert output.ids() == [7, 100]
    assert len(files(output)) == 2


def test_the_change_feed_of_delta_has_nothing_of_a_merge(tmp_path: Path) -> None:
    output = made("delta", tmp_path)
    epochs(output, range(10))
    table = output.table()
    assert isinstance(table, DeltaTable)
    assert table.history(1)[0]["operation"] == "OPTIMIZE"
    changes = pa.table(table.load_cdf(starting_version=1).read_all())
    assert changes["_change_type"].to_pylist() == ["insert"] * 10


def test_a_snapshot_of_a_merge_expires_as_those_of_epochs_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expiry, "YOUNG_SECONDS", 0)
    output = made("iceberg", tmp_path)
    epochs(output, range(40))
    operations = [one.summary.operation.value for one in output.table().snapshots()]  # type: ignore[union-attr]
    assert len(operations) < 31
    assert "overwrite" not in operations


def test_merged_files_are_sorted_and_say_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expiry, "YOUNG_SECONDS", 0)
    output = made("iceberg", tmp_path, sort_by="id desc")
    epochs(output, range(10))
    (file,) = files(output)
    assert pq.read_table(file)["id"].to_pylist() == list(range(9, -1, -1))
    table = output.table()
    assert table.inspect.files()["sort_order_id"].to_pylist() == [table.sort_order().order_id]  # type: ignore[union-attr]


def test_merged_files_keep_the_field_ids_and_statistics(kind: str, tmp_path: Path) -> None:
    mapped = {"delta.columnMapping.mode": "name"} if kind == "delta" else {}
    output = made(kind, tmp_path, **mapped)
    output.publish(ids([0]))
    (before,) = files(output)
    schema = pq.read_schema(before)
    epochs(output, range(1, 10))
    (after,) = files(output)
    assert pq.read_schema(after).equals(schema, check_metadata=False)
    assert [field.metadata for field in pq.read_schema(after)] == [field.metadata for field in schema]
    table = output.table()
    if isinstance(table, DeltaTable):
        facts = pa.table(table.get_add_actions(flatten=True)).to_pylist()[0]
        low, high = (next(value for key, value in facts.items() if key.startswith(f"{end}.")) for end in ("min", "max"))
        assert (facts["num_records"], low, high) == (10, 0, 9)
    else:
        (facts,) = table.inspect.files()["readable_metrics"].to_pylist()
        assert (facts["id"]["lower_bound"], facts["id"]["upper_bound"]) == (0, 9)


def test_a_merge_of_upserts_that_comes_too_late_removes_nothing_that_is_committed(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = output_of(kind, tmp_path)
    for epoch in range(9):
        output.publish(batch((epoch, "a")), epoch=epoch)
    write = MergingPublisher.write_merged

    def late(self: MergingPublisher[object, object], *arguments: Any) -> object:
        described = write(self, *arguments)
        output.publish(batch((100, "other")), run="other")
        return described

    with monkeypatch.context() as patch:
        patch.setattr(MergingPublisher, "write_merged", late)
        output.publish(batch((9, "a")), epoch=9)
    rows = [*((epoch, "a") for epoch in range(10)), (100, "other")]
    assert rows_of(output) == rows
    assert {path.name for path in files_in(tmp_path)} >= live_files(kind, output)
    output.publish(batch((9, "a")), epoch=9)
    assert rows_of(output) == rows


def test_merges_in_vain_take_no_longer_than_others(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    output = made(kind, tmp_path)
    epochs(output, range(9))
    tried = []

    def in_vain(self: object, table: object, merge: list[Any], producer: object) -> list[dict[str, Any]]:
        tried.append(len(merge))
        return [{}] * len(merge)

    monkeypatch.setattr(MergingPublisher, "write_merged", in_vain)
    monkeypatch.setattr(merging, "chosen_merges", lambda files, most: [list(files)] * 5)
    monkeypatch.setattr(merging, "MERGE_SECONDS", 0.0)
    epochs(output, [9])
    assert tried == [10]
    assert output.ids() == list(range(10))

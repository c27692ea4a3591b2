"""Delta tables that are written, and what other readers find in them: rows, partitions, statistics, the log."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from deltalake.schema import Field, PrimitiveType, Schema

from airflow_samza.errors import ConfigError, SamzaError, SchemaError, TopicError
from airflow_samza.schema import Schema as Columns
from airflow_samza.systems.system import ColumnBound, StreamSpec
from tests.support.delta_lake import HandMade, column, inline_vector, rows_of, stream, table_of
from tests.support.delta_outputs import Output, made_output
from tests.support.table_outputs import ids, output_stream

TYPES = (
    "id bigint, b boolean, t tinyint, s smallint, i int, f float, d double, day date, at timestamp, local timestamp_ntz, "
    "text string, raw binary, price decimal(20,4), st struct<a:int,b:string>, ar array<int>, ma map<string,bigint>"
)
AT = datetime(2026, 11, 1, 12, 0, 0, 123456)
ROW: dict[str, Any] = {
    "id": 1,
    "b": True,
    "t": -3,
    "s": 300,
    "i": 70000,
    "f": 0.5,
    "d": 0.25,
    "day": date(1969, 12, 31),
    "at": AT.replace(tzinfo=timezone.utc),
    "local": AT,
    "text": "é😀" * 20,
    "raw": b"\x00\xff",
    "price": Decimal("12345678901234.5678"),
    "st": {"a": 1, "b": "x"},
    "ar": [1, None],
    "ma": [("k", 7)],
}
NOTHING = {name: None if name != "id" else 2 for name in ROW}


@pytest.mark.parametrize("partition", ["", "b", "t", "i", "day", "at", "local", "text", "price", "day, text, b"])
def test_all_types_and_null_are_found_by_the_library(tmp_path: Path, partition: str) -> None:
    output = made_output(tmp_path, TYPES, partition_by=partition)
    output.publish([ROW, NOTHING])
    rows = sorted(output.scanned(), key=lambda row: int(row["id"]))
    assert rows == [ROW, NOTHING]
    assert sorted(output.rows(), key=lambda row: int(row["id"])) == [ROW, NOTHING]
    names = [name.strip() for name in partition.split(",") if name.strip()]
    assert output.table().metadata().partition_columns == names


def test_statistics_are_right_and_prune(tmp_path: Path) -> None:
    output = made_output(tmp_path, TYPES)
    output.publish([ROW, {**ROW, "id": 9, "text": "a", "at": AT.replace(tzinfo=timezone.utc, microsecond=999_999)}])
    output.publish([NOTHING], epoch=1)
    (full, empty) = sorted(
        pa.table(output.table().get_add_actions(flatten=True)).to_pylist(), key=lambda a: -a["num_records"]
    )
    assert (full["num_records"], full["min.id"], full["max.id"], full["null_count.id"]) == (2, 1, 9, 0)
    assert (full["min.text"], full["max.text"]) == ("a", "é😀" * 16 + "\U0010ffff")
    assert full["min.day"] == full["max.day"] == date(1969, 12, 31)
    assert full["min.at"] == datetime(2026, 11, 1, 12, 0, 0, 123000, timezone.utc)
    assert full["max.at"] == datetime(2026, 11, 1, 12, 0, 1, 0, timezone.utc)
    assert full.get("min.d") is None
    assert (empty["num_records"], empty["min.text"], empty["null_count.text"]) == (1, None, 1)
    reader = StreamSpec("in", partitions=1, options=(("table", "web.out"),))
    for value, files in ((9, 1), (10, 0), (2, 2)):
        range_ = output.system.slice_within(reader, [ColumnBound("id", "=", value)])
        assert len(range_["files"]) == files


def test_columns_of_statistics_may_be_fewer(tmp_path: Path) -> None:
    output = made_output(tmp_path, "id bigint, n bigint", **{"delta.dataSkippingNumIndexedCols": "1"})
    output.publish([{"id": 1, "n": 2}])
    (stats,) = pa.table(output.table().get_add_actions(flatten=True)).to_pylist()
    assert stats["min.id"] == 1
    assert stats.get("min.n") is None


def test_a_table_that_is_made_says_how_its_log_is_kept(tmp_path: Path) -> None:
    output = made_output(tmp_path, partition_by="part", **{"delta.logRetentionDuration": "interval 7 days"})
    found = output.table()
    assert found.metadata().configuration == {"samza.made": "true", "delta.logRetentionDuration": "interval 7 days"}
    before = found.metadata().id
    output.system.create([output.spec])
    assert output.table().metadata().id == before


@pytest.mark.parametrize(
    ("schema", "options", "words"),
    [
        ("id bigint, d double", {"partition_by": "d"}, "partitioned by the column 'd', which is double"),
        ("id bigint", {"partition_by": "id"}, "partitioned by all of its columns"),
        ("id bigint", {"partition_by": "day"}, "partitioned by the column 'day', which its messages do not have"),
        ("id bigint", {"partition_by": "day(at)"}, "a Delta table is partitioned by columns"),
        ("id bigint, `a b` int", {}, "the column 'a b' has one of"),
        ("id bigint, ID int", {}, "differs from 'id' by its case alone"),
        ("l array<struct<a:int,A:int>>", {}, r"column 'l\.element\.A' differs from 'l\.element\.a' by its case alone"),
        (
            "id bigint",
            {"delta.enableDeletionVectors": "true"},
            "property delta.enableDeletionVectors, which is not set",
        ),
        ("id bigint", {"delta.columnMapping.mode": "names"}, "the property delta.columnMapping.mode='names'"),
        ("id bigint", {"samza.slot.x": "1"}, "those are the records of commits"),
        ("id bigint", {"mode": "overwrite"}, "mode='overwrite', which is not known"),
    ],
)
def test_rejects_tables_that_cannot_be_made(tmp_path: Path, schema: str, options: dict[str, str], words: str) -> None:
    output = Output(tmp_path, output_stream(schema=schema, create="true", **options))
    with pytest.raises(ConfigError, match=words):
        output.system.fix_output(output.spec, Columns.of(schema))
    with pytest.raises(ConfigError, match=words):
        output.system.create([output.spec])


def hand_made(
    folder: Path,
    *fields: dict[str, Any],
    writer: int = 7,
    writers: tuple[str, ...] = (),
    configuration: Mapping[str, str] | None = None,
) -> None:
    table = HandMade(folder, fields or [ID], configuration=configuration, name="web.out")
    table.protocol = {"minReaderVersion": 1, "minWriterVersion": writer}
    if writer == 7:
        table.protocol["writerFeatures"] = list(writers)
    table.begin()


def demanding(name: str, **metadata: Any) -> dict[str, Any]:
    return {**column(name, "long"), "metadata": {key.replace("_", "."): value for key, value in metadata.items()}}


ID = column("id", "long")
INNER = column("st", {"type": "struct", "fields": [demanding("x", delta_generationExpression="1")]})


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda f: hand_made(f, writers=("rowTracking",)), "has the feature rowTracking"),
        (lambda f: hand_made(f, writers=("icebergCompatV2", "clustering")), "has the feature clustering"),
        (lambda f: hand_made(f, writer=8), "needs version 8"),
        (
            lambda f: hand_made(f, writer=3, configuration={"delta.constraints.few": "id < 9"}),
            "the CHECK constraint few",
        ),
        (
            lambda f: hand_made(f, demanding("id", delta_invariants="{}"), writer=2),
            "'id', which has an invariant",
        ),
        (
            lambda f: hand_made(f, ID, INNER, writer=4),
            "'st.x', which is generated",
        ),
        (lambda f: hand_made(f, demanding("id", delta_identity_start=1), writer=6), "identity column"),
        (lambda f: hand_made(f, ID, writer=2, configuration={"delta.appendOnly": "true"}), "has delta.appendOnly"),
    ],
)
def test_rejects_tables_that_demand_what_is_not_done_here(tmp_path: Path, make: Any, words: str) -> None:
    make(tmp_path)
    with pytest.raises(TopicError, match=words) as caught:
        Output(tmp_path).system.check_writable(output_stream())
    assert "output 'out'" in caught.value.sentence


def test_features_that_are_not_in_use_do_not_matter(tmp_path: Path) -> None:
    known = ("appendOnly", "invariants", "checkConstraints", "generatedColumns", "identityColumns", "changeDataFeed")
    hand_made(tmp_path, writers=known)
    Output(tmp_path).publish(ids([1]))
    assert Output(tmp_path).ids() == [1]


def test_an_append_only_table_is_appended_to(tmp_path: Path) -> None:
    output = made_output(tmp_path, mode="append", **{"delta.appendOnly": "true"})
    output.publish(ids([1]))
    output.publish(ids([2]), run="other")
    with pytest.raises(TopicError, match="takes files out of the table"):
        output.publish(ids([3]), generation="1.2")
    assert output.ids() == [1, 2]


def test_files_with_deletion_vectors_are_replaced_with_them(tmp_path: Path) -> None:
    table = HandMade(tmp_path, [ID], reader=3, features=["deletionVectors"], name="web.out")
    table.begin()
    added = table.file("old.parquet", pa.table({"id": [1, 2, 3]}))
    added["add"]["deletionVector"] = inline_vector([1])
    table.commit(added)
    output = Output(tmp_path, output_stream(mode="replace table"))
    assert [row["id"] for row in output.rows()] == [1, 3]
    output.publish(ids([7]))
    assert output.ids() == [7]


def test_a_change_data_feed_tells_what_was_replaced(tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.int64())])
    table_of(tmp_path, schema, name="web.out", configuration={"delta.enableChangeDataFeed": "true"})
    output = Output(tmp_path)
    output.publish(ids([1, 2]))
    output.publish(ids([3]), generation="1.2")
    changes = pa.table(output.table().load_cdf(starting_version=1).read_all()).to_pylist()
    assert sorted((row["_commit_version"], row["_change_type"], row["id"]) for row in changes) == [
        (1, "insert", 1),
        (1, "insert", 2),
        (2, "delete", 1),
        (2, "delete", 2),
        (2, "insert", 3),
    ]


def test_null_where_there_may_be_none_is_rejected(tmp_path: Path) -> None:
    schema = Schema(
        [Field("id", PrimitiveType("long"), nullable=False), Field("part", PrimitiveType("string"), nullable=False)]
    )
    DeltaTable.create(str(tmp_path / "web/out"), schema=schema, partition_by=["part"])
    output = Output(tmp_path)
    with pytest.raises(SchemaError, match="is required"):
        output.publish([{"id": None, "part": "a"}])
    with pytest.raises(SchemaError, match="requires the column 'part'"):
        output.publish([{"id": 1}])
    with pytest.raises(SchemaError, match=r"'part' .* is required, and is null"):
        output.publish([{"id": 1, "part": ""}])  # an empty text is null there


def test_checkpoints_hold_all_and_other_writers_go_on_from_them(tmp_path: Path) -> None:
    output = made_output(tmp_path, partition_by="part", **{"delta.autoOptimize.autoCompact": "false"})
    for epoch in range(1, 13):
        output.publish([{"id": epoch, "part": "a"}], epoch=epoch)
    output.publish([{"id": 100, "part": None}], run="other")
    log = output.place / "_delta_log"
    assert json.loads((log / "_last_checkpoint").read_text())["version"] == 10
    for version in range(10):
        (log / f"{version:020d}.json").unlink()  # what a log's clean-up may do
    assert output.ids() == [*range(1, 13), 100]
    output.foreign({"id": 101, "part": "b"})
    output.publish([{"id": 200, "part": "a"}], generation="1.2")
    assert output.ids() == [100, 101, 200]
    output.table().create_checkpoint()
    for path in log.glob("*.json"):
        path.unlink()
    assert output.ids() == [100, 101, 200]
    output.publish([{"id": 201, "part": "a"}], generation="1.3")  # the records were in the library's checkpoint
    assert output.ids() == [100, 101, 201]
    for epoch in range(1, 8):
        output.publish(ids([300 + epoch]), run="other", epoch=epoch)
    assert json.loads((log / "_last_checkpoint").read_text())["version"] == 20
    assert output.ids() == [100, 101, 201, *range(301, 308)]


def test_old_files_of_a_log_go_and_young_ones_stay(tmp_path: Path) -> None:
    output = made_output(tmp_path, **{"delta.checkpointInterval": "5", "delta.autoOptimize.autoCompact": "false"})
    log = output.place / "_delta_log"
    for epoch in range(1, 8):
        output.publish(ids([epoch]), epoch=epoch)
    for path in log.iterdir():
        os.utime(path, (1, 1))
    for epoch in range(8, 11):
        output.publish(ids([epoch]), epoch=epoch)
    versions = sorted(int(path.name[:20]) for path in log.glob("*.json"))
    assert versions == [5, 6, 7, 8, 9, 10]
    assert output.ids() == list(range(1, 11))
    assert len(output.table().history()) >= 5
    for path in log.iterdir():
        os.utime(path, (1, 1))
    table_of(tmp_path / "theirs", pa.schema([("id", pa.int64())]), name="web.out")
    theirs = Output(tmp_path / "theirs")
    for epoch in range(1, 11):
        theirs.publish(ids([epoch]), epoch=epoch)
        for path in (theirs.place / "_delta_log").iterdir():
            os.utime(path, (1, 1))
    assert len(list((theirs.place / "_delta_log").glob("*.json"))) == 11  # of which nobody here cleans up


def test_a_checkpoint_that_would_lose_something_is_left_to_others(tmp_path: Path) -> None:
    output = made_output(tmp_path, **{"delta.checkpointInterval": "2"})
    output.publish(ids([1]))
    log = output.place / "_delta_log"
    lines = (log / f"{1:020d}.json").read_text().splitlines()
    lines = [line.replace('"dataChange":true', '"dataChange":true,"baseRowId":7') for line in lines]
    (log / f"{1:020d}.json").write_text("\n".join(lines) + "\n")
    output.publish(ids([2]), epoch=1)
    assert not list(log.glob("*.parquet"))
    assert output.ids() == [1, 2]


def test_what_is_removed_is_kept_on_record_for_its_retention(tmp_path: Path) -> None:
    output = made_output(tmp_path, mode="replace table", **{"delta.checkpointInterval": "2"})
    output.publish(ids([1]))
    output.publish(ids([2]), run="other")
    for path in (output.place / "_delta_log").glob("*.json"):
        path.unlink()
    assert output.table().vacuum(retention_hours=0, dry_run=True, enforce_retention_duration=False)
    assert not output.table().vacuum(dry_run=True)
    assert output.ids() == [2]


def test_a_missing_table_is_rejected_unless_it_is_made(tmp_path: Path) -> None:
    with pytest.raises(TopicError, match=r"The table web\.out of stream 'out' does not exist"):
        Output(tmp_path).system.check_writable(output_stream())
    output = Output(tmp_path, output_stream(create="true"))
    with pytest.raises(SchemaError, match="are not known before the run"):
        output.system.fix_output(output.spec, None)
    assert output.system.fix_output(output.spec, Columns.of("id bigint")) == {
        "kind": "delta",
        "table": "web.out",
        "made": True,
    }


def test_a_storage_without_a_conditional_put_is_rejected() -> None:
    output = Output("memory://lake")
    with pytest.raises(SamzaError, match="no epoch can be committed exactly once"):
        output.system.settings.log_of("web.out")


def swept(output: Output, is_held: Callable[[str, float], bool] = lambda *_: False) -> int:
    """Return how many files a sweep deletes in 40 days."""
    later = time.time() + 40 * 86400
    for path in output.place.glob("*.parquet"):
        os.utime(path, (1, 1))
    counted = output.system.sweep_output(output.spec, is_held, later, dry=True)
    assert output.system.sweep_output(output.spec, is_held, later) == counted
    return counted[0]


def test_files_that_were_never_committed_or_taken_out_long_ago_are_deleted(tmp_path: Path) -> None:
    output = made_output(tmp_path, **{"delta.deletedFileRetentionDuration": "interval 0 seconds"})
    output.publish(ids([1]))
    output.publish(ids([2]), generation="1.2")
    output.foreign({"id": 9, "part": None})
    given_up = output.stage(ids([3]), run="given-up")["files"][0]["path"]
    assert swept(output, lambda name, _: name == given_up) == 1
    assert swept(output) == 1
    assert swept(output) == 0
    assert output.ids() == [2, 9]


def test_what_was_taken_out_of_late_and_tables_of_others_keep_their_files(tmp_path: Path) -> None:
    young = made_output(tmp_path / "ours")
    table_of(tmp_path / "theirs", pa.schema([("id", pa.int64())]), name="web.out")
    for output in (young, Output(tmp_path / "theirs")):
        for number in range(3):
            output.publish(ids([number]), generation=f"1.{number + 1}")
        assert swept(output) == 0
        output.stage(ids([3]), run="given-up")
        assert swept(output) == 1
        assert output.ids() == [2]


@pytest.mark.extended
def test_a_table_in_a_bucket_is_written_and_read(s3: Any) -> None:
    root = s3.url("delta-output")
    output = Output(root, output_stream(schema="id bigint, part string", create="true", partition_by="part"))
    output.system.create([output.spec])
    for epoch in range(12):
        work = output.publication([{"id": epoch, "part": "a/b=c é"}], epoch=epoch)
        for _ in range(2):
            output.system.publish(output.spec, work)
    output.publish([{"id": 100, "part": None}], generation="1.2")
    output.publish([{"id": 101, "part": "x"}], run="other")
    rows = rows_of(output.system, stream("web.out"))
    assert sorted((row["id"], row["part"]) for row in rows) == [(100, None), (101, "x")]
    assert output.system.arrived(stream("web.out"), None)["known"]["files"] == 2


WITHOUT_EXTRAS = """
import sys
from pathlib import Path

for package in ("obstore", "deltalake", "pyiceberg", "fastavro", "confluent_kafka"):
    sys.modules[package] = None

from airflow_samza import stream_application
from airflow_samza.prepare.run_request import RunRequest
from airflow_samza.launch.runtime import SparkRuntime
from airflow_samza.systems.system import SystemBinding


@stream_application("copies")
def copies(app):
    lines = app.input_stream("lines", system="files", path="lines", format="json", schema="word string")
    lines.send_to(app.output_stream("copies", system="lake", table="copies", create=True))


if __name__ == "__main__":
    Path("lines").mkdir()
    Path("lines/a.json").write_text('{"word": "a"}')
    systems = {"lake": SystemBinding("delta", {"root": "lake"}), "files": SystemBinding("files", {"root": "."})}
    SparkRuntime("root", systems).prepare(RunRequest("without_extras:copies", "run"))
"""


def test_a_table_in_a_folder_needs_no_package_of_an_extra(tmp_path: Path) -> None:
    (tmp_path / "without_extras.py").write_text(WITHOUT_EXTRAS)
    subprocess.run([sys.executable, "without_extras.py"], cwd=tmp_path, check=True, timeout=120)
    assert DeltaTable(str(tmp_path / "lake" / "copies")).schema().fields[0].name == "word"

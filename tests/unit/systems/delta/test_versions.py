"""Versions of a Delta table: which one a run reads, and what its log has of it."""

from __future__ import annotations

import json
from datetime import date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_samza.errors import TopicError
from airflow_samza.systems.system import ColumnBound, StreamSpec
from tests.support.delta_lake import HandMade, append, column, inline_vector, rows_of, stream, system_at, table_of

IDS = pa.schema([("id", pa.int64())])
NOON = datetime(2026, 11, 1, 12, tzinfo=timezone.utc)


def ids(folder: Path, spec: StreamSpec) -> list[int]:
    return sorted(row["id"] for row in rows_of(system_at(folder), spec))


def versioned(folder: Path, count: int = 3, **more: Any) -> HandMade:
    """Return a table of which each version has a row more, and is an hour later than the one before."""
    table = HandMade(folder, [column("id", "long")], **more)
    table.commit({"protocol": table.protocol}, {"metaData": table.metadata}, written=NOON)
    for number in range(1, count):
        added = table.file(f"{number}.parquet", pa.table({"id": [number]}))
        table.commit(added, written=NOON + timedelta(hours=number))
    return table


def test_the_newest_version_is_read_unless_another_is_named(tmp_path: Path) -> None:
    versioned(tmp_path)
    assert ids(tmp_path, stream()) == [1, 2]
    assert ids(tmp_path, stream(version="1")) == [1]
    assert ids(tmp_path, stream(version="0")) == []
    assert system_at(tmp_path).slice(stream(version="1"))["version"] == 1


def test_a_version_that_is_not_there_is_rejected_with_those_that_are(tmp_path: Path) -> None:
    versioned(tmp_path)
    with pytest.raises(TopicError, match=r"The table web\.views of stream 'views' has no version 3") as error:
        ids(tmp_path, stream(version="3"))
    assert error.value.hint.startswith("Its newest versions are 2 (2026-11-01 14:00:00+00:00), 1 (")


@pytest.mark.parametrize(
    ("at", "found"),
    [("2026-11-01T12:00Z", []), ("2026-11-01T13:59Z", [1]), ("2026-11-01T14:00Z", [1, 2]), ("2030-01-01", [1, 2])],
)
def test_a_time_is_that_of_the_newest_version_before_it(at: str, found: list[int], tmp_path: Path) -> None:
    versioned(tmp_path)
    assert ids(tmp_path, stream(as_of=at)) == found


def test_a_time_before_the_first_version_is_rejected(tmp_path: Path) -> None:
    versioned(tmp_path)
    with pytest.raises(TopicError, match=r"has no version as of 2026-11-01T11:59:00\+00:00: what can be read of"):
        ids(tmp_path, stream(as_of="2026-11-01T11:59Z"))


def test_times_of_files_never_go_back(tmp_path: Path) -> None:
    table = versioned(tmp_path)
    table.commit(table.file("3.parquet", pa.table({"id": [3]})), written=NOON - timedelta(days=1))
    with pytest.raises(TopicError, match="has no version as of"):
        ids(tmp_path, stream(as_of="2026-11-01T11:00Z"))
    assert ids(tmp_path, stream(as_of="2026-11-01T13:00Z")) == [1]
    assert ids(tmp_path, stream(as_of="2026-11-01T14:00Z")) == [1, 2, 3]


def test_times_within_commits_count_where_the_table_has_them(tmp_path: Path) -> None:
    table = versioned(tmp_path, 2)
    for number in (2, 3):
        at = NOON + timedelta(hours=number)
        added = table.file(f"{number}.parquet", pa.table({"id": [number]}))
        later = NOON + timedelta(days=9)  # as files have it that were copied
        table.commit(added, written=later, inCommitTimestamp=int(at.timestamp() * 1000))
    for clock, found in (("12:30", []), ("13:30", [1]), ("14:30", [1, 2]), ("15:00", [1, 2, 3])):
        assert ids(tmp_path, stream(as_of=f"2026-11-01T{clock}Z")) == found


def checkpointed(table: HandMade, version: int, vector: dict[str, Any] | None = None) -> list[dict[str, Any]]:
    """Return the actions of a checkpoint of a version of :func:`versioned`."""
    added = [table.file(f"{number}.parquet", pa.table({"id": [number]}))["add"] for number in range(1, version + 1)]
    pairs = [{**one, "partitionValues": [], "deletionVector": vector} for one in added]
    metadata = {**table.metadata, "configuration": list(table.metadata["configuration"].items())}
    metadata["format"] = {"provider": "parquet", "options": []}
    return [{"protocol": table.protocol}, {"metaData": metadata}, *({"add": one} for one in pairs)]


def drop_commits(table: HandMade, before: int) -> None:
    for version in range(before):
        (table.log / f"{version:020}.json").unlink()


def test_a_version_is_its_checkpoint_and_the_commits_behind_it(tmp_path: Path) -> None:
    table = versioned(tmp_path, 5)
    table.checkpoint(checkpointed(table, 3), f"{3:020}.checkpoint.parquet")
    drop_commits(table, 3)
    assert ids(tmp_path, stream()) == [1, 2, 3, 4]
    assert ids(tmp_path, stream(version="3")) == [1, 2, 3]
    with pytest.raises(
        TopicError, match=r"The version 2 of the table web\.views \(stream 'views'\) has expired"
    ) as error:
        ids(tmp_path, stream(version="2"))
    assert error.value.hint.startswith("The oldest version that can be read is 3. ")
    with pytest.raises(TopicError, match="what can be read of its history begins later"):
        ids(tmp_path, stream(as_of="2026-11-01T14:30Z"))
    assert ids(tmp_path, stream(as_of="2026-11-01T15:30Z")) == [1, 2, 3]


def test_a_checkpoint_in_parts_counts_when_all_parts_are_there(tmp_path: Path) -> None:
    table = versioned(tmp_path, 4)
    actions = checkpointed(table, 3)
    table.checkpoint(actions[:3], f"{3:020}.checkpoint.{1:010}.{2:010}.parquet")
    assert ids(tmp_path, stream()) == [1, 2, 3]  # by the commits
    table.checkpoint(actions[3:], f"{3:020}.checkpoint.{2:010}.{2:010}.parquet")
    drop_commits(table, 4)
    assert ids(tmp_path, stream()) == [1, 2, 3]


@pytest.mark.parametrize("kind", ["json", "parquet"])
def test_a_checkpoint_of_the_second_kind_has_its_files_beside_it(kind: str, tmp_path: Path) -> None:
    table = versioned(tmp_path, 4, reader=3, features=["v2Checkpoint", "deletionVectors"])
    actions = checkpointed(table, 3)
    vector = inline_vector([0])
    actions[2]["add"] |= {"deletionVector": vector}
    sidecar = table.checkpoint(actions[2:], "one.parquet", "_sidecars")
    top = [*actions[:2], {"sidecar": {"path": "one.parquet", "sizeInBytes": sidecar.stat().st_size}}]
    name = f"{3:020}.checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11"
    if kind == "json":
        top[1] = {"metaData": table.metadata}
        lines = [json.dumps(one) for one in ({"checkpointMetadata": {"version": 3}}, *top)]
        (table.log / f"{name}.json").write_text("\n".join(lines))
    else:
        table.checkpoint(top, f"{name}.parquet")
    drop_commits(table, 4)
    assert ids(tmp_path, stream()) == [2, 3]


def test_what_the_library_writes_as_a_checkpoint_is_read(tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.int64()), ("p", pa.string())])
    table = table_of(tmp_path, schema, [{"id": 1, "p": "a"}, {"id": 2, "p": None}], partition_by=["p"])
    append(table, [{"id": 3, "p": "b"}], schema)
    table.create_checkpoint()
    for commit in (tmp_path / "web/views/_delta_log").glob("*.json"):
        commit.unlink()
    fixed = system_at(tmp_path).slice(stream())
    assert (fixed["version"], fixed["rows"], len(fixed["files"])) == (2, 3, 3)
    assert ids(tmp_path, stream()) == [1, 2, 3]


def test_statistics_that_a_checkpoint_has_as_columns_are_read(tmp_path: Path) -> None:
    table = versioned(tmp_path, 3)
    actions = checkpointed(table, 2)
    path = table.checkpoint(actions, f"{2:020}.checkpoint.parquet")
    whole = pq.read_table(path)
    values = pa.struct([("id", pa.int64()), ("day", pa.date32())])
    parsed = pa.struct(
        [("numRecords", pa.int64()), ("minValues", values), ("maxValues", values), ("nullCount", values)]
    )
    rows = whole.column("add").to_pylist()
    for number, row in enumerate(row for row in rows if row is not None):
        row.pop("stats")
        value = {"id": number + 1, "day": date(2026, 11, number + 1)}
        row["stats_parsed"] = {"numRecords": 1, "minValues": value, "maxValues": value, "nullCount": None}
    fields = [field for field in whole.schema.field("add").type if field.name != "stats"]
    column_ = pa.array(rows, pa.struct([*fields, pa.field("stats_parsed", parsed)]))
    pq.write_table(whole.set_column(whole.schema.get_field_index("add"), "add", column_), path)
    drop_commits(table, 3)
    fixed = system_at(tmp_path).slice(stream())
    assert (fixed["rows"], len(fixed["files"])) == (2, 2)
    assert len(system_at(tmp_path).slice_within(stream(), [ColumnBound("id", "=", 2)])["files"]) == 1


def test_removed_and_overwritten_files_are_not_read(tmp_path: Path) -> None:
    table = table_of(tmp_path, IDS, [{"id": 1}], [{"id": 2}])
    table.delete("id = 1")
    assert ids(tmp_path, stream()) == [2]
    append(table, [{"id": 9}], IDS, mode="overwrite")
    assert ids(tmp_path, stream()) == [9]
    assert ids(tmp_path, stream(version="2")) == [1, 2]


def test_a_path_is_the_same_however_it_is_quoted(tmp_path: Path) -> None:
    table = HandMade(tmp_path, [column("id", "long")])
    table.begin()
    added = table.file("a b.parquet", pa.table({"id": [1]}))
    added["add"]["path"] = "a%20b.parquet"
    table.commit(added)
    assert ids(tmp_path, stream()) == [1]
    table.commit({"remove": {"path": "a b.parquet"}})
    assert ids(tmp_path, stream()) == []


def test_a_log_with_a_gap_is_damaged(tmp_path: Path) -> None:
    table = versioned(tmp_path, 4)
    (table.log / f"{2:020}.json").unlink()
    with pytest.raises(
        TopicError, match=r"The log of the table web\.views .* is damaged: commits before version 3 are"
    ):
        ids(tmp_path, stream())


def test_a_torn_commit_is_named(tmp_path: Path) -> None:
    table = versioned(tmp_path)
    (table.log / f"{2:020}.json").write_text('{"add": {"path')
    with pytest.raises(
        TopicError, match=r"00000000000000000002\.json of stream 'views' cannot be read as a log of Delta"
    ):
        ids(tmp_path, stream())


@pytest.mark.parametrize("action", [{"add": {"path": "a"}}, {"add": 7}, {"remove": {}}, {"protocol": {}}])
def test_an_action_that_is_none_is_named(action: dict[str, Any], tmp_path: Path) -> None:
    versioned(tmp_path).commit(action)
    with pytest.raises(TopicError, match=r"is damaged: an action of 0{19}3\.json cannot be read"):
        ids(tmp_path, stream())


@pytest.mark.parametrize(
    ("protocol", "words"),
    [
        ({"minReaderVersion": 4, "minWriterVersion": 8}, "needs version 4 of the protocol of Delta"),
        ({"readerFeatures": ["columnMapping", "typeWidening"]}, "has the feature typeWidening"),
        ({"readerFeatures": ["variantType"]}, "has the feature variantType"),
        ({"readerFeatures": ["catalogManaged"]}, "has the feature catalogManaged"),
    ],
)
def test_what_is_not_known_is_rejected_by_name(protocol: dict[str, Any], words: str, tmp_path: Path) -> None:
    table = HandMade(tmp_path, [column("id", "long")])
    table.protocol |= {"minReaderVersion": 3, "minWriterVersion": 7, "writerFeatures": [], **protocol}
    table.begin()
    for ask in (system_at(tmp_path).slice, lambda spec: system_at(tmp_path).metadata([spec])):
        with pytest.raises(TopicError) as error:
            ask(stream())
        sentence = f"The table web.views of stream 'views' {words}, which is not read here."
        assert error.value.sentence == sentence
        assert error.value.hint == "Have Spark read the stream (a system of kind spark), with format delta."


def test_features_of_writers_do_not_matter(tmp_path: Path) -> None:
    table = HandMade(tmp_path, [column("id", "long")])
    table.protocol = {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["rowTracking", "invariants"]}
    table.begin()
    assert ids(tmp_path, stream()) == []


@pytest.mark.parametrize("path", ["s3://other/a.parquet", "file:/tmp/a.parquet", "/tmp/a.parquet", "../a.parquet"])
def test_files_outside_of_the_folder_are_rejected(path: str, tmp_path: Path) -> None:
    table = versioned(tmp_path)
    table.commit({"add": {"path": path, "partitionValues": {}, "size": 1}})
    with pytest.raises(TopicError, match=r"has files outside of its folder, as a shallow clone has") as error:
        ids(tmp_path, stream())
    assert "kind spark" in error.value.hint


def test_a_vector_elsewhere_is_rejected(tmp_path: Path) -> None:
    table = versioned(tmp_path)
    vector = {"storageType": "p", "pathOrInlineDv": "s3://other/x.bin", "sizeInBytes": 1, "cardinality": 1}
    table.commit(table.file("a.parquet", pa.table({"id": [1]}), deletionVector=vector))
    with pytest.raises(TopicError, match=r"has files outside of its folder"):
        ids(tmp_path, stream())

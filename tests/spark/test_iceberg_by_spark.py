"""Tables of Iceberg and Spark's own connector: it writes each epoch once, reads what we wrote, and writes in turn with us."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.table.snapshots import Operation
from pyiceberg.types import LongType, StringType

from airflow_samza.errors import TopicError
from airflow_samza.systems.iceberg import expiry
from airflow_samza.systems.system import Publication, SystemBinding
from demo import lake_reader
from tests.support.iceberg_by_spark import SparkOfIceberg, published_twice, spark_of_iceberg
from tests.support.iceberg_lake import catalog_at, rows_of, stream as read_stream, system_at
from tests.support.iceberg_outputs import Output, ids, output_stream
from tests.support.runs_here import Here
from tests.support.slotted import day
from tests.unit.engine.test_table_changes import IcebergTable

pytestmark = [pytest.mark.nightly, pytest.mark.spark, pytest.mark.timeout(1800)]

COLUMNS = "id bigint, name string, seen timestamp, price decimal(9,2), tags array<string>, st struct<a:int,b:string>"
TRANSFORMS = {
    "none": "",
    "days and buckets": "day(seen), bucket(4, name)",
    "values and ranges": "name, truncate(10, id)",
    "hours": "hour(seen)",
}
VIEWS = "default.web.views"


def test_an_epoch_that_a_snapshot_is_of_is_not_appended_to_a_table_of_iceberg_again(tmp_path: Path) -> None:
    found = published_twice(tmp_path)
    numbers = list(range(15))
    assert found == {
        "a table that is there": [numbers, 3, False],
        "a table that Spark makes": [numbers, 3, False],
        "a table that is replaced": [numbers, 2, True],
    }


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lake")
    with catalog_at(folder):
        return folder


@pytest.fixture(scope="module")
def spark(folder: Path) -> Iterator[SparkOfIceberg]:
    with spark_of_iceberg(folder) as found:
        yield found


def row(number: int, **more: Any) -> dict[str, Any]:
    """Return a row with nulls in each column but the first, each in other rows."""
    return {
        "id": number,
        "name": None if number % 5 == 0 else f"name-{number % 3}",
        "seen": None if number % 7 == 0 else datetime(2026, 11, 1 + number % 4, number % 24, 2, 3, 4, timezone.utc),
        "price": None if number % 4 == 0 else Decimal(25 * number).scaleb(-2),
        "tags": None if number % 6 == 0 else ["a", None, str(number)],
        "st": None if number % 8 == 0 else {"a": number, "b": None if number % 3 else "b"},
        **more,
    }


def rows(*numbers: int, **more: Any) -> list[dict[str, Any]]:
    return [row(number, **more) for number in numbers]


def plain(found: list[dict[str, Any]]) -> list[Any]:
    """Return rows in an order, with values as JSON has them."""
    return sorted((json.loads(json.dumps(one, default=str, sort_keys=True)) for one in found), key=repr)


def agree(spark: SparkOfIceberg, output: Output, expected: list[dict[str, Any]]) -> None:
    """Look at a table's rows by Spark, DuckDB, pyiceberg and the consumer here, at snapshots and partitions by Spark."""
    name = dict(output.spec.options)["table"]
    table, place = output.table(), f"default.{name}"
    columns = [field.name for field in table.schema().fields if field.name != "run"]
    wanted = plain([{column: one.get(column) for column in columns} for one in expected])
    listed, of = ", ".join(columns), lake_reader.iceberg(Path(output.folder), name)
    by_duckdb, numbers = lake_reader.ask(
        f"SELECT {listed} FROM iceberg_scan({of})", f"SELECT snapshot_id FROM iceberg_snapshots({of})"
    )
    assert plain(spark.rows(f"SELECT {listed} FROM {place}")) == wanted
    assert plain([dict(zip(columns, one, strict=True)) for one in by_duckdb]) == wanted
    for found in (output.scanned(), output.rows()):
        assert plain([{column: one[column] for column in columns} for one in found]) == wanted

    snapshots = [
        (one.snapshot_id, one.parent_snapshot_id, one.summary.operation.value, dict(one.summary.additional_properties))
        for one in table.snapshots()
        if one.summary is not None
    ]
    asked = f"SELECT snapshot_id, parent_id, operation, summary FROM {place}.snapshots ORDER BY committed_at"
    assert [tuple(one.values()) for one in spark.rows(asked)] == snapshots
    assert sorted(number for (number,) in numbers) == sorted(number for number, *_ in snapshots)

    files = Counter[str]()
    records = Counter[str]()
    for task in table.scan().plan_files():
        partition = repr([task.file.partition[at] for at in range(len(table.spec().fields))])
        files[partition] += 1
        records[partition] += task.file.record_count
    asked = f"SELECT file_count, record_count FROM {place}.partitions WHERE file_count > 0"
    counted = sorted((one["file_count"], one["record_count"]) for one in spark.rows(asked))
    assert counted == sorted((files[one], records[one]) for one in files)


@pytest.mark.parametrize("partition_by", TRANSFORMS)
def test_spark_reads_a_table_as_it_was_written_replaced_cleared_and_changed(
    spark: SparkOfIceberg, folder: Path, partition_by: str
) -> None:
    name = f"web.read_{partition_by.replace(' ', '_')}"
    place = f"default.{name}"
    by = {"partition_by": TRANSFORMS[partition_by]} if TRANSFORMS[partition_by] else {}
    options = {"create": "true", "sort_by": "name desc nulls last, id", **by}
    output = Output(folder, output_stream(name, schema=COLUMNS, **options))
    output.system.create([output.spec])
    output.publish(rows(*range(10)), run="monday", slot=day(1))
    output.publish(rows(*range(10, 30)), run="tuesday", slot=day(2))
    output.publish(rows(*range(30, 45)), run="backfill", slot=day(1))
    output.publish(rows(50, 51, 52), run="tuesday", slot=day(2), generation="1.2")
    expected = rows(*range(30, 45), 50, 51, 52)
    agree(spark, output, expected)
    for where, numbers in {
        "name = 'name-1'": [one["id"] for one in expected if one["name"] == "name-1"],
        "name IS NULL": [one["id"] for one in expected if one["name"] is None],
        "seen IS NULL": [one["id"] for one in expected if one["seen"] is None],
        "seen >= timestamp'2026-11-04'": [one["id"] for one in expected if one["seen"] and one["seen"].day == 4],
        "id > 49": [50, 51, 52],
    }.items():
        found = spark.rows(f"SELECT id FROM {place} WHERE {where}")
        assert sorted(one["id"] for one in found) == numbers, where
    assert {one["sort_order_id"] for one in spark.rows(f"SELECT sort_order_id FROM {place}.files")} == {1}
    in_files: dict[str, list[Any]] = {}
    for one in spark.rows(f"SELECT _file, name, id FROM {place} ORDER BY _file, _pos"):
        in_files.setdefault(one["_file"], []).append((one["name"] is None, -ord((one["name"] or "-")[-1]), one["id"]))
    assert all(found == sorted(found) for found in in_files.values())

    with output.table().update_schema() as changing:
        changing.rename_column("tags", "words")
        changing.rename_column("st.a", "n")
        changing.add_column(("st", "more"), LongType())
        changing.delete_column("price")
        changing.add_column("price", StringType())
    output = Output(folder, output_stream(name))
    day_of = datetime(2026, 12, 1, tzinfo=timezone.utc)
    new = {"name": "name-1", "seen": day_of, "words": ["new"], "st": {"n": 1, "b": "b", "more": 2**40}, "price": "dear"}
    later = [{"id": number, **new} for number in (60, 61)]
    output.publish(later, run="wednesday", slot=day(3))
    changed = [
        {
            **{key: value for key, value in one.items() if key not in ("tags", "price")},
            "words": one["tags"],
            "st": one["st"] and {"n": one["st"]["a"], "b": one["st"]["b"], "more": None},
        }
        for one in expected
    ]
    agree(spark, output, [*changed, *later])


def test_spark_reads_a_branch_and_what_is_left_when_snapshots_have_expired(
    spark: SparkOfIceberg, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, number in (("KEPT_SNAPSHOTS", 6), ("KEPT_EPOCHS", 3), ("AT_ONCE", 4), ("YOUNG_SECONDS", 0)):
        monkeypatch.setattr(expiry, name, number)
    output = Output(folder, output_stream("web.epochs", schema="id bigint", create="true"))
    output.system.create([output.spec])
    for epoch in range(20):
        output.publish(ids([epoch]), epoch=epoch)
    assert len(output.table().snapshots()) < 12
    agree(spark, output, ids(range(20)))

    audited = Output(folder, output_stream("web.epochs", branch="audit/run"))
    audited.publish(ids([100]), run="audited")
    agree(spark, output, ids(range(20)))
    found = spark.rows("SELECT id FROM default.web.epochs VERSION AS OF 'audit/run'")
    assert sorted(one["id"] for one in found) == [*range(20), 100]
    audited.system.publish_branch(audited.spec, "app/audited", [])
    agree(spark, output, ids([*range(20), 100]))
    assert [one["name"] for one in spark.rows("SELECT name FROM default.web.epochs.refs")] == ["main"]


# Of a table that Spark deletes from by positions: what is rewritten here is rewritten as a whole.
@pytest.mark.filterwarnings("ignore:Merge on read is not yet supported")
@pytest.mark.parametrize("run_column", [False, True], ids=["without a column", "with a column of runs"])
@pytest.mark.parametrize("maker", ["here", "Spark"])
def test_both_writers_in_turn_lose_and_double_nothing(
    spark: SparkOfIceberg, folder: Path, maker: str, run_column: bool
) -> None:
    name = f"web.turns_{maker.lower()}_{run_column}".lower()
    place = f"default.{name}"
    in_place = {f"write.{act}.mode": "merge-on-read" for act in ("delete", "update", "merge")}
    more = {"run_column": "run"} if run_column else {}
    if maker == "here":
        options = {"create": "true", "partition_by": "part", **in_place, **more}
        output = Output(folder, output_stream(name, schema="id bigint, part string", **options))
        output.system.create([output.spec])
    else:
        columns = "id bigint, part string, run string" if run_column else "id bigint, part string"
        properties = ", ".join(f"'{key}' = '{value}'" for key, value in in_place.items())
        spark.rows(f"CREATE TABLE {place} ({columns}) USING iceberg PARTITIONED BY (part) TBLPROPERTIES ({properties})")
        output = Output(folder, output_stream(name, **more))
    last = ", NULL" if run_column else ""
    there: dict[int, str | None] = {}

    def ours(*numbers: int) -> list[dict[str, Any]]:
        return [{"id": number, "part": "ab"[number % 2]} for number in numbers]

    def keep(*found: dict[str, Any], gone: tuple[int, ...] = ()) -> None:
        for number in gone:
            del there[number]
        there.update({one["id"]: one["part"] for one in found})
        agree(spark, output, [{"id": number, "part": part} for number, part in there.items()])

    def insert(*found: tuple[int, str | None]) -> list[dict[str, Any]]:
        values = ", ".join(f"({number}, {repr(part) if part else 'NULL'}{last})" for number, part in found)
        spark.rows(f"INSERT INTO {place} VALUES {values}")
        return [{"id": number, "part": part} for number, part in found]

    def repeat(work: Publication) -> None:
        before = output.table().metadata_location
        output.system.publish(output.spec, work)
        assert output.table().metadata_location == before

    monday = output.publication(ours(1, 2, 3, 4, 5, 6), run="monday", slot=day(1))
    output.system.publish(output.spec, monday)
    keep(*ours(1, 2, 3, 4, 5, 6))
    keep(*insert((100, "a"), (101, "a"), (102, None)))
    tuesday = output.publication(ours(10, 11, 12, 13), run="tuesday", slot=day(2))
    output.system.publish(output.spec, tuesday)
    keep(*ours(10, 11, 12, 13))
    spark.rows(f"DELETE FROM {place} WHERE id IN (2, 11, 101)")
    (deletes,) = spark.rows(f"SELECT count(*) AS n FROM {place}.delete_files WHERE content = 1")
    assert deletes["n"] > 0
    keep(gone=(2, 11, 101))
    repeat(monday)
    repeat(tuesday)
    output.publish(ours(21, 22, 23), run="backfill", slot=day(1))
    keep(*ours(21, 22, 23), gone=(1, 3, 4, 5, 6))
    output.publish(ours(14, 15), run="tuesday", slot=day(2), generation="1.2")
    keep(*ours(14, 15), gone=(10, 12, 13))
    spark.rows(f"UPDATE {place} SET part = 'c' WHERE id IN (100, 22)")
    keep({"id": 100, "part": "c"}, {"id": 22, "part": "c"})
    keep(*insert((120, "z"), (121, "z")))
    spark.rows(f"INSERT OVERWRITE {place} PARTITION (part = 'z') VALUES (122{last})")
    keep({"id": 122, "part": "z"}, gone=(120, 121))

    said = "map('rewrite-all', 'true', 'remove-dangling-deletes', 'true')"
    spark.rows(f"CALL default.system.rewrite_data_files(table => '{name}', options => {said})")
    compacted = output.table().current_snapshot()
    assert compacted is not None
    assert compacted.summary is not None
    assert compacted.summary.operation == Operation.REPLACE
    keep()
    with pytest.raises(TopicError, match=r"generation 1\.2 of it has published already"):
        repeat(tuesday)
    output.publish(ours(30, 31), run="wednesday", slot=day(3))
    keep(*ours(30, 31))
    again = output.publication(ours(16), run="tuesday", slot=day(2), generation="1.3")
    if run_column:
        output.system.publish(output.spec, again)
        keep(*ours(16), gone=(14, 15))
    else:
        with pytest.raises(TopicError, match="are left"):
            output.system.publish(output.spec, again)
        keep()

    spark.rows(f"CALL default.system.rewrite_manifests('{name}')")
    thursday = output.publication(ours(40), run="thursday", slot=day(4))
    output.system.publish(output.spec, thursday)
    keep(*ours(40))
    now = datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M:%S.%f")
    older = f"older_than => TIMESTAMP '{now}', retain_last => 1"
    spark.rows(f"CALL default.system.expire_snapshots(table => '{name}', {older})")
    assert len(output.table().snapshots()) == 1
    keep()
    repeat(thursday)
    output.publish(ours(41, 43), run="thursday", slot=day(4), generation="1.2")
    keep(*ours(41, 43), gone=(40,))
    keep(*insert((130, "a")))


class TableOfSpark(IcebergTable):
    """A table that Spark makes and changes, with deletes that readers merge; runs read its changes."""

    def __init__(self, spark: SparkOfIceberg, lake: Path, folder: Path) -> None:
        self.spark = spark
        self.folder = lake
        self.make()
        self.here = Here(folder / "root", bindings={"tables": SystemBinding("iceberg", {"root": str(lake)})})
        self.runs = 0

    def make(self) -> None:
        in_place = ", ".join(f"'write.{act}.mode' = 'merge-on-read'" for act in ("delete", "update"))
        self.spark.rows(f"CREATE TABLE {VIEWS} (n bigint, text string) USING iceberg TBLPROPERTIES ({in_place})")

    def append(self, *rows: int) -> None:
        self.spark.rows(f"INSERT INTO {VIEWS} SELECT *, 'new' FROM VALUES {', '.join(f'({n}l)' for n in rows)}")

    def delete(self, n: int) -> None:
        self.spark.rows(f"DELETE FROM {VIEWS} WHERE n = {n}")

    def update(self, n: int, text: str) -> None:
        self.spark.rows(f"UPDATE {VIEWS} SET text = '{text}' WHERE n = {n}")

    def rewrite(self) -> None:
        options = "options => map('rewrite-all', 'true')"
        self.spark.rows(f"CALL default.system.rewrite_data_files(table => 'web.views', {options})")

    @property
    def rows(self) -> Counter[tuple[int, str]]:
        return Counter((one["n"], one["text"]) for one in self.spark.rows(f"SELECT n, text FROM {VIEWS}"))


@pytest.fixture
def table(spark: SparkOfIceberg, folder: Path, tmp_path: Path) -> Iterator[TableOfSpark]:
    yield TableOfSpark(spark, folder, tmp_path)
    spark.rows(f"DROP TABLE {VIEWS}")


def test_a_run_reads_what_spark_has_appended_passes_over_a_compaction_and_rejects_a_delete(table: TableOfSpark) -> None:
    system, spec = system_at(table.folder), read_stream()

    def new(since: Any) -> tuple[list[int], Any]:
        found = system.arrived(spec, since)
        return sorted(one["n"] for one in rows_of(system, spec, range_=found)), found["known"]

    table.append(1, 2, 3)
    found, known = new(None)
    assert found == [1, 2, 3]
    table.append(4)
    table.rewrite()
    table.append(5)
    found, known = new(known)
    assert found == [4, 5]
    table.delete(2)
    with pytest.raises(TopicError, match="deleted"):
        new(known)
    assert sorted(one["n"] for one in rows_of(system, spec)) == [1, 3, 4, 5]


def test_a_run_reads_what_spark_has_changed(table: TableOfSpark) -> None:
    table.append(1, 2, 3)
    table.run()
    table.append(4)
    table.update(1, "one")
    table.rewrite()
    table.delete(3)
    table.run()
    assert table.sums == table.rows == Counter({(1, "one"): 1, (2, "new"): 1, (4, "new"): 1})

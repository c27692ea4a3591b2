"""Pushes on a real Spark: every kind of source, in the partitions of the table's key, and what is rejected."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from importlib.metadata import version as version_of
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.orc
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner, Result

from airflow_samza.cli.app import app
from airflow_samza.engine.push import run_push
from airflow_samza.engine.runner_records import AttemptState
from airflow_samza.errors import ConfigError, PushError, RuntimeMissing, SourceUnavailable, StageFailed, UnknownName
from airflow_samza.launch.runtime import SparkRuntime
from airflow_samza.launch.table_push import prepare_push, push_bindings
from airflow_samza.runs.failpoints import VARIABLE
from airflow_samza.runs.records.folders import replace as write_over, write_once
from airflow_samza.runs.stages.stage_runners import StageRequest
from airflow_samza.runs.tables import versions
from airflow_samza.runs.tables.push_request import request_path
from airflow_samza.runs.tables.table_version import DELETED, TableVersion
from airflow_samza.runs.tables.versions import rollback
from airflow_samza.schema import Schema
from airflow_samza.spark import lake_source
from airflow_samza.spark.sessions.driver_session import DriverSession
from airflow_samza.spark.spark_engine import SparkEngine
from airflow_samza.systems.filesystems.opening import open_filesystem
from airflow_samza.systems.log.system import LogSystem
from airflow_samza.systems.system import SystemBinding
from tests.spark.apps.samza_spark_apps.pushed import WIDE
from tests.spark.conftest import APPS
from tests.support.budgets import extended_but, nightly_but
from tests.support.failpoints import PUSH_PLACES
from tests.support.files_with import files_with
from tests.support.one_session import open_session
from tests.support.pushed_lakes import LAKES, IcebergLake, Lake
from tests.support.topic_rows import version_rows

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

APPLICATION = "samza_spark_apps.pushed:pushed"


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DriverSession]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(APPS))
        patch.setenv("PYTHONPATH", str(APPS), prepend=os.pathsep)
        import samza_spark_apps.pushed  # noqa: F401

        opened = open_session(tmp_path_factory.mktemp("session"), "samza_spark_apps.pushed")
        yield opened
        opened.stop()


class Pusher:
    """A root, and pushes that run in the session of the test."""

    def __init__(self, session: DriverSession, folder: Path) -> None:
        self.session = session
        self.folder = folder
        self.files = open_filesystem(str(folder / "root"))
        self.log = LogSystem("log", SystemBinding("log", {"root": str(folder / "root")}))
        self.table = "t0"
        self.bindings: dict[str, SystemBinding] = {}
        self._ids = itertools.count(1)

    def push(
        self, source: object, push_id: str | None = None, secrets: dict[str, str] | None = None, **options: Any
    ) -> TableVersion:
        push_id = push_id or f"push-{next(self._ids)}"
        request = prepare_push(self.files, self.bindings, APPLICATION, self.table, source, push_id, None, **options)
        handle = request.handle
        write_over(self.files, request_path(handle), request)
        asked = StageRequest(handle.stage_id, str(handle.generation), 1)
        write_once(self.files, handle.folder.attempt(1, "request"), asked)
        attempt = AttemptState(self.files, handle.run, asked)
        bindings = push_bindings(self.bindings, request, secrets or {})
        run_push(SparkEngine(self.session), self.files, bindings, attempt, {})
        found = versions.by_push_id(self.files, "log", f"{self.table}-push", push_id)
        assert found is not None
        return found

    def rows(self, version: TableVersion) -> dict[Any, Any]:
        """The rows that a reader of a version sees, each row in the partition of its key."""
        found = version_rows(self.log, f"{self.table}-push", version, "member_id")
        return {member: row["tier"] for member, row in found.items()}

    def file(self, name: str, rows: Sequence[Mapping[str, Any]], types: dict[str, pa.DataType] | None = None) -> str:
        """A file of rows, in the format that its name ends in."""
        path = self.folder / name
        table = pa.Table.from_pylist(
            rows, pa.schema(list((types or {"member_id": pa.int64(), "tier": pa.string()}).items()))
        )
        if name.endswith(".csv"):
            pyarrow.csv.write_csv(table, path)
        elif name.endswith(".json"):
            path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        elif name.endswith(".orc"):
            pyarrow.orc.write_table(table, path)
        else:
            pq.write_table(table, path)
        return str(path)


@pytest.fixture
def pusher(session: DriverSession, tmp_path: Path) -> Pusher:
    return Pusher(session, tmp_path)


MEMBERS: list[dict[str, Any]] = [
    {"member_id": number, "tier": ("gold", "iron", None)[number % 3]} for number in range(300)
]
BY_ID = {row["member_id"]: row["tier"] for row in MEMBERS}


@pytest.mark.parametrize(
    "name", nightly_but(["members.parquet"], ["members.parquet", "members.orc", "members.csv", "members.json"])
)
def test_rows_come_from_files_of_every_format(pusher: Pusher, name: str) -> None:
    version = pusher.push(pusher.file(name, MEMBERS))
    found = pusher.rows(version)
    assert {member: tier or None for member, tier in found.items()} == BY_ID
    assert (version.rows, version.number, version.schema) == (300, 1, "member_id bigint not null, tier string")


def test_rows_come_from_a_query_a_table_and_a_function(pusher: Pusher) -> None:
    with pusher.session.stage_session({}, own=False) as spark:
        spark.sql(f"CREATE TABLE IF NOT EXISTS members_there USING parquet LOCATION '{pusher.folder / 'there'}' "
                  "AS SELECT CAST(id AS bigint) member_id, 'there' tier FROM range(10)")  # fmt: skip
    try:
        query = pusher.push({"query": "SELECT id AS member_id, 'asked' AS tier FROM range(7)"})
        table = pusher.push({"table": "members_there"})
        function = pusher.push({"callable": "samza_spark_apps.pushed:members"})
    finally:
        with pusher.session.stage_session({}, own=False) as spark:
            spark.sql("DROP TABLE members_there")
    assert pusher.rows(query) == dict.fromkeys(range(7), "asked")
    assert pusher.rows(table) == dict.fromkeys(range(10), "there")
    assert pusher.rows(function) == {number: "odd" if number % 2 else "even" for number in range(100)}


def test_columns_are_picked_renamed_and_computed(pusher: Pusher) -> None:
    source = pusher.file("wide.parquet", [{"id": 1, "level": "x", "noise": "y"}], {n: pa.int64() if n == "id" else pa.string() for n in ("id", "level", "noise")})  # fmt: skip
    version = pusher.push(source, columns={"member_id": "id + 1", "tier": "upper(level)"})
    assert pusher.rows(version) == {2: "X"}
    wider: list[dict[str, Any]] = [{**row, "noise": 1} for row in MEMBERS]
    types = {"member_id": pa.int64(), "tier": pa.string(), "noise": pa.int64()}
    with pytest.raises(PushError, match=r"noise \(bigint\) is not in the table"):
        pusher.push(pusher.file("wider.parquet", wider, types))
    assert pusher.push(pusher.file("wider.parquet", wider, types), columns=["member_id", "tier"]).rows == 300


def test_changes_and_deletes_come_on_top(pusher: Pusher) -> None:
    pusher.push(pusher.file("all.parquet", MEMBERS))
    types = {"member_id": pa.int64(), "tier": pa.string(), "gone": pa.bool_()}
    changes: list[dict[str, Any]] = [{"member_id": 1, "tier": None, "gone": True}, {"member_id": 2, "tier": "new", "gone": None}, {"member_id": 999, "tier": "x", "gone": False}]  # fmt: skip
    version = pusher.push(pusher.file("changes.parquet", changes, types), mode="incremental", deletes="gone")
    expected = {**BY_ID, 2: "new", 999: "x"}
    del expected[1]
    assert pusher.rows(version) == expected
    assert (version.rows, version.deletes, version.base) == (2, 1, 1)


def test_deletes_may_be_a_condition(pusher: Pusher) -> None:
    pusher.push(pusher.file("all.parquet", MEMBERS))
    version = pusher.push(pusher.file("some.parquet", MEMBERS[:6]), mode="incremental", deletes="tier IS NULL")
    assert (version.rows, version.deletes) == (4, 2)


def test_null_and_double_keys_are_rejected_with_examples(pusher: Pusher) -> None:
    double: list[dict[str, Any]] = [*MEMBERS, {"member_id": 7, "tier": "again"}, {"member_id": 8, "tier": "again"}]
    with pytest.raises(PushError, match=r"2 rows whose key \(member_id\) came before, such as (7, 8|8, 7)"):
        pusher.push(pusher.file("double.parquet", double))
    with pytest.raises(PushError, match=r"1 row whose key \(member_id\) is null"):
        pusher.push(pusher.file("null.parquet", [*MEMBERS, {"member_id": None, "tier": "x"}]))
    assert pusher.files.list("tables/log/t0-push/versions") == []


def test_a_push_is_checked_by_what_its_table_expects(pusher: Pusher) -> None:
    pusher.table = "checked"
    now = datetime.now(timezone.utc)

    def source(name: str, least: int, at: datetime) -> str:
        types = {"member_id": pa.int64(), "tier": pa.string(), "at": pa.timestamp("us", "UTC"), "amount": pa.int64()}
        found = [{**row, "at": at, "amount": row["member_id"] + least} for row in MEMBERS]
        return pusher.file(f"{name}.parquet", found, types)

    columns = {"amount": "CAST(amount AS decimal(12,2))"}
    version = pusher.push(source("sound", 0, now), columns=columns)
    assert {each.expectation: (each.outcome, each.rows, each.failed) for each in version.expectations} == {
        "not_null(member_id)": ("passed", 200, 0),
        "unique(member_id)": ("passed", 200, 0),
        "min_rows=1": ("passed", 200, 0),
        "not_null(tier)": ("dropped", 300, 100),
        "amount < 200": ("warned", 200, 66),
        "amount >= 0": ("passed", 200, 0),
        "rows(at_least=1, change=0.5)": ("passed", 200, 0),
        "fresh(at, 2 days)": ("passed", 200, 0),
    }
    assert pusher.rows(version) == {member: tier for member, tier in BY_ID.items() if tier is not None}
    with pytest.raises(PushError, match=r"expectation amount >= 0: 7 of 200 rows, such as .*amount"):
        pusher.push(source("below", -10, now), columns=columns)
    with pytest.raises(PushError, match=r"expectation fresh\(at, 2 days\): the latest is"):
        pusher.push(source("old", 0, now - timedelta(days=3)), columns=columns)
    assert len(pusher.files.list("tables/log/checked-push/versions")) == 1


def test_null_keys_are_left_out_and_the_latest_of_a_key_stays_when_asked(pusher: Pusher) -> None:
    types = {"member_id": pa.int64(), "tier": pa.string(), "at": pa.int64()}
    rows = [{"member_id": n % 50, "tier": f"at {n}", "at": n} for n in range(20_000)] + [
        {"member_id": None, "tier": "x", "at": 1}
    ]
    version = pusher.push(
        pusher.file("log.parquet", rows, types), on_null_key="drop", on_duplicate="last", latest_by="at"
    )
    assert pusher.rows(version) == {n: f"at {19_950 + n}" for n in range(50)}
    anyone = pusher.push(
        pusher.file("log.parquet", rows, types), on_null_key="drop", on_duplicate="any", columns=["member_id", "tier"]
    )
    assert set(pusher.rows(anyone)) == set(range(50))


def test_a_column_may_have_the_name_of_one_by_which_rows_are_ordered(pusher: Pusher) -> None:
    pusher.table = "odd"
    types = {"member_id": pa.int64(), "__latest_by": pa.string(), "at": pa.int64()}
    rows = [{"member_id": n % 5, "__latest_by": f"at {n}", "at": n} for n in range(20)]
    version = pusher.push(pusher.file("odd.parquet", rows, types), on_duplicate="last", latest_by="at")
    found = version_rows(pusher.log, "odd-push", version, "member_id")
    assert {member: row["__latest_by"] for member, row in found.items()} == {n: f"at {15 + n}" for n in range(5)}


def test_a_wrong_key_column_a_missing_and_a_drifted_one_are_told_at_once(pusher: Pusher) -> None:
    source = pusher.file("drift.parquet", [{"member": 1, "tier": 5}], {"member": pa.int64(), "tier": pa.int64()})
    with pytest.raises(PushError) as rejected:
        pusher.push(source)
    said = str(rejected.value)
    assert "member_id is missing (the table has bigint)" in said
    assert "member (bigint) is not in the table" in said
    assert "tier is bigint in the source and string in the table" in said


def test_values_that_do_not_fit_are_told_with_the_value(pusher: Pusher) -> None:
    path = pusher.folder / "odd.csv"
    path.write_text("member_id,tier\n1,gold\nseven,iron\n")
    with pytest.raises(PushError, match=r"are not the table's: .*'seven'"):
        pusher.push(str(path))


def test_a_source_that_is_not_there_is_told(pusher: Pusher) -> None:
    with pytest.raises(PushError, match=r"cannot be read: .*PATH_NOT_FOUND"):
        pusher.push(str(pusher.folder / "nothing.parquet"))
    with pytest.raises(PushError, match=r"cannot be read: .*TABLE_OR_VIEW_NOT_FOUND"):
        pusher.push({"table": "nobody.made_it"})
    no_database = {
        "jdbc": {"url": "jdbc:derby:nowhere", "dbtable": "t", "driver": "org.apache.derby.jdbc.EmbeddedDriver"}
    }
    with pytest.raises(SourceUnavailable, match=r"cannot be read now: .*FAILED_JDBC"):
        pusher.push(no_database)
    with pytest.raises(
        StageFailed, match=r"failed: ValueError: no members today \(\S+/samza_spark_apps/pushed.py:\d+\)"
    ):
        pusher.push({"callable": "samza_spark_apps.pushed:broken"})
    for missing in ("samza_spark_apps.nowhere:members", "samza_spark_apps.pushed:nobody"):
        with pytest.raises(PushError, match=f"'{missing}', which cannot be imported"):
            pusher.push({"callable": missing})
    with pytest.raises(
        PushError, match=r"The source of the push of table 't0' is \{'callable': 'samza_spark_apps\.pushed'\}"
    ):
        pusher.push({"callable": "samza_spark_apps.pushed"})


def test_a_source_column_of_a_type_that_no_table_has_is_told(pusher: Pusher) -> None:
    with pytest.raises(PushError, match="has the column 'tier' of type void, which no table has"):
        pusher.push({"query": "SELECT 1L AS member_id, NULL AS tier"})
    assert (
        pusher.push({"query": "SELECT 1L AS member_id, NULL AS tier"}, columns={"tier": "CAST(tier AS string)"}).rows
        == 1
    )


def test_a_source_column_that_says_what_is_deleted_is_named(pusher: Pusher) -> None:
    pusher.push(pusher.file("all.parquet", MEMBERS))
    marked = {"query": "SELECT id AS member_id, 'x' AS tier, id = 7 AS _deleted FROM range(300)"}
    version = pusher.push(marked, mode="incremental", deletes="_deleted")
    assert (version.rows, version.deletes) == (299, 1)


def test_avro_without_its_reader_says_how_to_get_one(pusher: Pusher) -> None:
    with pytest.raises(RuntimeMissing, match="Spark has no reader of Avro for the source") as error:
        pusher.push({"path": str(pusher.folder), "format": "avro"})
    assert f"org.apache.spark:spark-avro_2.13:{version_of('pyspark')}" in str(error.value.hint)


def test_an_empty_source_is_rejected_unless_it_may_be(pusher: Pusher) -> None:
    empty = pusher.file("empty.parquet", [])
    with pytest.raises(PushError, match="has 0 rows"):
        pusher.push(empty)
    assert pusher.push(empty, min_rows=0).rows == 0


def test_a_push_that_shrinks_by_nine_tenths_is_rejected(pusher: Pusher) -> None:
    pusher.push(pusher.file("all.parquet", MEMBERS))
    with pytest.raises(PushError, match="90% fewer than the 300 of version 1"):
        pusher.push(pusher.file("few.parquet", MEMBERS[:30]))


def test_a_second_push_of_one_id_reads_nothing(pusher: Pusher) -> None:
    first = pusher.push(pusher.file("all.parquet", MEMBERS), "monday")
    assert pusher.push("/is/not/there.parquet", "monday") == first


def test_the_id_of_a_rollback_is_not_that_of_a_push(pusher: Pusher) -> None:
    pusher.push(pusher.file("all.parquet", MEMBERS), "monday")
    rollback(pusher.files, "log", "t0-push", "monday", "back")
    with pytest.raises(PushError, match="'back' of table 't0' is taken: it made version 2, a rollback"):
        pusher.push(pusher.file("all.parquet", MEMBERS), "back")


def test_only_pushed_tables_are_pushed_to(pusher: Pusher) -> None:
    pusher.table = "own"
    with pytest.raises(PushError, match="is not filled by pushes: it is local"):
        pusher.push("/in")
    pusher.table = "t99"
    with pytest.raises(UnknownName, match="has no table 't99'"):
        pusher.push("/in")


def test_a_function_that_nobody_can_import_is_rejected(pusher: Pusher) -> None:
    with pytest.raises(PushError, match="other processes cannot import"):
        pusher.push(lambda spark: spark.range(1))
    with pytest.raises(ConfigError, match="source="):
        pusher.push({"path": "/a", "table": "b"})


def test_the_password_of_a_source_lies_in_no_file(pusher: Pusher) -> None:
    with pytest.raises(RuntimeMissing, match="Spark has no JDBC driver") as rejected:
        pusher.push({"jdbc": {"url": "jdbc:nothing:x", "dbtable": "m"}}, secrets={"password": "hunter2"})
    assert files_with(pusher.folder / "root", "")
    assert files_with(pusher.folder / "root", "hunter2") == []
    assert "hunter2" not in str(rejected.value)


def wide(numbers: range) -> list[dict[str, Any]]:
    return [
        {
            "member_id": n,
            "tier": ("gold", None)[n % 2],
            "at": datetime(2026, 1, 1, 12, tzinfo=timezone.utc) + timedelta(microseconds=n),
            "local": datetime(2026, 1, 1, 12) + timedelta(seconds=n),
            "day": date(2026, 1, 1 + n % 28),
            "amount": Decimal(n) / 4,
            "share": n / 3,
            "ok": n % 3 == 0,
            "raw": bytes([n % 256]),
            "tags": [str(n), "x"][: n % 3],
            "home": {"x": n / 2, "y": n},
        }
        for n in numbers
    ]


@pytest.mark.parametrize("kind", extended_but(LAKES[:1], LAKES))
def test_rows_come_from_a_snapshot_of_a_lake_as_the_formats_own_library_scans_it(
    pusher: Pusher, kind: type[Lake], monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = kind(pusher.folder / "lake", wide(range(300)), Schema.of(WIDE).to_arrow())
    lake.append(wide(range(300, 500)))
    lake.delete(50)
    before, scan = lake.version, lake.scan()
    pusher.table, pusher.bindings = "wide", lake.bindings
    version = pusher.push(lake.source())
    assert (version.rows, version.source) == (450, lake.source(**{lake.word: before}))
    assert _without_mark(pusher, version) == scan
    monkeypatch.setattr(lake_source, "_TASK_BYTES", 8192)
    lake.append(wide(range(500, 700)))
    assert _without_mark(pusher, pusher.push(lake.source())) == lake.scan()
    former = pusher.push(lake.source(**{lake.word: before}), max_change_ratio=1.0)
    assert (former.number, _without_mark(pusher, former)) == (3, scan)
    lake.delete(60)  # what is left of its file is written anew, and is no change
    changed = pusher.push(lake.source(), mode="incremental", deletes="member_id >= 690", compact_after=0)
    assert (changed.rows, changed.deletes) == (190, 20)
    assert changed.source == lake.source(**{lake.word: lake.version, "since": before})
    assert _without_mark(pusher, changed) == [row for row in lake.scan() if row["member_id"] < 690]


def _without_mark(pusher: Pusher, version: TableVersion) -> list[dict[str, Any]]:
    rows = version_rows(pusher.log, f"{pusher.table}-push", version, "member_id")
    return [{name: value for name, value in rows[key].items() if name != DELETED} for key in sorted(rows)]


@pytest.mark.nightly
def test_a_retry_reads_the_snapshot_of_the_attempt_before_although_the_table_has_moved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(APPS))
    lake = IcebergLake(tmp_path / "lake", MEMBERS)
    before, scan = lake.version, lake.scan()
    place = ["--root", str(tmp_path / "root"), "--system", f"lake=iceberg:{lake.folder}", "--master", "local[2]"]

    def push(push_id: str) -> Result:
        arguments = ["tables", "push", APPLICATION, "t0", json.dumps(lake.source()), "--push-id", push_id, "--json"]
        return CliRunner().invoke(app, [*arguments, *place])

    monkeypatch.setenv(VARIABLE, f"push-task-after-manifest@{tmp_path / 'struck'}")
    assert push("monday").exit_code != 0
    monkeypatch.delenv(VARIABLE)
    lake.append([{"member_id": 999, "tier": "new"}])
    done = json.loads(push("monday").stdout)
    assert (done["source"], done["is_new"]) == (lake.source(**{lake.word: before}), True)
    pusher = Pusher.__new__(Pusher)
    pusher.table, pusher.log = "t0", LogSystem("log", SystemBinding("log", {"root": str(tmp_path / "root")}))
    version = versions.by_number(open_filesystem(str(tmp_path / "root")), "log", "t0-push", done["number"])
    assert pusher.rows(version) == {row["member_id"]: row["tier"] for row in scan}


QUICK = ("push-task-after-manifest", "push-after-publish")
"""A worker's death and a runner's; without Spark a push is killed at every place in each run of the tests."""


@pytest.mark.nightly
@pytest.mark.parametrize(
    "place",
    [
        pytest.param(place, marks=pytest.mark.extended) if place == QUICK[1] else place
        for place in nightly_but(QUICK, PUSH_PLACES)
    ],
)
def test_a_push_whose_process_is_killed_shows_nothing_and_a_retry_completes_it(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(APPS))
    members = tmp_path / "members.parquet"
    pq.write_table(pa.Table.from_pylist(MEMBERS), members)
    runtime = SparkRuntime(str(tmp_path / "root"), master="local[2]", spark_conf={"spark.task.maxFailures": "1"})
    monkeypatch.setenv(VARIABLE, f"{place}@{tmp_path / 'struck'}")
    handle = runtime.push(APPLICATION, "t0", str(members), "monday")
    runtime.wait(handle, timeout=600)
    files = open_filesystem(str(tmp_path / "root"))
    visible = versions.newest(files, "log", "t0-push")
    assert (visible is not None) == (place == "push-after-version")
    # A worker's death fails the Spark job; everything else takes the whole runner along, and what is staged by then
    # needs none.
    assert runtime.status(handle).state == {"push-after-staging-began": "lost"}.get(
        place, "failed" if "task" in place else "unfinished"
    )
    monkeypatch.delenv(VARIABLE)
    pusher = Pusher.__new__(Pusher)
    pusher.table, pusher.log = "t0", LogSystem("log", SystemBinding("log", {"root": str(tmp_path / "root")}))
    runtime.wait(runtime.push(APPLICATION, "t0", str(members), "monday"))
    done = runtime.finish_push(handle)
    assert (done.number, pusher.rows(done)) == (1, BY_ID)
    assert len(versions.versions(files, "log", "t0-push")) == 1

"""The sensor on commits of tables: which commit covers a point in time, and what it waits for."""

from __future__ import annotations

import asyncio
import json
import os
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyiceberg.table import Table

from airflow_samza.provider.airflow_versions import AirflowException, TaskDeferred
from airflow_samza.provider.sensors.table_commits import SamzaTableSensor
from airflow_samza.provider.triggers import settling
from airflow_samza.provider.triggers.tables import TableCommitTrigger
from tests.support.iceberg_lake import append, table_of

ROWS = pa.table({"id": pa.array([1], pa.int64())})


@pytest.fixture(autouse=True)
def connections(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for kind, name in (("iceberg", "LAKE"), ("delta", "DELTA"), ("fs", "FILES")):
        extra = {"path": "/"} if kind == "fs" else {"root": str(tmp_path / kind)}
        monkeypatch.setenv(f"AIRFLOW_CONN_{name}", json.dumps({"conn_type": kind, "extra": extra}))


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """A table of two snapshots on its main branch, and a third on another."""
    (tmp_path / "iceberg").mkdir()
    table = table_of(tmp_path / "iceberg", ROWS.schema, [{"id": 1}], [{"id": 2}])
    with table.manage_snapshots() as managing:
        managing.create_branch(table.metadata.snapshots[1].snapshot_id, "audit")
    table.append(ROWS, branch="audit")
    return table


def sensor(at: Any, **given: Any) -> SamzaTableSensor:
    usual: dict[str, Any] = {"task_id": "wait", "table": "web.views", "lake_conn_id": "lake", "deferrable": False}
    return SamzaTableSensor(**{**usual, "at": at, **given})


def version(at: Any, **given: Any) -> str | None:
    found = sensor(at, **given).poke({})
    assert bool(found.is_done) is (found.xcom_value is not None)
    return None if found.xcom_value is None else str(found.xcom_value["version"])


def test_the_first_snapshot_at_or_after_a_time_covers_it(table: Table) -> None:
    first, second, audited = table.refresh().metadata.snapshots
    times = [datetime.fromtimestamp(one.timestamp_ms / 1000, timezone.utc) for one in (first, second, audited)]
    moment = timedelta(milliseconds=1)
    assert version(times[0].isoformat()) == str(first.snapshot_id)
    assert version(times[0] + moment) == version(times[1].isoformat()) == str(second.snapshot_id)
    assert version(times[1] + moment) is None
    assert version(times[1] + moment, branch="audit") == str(audited.snapshot_id)
    assert version("2020-01-01", branch="gone") is version("2020-01-01", table="web.gone") is None


def test_the_first_version_at_or_after_a_time_covers_it(tmp_path: Path) -> None:
    folder = tmp_path / "delta" / "web" / "views"
    for _ in range(2):
        write_deltalake(folder, ROWS, mode="append")
    written = [
        datetime.fromtimestamp((folder / "_delta_log" / f"{number:020d}.json").stat().st_mtime, timezone.utc)
        for number in range(2)
    ]
    assert DeltaTable(folder).version() == 1
    assert version("2020-01-01T00:00Z", lake_conn_id="delta") == "0"
    assert version(written[0] + (written[1] - written[0]) / 2, lake_conn_id="delta") == "1"
    assert version(written[1] + timedelta(seconds=1), lake_conn_id="delta") is None
    assert version("2020-01-01", lake_conn_id="delta", table="gone") is None


def test_what_changes_no_row_of_a_table_of_delta_covers_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "delta" / "web" / "views"
    for _ in range(2):
        write_deltalake(folder, ROWS, mode="append")
    table = DeltaTable(folder)
    table.optimize.compact()
    table.vacuum(0, dry_run=False, enforce_retention_duration=False)
    table.alter.set_table_properties({"delta.logRetentionDuration": "interval 7 days"})
    assert len(list(folder.glob("_delta_log/*.json"))) > 5
    assert version(second_at(folder, 2), lake_conn_id="delta") is None
    write_deltalake(folder, ROWS, mode="append")
    assert version(second_at(folder, 2), lake_conn_id="delta") == str(DeltaTable(folder).version())
    write_deltalake(folder, ROWS.slice(0, 0), mode="append")
    newest = DeltaTable(folder).version()
    assert version(second_at(folder, newest), lake_conn_id="delta") == str(newest), "no row is an answer, too"


def second_at(folder: Path, number: int) -> str:
    """Give a table's versions the seconds of a minute as their times; return that of one of them."""
    for file in folder.glob("_delta_log/*.json"):
        os.utime(file, (1_767_225_600 + int(file.stem),) * 2)
    return datetime.fromtimestamp(1_767_225_600 + number, timezone.utc).isoformat()


def test_it_waits_in_the_triggerer_and_looks_again(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settling, "SETTLE_SECONDS", 0.0)
    waiting = sensor(datetime.now(timezone.utc), deferrable=True, poke_interval=0.01)
    with pytest.raises(TaskDeferred) as deferred:
        waiting.execute({})
    path, arguments = deferred.value.trigger.serialize()
    assert path.endswith(".TableCommitTrigger")
    trigger = TableCommitTrigger(**json.loads(json.dumps(arguments)))

    async def wait() -> None:
        running = asyncio.ensure_future(anext(trigger.run()))
        await asyncio.sleep(0)
        append(table.refresh(), [{"id": 3}])
        await running

    asyncio.run(wait())
    done = waiting.execute_complete({}, None, **dict(deferred.value.kwargs or {}))
    assert done["version"] == str(table.refresh().metadata.current_snapshot_id)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"at": ""}, "at='' of the task 'wait' is no point in time: the Dag run has no data interval"),
        ({"at": "noon"}, "at='noon' of the task 'wait' is no point in time"),
        ({"lake_conn_id": "files"}, "The connection 'files' is of type fs, which has no tables with commits"),
        ({"lake_conn_id": "gone"}, "The connection 'gone' is not defined"),
        ({"lake_conn_id": "delta", "branch": "audit"}, "have no option 'ref'"),
    ],
    ids=["no interval", "no time", "files", "no connection", "branch of Delta"],
)
def test_what_cannot_be_waited_for_fails_the_task(given: dict[str, str], why: str) -> None:
    with pytest.raises(AirflowException, match=why):
        sensor(**{"at": "2026-01-01", **given}).poke({})


def test_waits_for_the_end_of_the_interval_or_of_the_one_that_the_partition_key_names(table: Table) -> None:
    first = table.refresh().metadata.snapshots[0]
    day = datetime.fromtimestamp(first.timestamp_ms / 1000, timezone.utc)
    before = (day - timedelta(days=1)).date().isoformat()
    intervals: dict[str, tuple[dict[str, Any], bool]] = {
        "an interval": ({"data_interval_start": day - timedelta(days=1), "data_interval_end": day}, True),
        "a later interval": ({"data_interval_start": day, "data_interval_end": day + timedelta(days=1)}, False),
        "a key": ({"partition_key": before}, True),
        "a later key": ({"partition_key": day.date().isoformat()}, False),
    }
    for name, (context, is_there) in intervals.items():
        found = sensor(None).poke(context)
        assert bool(found.is_done) is is_there, name
        assert (found.xcom_value or {}).get("version") == (str(first.snapshot_id) if is_there else None)
    waiting = sensor(None, deferrable=True)
    with pytest.raises(TaskDeferred) as deferred:
        waiting.execute({"partition_key": day.date().isoformat()})
    assert deferred.value.trigger.serialize()[1]["at"].startswith((day + timedelta(days=1)).date().isoformat())


def test_a_run_whose_key_names_no_interval_is_told_so(table: Table) -> None:
    with pytest.raises(AirflowException, match="the Dag run has none, and its partition key 'emea' names none"):
        sensor(None).poke({"partition_key": "emea"})
    with pytest.raises(AirflowException, match=r"waits for the end of the data interval, and the Dag run has none\."):
        sensor(None).poke({})

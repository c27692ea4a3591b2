"""A column that names the run: what a run wrote is replaced also after others have compacted the table."""

from __future__ import annotations

import re
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import DayTransform
from pyiceberg.types import LongType, NestedField, StringType, TimestampType

from airflow_samza.errors import SchemaError, TopicError
from airflow_samza.systems.iceberg.expiry import MAX_AGE
from tests.support.iceberg_catalog_server import CatalogServer
from tests.support.iceberg_lake import append, data_file, table_of
from tests.support.iceberg_outputs import Output, ids, output_stream
from tests.support.slotted import day

SCHEMA = Schema(
    NestedField(1, "id", LongType()), NestedField(2, "run", StringType()), NestedField(3, "note", StringType())
)


@pytest.fixture
def output(tmp_path: Path) -> Output:
    table_of(tmp_path, SCHEMA, name="web.out")
    return Output(tmp_path, output_stream(run_column="run"))


def compact(output: Output) -> None:
    """Rewrite all rows into new files, as an engine does."""
    output.table().overwrite(output.table().scan().to_arrow())


def test_the_column_is_filled(output: Output) -> None:
    output.publish(ids([1]))
    output.publish(ids([2]), run="other")
    names = [row["run"] for row in output.scanned()]
    assert len(set(names)) == 2
    assert all(re.fullmatch(r"samza-[0-9a-f]{16}-", name) for name in names)


@pytest.mark.parametrize("slotted", [False, True])
def test_rows_are_replaced_after_a_compaction(output: Output, slotted: bool) -> None:
    slot = day(1) if slotted else None
    append(output.table(), ids([9]))
    output.publish(ids([1, 2]), slot=slot)
    output.publish(ids([3]), epoch=1, slot=slot)
    output.publish(ids([7]), run="tuesday", slot=day(2) if slotted else None)
    compact(output)
    again: dict[str, Any] = {"run": "backfill"} if slotted else {"generation": "1.2"}
    before = output.table().metadata_location
    output.publish(ids([4]), slot=slot, **again)
    assert output.ids() == [4, 7, 9]
    assert output.table().metadata.metadata_log[-1].metadata_file == before, "one commit"
    output.publish(ids([5]), epoch=1, slot=slot, **again)
    assert output.ids() == [4, 5, 7, 9]


def test_a_part_that_was_compacted_is_replaced_with_the_rest(output: Output) -> None:
    output.publish(ids([1]))
    compact(output)
    output.publish(ids([2]), epoch=1)
    output.publish(ids([3]), generation="1.2")
    assert output.ids() == [3]


def test_rows_go_from_a_table_that_is_partitioned_by_a_transform(tmp_path: Path) -> None:
    at = datetime(2026, 1, 1, 5)
    schema = Schema(*SCHEMA.fields, NestedField(4, "at", TimestampType()))
    table_of(
        tmp_path, schema, name="web.out", partition_spec=PartitionSpec(PartitionField(4, 9, DayTransform(), "day"))
    )
    output = Output(tmp_path, output_stream(run_column="run"))
    output.publish([{"id": 1, "at": at}])
    table = output.table()
    rows = [*table.scan().to_arrow().to_pylist(), {"id": 9, "at": at}]
    former = [task.file for task in table.scan().plan_files()]
    with table.transaction() as transaction, transaction.update_snapshot().overwrite() as update:
        for file in former:
            update.delete_data_file(file)
        update.append_data_file(data_file(table, pa.Table.from_pylist(rows, schema_to_pyarrow(schema)), [20454]))
    output.publish([{"id": 2, "at": at}], generation="1.2")
    assert output.ids() == [2, 9]


def test_rows_that_were_written_without_the_column_are_not_doubled(output: Output) -> None:
    Output(output.folder).publish(ids([1]))
    compact(output)
    with pytest.raises(TopicError, match="of its 1 data files 0 are left"):
        output.publish(ids([2]), generation="1.2")
    assert output.ids() == [1]


@pytest.mark.parametrize("fault", [409, 500, (500, "landed"), (409, "landed")], ids=str)
@pytest.mark.few(1)
def test_a_fault_of_the_catalog(tmp_path: Path, fault: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("airflow_samza.systems.tables.publishing.time.sleep", lambda _: None)
    with CatalogServer(tmp_path, token="hunter2") as server:
        server.catalog.create_namespace("web")
        server.catalog.create_table("web.out", SCHEMA)
        output = Output(tmp_path, output_stream(run_column="run"), server=server)
        output.publish(ids([1]))
        output.publish(ids([7]), run="other")
        compact(output)
        server.faults = [fault, None]
        output.publish(ids([2]), generation="1.2")
        assert output.ids() == [2, 7]


def test_a_table_that_is_made_has_the_column(tmp_path: Path) -> None:
    output = Output(tmp_path, output_stream(schema="id bigint", create="true", run_column="run", **{MAX_AGE: "1"}))
    output.system.create([output.spec])
    output.publish(ids([1]))
    compact(output)
    output.publish(ids([2]), generation="1.2")
    assert output.ids() == [2]


def test_a_column_that_cannot_name_the_run_is_rejected(output: Output) -> None:
    for column, words in (("nope", "has no such column"), ("id", "has it as long")):
        with pytest.raises(TopicError, match=words):
            Output(output.folder, output_stream(run_column=column)).publish(ids([1]))
    with pytest.raises(SchemaError, match="have the column 'run', which is filled"):
        output.publish([{"id": 1, "run": "mine"}])

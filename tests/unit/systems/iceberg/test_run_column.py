"""A column that names the run: what a run wrote is replaced also after others have compacted the table."""

from __future__ import annotations

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

from airflow_samza.systems.iceberg.expiry import MAX_AGE
from tests.support.iceberg_catalog_server import CatalogServer
from tests.support.iceberg_lake import data_file, table_of
from tests.support.iceberg_outputs import Output, ids, output_stream

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

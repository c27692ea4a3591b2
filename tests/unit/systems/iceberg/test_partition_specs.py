"""Partitions that an output replaces in a table whose partition spec has changed: by value, or not at all."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import DayTransform, IdentityTransform, VoidTransform
from pyiceberg.types import DoubleType, LongType, NestedField, StringType, TimestampType

from airflow_samza.errors import TopicError
from tests.support.iceberg_lake import add_files, data_file, table_of
from tests.support.iceberg_outputs import Output, output_stream

SCHEMA = Schema(
    NestedField(1, "id", LongType()),
    NestedField(2, "part", StringType()),
    NestedField(3, "x", DoubleType()),
    NestedField(4, "at", TimestampType()),
    NestedField(5, "code", LongType()),
)
PART = PartitionField(2, 1000, IdentityTransform(), "part")
CODE = PartitionField(5, 1001, IdentityTransform(), "code")
NUMBER = PartitionField(3, 1002, IdentityTransform(), "x")
NOTHING = PartitionField(4, 1003, VoidTransform(), "at_day")


def table_by(folder: Path, *fields: PartitionField, **options: str) -> Output:
    table_of(folder, SCHEMA, name="web.out", partition_spec=PartitionSpec(*fields))
    return Output(folder, output_stream(mode="replace partitions", **options))


def row(number: int, part: str = "a") -> dict[str, Any]:
    return {"id": number, "part": part, "x": 1.5}


def without_code(output: Output) -> None:
    with output.table().update_spec() as update:
        update.remove_field("code")


def renamed(output: Output) -> None:
    with output.table().update_spec() as update:
        update.rename_field("part", "section")


def turned(output: Output) -> None:
    """Have the fields in another order."""
    with output.table().update_spec() as update:
        update.remove_field("part")
        update.remove_field("code")
    output.foreign()
    with output.table().update_spec() as update:
        update.add_field("code", IdentityTransform())
        update.add_field("part", IdentityTransform())


@pytest.mark.parametrize("evolve", [without_code, renamed, turned])
def test_partitions_of_a_former_spec_that_has_the_fields_of_the_present_one_are_replaced_by_value(
    evolve: Callable[[Output], None], tmp_path: Path
) -> None:
    output = table_by(tmp_path, NOTHING, PART, CODE)
    output.foreign(row(7), row(8, "b"))
    evolve(output)
    output.foreign(row(9))
    output.publish([row(1)])
    assert output.ids() == [1, 8]


def by_day(output: Output) -> None:
    with output.table().update_spec() as update:
        update.add_field("at", DayTransform())


def test_a_former_spec_that_does_not_tell_the_partitions_of_the_present_one_is_rejected_by_the_plan(
    tmp_path: Path,
) -> None:
    output = table_by(tmp_path, PART)
    output.foreign(row(7))
    by_day(output)
    with pytest.raises(TopicError, match="some of its data files were written by a former partition spec") as error:
        output.stage([row(1)])
    assert "rewrite_data_files" in error.value.hint
    output.table().delete("id = 7")
    output.publish([row(1)])
    assert output.ids() == [1]


def test_a_former_spec_whose_files_come_after_the_plan_is_rejected_by_the_commit(tmp_path: Path) -> None:
    output = table_by(tmp_path, PART)
    table = output.table()
    former = data_file(table, pa.table({"id": [7], "part": ["a"]}), ["a"])
    by_day(output)
    work = output.publication([row(1)])
    with output.table().update_spec() as update:
        update.remove_field("at_day")
    add_files(output.table(), former)
    by_day(output)
    with pytest.raises(TopicError, match="some of its data files were written by a former partition spec"):
        output.system.publish(output.spec, work)


def test_other_modes_leave_the_rows_of_a_former_spec(tmp_path: Path) -> None:
    output = table_by(tmp_path, PART)
    output.foreign(row(7))
    by_day(output)
    Output(tmp_path, output_stream()).publish([row(1)])
    assert output.ids() == [1, 7]


def test_what_a_run_wrote_by_a_former_spec_is_found_where_others_have_compacted_it_by_the_present_one(
    tmp_path: Path,
) -> None:
    output = table_by(tmp_path, PART)
    output.publish([row(1), row(2, "b")])
    output.foreign(row(9, "c"))
    with output.table().update_spec() as update:
        update.add_field("code", IdentityTransform())
    output.compact()
    with pytest.raises(TopicError, match="of its 2 data files 0 are left"):
        output.publish([row(3)], generation="1.2")
    output.publish([row(3), row(4, "b")], generation="1.3")
    assert output.ids() == [3, 4, 9]


def test_nan_is_a_partition_as_any_other_value(tmp_path: Path) -> None:
    output = table_by(tmp_path, NUMBER)
    nan = float("nan")
    rows = pa.table({"id": [7], "x": pa.array([nan], pa.float64())})
    add_files(output.table(), data_file(output.table(), rows, [nan]))
    output.foreign(row(8))
    output.publish([{"id": 1, "x": nan}])
    assert output.ids() == [1, 8]

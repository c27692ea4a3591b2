"""The partition and the result row of functions that ``mapInArrow`` calls in a Python worker."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from airflow_samza.engine.task_section import read_over
from airflow_samza.schema import Schema

if TYPE_CHECKING:
    import pyarrow as pa


def own_partition(batches: Iterator[pa.RecordBatch]) -> int:
    """Return the number of the Spark partition of a task that has its input elsewhere."""
    from pyspark import TaskContext

    read_over(batches)
    context = TaskContext.get()
    assert context is not None
    return int(context.partitionId())


def one_row(schema: str, *values: object) -> pa.RecordBatch:
    """Return the row that a task gives to the driver, in the columns of a DDL."""
    import pyarrow as pa

    columns = Schema.of(schema).to_arrow()
    return pa.RecordBatch.from_arrays(
        [pa.array([value], field.type) for value, field in zip(values, columns, strict=True)], schema=columns
    )

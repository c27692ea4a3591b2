"""The partition and the result row of functions that ``mapInArrow`` calls in a Python worker."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

from airflow_samza.engine.task_section import read_over
from airflow_samza.engine.worker_errors import from_worker
from airflow_samza.schema import Schema

if TYPE_CHECKING:
    from pyspark import TaskContext

DONE = "task int"
"""The columns of the row of a task that leaves all else under the root."""


def task_context() -> TaskContext:
    """Return Spark's context of the task that runs here, on one core."""
    from pyspark import TaskContext

    pa.set_cpu_count(1)  # Arrow's own threads would compete with Spark's
    context = TaskContext.get()
    assert context is not None, "this runs in a Python worker of Spark"
    return context


def own_partition(batches: Iterator[pa.RecordBatch]) -> int:
    """Return the number of the Spark partition of a task that has its input elsewhere."""
    read_over(batches)
    return int(task_context().partitionId())


def on_partition(what: str, work: Callable[[int], object]) -> Iterator[pa.RecordBatch]:
    """Do the work of the Spark partition that runs here, of which an error names ``what`` it is; yield one row."""
    task = int(task_context().partitionId())
    try:
        work(task)
    except Exception as error:
        raise from_worker(error, what, task) from error
    yield one_row(DONE, task)


def one_row(schema: str, *values: object) -> pa.RecordBatch:
    """Return the row that a task gives to the driver, in the columns of a DDL."""
    columns = Schema.of(schema).to_arrow()
    return pa.RecordBatch.from_arrays(
        [pa.array([value], field.type) for value, field in zip(values, columns, strict=True)], schema=columns
    )

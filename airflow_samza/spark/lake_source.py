"""Tables of a lake as DataFrames, for pushes: Spark's workers read them as tasks of stages do, without jars."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from airflow_samza.engine.stage_context import PushContext
from airflow_samza.engine.worker_errors import from_worker
from airflow_samza.launch.bindings import bindings_from_json, with_root_access
from airflow_samza.runs.tables.lake_changes import PUSH_ALL
from airflow_samza.runs.tables.lake_source import LakeSource
from airflow_samza.runs.tables.push_checks import column_expressions
from airflow_samza.schema import Field, Schema
from airflow_samza.spark.arrow_types import spark_schema
from airflow_samza.spark.sealed_bindings import unsealed
from airflow_samza.spark.sessions.driver_session import DriverSession
from airflow_samza.spark.worker_rows import own_partition
from airflow_samza.systems.bindings import bind_system
from airflow_samza.systems.capabilities import HasTableVersions
from airflow_samza.systems.system import MessageRun, StreamSpec, SystemStreamPartition
from airflow_samza.systems.tables.inputs.change_columns import CHANGE, REMOVED
from airflow_samza.task.expressions.column_use import columns_named

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_TASK_BYTES = 64 * 2**20
_MOST_TASKS = 1024


def read_lake(driver: DriverSession, spark: SparkSession, push: PushContext, source: LakeSource) -> DataFrame:
    """Return a table at the snapshot or version that the request names, with a task for every 64 MiB of its files.

    Of changes, the rows that are gone or new; and if some are gone, the keys of those that are in both versions.
    """
    system = bind_system(source.system, push.bindings[source.system], push.files.root)
    if source.since is None:
        return _frame(driver, spark, push, source, _chosen(push, source, system.slice))
    assert isinstance(system, HasTableVersions)
    changes = partial(system.changes, since=source.since, remedy=PUSH_ALL)
    changed = _chosen(push, source, changes)
    frame = _frame(driver, spark, push, source, changed)
    if all(file["change"] != REMOVED for file in changed["files"]):
        return frame
    columns = Schema.of(changed["schema"])
    expressions = column_expressions(push.request, [name for name in columns.names if name != CHANGE])
    named = columns_named(tuple(expressions[name] for name in push.request.key if name in expressions))
    keys = tuple(name for name in columns.names if named is None or name.lower() in named or name == CHANGE)
    carried = _chosen(push, source, partial(changes, carried=True))
    return frame.unionAll(_frame(driver, spark, push, source, carried, keys))


def _chosen(
    push: PushContext, source: LakeSource, sliced: Callable[[StreamSpec], Mapping[str, Any]]
) -> Mapping[str, Any]:
    """Return an input range with as many partitions as it should have tasks."""
    with source.failures(push.request.table):
        chosen = sliced(source.stream(1))
        source.check_read(chosen, push.request.table)
        tasks = min(1 + chosen["bytes"] // _TASK_BYTES, _MOST_TASKS)
        return chosen if tasks == 1 else sliced(source.stream(tasks))


def _frame(
    driver: DriverSession,
    spark: SparkSession,
    push: PushContext,
    source: LakeSource,
    chosen: Mapping[str, Any],
    columns: tuple[str, ...] | None = None,
) -> DataFrame:
    """Return the rows of an input range; columns that are not asked for are null."""
    binding, root = push.bindings[source.system], push.files.root
    bindings = driver.for_workers(spark, with_root_access({source.system: binding}, root))
    task = LakeTask(root, bindings, source, chosen, push.request.table, columns)
    schema = nullable(Schema.of(chosen["schema"])).to_arrow()
    tasks = chosen["partitions"]
    return spark.range(0, tasks, 1, tasks).mapInArrow(task, spark_schema(schema))


def nullable(columns: Schema) -> Schema:
    """Return columns of which each may be null."""
    return Schema(tuple(Field(column.name, column.type) for column in columns.fields))


@dataclass(frozen=True)
class LakeTask:
    """The function that ``mapInArrow`` calls to read a partition of a table's input range, ``slice``."""

    root: str
    bindings: Mapping[str, Any] = field(repr=False)  # they may hold secrets
    source: LakeSource
    slice: Mapping[str, Any]
    table: str
    columns: tuple[str, ...] | None = None

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows."""
        task = int(next(batches).column(0)[0].as_py())  # in a union, partitions of Spark have other numbers
        own_partition(batches)
        try:
            with self.source.failures(self.table):
                yield from self._rows(task)
        except Exception as error:
            raise from_worker(error, f"push of {self.table}", task) from error

    def _rows(self, task: int) -> Iterator[pa.RecordBatch]:
        name, stream = self.source.system, self.source.stream(self.slice["partitions"])
        system = bind_system(name, bindings_from_json(unsealed(self).bindings)[name], self.root)
        with closing(system.consumer(stream, self.slice)) as consumer:
            for envelope in consumer.read(SystemStreamPartition(name, stream.name, task), None, self.columns):
                if isinstance(envelope, MessageRun):
                    yield envelope.batch if self.columns is None else self._filled(envelope.batch)

    def _filled(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        columns = {name: batch.column(name) for name in batch.schema.names}
        return pa.RecordBatch.from_arrays(
            [columns.get(field.name, pa.nulls(batch.num_rows, field.type)) for field in self._schema],
            schema=self._schema,
        )

    @cached_property
    def _schema(self) -> pa.Schema:
        return nullable(Schema.of(self.slice["schema"])).to_arrow()

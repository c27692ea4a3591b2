"""The source of a push on Spark, which one job reads, checks and stages."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_samza.application.rejections import USER_ERRORS, let_interrupts_through
from airflow_samza.engine.push_task import PushTask
from airflow_samza.engine.stage_context import PushContext
from airflow_samza.errors import SamzaError
from airflow_samza.launch.bindings import with_root_access
from airflow_samza.runs.tables.push_request import SOURCE
from airflow_samza.schema import Schema
from airflow_samza.spark.lake_source import read_lake
from airflow_samza.spark.push_failures import function_failed, job_failed
from airflow_samza.spark.push_source import partitioned, read_source, table_columns
from airflow_samza.spark.sealed_bindings import unsealed
from airflow_samza.spark.sessions.driver_session import DriverSession, is_spark_lost
from airflow_samza.spark.stage_job import collect, losses
from airflow_samza.spark.worker_rows import DONE, on_partition
from airflow_samza.systems.system import StreamSpec

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger("airflow_samza.runner")


@contextmanager
def open_source(driver: DriverSession, push: PushContext) -> Iterator[SparkSource]:
    """Open a session of the push's settings, and the source in it."""
    conf = push.attempt.request.spark_conf
    with losses(driver, push.attempt.handle), driver.stage_session(conf, own=True) as spark:
        rows, schema = table_columns(push.request, _read(driver, spark, push))
        yield SparkSource(driver, spark, push, rows, schema)


class SparkSource:
    """A DataFrame with the table's columns: a :class:`~airflow_samza.engine.stage_context.PushSource`."""

    def __init__(
        self, driver: DriverSession, spark: SparkSession, push: PushContext, rows: DataFrame, schema: Schema
    ) -> None:
        self._driver = driver
        self._spark = spark
        self._push = push
        self._rows = rows
        self.schema = schema

    def stage(self, stream: StreamSpec, epoch: int) -> None:
        """Run the job that leaves the rows as segments."""
        request, attempt, driver = self._push.request, self._push.attempt, self._driver
        bindings = {request.system: self._push.bindings[request.system]}
        task = PushTask(
            root=self._push.files.root,
            bindings=driver.for_workers(self._spark, with_root_access(bindings, self._push.files.root)),
            system=request.system,
            stream=dataclasses.asdict(stream),
            key=request.key,
            required=tuple(field.name for field in self.schema.fields if not field.nullable),
            folder=attempt.handle.folder.path,
            epoch=epoch,
            push=request.push_id,
            messages_shown=request.messages_shown,
            of_changes=None if request.since is None else request.table,
            expect=request.expect,
        )
        frame = partitioned(request, self._rows, self.schema).mapInArrow(PushJob(task), DONE)
        # One try only: another one may read other rows of the source, and is an epoch of its own.
        collect(
            driver,
            self._push,
            self._spark,
            lambda: frame,
            lambda text: job_failed(request, text),
            description=f"push {request.push_id} of table {request.table}",
            pool=request.table,
        )


def _read(driver: DriverSession, spark: SparkSession, push: PushContext) -> DataFrame:
    request, group = push.request, push.attempt.group
    log.info("%s: reading %s", group, request.source_text)
    secrets = push.bindings[SOURCE].options if SOURCE in push.bindings else {}
    with driver.tagged(spark, group, f"source of table {request.table}"):
        try:
            if request.lake is not None:
                return read_lake(driver, spark, push, request.lake)
            return read_source(spark, request, secrets)
        except SamzaError:
            raise
        except USER_ERRORS as error:
            let_interrupts_through(error)
            if is_spark_lost(error) or request.kind_of_source != "callable":
                raise
            raise function_failed(request, error) from error


@dataclass(frozen=True)
class PushJob:
    """The function that ``mapInArrow`` calls to stage a partition of the table."""

    work: PushTask

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield one row."""
        return on_partition(f"push of {self.work.push}", lambda task: unsealed(self.work).run(task, batches))

"""The writer of what a stage has committed to a table of Spark.

Parquet, JDBC, a catalog's table, whatever a DataFrame writer writes.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from airflow_samza.engine.stage_context import StageContext
from airflow_samza.engine.worker_errors import find_error
from airflow_samza.errors import SamzaError, SchemaError, StageFailed
from airflow_samza.launch.root_handover import with_root_access
from airflow_samza.runs.failpoints import reach
from airflow_samza.schema import Schema
from airflow_samza.spark.arrow_types import spark_schema
from airflow_samza.spark.dataframe_inputs import first_line, reject_hidden
from airflow_samza.spark.driver_session import DriverSession, is_gone
from airflow_samza.spark.hidden_options import hidden_view, is_remote
from airflow_samza.spark.lacking_jars import find_lacking
from airflow_samza.spark.stage_job import lost
from airflow_samza.spark.staging_tasks import VALUE_COLUMN, WriteTask
from airflow_samza.systems.spark.system import CarriedByDriver, Staged
from airflow_samza.systems.spark.tables import OVERWRITE, OVERWRITE_PARTITIONS, SparkTable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameWriter, SparkSession

log = logging.getLogger("airflow_samza.runner")

_ROWS_OF_A_TASK = 1_000_000
"""At most, of one Spark task that writes.

Enough for a file of good size, few enough that all cores have something to do.
"""

_DYNAMIC = {"spark.sql.sources.partitionOverwriteMode": "dynamic"}


class SparkTableWriter:
    """A :class:`~airflow_samza.systems.spark.system.TableWriter` with the session of a stage."""

    def __init__(self, driver: DriverSession, context: StageContext) -> None:
        self._driver = driver
        self._context = context

    def write(self, table: SparkTable, staged: Staged) -> None:
        """Write all rows, as the table's mode says."""
        context = self._context
        reach("table-before-write")
        conf = {
            **context.attempt.request.spark_conf,
            **(_DYNAMIC if table.mode == OVERWRITE_PARTITIONS else {}),
        }
        with self._driver.stage_session(conf, own=False) as spark:
            description = f"writes {table.stream} for {context.handle.application}, run {context.handle.run_id}"
            with self._driver.tagged(spark, context.attempt.group, description, pool=context.handle.stage_id):
                try:
                    _write(self._frame(spark, table, staged), table, staged)
                except SamzaError:
                    raise
                except Exception as error:
                    if is_gone(error):
                        raise lost(self._driver, context.handle) from None
                    raise find_error(str(error), context.origins) or self._failed(error, table) from None
        log.info("%s: Spark has written %d messages to %s", context.attempt.group, staged.rows, table.place)
        reach("table-after-write")

    def _frame(self, spark: SparkSession, table: SparkTable, staged: Staged) -> DataFrame:
        """Return the staged rows, in parts of the topic's partitions."""
        parts = tuple(
            (partition, start, min(start + _ROWS_OF_A_TASK, end))
            for partition, (first, end) in enumerate(staged.slice["offsets"])
            for start in range(first, end, _ROWS_OF_A_TASK)
        )
        assert staged.schema is not None
        root, partitions = self._context.files.root, int(staged.slice["partitions"])
        stage, access = self._context.handle.stage_id, self._driver.for_workers(spark, with_root_access({}, root))
        task = WriteTask(root, staged.topic, partitions, staged.slice, parts, stage, table.stream, table.serde, access)
        source = spark.range(0, len(parts), 1, max(len(parts), 1))
        return source.mapInArrow(
            task,
            f"{VALUE_COLUMN} binary" if table.serde is not None else spark_schema(Schema.of(staged.schema).to_arrow()),
        )

    def _failed(self, error: Exception, table: SparkTable) -> SamzaError:
        lacking = find_lacking(str(error))
        if lacking is not None:
            return lacking.error(f"the output {table.stream!r} (system {table.system!r})")
        return StageFailed(
            f"Spark cannot write the output {table.stream!r} to {table.place} (system {table.system!r}): "
            f"{first_line(error, table)}.",
            hint="The output is committed: when the cause is fixed, a retry writes it, and runs no task again.",
            stream=table.stream,
            stage=self._context.handle.stage_id,
        )


def connect_tables(driver: DriverSession, context: StageContext) -> None:
    """Give the stage's systems of kind spark what writes their tables."""
    for system in context.systems.values():
        if isinstance(system, CarriedByDriver):
            system.writer = SparkTableWriter(driver, context)


def _write(frame: DataFrame, table: SparkTable, staged: Staged) -> None:
    options: dict[str, str] = dict(table.options)
    if table.skips_repeats:
        options |= {"txnAppId": staged.transaction[0], "txnVersion": str(staged.transaction[1])}
    if table.mode == OVERWRITE_PARTITIONS:
        options["partitionOverwriteMode"] = "dynamic"
    mode = "append" if table.mode == "append" else "overwrite"
    writer = frame.write.options(**options)
    if table.format == "jdbc" and is_remote(frame.sparkSession):
        _to_hidden_table(frame, table, mode)
    elif table.format == "jdbc":
        writer.format("jdbc").option("dbtable", table.table or table.stream).mode(mode).save()
    elif table.path is not None:
        reject_hidden(frame.sparkSession, table)
        _partitioned(writer.format(table.format or "parquet"), table).mode(mode).save(table.path)
    else:
        reject_hidden(frame.sparkSession, table)
        _to_catalog(frame, writer, table, mode)


def _to_hidden_table(frame: DataFrame, table: SparkTable, mode: str) -> None:
    """Write to a database's table by way of a view of Spark Connect, so that no password is in a plan.

    The table has to be there.
    """
    spark, name = frame.sparkSession, table.table or table.stream
    view = hidden_view(spark, "jdbc", {**table.options, "dbtable": name}, table.secret)
    ours = {column.lower(): column for column in frame.columns}
    theirs = spark.table(view).columns
    differing = sorted(set(ours) ^ {column.lower() for column in theirs})
    if differing:
        raise SchemaError(
            f"The output {table.stream!r} has the columns {', '.join(frame.columns)}, and {table.place} has "
            f"{', '.join(theirs)}: over "
            "Spark Connect they have to be the same.",
            hint="Make the table with these columns, or use a master of another kind, which fills in defaults and "
            "makes missing tables.",
            stream=table.stream,
            column=differing[0],
        )
    frame.select(*(f"`{ours[column.lower()]}`" for column in theirs)).write.insertInto(
        view, overwrite=mode == "overwrite"
    )


def _to_catalog(frame: DataFrame, writer: DataFrameWriter, table: SparkTable, mode: str) -> None:
    """Write to a table, which keeps its format and columns unless all of it is replaced; make one that is missing."""
    name = table.table or table.stream
    spark = frame.sparkSession
    if spark.catalog.tableExists(name) and table.mode != OVERWRITE:
        frame.select(*(f"`{column}`" for column in spark.table(name).columns)).write.options(
            **table.options
        ).insertInto(name, overwrite=mode == "overwrite")
        return
    _partitioned(writer.format(table.format) if table.format else writer, table).mode(mode).saveAsTable(name)


def _partitioned(writer: DataFrameWriter, table: SparkTable) -> DataFrameWriter:
    return writer.partitionBy(*table.partition_by) if table.partition_by else writer

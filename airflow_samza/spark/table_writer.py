"""The writer of what a stage has committed to a table of Spark.

Parquet, JDBC, a catalog's table, whatever a DataFrame writer writes.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from airflow_samza.engine.stage_context import StageContext
from airflow_samza.errors import SamzaError, SchemaError, StageFailed, TopicError
from airflow_samza.launch.bindings import with_root_access
from airflow_samza.runs.failpoints import reach
from airflow_samza.schema import Schema
from airflow_samza.spark.arrow_types import spark_schema
from airflow_samza.spark.databases.upserts import upsert
from airflow_samza.spark.dataframe_inputs import first_line, reject_hidden
from airflow_samza.spark.hidden_options import hidden_view, is_remote
from airflow_samza.spark.lacking_jars import find_lacking
from airflow_samza.spark.sessions.driver_session import DriverSession
from airflow_samza.spark.stage_job import failures, losses
from airflow_samza.spark.staging_tasks import VALUE_COLUMN, WriteTask
from airflow_samza.systems.spark.system import CarriedByDriver, Staged
from airflow_samza.systems.spark.tables import (
    APPEND,
    OVERWRITE,
    OVERWRITE_PARTITIONS,
    UPSERT,
    SparkTable,
    is_delta,
    is_iceberg,
)

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
            with (
                self._driver.tagged(spark, context.attempt.group, description, pool=context.handle.stage_id),
                losses(self._driver, context.handle),
                failures(context.origins, lambda error: self._failed(error, table)),
            ):
                _write(self._frame(spark, table, staged), table, staged)
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

    def _failed(self, error: BaseException, table: SparkTable) -> SamzaError:
        lacking = find_lacking(str(error), f"the output {table.stream!r} (system {table.system!r})")
        if lacking is not None:
            return lacking
        return StageFailed(
            f"Spark cannot write the output {table.stream!r} to {table.place} (system {table.system!r}): "
            f"{first_line(error, table)}.",
            hint="The output is committed: when the cause is fixed, a retry writes it, and runs no task again.",
            stream=table.stream,
            stage=self._context.handle.stage_id,
        )


def connect_tables(driver: DriverSession, context: StageContext) -> None:
    """Give the stage's systems of kind spark what writes their tables.

    A table of another format than its output was declared with is rejected before anything runs, where the plan's
    promise hangs on that.
    """
    for system in context.systems.values():
        if isinstance(system, CarriedByDriver):
            system.writer = SparkTableWriter(driver, context)
    outputs = context.run.plan.stage(context.handle.stage_id).outputs
    for bound, system in context.run.outside(outputs, context.systems, CarriedByDriver):
        table = system.table(bound.spec)
        if table.is_in_catalog and table.skips_repeats:
            with (
                losses(driver, context.handle),
                driver.stage_session(context.attempt.request.spark_conf, own=False) as spark,
            ):
                _provider(spark, table)


def _write(frame: DataFrame, table: SparkTable, staged: Staged) -> None:
    if table.mode == UPSERT:
        upsert(frame, table, staged)
        return
    if table.is_in_catalog:
        reject_hidden(frame.sparkSession, table)
        _to_catalog(frame, table, staged)
        return
    options: dict[str, str] = {**table.options, **(_transaction(staged) if table.skips_repeats else {})}
    if table.mode == OVERWRITE_PARTITIONS:
        options["partitionOverwriteMode"] = "dynamic"
    mode = _spark_mode(table)
    writer = frame.write.options(**options)
    if table.format == "jdbc" and is_remote(frame.sparkSession):
        _to_hidden_table(frame, table, mode)
    elif table.format == "jdbc":
        writer.format("jdbc").option("dbtable", table.table or table.stream).mode(mode).save()
    else:
        reject_hidden(frame.sparkSession, table)
        _partitioned(writer.format(table.format or "parquet"), table).mode(mode).save(table.path)


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
            f"{', '.join(theirs)}: over Spark Connect they have to be the same.",
            hint="Make the table with these columns, or use a master of another kind, which fills in defaults and "
            "makes missing tables.",
            stream=table.stream,
            column=differing[0],
        )
    frame.select(*(f"`{ours[column.lower()]}`" for column in theirs)).write.insertInto(
        view, overwrite=mode == "overwrite"
    )


def _to_catalog(frame: DataFrame, table: SparkTable, staged: Staged) -> None:
    """Write to a table, which keeps its format and columns unless all of it is replaced; make one that is missing.

    Delta's tables are given the transaction, by which they know a repeat, and snapshots of Iceberg's tables the same as
    properties, which are looked up before. The one way to append that passes them on is ``writeTo``, as ``insertInto``
    drops all options.
    """
    name, spark, mode = table.table or table.stream, frame.sparkSession, _spark_mode(table)
    exists = spark.catalog.tableExists(name)
    provider = _provider(spark, table) if table.mode == APPEND else None
    marks: dict[str, str] = {}
    if is_delta(provider):
        marks = _transaction(staged)
    elif is_iceberg(provider):
        if exists and _is_in_snapshots(spark, name, staged):
            log.info("%s has a snapshot of this epoch already: nothing is written again", table.place)
            return
        marks = {f"snapshot-property.{key}": value for key, value in _snapshot_properties(staged).items()}
    options = {**table.options, **marks}
    if not exists or table.mode == OVERWRITE:
        writer = frame.write.options(**options)
        _partitioned(writer.format(table.format) if table.format else writer, table).mode(mode).saveAsTable(name)
        return
    rows = frame.select(*(f"`{column}`" for column in spark.table(name).columns))
    if marks:
        rows.writeTo(name).options(**options).append()
    else:
        rows.write.options(**options).insertInto(name, overwrite=mode == "overwrite")


def _is_in_snapshots(spark: SparkSession, name: str, staged: Staged) -> bool:
    """Return whether a snapshot of an Iceberg table is of this epoch of the writer, or of a later one."""
    from pyspark.sql import functions as f

    spark.catalog.refreshTable(name)
    whole = name if "." in name else f"{spark.catalog.currentDatabase()}.{name}"
    writer, version = _snapshot_properties(staged).items()
    summary = spark.read.format("iceberg").load(f"{whole}.snapshots").select("summary")
    of_writer = summary.where(f.col("summary")[writer[0]] == writer[1])
    return not of_writer.where(f.col("summary")[version[0]].cast("bigint") >= int(version[1])).isEmpty()


def _provider(spark: SparkSession, table: SparkTable) -> str:
    """Return the format of a catalog's table: that of the table that is there, else the one that it will be made in.

    A table that the plan takes for one of Delta's, because its format was declared so, and that is of another format is
    rejected: what the plan promises of it would not hold.
    """
    name = table.table or table.stream
    if not spark.catalog.tableExists(name):
        return table.format or spark.conf.get("spark.sql.sources.default") or ""
    rows = [(row[0], row[1]) for row in spark.sql(f"DESCRIBE TABLE EXTENDED {name}").collect()]
    provider = next((str(value) for key, value in reversed(rows) if key == "Provider"), "")  # columns come first
    if table.skips_repeats and not is_delta(provider):
        raise TopicError(
            f"The output {table.stream!r} has format={table.format!r}, and the table {name} of the system "
            f"{table.system!r} is in the format {provider or 'of its catalog'}.",
            hint="Leave format= out: rows are then appended in the table's own format, "
            "at least once. Or name another table.",
            stream=table.stream,
        )
    return provider


def _transaction(staged: Staged) -> dict[str, str]:
    return {"txnAppId": staged.transaction[0], "txnVersion": str(staged.transaction[1])}


def _snapshot_properties(staged: Staged) -> dict[str, str]:
    return {"samza.writer": staged.transaction[0], "samza.version": str(staged.transaction[1])}


def _spark_mode(table: SparkTable) -> str:
    return "append" if table.mode == APPEND else "overwrite"


def _partitioned(writer: DataFrameWriter, table: SparkTable) -> DataFrameWriter:
    return writer.partitionBy(*table.partition_by) if table.partition_by else writer

"""The inputs that Spark reads for a stage.

Each input of kind ``spark``, and each ``from_dataframe``, goes into a topic of the run, once.

The topic belongs to the run and its plan's generation, not to the stage: every stage that reads the input, every retry
and every clear of a stage reads the same rows. The record of what was read decides: what an
attempt that died before has read is read anew, and a later attempt adopts the record.
"""

from __future__ import annotations

import dataclasses
import json
import logging
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any

from airflow_samza.application.application import ApplicationSpec
from airflow_samza.application.callables import name_of
from airflow_samza.application.descriptors import StreamDescriptor
from airflow_samza.application.loader import load_application
from airflow_samza.application.rejections import did_you_mean
from airflow_samza.engine.stage_context import StageContext
from airflow_samza.errors import ConfigError, SamzaError, SchemaError, StageFailed
from airflow_samza.launch.bindings import with_root_access
from airflow_samza.records import durable
from airflow_samza.runs.failpoints import reach
from airflow_samza.runs.records.folders import adopt, read
from airflow_samza.runs.records.names import Generation, safe
from airflow_samza.runs.records.run_plan import BoundStream, RunPlan
from airflow_samza.schema import Schema
from airflow_samza.secrecy import secret_names
from airflow_samza.spark.arrow_types import arrow_schema
from airflow_samza.spark.hidden_options import is_remote, read_hidden, reject_secrets
from airflow_samza.spark.lacking_jars import find_lacking
from airflow_samza.spark.sessions.driver_session import DriverSession
from airflow_samza.spark.shuffles import shuffles
from airflow_samza.spark.stage_job import failures, most_specific_line
from airflow_samza.spark.staging_tasks import PLACE_COLUMN, READ_RESULT, VALUE_COLUMN, ReadTask
from airflow_samza.systems.spark.system import CarriedByDriver
from airflow_samza.systems.spark.tables import SparkTable
from airflow_samza.systems.system import Publication
from airflow_samza.task.messages.user_errors import user_location

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger("airflow_samza.runner")

_AS_USUAL = {"spark.sql.adaptive.enabled": "true", "spark.sql.optimizer.excludedRules": ""}
"""A reader is an ordinary Spark job.

What stages forbid themselves (their partitions are their tasks) is of use to it.
"""

_READING: dict[str, threading.Lock] = {}
"""Stages of one runner that read the same input wait for each other instead of reading it twice."""


@durable("reading of an input by Spark")
@dataclass(frozen=True)
class SparkReading:
    """The rows that Spark has read of an input, by task, as the log describes them; ``shuffles`` are for people."""

    schema: str
    staged: Mapping[int, Mapping[str, Any]]
    rows: int
    shuffles: tuple[str, ...]


def read_inputs(driver: DriverSession, context: StageContext) -> RunPlan:
    """Return the run's plan with slices of what Spark has read for the stage; read what was not read yet."""
    run, streams, schemas = context.run, dict(context.run.streams), dict(context.run.schemas)
    spec: ApplicationSpec | None = None
    inputs = run.plan.stage(context.handle.stage_id).inputs
    for stream, system in run.outside(inputs, context.systems, CarriedByDriver):
        stream_id, spec = stream.stream_id, spec or load_application(run.reference).spec(run.config)
        bound = run.through(stream, Generation(run.generation, 1))
        with _READING.setdefault(f"{context.files.root}/{bound.spec.through}", threading.Lock()):
            record = _Reading(driver, context, system, spec.inputs[stream_id], bound).record()
        slice_ = {**(stream.slice or {}), **record["slice"]}
        streams[stream_id] = dataclasses.replace(bound, slice=slice_)
        if bound.spec.schema is None:
            schemas[stream_id] = record["schema"]
    return dataclasses.replace(run, streams=streams, schemas=schemas)


class _Reading:
    """One input that Spark reads."""

    def __init__(
        self,
        driver: DriverSession,
        context: StageContext,
        system: CarriedByDriver,
        stream: StreamDescriptor,
        bound: BoundStream,
    ) -> None:
        self._driver = driver
        self._context = context
        self._system = system
        self._stream = stream
        self._bound = bound
        self._table: SparkTable | None = system.table(bound.spec) if stream.reader is None else None
        handle = context.handle
        self._path = f"{handle.run.path}/read-by-spark/{handle.generation.plan}/{safe(stream.stream_id)}.json"

    def record(self) -> dict[str, Any]:
        """Return the schema and the slice of what was read, by this attempt or an earlier one."""
        files = self._context.files
        reading = read(files, self._path, SparkReading)
        if reading is None:
            reading = adopt(files, self._path, self._read())
            reach("read-after-record")
        run = self._context.run
        spec = dataclasses.replace(self._bound.spec, schema=reading.schema)
        self._system.create([spec])
        publication = Publication(
            producer=f"{run.producer('read-by-spark')}/{safe(self._stream.stream_id)}",
            generation=f"{run.generation}.1",
            epoch=0,
            staged=reading.staged,
        )
        self._system.publish_read(spec, publication)
        reach("read-after-publish")
        return {"schema": reading.schema, "slice": self._system.slice(spec)}

    def _read(self) -> SparkReading:
        context = self._context
        with self._driver.stage_session(context.attempt.request.spark_conf, own=True) as spark:
            for key, value in _AS_USUAL.items():
                spark.conf.set(key, value)
            description = (
                f"reads {self._stream.stream_id} for {context.handle.application}, run {context.handle.run_id}"
            )
            with (
                self._driver.tagged(spark, context.attempt.group, description),
                failures(context.origins, self._failed),
            ):
                frame = self._columns(self._frame(spark))
                notes = shuffles(frame) if self._stream.reader is not None else []
                for note in notes:
                    log.info("from_dataframe %r: %s", self._stream.stream_id, note)
                schema = self._bound.spec.schema or Schema.of(arrow_schema(frame.schema)).ddl()
                self._system.create([dataclasses.replace(self._bound.spec, schema=schema)])
                staged = self._stage(frame, schema)
        reach("read-before-record")
        rows = sum(int(described.get("total_rows", 0)) for described in staged.values())
        log.info("%s: Spark has read %d messages of %s", context.attempt.group, rows, self._stream.stream_id)
        return SparkReading(schema, staged, rows, tuple(notes))

    def _frame(self, spark: SparkSession) -> DataFrame:
        if self._stream.reader is not None:
            result = self._stream.reader(spark)
            kind = unreadable_kind(result)
            if kind:
                raise SchemaError(
                    f"{self._named(None)}, returned {kind}, and must return a DataFrame that is read once.",
                    hint="Return spark.read… or spark.table(…); for what goes on, use an input stream.",
                    stream=self._stream.stream_id,
                )
            frame: DataFrame = result
            reject_secrets(spark, frame, self._named(None))
        else:
            assert self._table is not None
            frame = read_table(spark, self._table)
        return self._interval(frame)

    def _interval(self, frame: DataFrame) -> DataFrame:
        """Return the rows of the data interval, where the input is sliced by its timestamp."""
        from pyspark.sql import functions

        spec = self._bound.spec
        if spec.interval is None or spec.timestamp is None:
            return frame
        column = functions.col(spec.timestamp)
        first, end = (functions.timestamp_micros(functions.lit(bound)) for bound in spec.interval)
        if dict(frame.dtypes).get(spec.timestamp) == "bigint":
            column = functions.timestamp_millis(column)
        return frame.where((column >= first) & (column < end))

    def _columns(self, frame: DataFrame) -> DataFrame:
        """Return the declared columns, in their order; the bytes of messages that have a serde."""
        if self._bound.spec.schema is None:
            return frame
        if self._bound.spec.serde is not None:
            return self._bytes(frame)
        names = Schema.of(self._bound.spec.schema).names
        lacking = [name for name in names if name not in frame.columns]
        if lacking:
            others = [name for name in frame.columns if name not in names]
            raise SchemaError(
                f"What Spark reads as {self._stream.stream_id!r} has no column {lacking[0]!r}.",
                hint=f"{did_you_mean(lacking[0], others)}It has {', '.join(frame.columns)}; declare those.",
                stream=self._stream.stream_id,
                column=lacking[0],
            )
        return frame.select(*(f"`{name}`" for name in names))

    def _bytes(self, frame: DataFrame) -> DataFrame:
        """Return the column of bytes; a column of texts holds them in UTF-8."""
        kind = dict(frame.dtypes).get(VALUE_COLUMN)
        if kind not in ("binary", "string"):
            what = f"is {kind}" if kind is not None else f"is not there (it has {', '.join(frame.columns)})"
            raise SchemaError(
                f"The input {self._stream.stream_id!r} has a serde, whose bytes are read from the column 'value', "
                f"which {what}.",
                hint="Read a table with such a column of type binary or string, or leave serde= out.",
                stream=self._stream.stream_id,
                column=VALUE_COLUMN,
            )
        return frame.select(frame[VALUE_COLUMN].cast("binary").alias(VALUE_COLUMN))

    def _stage(self, frame: DataFrame, schema: str) -> dict[int, Any]:
        """Run the job: each Spark partition stages its rows by the partition of the stream to which they go."""
        spec = self._bound.spec
        partitions = spec.partitions or 1
        if partitions > 1 and not spec.key:
            frame = frame.withColumn(PLACE_COLUMN, _place(frame, partitions))
        stage = self._context.handle.stage_id
        task = ReadTask(
            self._context.files.root,
            str(spec.through),
            schema,
            tuple(spec.key),
            partitions,
            stage,
            spec.name,
            spec.serde,
            self._driver.for_workers(frame.sparkSession, with_root_access({}, self._context.files.root)),
        )
        rows = frame.mapInArrow(task, READ_RESULT).collect()
        return {int(row["task"]): json.loads(row["staged"]) for row in rows}

    def _named(self, traceback: TracebackType | None) -> str:
        """Return the function of from_dataframe, with the place in it at which it failed, or where it stands."""
        reader = self._stream.reader
        at = user_location(reader, traceback)
        return (
            f"{name_of(reader)}, the function of from_dataframe "
            f"{self._stream.stream_id!r}{f' ({at})' if at is not None else ''}"
        )

    def _failed(self, error: BaseException) -> SamzaError:
        stream_id = self._stream.stream_id
        lacking = find_lacking(str(error), f"the input {stream_id!r} (system {self._bound.system!r})")
        if lacking is not None:
            return lacking
        said = first_line(error, self._table)
        if self._stream.reader is not None:
            return StageFailed(
                f"{self._named(error.__traceback__)}, failed with {said}.",
                hint="It gets the stage runner's Spark session: does it run in a notebook on the same Spark?",
                stream=stream_id,
                stage=self._context.handle.stage_id,
            )
        assert self._table is not None
        return StageFailed(
            f"Spark cannot read the input {stream_id!r} from {self._table.place} (system {self._bound.system!r}): "
            f"{said}.",
            hint="Does it exist, may this Spark read it, and has it the reader (a JDBC driver, "
            "a catalog) that it takes?",
            stream=stream_id,
            stage=self._context.handle.stage_id,
        )


def read_table(spark: SparkSession, table: SparkTable) -> DataFrame:
    """Return what a DataFrame reader reads of a table."""
    if table.query and table.format != "jdbc":
        return spark.sql(table.query)
    if table.format == "jdbc":
        where = {"query": table.query} if table.query else {"dbtable": table.table or table.stream}
        return read_hidden(spark, "jdbc", {**table.options, **where}, table.secret)
    if table.path is not None:
        if is_remote(spark):
            return read_hidden(spark, table.format or "parquet", {**table.options, "path": table.path}, table.secret)
        reader = spark.read.options(**table.options)
        return (reader.format(table.format) if table.format else reader).load(table.path)
    reject_hidden(spark, table)
    return spark.read.options(**table.options).table(table.table or table.stream)


def reject_hidden(spark: SparkSession, table: SparkTable) -> None:
    """Reject secret options where Spark takes options by a plan only, and the plan goes to a Spark Connect server."""
    secret = sorted((secret_names(table.options) | table.secret) & set(table.options))
    if is_remote(spark) and secret:
        raise ConfigError(
            f"The stream {table.stream!r} in {table.place} (system {table.system!r}) has the option {secret[0]!r}, "
            "which a Spark Connect server would write into its log with the whole plan.",
            hint="Give the server the secret (a catalog in its settings) and leave the option out, or use a master of "
            "another kind.",
            key=secret[0],
        )


def unreadable_kind(result: Any) -> str:
    """Return in words what a user's function has returned; nothing for a DataFrame that can be read once."""
    if not hasattr(result, "mapInArrow"):
        return type(result).__name__
    return "a streaming DataFrame" if getattr(result, "isStreaming", False) else ""


def first_line(error: BaseException, table: SparkTable | None) -> str:
    """Return the kind of an exception of Spark, and the line of it that tells most, without secrets."""
    text = str(error) if table is None else table.without_secrets(str(error))
    kind = type(error).__name__
    return f"{kind}: {most_specific_line(text)}" if text.strip() else kind


def _place(frame: DataFrame, partitions: int) -> Any:
    """Return the partition of a row without a key.

    Of a hash of all that Spark can hash, so that equal data are packed in the same way.
    """
    from pyspark.sql import functions

    names = [name for name, kind in frame.dtypes if "map<" not in kind and "variant" not in kind]
    if not names:
        return functions.lit(0)
    return functions.pmod(functions.hash(*(functions.col(f"`{name}`") for name in names)), functions.lit(partitions))

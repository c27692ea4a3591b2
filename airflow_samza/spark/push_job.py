"""Pushes on Spark: the source as a DataFrame with the table's columns, and the job that reads, checks and stages it.

Columns are selected, cast and marked. Failures of Spark become our errors: those that stay, and those that may pass and
are worth another try.
"""

from __future__ import annotations

import dataclasses
import logging
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_samza.application.source_location import SourceLocation
from airflow_samza.engine.push_task import PushTask
from airflow_samza.engine.stage_context import PushContext
from airflow_samza.engine.worker_errors import python_failure
from airflow_samza.errors import PushError, SamzaError, SchemaError, SourceUnavailable, StageFailed
from airflow_samza.launch.bindings import with_root_access
from airflow_samza.launch.log_lines import WHOLE_ERROR, WHOLE_TRACEBACK
from airflow_samza.launch.table_push import function_of_source
from airflow_samza.runs.tables.push_checks import check_columns, column_expressions, quoted
from airflow_samza.runs.tables.push_request import SOURCE, PushRequest
from airflow_samza.runs.tables.table_version import DELETED
from airflow_samza.schema import DataType, Field, Schema, key_type, parse_type
from airflow_samza.secrecy import secret_names, without
from airflow_samza.spark.dataframe_inputs import unreadable_kind
from airflow_samza.spark.hidden_options import is_remote, read_hidden, reject_secrets
from airflow_samza.spark.lacking_jars import find_lacking
from airflow_samza.spark.lake_source import read_lake
from airflow_samza.spark.sealed_bindings import unsealed
from airflow_samza.spark.sessions.driver_session import DriverSession
from airflow_samza.spark.stage_job import collect, failures, losses, most_specific_line
from airflow_samza.spark.worker_rows import DONE, on_partition
from airflow_samza.systems.system import StreamSpec
from airflow_samza.systems.tables.inputs.change_columns import ADDED, CHANGE

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger("airflow_samza.runner")

_BY_ENDING = {".parquet": "parquet", ".orc": "orc", ".avro": "avro", ".csv": "csv", ".json": "json", ".jsonl": "json"}

_OF_FORMAT: Mapping[str, Mapping[str, str]] = {
    "csv": {"header": "true", "mode": "FAILFAST"},
    "json": {"mode": "FAILFAST"},
}
"""Defaults of the options: a header, and no bad line that is left out in silence."""

_LATEST, _CHANGE = "__latest_by", "__change"
"""Columns beside those of the table, by which rows are ordered; longer where the table has such names itself."""

_NAMED = re.compile(r"\[([A-Z][A-Z0-9_]*(?:\.[A-Z0-9_]+)*)\]")
"""Spark's names of a failure, by class and subclass."""

_OF_VALUES = (
    "CAST_",
    "NUMERIC_VALUE_OUT_OF_RANGE",
    "MALFORMED",
    "CANNOT_READ_FILE_FOOTER",
    "DATA_TYPE_MISMATCH",
    "DATETIME",
)
_OF_NAMES = ("DATA_SOURCE_NOT_FOUND",)
_NO_CONNECTION = "FAILED_JDBC.CONNECTION"
"""Spark takes a database that does not answer for a mistake in the query."""

_NO_SECRETS: Mapping[str, Any] = {}


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
        if request.lake is not None:
            return read_lake(driver, spark, push, request.lake)
        return read_source(spark, request, secrets)


@dataclass(frozen=True)
class PushJob:
    """The function that ``mapInArrow`` calls to stage a partition of the table."""

    work: PushTask

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield one row."""
        return on_partition(f"push of {self.work.push}", lambda task: unsealed(self.work).run(task, batches))


def format_of(source: Mapping[str, Any]) -> str:
    """Return the format of a path: the specified one, else by its ending, else Parquet."""
    path = str(source["path"]).rstrip("/*")
    return str(
        source.get("format") or next((name for ending, name in _BY_ENDING.items() if path.endswith(ending)), "parquet")
    ).lower()


def read_source(spark: SparkSession, request: PushRequest, secrets: Mapping[str, Any]) -> DataFrame:
    """Return the source as Spark reads it. ``secrets`` are options that lie in no file, such as a password."""
    source = request.source
    kind = request.kind_of_source
    if kind == "callable":
        return _called(spark, request)
    with failures_of_source(request, secrets):
        if kind == "path":
            chosen = format_of(source)
            options = {**_OF_FORMAT.get(chosen, {}), **source.get("options", {}), **secrets}
            return _read_path(spark, request, chosen, options, secrets)
        if kind == "table":
            return spark.table(source["table"])
        if kind == "query":
            return spark.sql(source["query"])
        return read_hidden(spark, "jdbc", {**source["jdbc"], **secrets}, secrets)


def _called(spark: SparkSession, request: PushRequest) -> DataFrame:
    """Return what a function of the user's makes of the session."""
    name = str(request.source["callable"])
    what = f"The function {name!r} that makes the rows of table {request.table!r}"

    def failed(error: BaseException) -> StageFailed:
        log.error("%s failed", what, exc_info=error)
        at = SourceLocation.of_traceback(error.__traceback__)
        said = f"{type(error).__name__}: {most_specific_line(str(error))}{f' ({at})' if at is not None else ''}"
        return _stage_failed(request, f"{what} failed: {said}")

    with failures({}, failed):
        result = function_of_source(request.table, name)(spark)
    returned = unreadable_kind(result)
    if returned:
        raise PushError(
            f"{what} returned {returned}, and must return a DataFrame of Spark that is read once.",
            hint="Return spark.table(…), spark.read… or spark.createDataFrame(…).",
            table=request.table,
        )
    frame: DataFrame = result
    reject_secrets(spark, frame, what)
    return frame


def _read_path(
    spark: SparkSession, request: PushRequest, format: str, options: Mapping[str, Any], secrets: Mapping[str, Any]
) -> DataFrame:
    """Return a source in files, one path or several."""
    path = request.source["path"]
    if isinstance(path, str) and is_remote(spark):
        return read_hidden(spark, format, {**options, "path": path}, secrets)
    if is_remote(spark) and (secrets or secret_names(options)):
        raise PushError(
            f"The push of table {request.table!r} reads several paths with a secret option, which no plan of Spark "
            "Connect may hold.",
            hint="Name one path: a folder, or a pattern such as /data/{a,b}.",
            table=request.table,
        )
    return spark.read.format(format).options(**options).load(path)


def table_columns(request: PushRequest, source: DataFrame) -> tuple[DataFrame, Schema]:
    """Return the rows as the push stream has them, perhaps with columns to order by, and the table's columns."""
    loose = request.kind_of_source == "path" and format_of(request.source) in ("csv", "json")
    with failures_of_source(request):  # Spark Connect looks at the source only now
        named = [name for name in source.columns if request.since is None or name != CHANGE]
        columns = column_expressions(request, named)
    latest_by, change = (unused_name(name, columns) for name in (_LATEST, _CHANGE))
    deletes = f"coalesce({request.deletes}, false)" if request.deletes is not None else "false"
    latest = [f"{quoted(request.latest_by)} AS {latest_by}"] if request.latest_by is not None else []
    # What is no change is known by all its values, and rows that are gone keep theirs until that is known.
    cleared = DELETED if request.since is None else f"{DELETED} AND {change} = '{ADDED}'"
    marks = [] if request.since is None else [f"{CHANGE} AS {change}"]
    with failures_of_source(request):
        taken = source.selectExpr(
            *(f"{expression} AS {quoted(name)}" for name, expression in columns.items()),
            f"{deletes} AS {DELETED}",
            *latest,
            *marks,
        )
        source_schema = Schema(
            tuple(
                Field(field.name, _type(request, field.name, field.dataType.simpleString()))
                for field in taken.schema.fields[: len(columns)]
            )
        )
    table_schema = Schema.of(request.schema) if request.schema is not None else source_schema
    check_columns(request, source_schema, table_schema, loose=loose)
    kept = [
        f"CAST({quoted(field.name) if field.name in request.key else f'IF({cleared}, NULL, {quoted(field.name)})'} "
        f"AS {field.type.ddl()}) AS {quoted(field.name)}"
        for field in table_schema.fields
    ]
    order = [*([latest_by] if latest else []), *([change] if marks else [])]
    with failures_of_source(request):
        return taken.selectExpr(*kept, DELETED, *order), table_schema


def _type(request: PushRequest, column: str, text: str) -> DataType:
    try:
        return parse_type(text)
    except SchemaError:
        raise PushError(
            f"The push of table {request.table!r} from {request.source_text} has the column {column!r} of type "
            f"{text}, which no table has.",
            hint=f"Make it one that a table has: columns={{{column!r}: 'CAST({column} AS string)'}}.",
            table=request.table,
            column=column,
        ) from None


def partitioned(request: PushRequest, rows: DataFrame, schema: Schema) -> DataFrame:
    """Return the rows in the partitions of the topic, those of one key beside each other, the latest last."""
    casts = {"bigint": "BIGINT", "double": "DOUBLE"}
    names = {name: key_type(schema[name].type) for name in request.key}
    # The hash of Spark's own repartitioning is the partitioner's: task k gets what belongs to partition k.
    keys = [f"CAST({quoted(name)} AS {casts[kind]})" if kind in casts else quoted(name) for name, kind in names.items()]
    from pyspark.sql.functions import expr

    spread = rows.repartition(request.partitions, *(expr(key) for key in keys))
    latest_by, change = (unused_name(name, schema.names) for name in (_LATEST, _CHANGE))
    marks = [change] if request.since is not None else []
    order = [*(quoted(name) for name in request.key), *marks, *([latest_by] if request.latest_by is not None else [])]
    ordered = spread.sortWithinPartitions(*(expr(name) for name in order))
    return ordered.drop(latest_by) if request.latest_by is not None else ordered


def unused_name(name: str, columns: Iterable[str]) -> str:
    """Return a name that no column has in any case, for one beside them.

    >>> unused_name("__change", ["id", "__Change"])
    '__change_'
    """
    taken = {column.lower() for column in columns}  # Spark tells no upper case from lower
    while name in taken:
        name += "_"
    return name


def failures_of_source(request: PushRequest, secrets: Mapping[str, Any] = _NO_SECRETS) -> AbstractContextManager[None]:
    """Report Spark's rejection of a source as a sentence about the push, without secrets."""
    return failures({}, lambda error: _source_failure(request, error, secrets))


def job_failed(request: PushRequest, text: str) -> SamzaError:
    """Return the error of a Spark job that has failed with this text, and none of ours in it."""
    raised = python_failure(text)
    if raised is not None and request.kind_of_source == "callable":
        function = request.source["callable"]
        return _stage_failed(
            request, f"A worker failed at the rows that {function!r} makes for table {request.table!r}: {raised}"
        )
    said = raised or most_specific_line(text)
    if _is_named(text, _OF_VALUES):
        return PushError(
            f"The source of the push of table {request.table!r} ({request.source_text}) has values that are not the "
            f"table's: {said}",
            hint="Fix the source, or say how to read it: columns={'column': 'try_cast(…)'}.",
            table=request.table,
        )
    return _stage_failed(request, f"The Spark job of the push of table {request.table!r} failed: {said}", WHOLE_ERROR)


def _stage_failed(request: PushRequest, sentence: str, hint: str = WHOLE_TRACEBACK) -> StageFailed:
    return StageFailed(sentence, hint=hint, stage=request.handle.stage_id, run=request.handle.run_id)


def _source_failure(request: PushRequest, error: BaseException, secrets: Mapping[str, Any]) -> SamzaError:
    text = str(error)
    said = most_specific_line(without(text, secrets.values()))
    lacking = find_lacking(text, f"the source of the push of table {request.table!r} ({request.source_text})")
    if lacking is not None:
        return lacking
    if _may_pass(error, text):
        return SourceUnavailable(
            f"The source of the push of table {request.table!r} ({request.source_text}) cannot be read now: {said}",
            hint="Nothing was pushed; try again when it answers. If it never answered, correct source=.",
            table=request.table,
        )
    return PushError(
        f"The source of the push of table {request.table!r} ({request.source_text}) cannot be read: {said}",
        hint="Correct source=, columns=, deletes= or latest_by=.",
        table=request.table,
    )


def _may_pass(error: BaseException, text: str) -> bool:
    """Return whether a source may be there in a minute: a host does not answer, a file is being replaced."""
    from pyspark.errors import AnalysisException, IllegalArgumentException

    if _NO_CONNECTION in text:
        return True
    is_wrong = isinstance(error, (AnalysisException, IllegalArgumentException)) or "ClassNotFoundException" in text
    return not is_wrong and not _is_named(text, _OF_VALUES + _OF_NAMES)


def _is_named(text: str, words: tuple[str, ...]) -> bool:
    return any(word in name for name in _NAMED.findall(text) for word in words)

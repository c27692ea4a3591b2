"""Source of a table push as a DataFrame with the table's columns, selected, cast and marked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from airflow_samza.errors import PushError, SchemaError
from airflow_samza.launch.table_push import function_of_source
from airflow_samza.runs.tables.push_checks import check_columns, column_expressions, quoted
from airflow_samza.runs.tables.push_request import PushRequest
from airflow_samza.runs.tables.table_version import DELETED
from airflow_samza.schema import DataType, Field, Schema, key_type, parse_type
from airflow_samza.secrecy import secret_names
from airflow_samza.spark.dataframe_inputs import unreadable_kind
from airflow_samza.spark.hidden_options import is_remote, read_hidden, reject_secrets
from airflow_samza.spark.push_failures import failures_of_source
from airflow_samza.systems.tables.inputs.change_columns import ADDED, CHANGE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FORMATS = ("parquet", "orc", "avro", "csv", "json")

_BY_ENDING = {".parquet": "parquet", ".orc": "orc", ".avro": "avro", ".csv": "csv", ".json": "json", ".jsonl": "json"}

_OF_FORMAT: Mapping[str, Mapping[str, str]] = {
    "csv": {"header": "true", "mode": "FAILFAST"},
    "json": {"mode": "FAILFAST"},
}
"""Defaults of the options: a header, and no bad line that is left out in silence."""

_LATEST, _CHANGE = "__latest_by", "__change"
"""Columns beside those of the table, by which rows are ordered; longer where the table has such names itself."""


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
    with failures_of_source(request, secrets):
        if kind == "path":
            chosen = format_of(source)
            options = {**_OF_FORMAT.get(chosen, {}), **source.get("options", {}), **secrets}
            return _read_path(spark, request, chosen, options, secrets)
        if kind == "table":
            return spark.table(source["table"])
        if kind == "query":
            return spark.sql(source["query"])
        if kind == "jdbc":
            return read_hidden(spark, "jdbc", {**source["jdbc"], **secrets}, secrets)
        result = function_of_source(request.table, str(source["callable"]))(spark)
        returned = unreadable_kind(result)
        if returned:
            raise PushError(
                f"The function {source['callable']!r} that makes the rows of table {request.table!r} returned "
                f"{returned}, and must return a DataFrame of Spark that is read once.",
                hint="Return spark.table(…), spark.read… or spark.createDataFrame(…).",
                table=request.table,
            )
        frame: DataFrame = result
        reject_secrets(
            spark, frame, f"The function {source['callable']!r} that makes the rows of table {request.table!r}"
        )
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

"""The lineage of a push: the source, the table that it fills, and of which columns the table's are made.

The push operator reports it; the preview of a backfill finds by it what a run awaits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from airflow_samza.errors import SamzaError
from airflow_samza.provider.lineage.dataset_names import DatasetName, jdbc_dataset, log_dataset, path_dataset
from airflow_samza.provider.lineage.dataset_names import table_dataset as lake_dataset
from airflow_samza.runs.tables.lake_source import LakeSource
from airflow_samza.runs.tables.table_version import TableVersion
from airflow_samza.schema import Schema
from airflow_samza.system_kinds import EMBEDDED
from airflow_samza.task.program.column_sources import IDENTITY, NOTHING, TRANSFORMATION, ColumnSource, StreamLineage

if TYPE_CHECKING:
    from airflow_samza.provider.hooks.samza import SamzaHook


@dataclass
class PushLineage:
    """A push of a table, or a rollback, which has no source; ``version`` once it is there."""

    SOURCE: ClassVar[str] = "source"

    table: DatasetName
    source: DatasetName | None = None
    schema: Schema | None = None
    columns: StreamLineage | None = None
    version: TableVersion | None = None
    error: str | None = None


def push_lineage(
    hook: SamzaHook,
    application: str,
    table: str,
    config: Mapping[str, str] | None,
    source: Any = None,
    columns: Sequence[str] | Mapping[str, str] | None = None,
    source_url: str = "",
) -> PushLineage | None:
    """Return the lineage of a push as far as it is known before it runs; None where the table cannot be found.

    ``source`` and ``columns`` are those of the push, ``source_url`` that of the source's connection.
    """
    try:
        place = table_dataset(hook, application, table, config)
        schema = _schema(application, table, config)
        column_names = _columns(schema, columns)
    except SamzaError:
        return None
    return PushLineage(place, _source(source, source_url, hook), schema, column_names)


def table_dataset(hook: SamzaHook, application: str, table: str, config: Mapping[str, str] | None) -> DatasetName:
    """Return the name of a pushed table: that of the stream that its readers read."""
    place = hook.pushed_table(application, table, config)
    binding = hook.bindings().get(place.system)
    root = hook.root if binding is None or binding.kind != EMBEDDED else str(binding.options.get("root") or hook.root)
    return log_dataset(place.topic, root)


def _schema(application: str, table: str, config: Mapping[str, str] | None) -> Schema | None:
    from airflow_samza.application.loader import load_application

    spec = load_application(application).spec(config or {})
    stream = spec.side_inputs.get(f"{table}-push")
    return spec.table(table).schema or (stream.schema if stream is not None else None)


def _source(source: Any, url: str, hook: SamzaHook) -> DatasetName | None:
    """Return the dataset that a push reads; that of a query or a callable is not known."""
    if not isinstance(source, str | Mapping):
        return None
    facts = {"path": source} if isinstance(source, str) else source
    if facts.get("path"):
        return path_dataset(str(facts["path"]))
    if facts.get("table"):
        return DatasetName("spark://catalog", str(facts["table"]), f"x-spark://catalog/{facts['table']}")
    lake = LakeSource.of(facts)
    if lake is not None:
        binding = hook.bindings().get(lake.system)
        return lake_dataset(lake.table, lake.system, binding) if binding is not None else None
    options = facts.get("jdbc")
    if isinstance(options, Mapping) and options.get("dbtable"):
        address = str(options.get("url") or url)
        return jdbc_dataset(address, str(options["dbtable"])) if address.startswith("jdbc:") else None
    return None


def _columns(schema: Schema | None, columns: Sequence[str] | Mapping[str, str] | None) -> StreamLineage | None:
    """Return the columns of the table by those of the source; None where only the source knows them."""
    from airflow_samza.task.expressions.column_use import column_use

    source = PushLineage.SOURCE
    if not isinstance(columns, Mapping):
        names = schema.names if schema is not None else columns
        return None if names is None else StreamLineage({n: frozenset([ColumnSource(source, n)]) for n in names})
    sources = {}
    for name, text in columns.items():
        use = column_use(text)
        how = IDENTITY if use is not None and use.is_column else TRANSFORMATION
        named = NOTHING if use is None else frozenset(ColumnSource(source, column, how) for column in use.values)
        decides = () if use is None else (ColumnSource(source, column, "CONDITIONAL") for column in use.conditions)
        sources[name] = named.union(decides)
    return StreamLineage(sources)

"""The lineage of tasks, in plain values that are gathered while they run: what they read and write, of which columns.

Nothing here imports OpenLineage, which need not be installed. Stage, push, publish and cleanup tasks gather it; the
preview of a backfill finds by it what a run awaits.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, reduce
from typing import TYPE_CHECKING, Any, ClassVar

from airflow_samza.application.loader import load_application
from airflow_samza.errors import SamzaError
from airflow_samza.grouping import grouped
from airflow_samza.prepare.bound_systems import run_bindings
from airflow_samza.provider.lineage.dataset_names import (
    DatasetName,
    jdbc_dataset,
    log_dataset,
    names_of,
    path_dataset,
    table_dataset as lake_dataset,
)
from airflow_samza.runs.records.run_plan import CONTINUOUS, RunPlan, side_input_key, slice_facts
from airflow_samza.runs.records.stage_result import VERSIONS, InputResult, OutputResult, StageResult
from airflow_samza.runs.tables.lake_source import LakeSource
from airflow_samza.runs.tables.table_version import TableVersion
from airflow_samza.schema import Schema
from airflow_samza.system_kinds import EMBEDDED
from airflow_samza.task.program.column_sources import (
    IDENTITY,
    NOTHING,
    TRANSFORMATION,
    ColumnSource,
    StreamLineage,
    lineage_through,
)

if TYPE_CHECKING:
    from airflow_samza.provider.hooks.samza import SamzaHook

log = logging.getLogger(__name__)


@dataclass
class TaskLineage:
    """The stages of a run that a task runs, or has come to know: ``results`` of those that have ended.

    ``names`` are the datasets of the run's streams, by the keys of ``RunPlan.streams``. ``whole``: of the run's own
    topics nothing is said, and columns are followed from the run's inputs to its outputs.
    """

    run: RunPlan
    stage_ids: Sequence[str]
    names: Mapping[str, DatasetName]
    whole: bool = False
    results: list[StageResult] = field(default_factory=list)
    error: str | None = None

    @property
    def inputs(self) -> dict[DatasetName, list[str]]:
        """The streams that are read, by dataset; two streams may be one dataset."""
        stages = [self.run.plan.stage(stage_id) for stage_id in self.stage_ids]
        streams = dict.fromkeys(s for stage in stages for s in (*stage.inputs, *stage.side_inputs))
        return self._by_dataset(streams)

    @property
    def outputs(self) -> dict[DatasetName, list[str]]:
        """The streams that are written, by dataset."""
        stages = [self.run.plan.stage(stage_id) for stage_id in self.stage_ids]
        return self._by_dataset(dict.fromkeys(stream for stage in stages for stream in stage.outputs))

    def name_of(self, stream_id: str) -> DatasetName | None:
        """Return the dataset of a stream, in whatever role the run has it."""
        return self.names.get(stream_id) or self.names.get(side_input_key(stream_id))

    def read(self, streams: Sequence[str]) -> list[InputResult]:
        """Return what stages that have ended read of streams."""
        return [read for result in self.results for read in result.inputs if read.stream_id in streams]

    def written(self, streams: Sequence[str]) -> list[OutputResult]:
        """Return what stages that have ended wrote to streams."""
        return [output for result in self.results for output in result.outputs if output.stream_id in streams]

    def version_read(self, streams: Sequence[str]) -> str | None:
        """Return the snapshot or version of a table of a lake up to which the plan reads streams; None: none."""
        bound = [self.run.streams.get(side_input_key(s)) or self.run.streams.get(s) for s in streams]
        return _version([one.slice for one in bound if one is not None and one.slice is not None])

    def range_of(self, stream_id: str) -> dict[str, Any]:
        """Return what is shown of the range that the plan fixes for a stream; nothing where a run follows it."""
        range_ = self.run.stream(stream_id).slice or {}
        return {} if self.run.mode == CONTINUOUS and "chunks" in range_ else slice_facts(range_)

    def version_written(self, streams: Sequence[str]) -> str | None:
        """Return the newest snapshot or version that stages that have ended have committed; None: none."""
        return _version([output.facts for output in self.written(streams)])

    def schema_of(self, stream_id: str) -> Schema | None:
        """Return the columns of a stream, as far as they are known without looking at it."""
        columns = self.columns.get(stream_id)
        if columns is not None and columns.schema is not None:
            return columns.schema
        bound = self.run.streams.get(stream_id) or self.run.streams.get(side_input_key(stream_id))
        ddl = (bound.spec.schema if bound is not None else None) or self.run.schemas.get(stream_id)
        return Schema.of(ddl) if ddl is not None else None

    @cached_property
    def columns(self) -> Mapping[str, StreamLineage]:
        """The column lineage of the streams that are written; empty where the application can no longer be read."""
        from airflow_samza.task.program.column_lineage import column_lineage

        stages = {stage.stage_id: stage.operators for stage in self.run.plan.stages}
        schemas = {stream_id: Schema.of(ddl) for stream_id, ddl in self.run.schemas.items()}
        try:
            spec = load_application(self.run.reference).spec(self.run.config)
            by_stage = column_lineage(spec, stages, schemas, self.run.contents)
        except Exception as error:  # no lineage is worth a task
            log.info("The columns of %s have no lineage: %s", self.run.application, error)
            return {}
        if self.whole:
            return lineage_through(by_stage)
        of_streams = grouped(pair for stage_id in self.stage_ids for pair in by_stage[stage_id].items())
        return {stream_id: reduce(StreamLineage.with_, lineages) for stream_id, lineages in of_streams.items()}

    def _by_dataset(self, streams: Mapping[str, Any]) -> dict[DatasetName, list[str]]:
        named = [(self.name_of(name), name) for name in streams if not (self.whole and self.run.is_own(name))]
        return grouped((dataset, stream_id) for dataset, stream_id in named if dataset is not None)


def _version(facts: Sequence[Mapping[str, Any]]) -> str | None:
    versions = [str(one[name]) for one in facts for name in VERSIONS if one.get(name) is not None]
    return versions[-1] if versions else None


@dataclass
class WholeRun:
    """A run that is over, as a job of its own beside the tasks that ran it; ``scope`` is the task group's id."""

    lineage: TaskLineage
    scope: str
    succeeded: bool = False


def whole_run(hook: SamzaHook, run: RunPlan, scope: str) -> WholeRun | None:
    """Return the lineage of a run with the results of its stages; None where its records cannot be read now."""
    stages = [stage.stage_id for stage in run.plan.stages]
    try:
        return WholeRun(TaskLineage(run, stages, names_in(hook, run), whole=True, results=hook.results(run)), scope)
    except (SamzaError, OSError) as error:
        log.info("The run %s has no lineage: %s", run.run_id, error)
        return None


def names_in(hook: SamzaHook, run: RunPlan) -> dict[str, DatasetName]:
    """Return the datasets of a run's streams, as the hook's connections bind them; none where they do not."""
    try:
        spec = load_application(run.reference).spec(run.config)
        return names_of(run, run_bindings(run.systems, hook.bindings()), hook.root, spec)
    except SamzaError as error:
        log.info("The datasets of %s have no names: %s", run.application, error.sentence)
        return {}


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

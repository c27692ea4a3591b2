"""Facets and datasets of OpenLineage, of what a task has gathered. Loaded only by OpenLineage's own calls."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timezone
from functools import reduce, singledispatch
from typing import Any

import attr
from airflow.providers.openlineage.extractors import OperatorLineage
from airflow.providers.openlineage.plugins.listener import get_openlineage_listener
from airflow.providers.openlineage.plugins.macros import lineage_job_namespace, lineage_root_run_id
from openlineage.client.event_v2 import InputDataset, Job, OutputDataset, Run, RunEvent, RunState
from openlineage.client.facet_v2 import (
    JobFacet,
    RunFacet,
    column_lineage_dataset,
    data_quality_assertions_dataset,
    dataset_version_dataset,
    error_message_run,
    input_statistics_input_dataset,
    job_type_job,
    output_statistics_output_dataset,
    parent_run,
    schema_dataset,
    symlinks_dataset,
)
from openlineage.client.uuid import generate_static_uuid

from airflow_samza.application.expectations import CONDITION, FOREIGN_KEY, FRESH, NOT_NULL, ROWS, UNIQUE
from airflow_samza.grouping import grouped
from airflow_samza.provider.lineage.dataset_names import DatasetName, TableName
from airflow_samza.provider.lineage.task_lineage import PushLineage, TaskLineage, WholeRun
from airflow_samza.runs.records.expectations import DEAD_LETTERS, DROPPED, WARNED
from airflow_samza.runs.records.run_plan import RunPlan
from airflow_samza.runs.records.stage_result import InputResult, OutputResult, StageResult
from airflow_samza.runs.tables.table_version import TableVersion
from airflow_samza.schema import Schema
from airflow_samza.task.program.column_sources import ColumnSource, StreamLineage

Lineage = OperatorLineage[Any, Any]

PRODUCER = "https://pypi.org/project/airflow-samza/"

SCHEMAS = "urn:airflow-samza:openlineage:1-0-0"
"""The identity of the schemas of our facets, which docs/reference/openlineage-facets.json holds."""

MOST_STAGES = 100
"""Stages that a facet lists; a plan may have hundreds, and events go over the network."""

MOST_FIELDS = 5000
"""Pairs of columns that the lineage of one dataset lists; of more, the sources stand for the dataset as a whole."""

MOST_SOURCES = 2000
"""Columns that are listed for a dataset as a whole."""

_DESCRIPTION = "by a Python callable, or by SQL that only Spark reads: all columns of its input"


class _OfOurs:
    @classmethod
    def _get_schema(cls) -> str:
        return f"{SCHEMAS}#/$defs/{cls.__name__}"


@attr.define
class SamzaJobFacet(_OfOurs, JobFacet):
    """The application, and the stage of it that a task runs (None: all, or none)."""

    application: str
    stage: str | None = None


@attr.define
class SamzaPlanRunFacet(_OfOurs, RunFacet):
    """The plan of a run: its stages with what each reads and writes, and the partition counts of its streams.

    ``tables`` are the inputs that are tables of lakes: table, snapshot or version, files, rows, bytes.
    """

    application: str
    runId: str  # noqa: N815 - OpenLineage's spelling
    generation: int
    fingerprint: str
    mode: str
    stages: list[dict[str, Any]]
    partitions: dict[str, int]
    tables: dict[str, dict[str, Any]]
    leftOut: int = 0  # noqa: N815 - OpenLineage's spelling


@attr.define
class SamzaStagesRunFacet(_OfOurs, RunFacet):
    """The stages of a run that have ended."""

    application: str
    runId: str  # noqa: N815 - OpenLineage's spelling
    stages: list[dict[str, Any]]
    leftOut: int = 0  # noqa: N815 - OpenLineage's spelling


def facets_at_start(application: str, stage: str | None) -> Lineage:
    """Return what is known of a task before it has done anything."""
    return OperatorLineage(job_facets={"samza": SamzaJobFacet(application, stage, producer=PRODUCER)})


def facets_of(lineage: Any, ti: Any, operator: Any) -> Lineage:
    """Return what a task read and wrote; one that failed before it knew that says no more than at its start."""
    begun = facets_at_start(getattr(operator, "application", ""), getattr(operator, "stage", None))
    if isinstance(lineage, WholeRun):
        emit_whole_run(lineage, _facets(lineage.lineage), ti)
        return begun
    return begun if lineage is None else _facets(lineage).merge(begun)


def emit_whole_run(run: WholeRun, lineage: Lineage, ti: Any) -> None:
    """Send the start and the end of a run as a job of its own: ``<Dag>.<task group>``, whose parent is the Dag run.

    Called where OpenLineage's provider sends the task's own event, in a process beside the task.
    """
    dag_run = ti.get_template_context()["dag_run"]
    date = dag_run.logical_date or dag_run.run_after
    job = f"{ti.dag_id}.{run.scope}"
    parent = lineage_root_run_id(ti)
    identity = f"{lineage_job_namespace()}.{job}.{run.lineage.run.run_id}.{run.lineage.run.generation}.{ti.try_number}"
    run_id = str(generate_static_uuid(instant=date, data=identity.encode()))
    facets = {
        **lineage.run_facets,
        "parent": parent_run.ParentRunFacet(
            run=parent_run.Run(runId=parent),
            job=parent_run.Job(namespace=lineage_job_namespace(), name=ti.dag_id),
            producer=PRODUCER,
        ),
    }
    job_facets = {
        "samza": SamzaJobFacet(run.lineage.run.application, producer=PRODUCER),
        "jobType": job_type_job.JobTypeJobFacet("BATCH", "SAMZA", "APPLICATION", producer=PRODUCER),
    }
    event_job = Job(lineage_job_namespace(), job, job_facets)
    began = (dag_run.start_date or ti.start_date).isoformat()
    ended = datetime.now(timezone.utc).isoformat()
    kind = RunState.COMPLETE if run.succeeded else RunState.FAIL
    adapter = get_openlineage_listener().adapter
    start = {"parent": facets["parent"]}
    for event in (
        RunEvent(eventTime=began, producer=PRODUCER, eventType=RunState.START, run=Run(run_id, start), job=event_job),
        RunEvent(
            eventTime=ended,
            producer=PRODUCER,
            eventType=kind,
            run=Run(run_id, facets),
            job=event_job,
            inputs=lineage.inputs,
            outputs=lineage.outputs,
        ),
    ):
        adapter.emit(event)


@singledispatch
def _facets(lineage: object) -> Lineage:
    raise AssertionError(f"no facets are made of {lineage!r}")


@_facets.register
def _of_plan(run: RunPlan) -> Lineage:
    return OperatorLineage(run_facets={"samza_plan": plan_facet(run)})


@_facets.register
def _of_stages(lineage: TaskLineage) -> Lineage:
    facets: dict[str, Any] = {"samza_stages": stages_facet(lineage.run, lineage.results)}
    if lineage.whole:
        facets["samza_plan"] = plan_facet(lineage.run)
    facets.update(_error(lineage.error))
    return OperatorLineage(inputs=inputs_of(lineage), outputs=outputs_of(lineage), run_facets=facets)


@_facets.register
def _of_push(push: PushLineage) -> Lineage:
    facets: dict[str, Any] = {} if push.schema is None else {"schema": schema_facet(push.schema)}
    statistics: dict[str, Any] = {}
    if push.version is not None:
        facets.update(_table_facets(push.table, str(push.version.number)))
        statistics["outputStatistics"] = output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(
            rowCount=push.version.rows, size=push.version.bytes, producer=PRODUCER
        )
        facets.update(_assertions([push.version]))
    if push.columns is not None and push.source is not None:
        facets["columnLineage"] = column_facet(push.columns, {push.SOURCE: push.source})
    source = [] if push.source is None else [InputDataset(*push.source[:2])]
    return OperatorLineage(
        inputs=source,
        outputs=[OutputDataset(*push.table[:2], facets=facets, outputFacets=statistics)],
        run_facets=_error(push.error),
    )


def _error(error: str | None) -> dict[str, Any]:
    """Return the facet of what has ended a task; none of one that has not failed."""
    if error is None:
        return {}
    return {"errorMessage": error_message_run.ErrorMessageRunFacet(error, "python", producer=PRODUCER)}


def inputs_of(lineage: TaskLineage) -> list[InputDataset]:
    """Return the datasets that a task reads, with their columns, and what it read where it has ended."""
    return [
        InputDataset(
            name.namespace,
            name.name,
            facets={**_schema_of(lineage, streams), **_table_facets(name, lineage.version_read(streams))},
            inputFacets=_read(lineage, streams),
        )
        for name, streams in lineage.inputs.items()
    ]


def outputs_of(lineage: TaskLineage) -> list[OutputDataset]:
    """Return the datasets that a task writes, with their columns and of what those are made."""
    places = {stream_id: name for name, streams in lineage.inputs.items() for stream_id in streams}
    datasets = []
    for name, streams in lineage.outputs.items():
        version = lineage.version_written(streams)
        facets: dict[str, Any] = {**_schema_of(lineage, streams), **_table_facets(name, version)}
        lineages = [lineage.columns[stream_id] for stream_id in streams if stream_id in lineage.columns]
        if lineages:
            facets["columnLineage"] = column_facet(reduce(StreamLineage.with_, lineages), places)
        written = lineage.written(streams)
        statistics = _written(written)
        facets.update(_assertions(written))
        datasets.append(OutputDataset(name.namespace, name.name, facets=facets, outputFacets=statistics))
    return datasets


def column_facet(
    columns: StreamLineage, places: Mapping[str, DatasetName]
) -> column_lineage_dataset.ColumnLineageDatasetFacet:
    """Return the facet of column lineage; sources in streams without a name are left out.

    Where the columns have more than :data:`MOST_FIELDS` sources together, those stand for the dataset as a whole.
    """
    count = sum(len(sources) for sources in columns.columns.values())
    of_dataset = columns.rows | columns.rest
    fields = {}
    if count <= MOST_FIELDS:
        fields = {
            name: column_lineage_dataset.Fields(_fields(sources, places)) for name, sources in columns.columns.items()
        }
    else:
        of_dataset = of_dataset.union(*columns.columns.values())
    return column_lineage_dataset.ColumnLineageDatasetFacet(
        fields, _fields(of_dataset, places)[:MOST_SOURCES], producer=PRODUCER
    )


def schema_facet(schema: Schema) -> schema_dataset.SchemaDatasetFacet:
    """Return the columns of a dataset, with their types in DDL."""
    fields = [schema_dataset.SchemaDatasetFacetFields(field.name, field.type.ddl()) for field in schema.fields]
    return schema_dataset.SchemaDatasetFacet(fields, producer=PRODUCER)


def plan_facet(run: RunPlan) -> SamzaPlanRunFacet:
    """Return the plan of a run, bounded in size."""
    stages = [
        {
            "id": stage.stage_id,
            "reads": [*stage.inputs, *stage.side_inputs],
            "writes": list(stage.outputs),
            "tasks": stage.task_count,
            "engines": sorted({engine for engine, _ in run.engines.get(stage.stage_id, {}).values()}),
        }
        for stage in run.plan.stages[:MOST_STAGES]
    ]
    named = {
        stream_id
        for stage in run.plan.stages[:MOST_STAGES]
        for stream_id in (*stage.inputs, *stage.side_inputs, *stage.outputs)
    }
    return SamzaPlanRunFacet(
        application=run.application,
        runId=run.run_id,
        generation=run.generation,
        fingerprint=run.plan.fingerprint,
        mode=run.mode,
        stages=stages,
        partitions={s.stream_id: s.partitions for s in run.plan.streams if s.stream_id in named},
        tables={key: facts for key, facts in run.table_facts.items() if run.streams[key].stream_id in named},
        leftOut=len(run.plan.stages) - len(stages),
        producer=PRODUCER,
    )


def stages_facet(run: RunPlan, results: Sequence[StageResult]) -> SamzaStagesRunFacet:
    """Return the stages that have ended, bounded in number."""
    stages = [
        {
            "id": result.stage_id,
            "generation": result.generation,
            "tasks": result.tasks,
            "epochs": result.epochs,
            "seconds": round(result.seconds, 3),
        }
        for result in results[:MOST_STAGES]
    ]
    return SamzaStagesRunFacet(
        run.application, run.run_id, stages, leftOut=len(results) - len(stages), producer=PRODUCER
    )


def _schema_of(lineage: TaskLineage, streams: Iterable[str]) -> dict[str, Any]:
    schema = next(
        (stream_schema for stream_id in streams if (stream_schema := lineage.schema_of(stream_id)) is not None), None
    )
    return {} if schema is None else {"schema": schema_facet(schema)}


def _table_facets(name: DatasetName, version: str | None) -> dict[str, Any]:
    """Return the facets that tables of lakes have: their name in the catalog, and what was read or committed."""
    facets: dict[str, Any] = {}
    if isinstance(name, TableName):
        identifier = symlinks_dataset.Identifier(*name.in_catalog, "TABLE")
        facets["symlinks"] = symlinks_dataset.SymlinksDatasetFacet([identifier], producer=PRODUCER)
    if version is not None:
        facets["version"] = dataset_version_dataset.DatasetVersionDatasetFacet(version, producer=PRODUCER)
    return facets


def _read(lineage: TaskLineage, streams: Sequence[str]) -> dict[str, Any]:
    """Return the counts of what was read: files and their bytes where the plan names them, else bytes in memory."""
    results = lineage.read(streams)
    if not results:
        return {}
    planned = [lineage.range_of(read.stream_id) for read in results]
    files = [facts["files"] for facts in planned if "files" in facts]
    statistics = input_statistics_input_dataset.InputStatisticsInputDatasetFacet(
        rowCount=sum(read.messages for read in results),
        size=sum(
            facts["bytes"] if "files" in facts else read.bytes for read, facts in zip(results, planned, strict=True)
        )
        or None,
        fileCount=sum(files) if files else None,
        producer=PRODUCER,
    )
    return {"inputStatistics": statistics, **_assertions(results)}


def _assertions(results: Sequence[InputResult | OutputResult | TableVersion]) -> dict[str, Any]:
    """Return the facet of what was expected of data; a client of an older release knows fewer fields."""
    assertion = data_quality_assertions_dataset.Assertion
    known = {each.name for each in attr.fields(assertion)}
    assertions = []
    for each in (each for result in results for each in result.expectations):
        more = {
            "severity": "warn" if each.outcome in (WARNED, DROPPED, DEAD_LETTERS) else "error",
            "name": each.expectation,
            "actual": f"{each.failed} of {each.rows} rows",
            "content": each.expectation if each.kind == CONDITION else None,
            "contentType": "sql" if each.kind == CONDITION else None,
        }
        column = each.columns[0] if len(each.columns) == 1 else None
        further: dict[str, Any] = {name: value for name, value in more.items() if name in known and value is not None}
        assertions.append(assertion(_CLASSES[each.kind], not each.failed, column, **further))
    if not assertions:
        return {}
    facet = data_quality_assertions_dataset.DataQualityAssertionsDatasetFacet(assertions, producer=PRODUCER)
    return {"dataQualityAssertions": facet}


_CLASSES = {
    UNIQUE: "unique",
    NOT_NULL: "not_null",
    CONDITION: "custom_sql",
    ROWS: "row_count",
    FRESH: "freshness",
    FOREIGN_KEY: "relationships",
}
"""The kinds of expectations by the names that OpenLineage gives tests."""


def _written(results: Sequence[OutputResult]) -> dict[str, Any]:
    if not results:
        return {}
    files = [
        len(files_of_output)
        for output in results
        if isinstance(files_of_output := output.facts.get("files"), list | tuple)
    ]
    statistics = output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(
        rowCount=sum(output.messages for output in results),
        size=sum(output.bytes for output in results),
        fileCount=sum(files) if files else None,
        producer=PRODUCER,
    )
    return {"outputStatistics": statistics}


def _fields(
    sources: Iterable[ColumnSource], places: Mapping[str, DatasetName]
) -> list[column_lineage_dataset.InputField]:
    """Return columns of inputs, each once, with the ways in which it plays a part."""
    by_column = grouped(
        ((source.stream, source.column), source) for source in sorted(sources) if source.stream in places
    )
    return [
        column_lineage_dataset.InputField(
            namespace=places[stream].namespace,
            name=places[stream].name,
            field=column,
            transformations=[
                column_lineage_dataset.Transformation(
                    "DIRECT" if source.is_direct else "INDIRECT",
                    source.how,
                    _DESCRIPTION if source.opaque else "",
                    False,
                )
                for source in sources
            ],
        )
        for (stream, column), sources in by_column.items()
    ]

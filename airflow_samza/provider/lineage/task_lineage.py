"""The lineage of a task, in plain values that are gathered while it runs: what it reads and writes, of which columns.

Nothing here imports OpenLineage, which need not be installed. Stage, publish and cleanup tasks gather it.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from airflow_samza.application.loader import load_application
from airflow_samza.errors import SamzaError
from airflow_samza.prepare.bound_systems import run_bindings
from airflow_samza.provider.lineage.dataset_names import DatasetName, names_of
from airflow_samza.runs.progress.run_costs import slice_facts
from airflow_samza.runs.records.run_plan import CONTINUOUS, RunPlan, side_input_key
from airflow_samza.runs.records.stage_result import VERSIONS, InputResult, OutputResult, StageResult
from airflow_samza.schema import Schema

if TYPE_CHECKING:
    from airflow_samza.provider.hooks.samza import SamzaHook
    from airflow_samza.task.program.column_sources import StreamLineage

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
        from airflow_samza.task.program.column_sources import lineage_through

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
        merged: dict[str, StreamLineage] = {}
        for stage_id in self.stage_ids:
            for stream_id, lineage in by_stage[stage_id].items():
                merged[stream_id] = merged[stream_id].with_(lineage) if stream_id in merged else lineage
        return merged

    def _by_dataset(self, streams: Mapping[str, Any]) -> dict[DatasetName, list[str]]:
        datasets: dict[DatasetName, list[str]] = {}
        for stream_id in streams:
            name = self.name_of(stream_id)
            if name is not None and not (self.whole and self.run.is_own(stream_id)):
                datasets.setdefault(name, []).append(stream_id)
        return datasets


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

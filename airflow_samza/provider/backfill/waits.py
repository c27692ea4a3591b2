"""Inputs that a task before the plan writes: what a run reads of them is not known until that task has run.

A task writes an input when the outputs of its application, the table that it pushes, or an asset among its outlets lie
where the input does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from airflow_samza.application.application import ApplicationSpec
from airflow_samza.errors import NoSuchVersion, SamzaError, TopicError
from airflow_samza.planner.planner import plan_shape
from airflow_samza.prepare.bound_systems import declared_systems, run_bindings, system_name
from airflow_samza.prepare.run_request import RunRequest
from airflow_samza.prepare.run_streams import described
from airflow_samza.provider.backfill.slices import Slice, for_slice
from airflow_samza.provider.hooks.samza import SamzaHook
from airflow_samza.provider.lineage.dataset_names import DatasetName, dataset_at, unvarying
from airflow_samza.provider.lineage.task_lineage import table_dataset
from airflow_samza.provider.operators.planning import PlanningOperator
from airflow_samza.provider.operators.table_push import TableOperator
from airflow_samza.provider.run_tasks import run_tasks, tasks_before
from airflow_samza.runs.tables.pins import push_stream


@dataclass(frozen=True)
class Awaited:
    """An input, or a pushed table (by its id), and the task before the plan that writes it."""

    stream_id: str
    task_id: str


def awaited(
    task: PlanningOperator, slice_: Slice, hook: SamzaHook, spec: ApplicationSpec, request: RunRequest
) -> dict[str, Awaited]:
    """Return what tasks before a plan task write of what its run reads.

    By all names that an error may give a stream: its id, its name in its system, the id of its table.
    """
    read = _read(spec, hook, request)
    if not read:
        return {}
    written = [entry for writer in tasks_before(task) for entry in _written(writer, slice_)]
    return {
        name: Awaited(names[0], task_id)
        for names, place in read
        for task_id, at in written
        if _meet(place, at)
        for name in names
    }


def awaited_by(error: Exception, waits: Mapping[str, Awaited]) -> Awaited | None:
    """Return what a plan lacks by its error, where a task before it writes that."""
    if not isinstance(error, TopicError | NoSuchVersion):
        return None
    return next((waits[name] for fact in ("stream", "table") if (name := str(error.facts.get(fact))) in waits), None)


def others_before(task: PlanningOperator) -> list[str]:
    """Return the tasks before a plan task of which it is not known what they write."""
    return sorted(
        other.task_id for other in tasks_before(task) if not isinstance(other, PlanningOperator | TableOperator)
    )


def _read(spec: ApplicationSpec, hook: SamzaHook, request: RunRequest) -> list[tuple[tuple[str, ...], DatasetName]]:
    """Return what a run reads: the names of each input and table, and the place."""
    places: list[tuple[tuple[str, ...], DatasetName]] = []
    for stream_id in spec.inputs:
        with suppress(SamzaError):
            place, name = _place(spec, stream_id, hook, request)
            places.append(((stream_id, name), place))
    for table in spec.tables.values():
        pushed = push_stream(table)
        if pushed is not None:
            with suppress(SamzaError):
                place = table_dataset(hook, request.application, table.table_id, request.config)
                places.append(((table.table_id, pushed), place))
    return places


def _written(writer: Any, slice_: Slice) -> Iterator[tuple[str, DatasetName]]:
    """Yield the places that a task writes in the run of a slice, each with the task that does."""
    for outlet in getattr(writer, "outlets", ()):
        uri = getattr(outlet, "uri", None)
        if isinstance(uri, str):
            yield writer.task_id, DatasetName("", "", uri)
    if not isinstance(writer, PlanningOperator | TableOperator) or getattr(writer, "plan", None) is not None:
        return  # the task that plans is before its stages, and knows where they write
    with suppress(Exception):  # whatever a template of the user's raises
        rendered, context = for_slice(writer, slice_)
        if isinstance(rendered, TableOperator):
            yield writer.task_id, rendered.dataset()
            return
        yield from _outputs(rendered, context)


def _outputs(writer: PlanningOperator, context: Mapping[str, Any]) -> Iterator[tuple[str, DatasetName]]:
    hook, spec = writer.hook, writer.application_spec()
    request, shape = writer.run_request(spec, context), plan_shape(spec)
    tasks = run_tasks(writer, context).by_stage(shape)
    for stage in shape.stages:
        for stream_id in stage.outputs:
            if stream_id in spec.outputs:
                place, _ = _place(spec, stream_id, hook, request)
                yield tasks.get(stage.stage_id, writer.task_id), place


def _place(spec: ApplicationSpec, stream_id: str, hook: SamzaHook, request: RunRequest) -> tuple[DatasetName, str]:
    """Return the place of a stream in a run, and its name in its system."""
    stream, bindings = spec.stream(stream_id), hook.bindings()
    system = system_name(spec, stream, bindings, hook.default_system)
    binding = run_bindings(declared_systems(spec, [system], bindings), bindings)[system]
    described_stream = described(stream, spec, request)
    return dataset_at(described_stream, system, binding, hook.root), described_stream.name


def _meet(read: DatasetName, written: DatasetName) -> bool:
    """Return whether a place that is read is one that is written, above it or below."""
    one, other = (f"{unvarying(place.uri).rstrip('/')}/" for place in (read, written))
    return one.startswith(other) or other.startswith(one)

"""Inputs from run to run: what a run reads of each, and how far runs have read those that have another id now.

How far an input was read is state. It is found by the input's id, and fits only the same place, read in the same way.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping
from typing import Any, TypeVar

from airflow_samza.application.application import ApplicationSpec
from airflow_samza.application.descriptors import StreamDescriptor
from airflow_samza.runs.records.data_interval import fixed_folder
from airflow_samza.runs.records.run_plan import BoundStream
from airflow_samza.runs.records.state_meaning import (
    ARRIVALS,
    AT,
    INPUT,
    INTERVAL,
    PLACE,
    POSITIONS,
    READ,
    SECTIONS,
    WHOLE,
    StateMeaning,
)
from airflow_samza.runs.state_history.state_changes import input_meaning
from airflow_samza.runs.state_history.versions import Version
from airflow_samza.secrecy import without_passwords
from airflow_samza.systems.capabilities import LocatesStreams, TakesArrivals
from airflow_samza.systems.system import System

T = TypeVar("T")


def input_meanings(
    spec: ApplicationSpec,
    bound: Mapping[str, BoundStream],
    kept: Mapping[str, Mapping[str, Any]],
    systems: Mapping[str, System],
) -> dict[str, StateMeaning]:
    """Return what a run reads of each input, and of which place, by stream id.

    The place counts only where a run depends on what the runs before have read of it.
    """
    meanings = {}
    for stream_id, stream in spec.inputs.items():
        at = bound[stream_id]
        system = systems[at.system]
        facets = {READ: _read(stream, system)}
        if facets[READ] in POSITIONS:
            facets[PLACE] = _place(stream, at, str(kept[at.system]["kind"]), spec.config)
            if isinstance(system, LocatesStreams):
                facets[AT] = hashlib.sha256(system.location(at.spec).encode()).hexdigest()[:16]
        meanings[stream_id] = input_meaning(stream_id, facets)
    return meanings


def _read(stream: StreamDescriptor, system: System) -> str:
    if stream.shared:
        return SECTIONS
    if stream.slice_by == "timestamp":
        return INTERVAL
    if stream.slice_by == "checkpoint" or not (stream.bounded or isinstance(system, TakesArrivals)):
        return ARRIVALS
    return WHOLE


def _place(stream: StreamDescriptor, bound: BoundStream, kind: str, config: Mapping[str, str]) -> str:
    name = bound.spec.name if stream.path is None else without_passwords(fixed_folder(stream.path, config))
    return f"{repr(name) if name else 'the root'} in the system {bound.system!r} of kind {kind}"


def renamed_inputs(spec: ApplicationSpec, version: Version) -> dict[str, str]:
    """Return the former ids of the inputs that were renamed since a version, by the present id.

    What the version knows by its present id was renamed before: ``renamed_from=`` may stay in the code.
    """
    former_ids = {stream.stream_id for stream in version.plan.streams if stream.role == "input"}
    return {
        stream_id: stream.renamed_from
        for stream_id, stream in spec.inputs.items()
        if stream.renamed_from is not None and stream_id not in former_ids
    }


def with_present_inputs(spec: ApplicationSpec, version: Version) -> Version:
    """Return a version in which inputs that were renamed since have the ids that they have now."""
    present = {former: stream_id for stream_id, former in renamed_inputs(spec, version).items()}
    if not present:
        return version

    def by_present_id(values: Mapping[str, T]) -> dict[str, T]:
        return {present.get(stream_id, stream_id): value for stream_id, value in values.items()}

    def renamed(left: Mapping[str, Any]) -> dict[str, Any]:
        checkpoint = left["checkpoint"]
        if checkpoint is None:
            return dict(left)
        marks = [{**entry, "stream": present.get(entry["stream"], entry["stream"])} for entry in _marks(checkpoint)]
        control = {**checkpoint.get("control", {}), "watermarks": marks}
        offsets, sources = by_present_id(checkpoint.get("offsets", {})), by_present_id(checkpoint.get("sources", {}))
        return {**left, "checkpoint": {**checkpoint, "control": control, "offsets": offsets, "sources": sources}}

    return dataclasses.replace(
        version,
        offsets=by_present_id(version.offsets),
        sections=by_present_id(version.sections),
        read=by_present_id(version.read),
        arrived=by_present_id(version.arrived),
        stages={name: {task: renamed(left) for task, left in tasks.items()} for name, tasks in version.stages.items()},
    )


def _marks(checkpoint: Mapping[str, Any]) -> Any:
    return checkpoint.get("control", {}).get("watermarks", ())


def meanings_by_key(inputs: Mapping[str, StateMeaning]) -> dict[str, StateMeaning]:
    """Return the meanings of inputs as a run keeps them beside those of its operators, tables and stores."""
    return {f"{INPUT}{stream_id}": meaning for stream_id, meaning in inputs.items()}

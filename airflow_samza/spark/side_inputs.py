"""The side inputs of a run: which streams feed its tables, what is read of each, and what its plan says of that.

The plan fixes a slice from the oldest offset to the head, so that every task, retry and clear fills the same tables (SEMANTICS S1).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow_samza.application.application import ApplicationSpec
from airflow_samza.application.descriptors import StreamDescriptor, TableKind
from airflow_samza.errors import TopicError
from airflow_samza.planner.plan import ExecutionPlan
from airflow_samza.planner.wording import count_text
from airflow_samza.runs.epoch_records import InputIntent
from airflow_samza.runs.run_plan import BoundStream, RunPlan, side_input_key
from airflow_samza.systems.system import System


def side_streams(spec: ApplicationSpec, outline: ExecutionPlan) -> dict[str, StreamDescriptor]:
    """The streams that feed the tables of an application's stages, by their key in ``RunPlan.streams``."""
    fed = sorted({stream_id for stage in outline.stages for stream_id in stage.side_inputs})
    return {side_input_key(s) if s in spec.inputs else s: spec.side_inputs[s] for s in fed}


def side_input_missing(spec: ApplicationSpec, stream: BoundStream) -> TopicError:
    """The error for a side input of which its system knows nothing."""
    table = next(table for table in spec.tables.values() if stream.stream_id in table.side_inputs)
    pushed = table.kind is TableKind.PUSHED and stream.stream_id == f"{table.table_id}-push"
    return TopicError(
        f"The side input {stream.stream_id!r} of the table {table.table_id!r} does not exist: the system {stream.system!r} has no stream "
        f"{stream.spec.name!r}.",
        hint="Push the table first (TablePushOperator): without a push there is nothing to look up."
        if pushed
        else "Create it, correct its name, or bind the system to where it lies.",
        stream=stream.stream_id,
        table=table.table_id,
        system=stream.system,
    )


def side_input_slice(spec: ApplicationSpec, system: System, stream: BoundStream) -> Mapping[str, Any]:
    """All that a side input holds now. A stream that goes on must say how far that is (SEMANTICS S5)."""
    slice_ = system.slice(stream.spec)
    if slice_.get("offsets") is None and not spec.side_inputs[stream.stream_id].bounded:
        raise TopicError(
            f"The system {stream.system!r} does not tell the head of the side input {stream.stream_id!r}, so nobody knows when its tables "
            "are complete.",
            hint="Declare it bounded, or keep it in a log.",
            stream=stream.stream_id,
            system=stream.system,
        )
    return slice_


def planned_side_inputs(run: RunPlan, stage_id: str) -> dict[str, InputIntent]:
    """What the tables of a stage hold, as the plan fixed it."""
    bound = {stream_id: run.side_input(stream_id) for stream_id in run.plan.stage(stage_id).side_inputs}
    return {stream_id: InputIntent(stream.spec.name, stream.slice or {}) for stream_id, stream in bound.items()}


def with_side_input_notes(notes: Mapping[str, Mapping[str, str]], run: RunPlan) -> dict[str, dict[str, str]]:
    """The notes, by stage and stream, with what is read of side inputs."""
    found = {stage_id: dict(texts) for stage_id, texts in notes.items()}
    for stage in run.plan.stages:
        for stream_id in stage.side_inputs:
            texts = found.setdefault(stage.stage_id, {})
            said = _note(run.side_input(stream_id).slice or {})
            if stream_id in stage.inputs:
                said = f"as a side input, {said}"
            texts[stream_id] = "; ".join(text for text in (texts.get(stream_id), said) if text)
    return found


def _note(slice_: Mapping[str, Any]) -> str:
    offsets = slice_.get("offsets")
    if offsets is None:
        return "reads all of it into the table"
    count = sum(int(end) - int(start) for start, end in offsets)
    return f"reads {count_text(count, 'offset')} up to the head at plan"

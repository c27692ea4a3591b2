"""What a run reads of inputs that go on, and of shared streams, as notes of its plan for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow_samza.planner.plan import ExecutionPlan
from airflow_samza.runs.lineage.versions import Version, is_reset
from airflow_samza.runs.records.run_plan import BoundStream

_SHOWN = 3


def with_state_notes(
    notes: Mapping[str, Mapping[str, str]],
    plan: ExecutionPlan,
    streams: Mapping[str, BoundStream],
    version: Version | None,
) -> dict[str, dict[str, str]]:
    """Return the notes, by stage and stream, with what is said of the streams' slices behind them."""
    said = {
        stream_id: text
        for stream_id, stream in streams.items()
        if (text := slice_note(stream.slice or {}, version)) is not None
    }
    found = {stage_id: dict(texts) for stage_id, texts in notes.items()}
    for stage in plan.stages:
        for stream_id in stage.inputs:
            if stream_id in said:
                texts = found.setdefault(stage.stage_id, {})
                texts[stream_id] = "; ".join(text for text in (texts.get(stream_id), said[stream_id]) if text)
    return found


def slice_note(slice_: Mapping[str, Any], version: Version | None) -> str | None:
    """What a run reads of one input that goes on from run to run, or of sections; None: there is nothing to say."""
    if "sections" in slice_:
        runs = [named["run"] for named in slice_["sections"]]
        if not runs:
            return "reads no section: none is new"
        more = f" and {len(runs) - _SHOWN} more" if len(runs) > _SHOWN else ""
        return f"reads the {'section' if len(runs) == 1 else 'sections'} of {', '.join(runs[:_SHOWN])}{more}"
    if slice_.get("final") is not False:
        return None
    offsets = slice_.get("offsets")
    if offsets is None:
        return "reads the data interval, and ends for this run only"
    count = sum(end - start for start, end in offsets)
    since = "of the first run"
    if version is not None:
        since = f"since {'the reset' if is_reset(version) else f'the run {version.run}'} (version {version.number})"
    return f"reads {count:,} {'offset' if count == 1 else 'offsets'} {since}"

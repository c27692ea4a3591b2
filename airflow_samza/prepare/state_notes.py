"""Notes in a plan, for people: the ranges of unbounded inputs and of shared streams."""

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
    """Return the notes, by stage and stream, with those about the streams' ranges behind them."""
    ranges = {
        stream_id: text
        for stream_id, stream in streams.items()
        if (text := slice_note(stream.slice or {}, version)) is not None
    }
    found = {stage_id: dict(texts) for stage_id, texts in notes.items()}
    for stage in plan.stages:
        for stream_id in stage.inputs:
            if stream_id in ranges:
                texts = found.setdefault(stage.stage_id, {})
                texts[stream_id] = "; ".join(text for text in (texts.get(stream_id), ranges[stream_id]) if text)
    return found


def slice_note(slice_: Mapping[str, Any], version: Version | None) -> str | None:
    """Return a note about the range of one unbounded input, or of sections; None: there is nothing to note."""
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
    since = "of the first run"
    if version is not None:
        since = f"since {'the reset' if is_reset(version) else f'the run {version.run}'} (version {version.number})"
    if "chunks" in slice_:
        return _files_note(slice_, since)
    count = sum(end - start for start, end in offsets)
    return f"reads {count:,} {'offset' if count == 1 else 'offsets'} {since}"


def _files_note(slice_: Mapping[str, Any], since: str) -> str:
    count, noted = len(slice_["files"]), slice_["noted"]
    text = f"reads {count:,} {'file' if count == 1 else 'files'} ({slice_['bytes']:,} bytes) {since}"
    words = {
        "waiting": "left to a later run",
        "late": "too late, and unread",
        "ignored": "written again, and not read again",
        "unread": "there before, and unread",
    }
    return "; ".join([text, *(f"{noted[name]:,} {words[name]}" for name in words if noted[name])])

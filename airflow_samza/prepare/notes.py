"""Notes in a plan, for people: what stages read and write, by stage and stream."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from airflow_samza.application.application import ApplicationSpec
from airflow_samza.application.rejections import listed
from airflow_samza.prepare.carried_state import carries_state
from airflow_samza.prepare.input_versions import amount_text, version_note
from airflow_samza.prepare.output_slots import slot_notes
from airflow_samza.prepare.publication import lasting_notes
from airflow_samza.prepare.shared_sections import followed
from airflow_samza.prepare.side_inputs import side_input_notes
from airflow_samza.prepare.spark_streams import spark_notes
from airflow_samza.runs.records.run_plan import Note, RunPlan
from airflow_samza.runs.state_history.versions import Version, is_reset
from airflow_samza.systems.capabilities import TellsWhatIsRead
from airflow_samza.systems.filesystems.filesystem import Filesystem
from airflow_samza.systems.system import System
from airflow_samza.task.program.kinds.operator_kind import CompiledOperator
from airflow_samza.task.program.pruning.notes import flow_notes

_SHOWN = 3


def notes_of(
    files: Filesystem,
    run: RunPlan,
    spec: ApplicationSpec,
    systems: Mapping[str, System],
    compiled: Mapping[str, CompiledOperator],
    kinds: Mapping[str, str],
    version: Version | None,
    *,
    compares: bool = False,
) -> dict[str, dict[str, str]]:
    """Return the notes of a plan; outputs that a run may not write are rejected where their note is made."""
    return joined(
        (
            flow_notes(spec, run.plan, compiled, run.contents, kinds),
            range_notes(run, version),
            table_notes(run),
            slot_notes(run, systems, files, compares=compares),
            side_input_notes(run),
            spark_notes(run, spec, systems),
            reading_notes(run, systems),
            lasting_notes(run, spec, systems, carries_state=carries_state(spec)),
        )
    )


def joined(sources: Iterable[Iterable[Note]]) -> dict[str, dict[str, str]]:
    """Return notes by stage and stream; several of one stream make one text, in order."""
    notes: dict[str, dict[str, str]] = {}
    for source in sources:
        for stage_id, stream_id, text in source:
            texts = notes.setdefault(stage_id, {})
            if text:
                texts[stream_id] = f"{texts[stream_id]}; {text}" if stream_id in texts else text
    return notes


def range_notes(run: RunPlan, version: Version | None) -> Iterator[Note]:
    """Yield the ranges of unbounded inputs and of shared streams, and the versions of tables."""
    for stage in run.plan.stages:
        for stream_id in stage.inputs:
            text = _range_text(run.stream(stream_id).slice or {}, version)
            if text is not None:
                yield stage.stage_id, stream_id, text


def table_notes(run: RunPlan) -> Iterator[Note]:
    """Yield the tables that outputs write: their partitions, and what of them a run replaces beside its slot."""
    for stage, bound in run.written_outside():
        if "table" in (bound.slice or {}):
            yield stage.stage_id, bound.stream_id, _table_note(bound.slice or {}, dict(bound.spec.options))


def _table_note(target: Mapping[str, Any], options: Mapping[str, str]) -> str:
    text = f"{'makes' if target.get('made') else 'commits to'} the table {target['table']}"
    names = {column["id"]: column["name"] for column in target.get("columns", ())}
    fields = [
        names[source] if transform == "identity" else f"{transform}({names[source]})"
        for _, source, transform in target.get("partition", ())
    ]
    if fields:
        text += f", partitioned by {', '.join(fields)}"
    grown = [f"{target[what]:,} {what}" for what in ("snapshots", "manifests") if what in target]
    if grown:
        text += f", which has {' and '.join(grown)}: each makes every commit slower, expire and merge them"
    mode = options.get("mode", "")
    return f"{text}; mode={mode!r}: {_MODES[mode]}" if mode in _MODES else text


_MODES = {
    "replace partitions": "rows of others in the partitions that it writes are replaced",
    "upsert": "rows of the same key are replaced, also those of other runs",
    "replace table": "all rows of others are replaced",
}


def reading_notes(run: RunPlan, systems: Mapping[str, System]) -> Iterator[Note]:
    """Yield the places outside of the records where systems show how far runs have read, such as consumer groups.

    A place that may not be written is rejected.
    """
    for stage in run.plan.stages:
        for bound, system in run.outside(stage.inputs, systems, TellsWhatIsRead):
            yield stage.stage_id, bound.stream_id, system.describe_reading(bound.spec) or ""


def _range_text(slice_: Mapping[str, Any], version: Version | None) -> str | None:
    """Return a note about the range of one unbounded input, or of sections; None: there is nothing to note."""
    if "sections" in slice_:
        runs = [named["run"] for named in slice_["sections"]]
        if followed(slice_) is not None:
            return f"follows the section of {runs[0]}, which is still written"
        if not runs:
            return "reads no section: none is new"
        return f"reads the {'section' if len(runs) == 1 else 'sections'} of {listed(runs, _SHOWN)}"
    if ("snapshot" in slice_ or "version" in slice_) and "chunks" not in slice_:
        return version_note(slice_)
    if slice_.get("final") is not False:
        return None
    offsets = slice_.get("offsets")
    if offsets is None:
        return "reads the data interval, and ends for this run only"
    since = "of the first run"
    if version is not None:
        since = f"since {'the reset' if is_reset(version) else f'the run {version.run}'} (version {version.number})"
    if "chunks" in slice_:
        what = "version" if "version" in slice_ else "snapshot"
        upto = f", up to the {what} {slice_[what]} of {slice_['table']}" if slice_.get(what) is not None else ""
        return f"{_files_note(slice_, since)}{upto}"
    count = sum(end - start for start, end in offsets)
    return f"reads {count:,} {'offset' if count == 1 else 'offsets'} {since}"


def _files_note(slice_: Mapping[str, Any], since: str) -> str:
    noted, text = slice_["noted"], amount_text(slice_)
    if "commits" in slice_:
        commits = len(slice_["commits"])
        text = f"the changes of {commits:,} {'commit' if commits == 1 else 'commits'}, {text}"
    text = f"reads {text} {since}"
    words = {
        "waiting": "left to a later run",
        "late": "too late, and unread",
        "ignored": "written again, and not read again",
        "unread": "there before, and unread",
    }
    return "; ".join([text, *(f"{noted[name]:,} {words[name]}" for name in words if noted[name])])

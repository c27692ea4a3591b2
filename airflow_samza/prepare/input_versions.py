"""The versions of tables that a run reads: up to which, where who asks for the run names them, and their changes.

The plan step fixes them, and asset events of tables name them to it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow_samza.application.application import ApplicationSpec
from airflow_samza.application.descriptors import StreamDescriptor
from airflow_samza.application.rejections import did_you_mean, listed
from airflow_samza.errors import ConfigError
from airflow_samza.figures import size
from airflow_samza.prepare.run_request import RunRequest
from airflow_samza.runs.records.run_plan import CONTINUOUS, STAGED, BoundStream, side_input_key, slice_facts
from airflow_samza.system_kinds import traits_of
from airflow_samza.systems.capabilities import HasTableVersions
from airflow_samza.systems.system import System
from airflow_samza.systems.tables.options import WAITING

CURRENT = "current"
"""An input is read up to what is there when the run is planned."""

CHOICES = ("snapshot", "version", "as_of", WAITING)
"""Options of an input by which it says itself which version of a table is read."""


def up_to(request: RunRequest, stream_id: str) -> tuple[str, ...]:
    """Return the snapshots or versions of which the newest is the latest that the run reads of a stream."""
    texts = (text.strip() for text in request.input_versions.get(stream_id, CURRENT).split(","))
    return tuple(text for text in texts if text not in ("", CURRENT))


def lake_inputs(spec: ApplicationSpec) -> dict[str, StreamDescriptor]:
    """Return the streams that an application reads, side inputs among them, by stream id."""
    return {**spec.side_inputs, **spec.inputs}


def why_unlimited(stream: StreamDescriptor, kind: str | None, mode: str | None) -> str | None:
    """Return why the request for a run cannot say up to which version a stream is read, None where it can.

    It is the end of a sentence that begins with the stream.
    """
    if not traits_of(kind).has_tables:
        return f"lies in a system of kind {kind}, whose streams have no versions"
    chosen = next((name for name, value in stream.options if name in CHOICES and value), None)
    if chosen is not None:
        return f"has the option {chosen}, which says what is read of it"
    if (mode or STAGED) == CONTINUOUS and not stream.bounded:
        return "is followed by a continuous run, which reads what comes"
    return None


def check_input_versions(spec: ApplicationSpec, request: RunRequest, kinds: Mapping[str, str]) -> None:
    """Reject a version of what is no input, or of an input that takes none from a request; ``kinds`` are by stream."""
    inputs = lake_inputs(spec)
    for stream_id, text in request.input_versions.items():
        if stream_id not in inputs:
            raise ConfigError(
                f"The run is to read {stream_id!r} up to {text}, and the application {spec.name!r} has no such input.",
                hint=f"{did_you_mean(stream_id, inputs)}Its inputs are {listed(sorted(inputs))}.",
                key="input_versions",
                value=stream_id,
            )
        if not up_to(request, stream_id):
            continue
        kind = kinds.get(stream_id) or kinds.get(side_input_key(stream_id))
        why = why_unlimited(inputs[stream_id], kind, request.mode)
        if why is not None:
            raise ConfigError(
                f"The run is to read the input {stream_id!r} up to {text}, and it {why}.",
                hint=f"Leave {stream_id!r} out of input_versions.",
                key="input_versions",
                value=text,
            )


def reject_changes(spec: ApplicationSpec, streams: Mapping[str, BoundStream], systems: Mapping[str, System]) -> None:
    """Reject an input whose changes nobody can tell."""
    for stream_id, stream in spec.inputs.items():
        bound = streams[stream_id]
        if stream.changes and not isinstance(systems[bound.system], HasTableVersions):
            raise ConfigError(
                f"The input {stream_id!r} has changes=True, and the system {bound.system!r} has no tables of which "
                "changes are known.",
                hint="Leave changes= out; tables of kinds iceberg and delta have changes.",
                key="changes",
                value=True,
                stream=stream_id,
            )


def version_note(slice_: Mapping[str, Any]) -> str:
    """Return a note on the snapshot or version of a table: the files that are read of it, and how much that is."""
    what = "snapshot" if "snapshot" in slice_ else "version"
    if slice_[what] is None:
        return f"reads the table {slice_['table']}, to which nothing was ever committed"
    deletes = len(slice_["deletes"])
    of_what = f"reads the {what} {slice_[what]} of"
    if WAITING in slice_:
        of_what = f"reads what the run {slice_[WAITING]} has waiting for"
    text = f"{of_what} {slice_['table']}: {amount_text(slice_)}"
    if not deletes:
        return text
    return f"{text}, less the rows that {deletes:,} {'delete removes' if deletes == 1 else 'deletes remove'}"


def amount_text(slice_: Mapping[str, Any]) -> str:
    """Return how much a range of files is: files, rows where they are known, and bytes."""
    facts = slice_facts(slice_)
    counts = [(facts[name], word) for name, word in (("files", "file"), ("rows", "row")) if name in facts]
    return ", ".join(
        [*(f"{count:,} {word}{'' if count == 1 else 's'}" for count, word in counts), size(facts["bytes"])]
    )

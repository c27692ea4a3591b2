"""The sections of shared streams that a run reads: those that it names, else all completed since the run before.

A stream that is shared between Dags is written by runs of other applications; each of them is a section of it
(rule C10).
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from airflow_samza.application.application import ApplicationSpec
from airflow_samza.application.descriptors import StreamDescriptor
from airflow_samza.application.rejections import did_you_mean
from airflow_samza.errors import ConfigError, PlanError, SectionOpen, TopicError, UnknownName, UnsupportedShape
from airflow_samza.planner.plan import ExecutionPlan
from airflow_samza.prepare.carried_state import is_carried_on
from airflow_samza.prepare.superseded_inputs import InputHistory
from airflow_samza.runs.records.names import safe
from airflow_samza.runs.records.run_plan import BoundStream
from airflow_samza.runs.state_history.versions import Version
from airflow_samza.system_kinds import traits_of
from airflow_samza.systems.capabilities import HasSections
from airflow_samza.systems.filesystems.pace import FREE, Looks, Pace
from airflow_samza.systems.sections import Section, described
from airflow_samza.systems.system import System

_POLL_SECONDS = 0.5


def check_names(spec: ApplicationSpec, sections: Mapping[str, str]) -> None:
    """Reject sections of what is no shared stream of the application."""
    shared = sorted(stream_id for stream_id, stream in spec.inputs.items() if stream.shared)
    for stream_id in sections:
        if stream_id not in shared:
            raise UnknownName(
                f"A section is named for {stream_id!r}, which is no shared stream that {spec.name!r} reads.",
                hint=f"{did_you_mean(stream_id, shared)}Its shared streams are: "
                f"{', '.join(shared) or 'none'} (app.shared_stream).",
                name=stream_id,
            )


def reject_shared_outputs(spec: ApplicationSpec, plan: ExecutionPlan, kinds: Mapping[str, str]) -> list[PlanError]:
    """Return the errors for shared outputs of several stages, or in a system without control messages."""
    errors: list[PlanError] = []
    for stream_id, stream in spec.outputs.items():
        writers = [stage.stage_id for stage in plan.stages if stream_id in stage.outputs]
        if stream.shared and len(writers) > 1:
            errors.append(
                UnsupportedShape(
                    f"The shared output {stream_id!r} is written by {len(writers)} stages ({', '.join(writers)}): "
                    "nobody could end it.",
                    hint="Merge the streams before, behind a partition_by, or write two shared outputs.",
                    stream=stream_id,
                )
            )
        if stream.shared and not traits_of(kinds[stream_id]).carries_control:
            errors.append(
                UnsupportedShape(
                    f"The shared output {stream_id!r} is in a system of kind {kinds[stream_id]}, where no "
                    "end-of-stream can be written.",
                    hint="Put it into a system of kind log.",
                    stream=stream_id,
                )
            )
    return errors


def section_slice(
    system: System,
    stream: BoundStream,
    declared: StreamDescriptor,
    named: str | None,
    version: Version | None,
    wait_seconds: float,
    history: InputHistory,
    pace: Pace = FREE,
) -> dict[str, Any]:
    """Return the input range of a shared stream: ``sections``, and the offsets between which they lie.

    Reject a section that the state holds and that was written again since. ``named`` is the run whose section is read;
    if it is not complete after ``wait_seconds``, a :class:`SectionOpen` says so, which may be retried.
    """
    if not isinstance(system, HasSections):
        raise ConfigError(
            f"The shared stream {stream.stream_id!r} is in the system {stream.system!r}, "
            "whose streams cannot be shared.",
            hint="Bind the system to the log in which the other application writes.",
            key=f"systems.{stream.system}.kind",
            stream=stream.stream_id,
        )
    deadline, looks = time.monotonic() + wait_seconds, Looks(pace)
    while True:
        whole = system.slice(stream.spec)
        sections = system.sections(stream.spec)
        history.reject_replaced_sections(stream, sections)
        try:
            chosen, read = _chosen(stream, sections, named, version)
            break
        except SectionOpen:
            if time.monotonic() >= deadline:
                raise
            time.sleep(looks.pause(_POLL_SECONDS))
    final = not is_carried_on(declared)
    slice_ = {
        **whole,
        "offsets": _offsets(whole, chosen),
        "sections": [described(section) for section in chosen],
        # whatever its writers say: to an unbounded reader, no section is the end of the stream (rule C9)
        "sections_final": final,
        "read_sections": read,
    }
    return slice_ if final and chosen else {**slice_, "final": final}


def _chosen(
    stream: BoundStream, sections: Sequence[Section], named: str | None, version: Version | None
) -> tuple[list[Section], list[str]]:
    """Return the sections to read, and the marks of all that the state then knows."""
    marks = version.sections.get(stream.stream_id, ()) if version is not None else ()
    before = {mark.rpartition("@")[0]: mark for mark in marks}
    if named is None:
        chosen = [section for section in sections if section.is_complete and section.run not in before]
    else:
        chosen = [section for section in sections if _is_named(named, section.run)]
        newer = next((section for section in sections if any(_is_named(named, run) for run in section.replaced)), None)
        if not chosen and newer is not None:
            raise TopicError(
                f"The section of the shared stream {stream.stream_id!r} that the run {named!r} wrote is not there any "
                f"more: the run {newer.run_id!r} has replaced it.",
                hint=f"Read that one: name {newer.run_id!r}, or start this run by its asset event.",
                stream=stream.stream_id,
                run=named,
            )
        if not chosen or not all(section.is_complete for section in chosen):
            progress = chosen[0].progress if chosen else "it has written nothing yet"
            raise SectionOpen(
                f"The run {named!r} has not written its section of the shared stream {stream.stream_id!r} to the end: "
                f"{progress}.",
                hint="Try again when it is over, or start this run by its asset event. If it failed, clear it there.",
                stream=stream.stream_id,
                run=named,
            )
        chosen = [section for section in chosen if section.run not in before]
    # What has expired meanwhile needs no remembering: it cannot come again.
    left = {section.run for section in sections}
    return chosen, [mark for run, mark in before.items() if run in left] + [section.mark for section in chosen]


def _is_named(named: str, run: str) -> bool:
    """Return whether a run (``<application>/<run>``) is the one that is named, by itself or with its application."""
    run_id = run.rpartition("/")[2]
    return named in (run_id, run) or safe(named) == run_id


def _offsets(whole: Mapping[str, Any], chosen: Sequence[Section]) -> list[list[int]]:
    offsets = []
    for partition, (_, head) in enumerate(whole["offsets"]):
        places = [section.offsets[partition] for section in chosen if partition in section.offsets]
        offsets.append([min(first for first, _ in places), max(end for _, end in places)] if places else [head, head])
    return offsets

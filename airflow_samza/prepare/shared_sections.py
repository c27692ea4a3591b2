"""The sections of shared streams that a run reads: those that it names, else all completed since the run before.

A stream that is shared between Dags is written by runs of other applications; each of them is a section of it (rule
C10). The plan step and the stage runner fix them, and so does Spark's source of topics.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from airflow_samza.application.application import ApplicationSpec
from airflow_samza.application.descriptors import StreamDescriptor
from airflow_samza.application.rejections import did_you_mean, listed
from airflow_samza.errors import ConfigError, PlanError, SectionOpen, TopicError, UnknownName, UnsupportedShape
from airflow_samza.planner.plan import ExecutionPlan
from airflow_samza.prepare.carried_state import is_carried_on
from airflow_samza.prepare.input_positions import InputHistory
from airflow_samza.prepare.section_writers import SectionWriter
from airflow_samza.records import plain
from airflow_samza.runs.records.names import safe
from airflow_samza.runs.records.run_plan import FOLLOWS, BoundStream
from airflow_samza.runs.state_history.versions import Version
from airflow_samza.system_kinds import traits_of
from airflow_samza.systems.capabilities import HasSections
from airflow_samza.systems.sections import Section, described
from airflow_samza.systems.system import System


def check_names(spec: ApplicationSpec, sections: Mapping[str, str]) -> None:
    """Reject sections of what is no shared stream of the application."""
    shared = sorted(stream_id for stream_id, stream in spec.inputs.items() if stream.shared)
    for stream_id in sections:
        if stream_id not in shared:
            raise UnknownName(
                f"A section is named for {stream_id!r}, which is no shared stream that {spec.name!r} reads.",
                hint=f"{did_you_mean(stream_id, shared)}Its shared streams are: {listed(shared)} (app.shared_stream).",
                name=stream_id,
            )


def reject_shared_outputs(spec: ApplicationSpec, plan: ExecutionPlan, kinds: Mapping[str, str]) -> Iterator[PlanError]:
    """Yield the errors for shared outputs of several stages, or in a system without control messages."""
    for stream_id, stream in spec.outputs.items():
        writers = [stage.stage_id for stage in plan.stages if stream_id in stage.outputs]
        if stream.shared and len(writers) > 1:
            yield UnsupportedShape(
                f"The shared output {stream_id!r} is written by {len(writers)} stages ({', '.join(writers)}): "
                "nobody could end it.",
                hint="Merge the streams before, behind a partition_by, or write two shared outputs.",
                stream=stream_id,
            )
        if stream.shared and not traits_of(kinds[stream_id]).carries_control:
            yield UnsupportedShape(
                f"The shared output {stream_id!r} is in a system of kind {kinds[stream_id]}, where no "
                "end-of-stream can be written.",
                hint="Put it into a system of kind log.",
                stream=stream_id,
            )


def section_slice(
    system: System,
    stream: BoundStream,
    declared: StreamDescriptor,
    named: str | None,
    version: Version | None,
    history: InputHistory,
    writer: SectionWriter | None = None,
    *,
    flushed: bool = False,
) -> dict[str, Any]:
    """Return the input range of a shared stream: ``sections``, and the offsets between which they lie.

    Reject a section that the state holds and that was written again since. ``named`` is the run whose section is read;
    if it is not complete, a :class:`SectionOpen` says so, which may be retried; with its ``writer`` it is followed.
    """
    if not isinstance(system, HasSections):
        raise ConfigError(
            f"The shared stream {stream.stream_id!r} is in the system {stream.system!r}, "
            "whose streams cannot be shared.",
            hint="Bind the system to the log in which the other application writes.",
            key=f"systems.{stream.system}.kind",
            stream=stream.stream_id,
        )
    whole = system.slice(stream.spec)
    sections = system.sections(stream.spec, whole)
    history.reject_replaced_sections(stream, sections)
    follows: dict[str, Any] = {}
    try:
        chosen, read = _chosen(stream, sections, named, version)
        names = [described(section) for section in chosen]
    except SectionOpen:
        if writer is None:
            raise
        chosen = [section for section in sections if section.producer == writer.producer]
        names, follows = [described(Section(writer.producer, ""))], {FOLLOWS: plain(writer)}
        read = [*_remembered(stream, sections, version), Section(writer.producer, "").mark]
    final = not is_carried_on(declared)
    slice_ = {
        **whole,
        "offsets": section_offsets(whole, chosen),
        "sections": names,
        # whatever its writers say: to an unbounded reader, no section is the end of the stream (rule C9)
        "sections_final": final or flushed,
        "read_sections": read,
        **follows,
    }
    return slice_ if final and names else {**slice_, "final": final}


def _chosen(
    stream: BoundStream, sections: Sequence[Section], named: str | None, version: Version | None
) -> tuple[list[Section], list[str]]:
    """Return the sections to read, and the marks of all that the state then knows."""
    before = _marks(stream, version)
    if named is None:
        chosen = [section for section in sections if section.is_complete and section.run not in before]
    else:
        chosen = named_sections(stream.stream_id, sections, named)
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
    return chosen, [*_remembered(stream, sections, version), *(section.mark for section in chosen)]


def _remembered(stream: BoundStream, sections: Sequence[Section], version: Version | None) -> list[str]:
    """Return the marks of the state; what has expired meanwhile needs no remembering: it cannot come again."""
    left = {section.run for section in sections}
    return [mark for run, mark in _marks(stream, version).items() if run in left]


def _marks(stream: BoundStream, version: Version | None) -> dict[str, str]:
    marks = version.sections.get(stream.stream_id, ()) if version is not None else ()
    return {mark.rpartition("@")[0]: mark for mark in marks}


def named_sections(stream_id: str, sections: Sequence[Section], named: str) -> list[Section]:
    """Return the sections of a run that is named; none of one that has written nothing; one replaced is an error."""
    chosen = [section for section in sections if _is_named(named, section.run)]
    newer = next((section for section in sections if any(_is_named(named, run) for run in section.replaced)), None)
    if not chosen and newer is not None:
        raise TopicError(
            f"The section of the shared stream {stream_id!r} that the run {named!r} wrote is not there any "
            f"more: the run {newer.run_id!r} has replaced it.",
            hint=f"Read that one: name {newer.run_id!r}, or start this run by its asset event.",
            stream=stream_id,
            run=named,
        )
    return chosen


def _is_named(named: str, run: str) -> bool:
    """Return whether a run (``<application>/<run>``) is the one that is named, by itself or with its application."""
    run_id = run.rpartition("/")[2]
    return named in (run_id, run) or safe(named) == run_id


def section_offsets(whole: Mapping[str, Any], chosen: Sequence[Section]) -> list[list[int]]:
    """Return the offsets of a topic's partitions between which sections lie."""
    offsets = []
    for partition, (_, head) in enumerate(whole["offsets"]):
        places = [section.offsets[partition] for section in chosen if partition in section.offsets]
        offsets.append([min(first for first, _ in places), max(end for _, end in places)] if places else [head, head])
    return offsets

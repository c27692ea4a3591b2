"""The sections of shared streams that a run reads: those that it names, else all completed since the run before.

A stream that is shared between Dags is written by runs of other applications; each of them is a section of it (rule
C10). A run that names one by its id finds that. ``APPLICATION@interval`` is the newest run of an application for the
same data interval and partition key, ``APPLICATION@latest`` the newest of all (decision 131). One that still writes is
found by its records. The plan step and the stage runner fix sections, and so does Spark's source of topics; triggers
wait for runs that write them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from airflow_samza.application.application import ApplicationSpec
from airflow_samza.application.descriptors import StreamDescriptor
from airflow_samza.application.rejections import did_you_mean, listed
from airflow_samza.errors import (
    ConfigError,
    PlanError,
    SectionOpen,
    StageError,
    TopicError,
    UnknownName,
    UnsupportedShape,
    UpstreamCleared,
)
from airflow_samza.planner.plan import ExecutionPlan
from airflow_samza.prepare.input_positions import InputHistory
from airflow_samza.prepare.run_request import RunRequest
from airflow_samza.records import plain
from airflow_samza.runs.compared_runs import is_seen
from airflow_samza.runs.progress.run_list import newest_runs, origin_of, plan_of
from airflow_samza.runs.records.folders import RunFolder
from airflow_samza.runs.records.names import Generation, producer_id, safe
from airflow_samza.runs.records.run_plan import FOLLOWS, BoundStream, RunPlan
from airflow_samza.runs.stages.run_ends import is_aborted
from airflow_samza.runs.stages.stage_state import StageHandle, is_committed
from airflow_samza.runs.state_history.versions import Version
from airflow_samza.system_kinds import traits_of
from airflow_samza.systems.capabilities import HasSections
from airflow_samza.systems.filesystems.filesystem import Filesystem
from airflow_samza.systems.sections import Section, described
from airflow_samza.systems.system import System

OF_INTERVAL, LATEST = "@interval", "@latest"


@dataclass(frozen=True)
class SectionWriter:
    """The run of another application that writes a section of a shared stream, and the stage that does."""

    application: str
    run_id: str
    stage: str

    @property
    def producer(self) -> str:
        """Its name as a producer."""
        return producer_id(self.application, self.run_id, self.stage)

    @property
    def run(self) -> str:
        """``<application>/<run>``, as sections name it."""
        return self.producer.rpartition("/")[0]

    @property
    def folder(self) -> RunFolder:
        """The records of its run."""
        return RunFolder(self.application, self.run_id)

    def text(self, files: Filesystem) -> str:
        """Return the run and its Dag as a part of a sentence."""
        dag_id = origin_of(files, self.application, self.run_id).dag_id
        of_dag = f" (Dag {dag_id!r})" if dag_id else ""
        return f"the run {self.run_id!r} of {self.application!r}{of_dag}"

    def newest(self, files: Filesystem) -> StageHandle | None:
        """Return the newest generation of its stage that was ever submitted, of whichever plan."""
        generations = self.folder.generations(files, self.stage)
        return StageHandle(self.application, self.run_id, self.stage, generations[-1]) if generations else None

    def reject_lost(
        self, files: Filesystem, bound: Generation | None, stream_id: str, stage_id: str, run_id: str
    ) -> None:
        """Reject a stage whose producer in this run will not write on, as that of a producer in its own run.

        ``bound`` is the generation that the stage reads; None: it has read none yet.
        """
        handle = self.newest(files)
        newest = handle.generation if handle is not None else None
        reading = bound if bound is not None else newest
        folder = self.folder.stage(self.stage, reading) if reading is not None else None
        if folder is not None and is_committed(files, folder):
            return
        reads = f"The stage {stage_id!r} reads of {stream_id!r} what {self.text(files)} writes"
        if (folder is not None and is_aborted(files, folder)) or files.exists(self.folder.closed):
            raise StageError(
                f"{reads}, and that run failed for good.",
                hint=f"Fix the failure there and clear it, then clear {stage_id!r} with its downstream.",
                stage=stage_id,
                run=run_id,
                upstream=self.run,
            )
        plans = self.folder.plan_generations(files)
        if newest is not None and bound is not None and (newest > bound or plans[-1] > bound.plan):
            raise UpstreamCleared(
                f"{reads}, and that run was cleared: generation {bound} was read, and it is written anew.",
                hint=f"Clear {stage_id!r} with its downstream: its next generation reads what the run writes now.",
                stage=stage_id,
                run=run_id,
                upstream=self.run,
                generation=str(newest),
            )


def followed(slice_: Mapping[str, Any] | None) -> SectionWriter | None:
    """Return the writer of the section of a slice that is read while it is written; None of any other slice."""
    described = (slice_ or {}).get(FOLLOWS)
    return SectionWriter(**described) if described else None


def find_writer(files: Filesystem, stream_id: str, topic: str, named: str, request: RunRequest) -> SectionWriter | None:
    """Return the run that is named, if it is planned and writes the topic.

    One that is named by its interval, or as the latest, and is not planned, is a :class:`SectionOpen`.
    """
    application, relative = _parts(named)
    if not relative:
        application, _, run_id = named.rpartition("/")
        plans = (plan_of(files, run) for run in newest_runs(files, application or None, run_id))
        return next((found for plan in plans if (found := _writer_in(plan, topic)) is not None), None)
    if relative == OF_INTERVAL and request.interval is None and request.partition_key is None:
        raise ConfigError(
            f"The section {named!r} of {stream_id!r} is that of a data interval, "
            f"and the run {request.run_id!r} has none.",
            hint=f"Name the run, or {application}{LATEST}; or give the run an interval.",
            key="sections",
            value=named,
            stream=stream_id,
        )
    interval = request.interval.iso() if request.interval is not None else None
    for run in newest_runs(files, application):
        plan = plan_of(files, run)
        same = (plan.interval and tuple(plan.interval)) == interval and plan.partition_key == request.partition_key
        found = _writer_in(plan, topic) if same or relative == LATEST else None
        if found is not None and is_seen(files, plan):
            return found
    raise _not_planned(files, stream_id, application, request if relative == OF_INTERVAL else None)


def names_a_slot(named: str) -> bool:
    """Return whether a run is named by its data interval, or as the latest."""
    return bool(_parts(named)[1])


def _parts(named: str) -> tuple[str, str]:
    for relative in (OF_INTERVAL, LATEST):
        if named.endswith(relative):
            return named.removesuffix(relative), relative
    return named, ""


def _writer_in(plan: RunPlan, topic: str) -> SectionWriter | None:
    for stage in plan.plan.stages:
        if any(not plan.is_own(name) and plan.stream(name).spec.name == topic for name in stage.outputs):
            return SectionWriter(plan.application, plan.run_id, stage.stage_id)
    return None


def _not_planned(files: Filesystem, stream_id: str, application: str, request: RunRequest | None) -> SectionOpen:
    of_what = ""
    if request is not None:
        texts = [f"the partition key {request.partition_key!r}"] if request.partition_key else []
        texts += [f"the data interval {request.interval}"] if request.interval is not None else []
        of_what = f" for {' and '.join(texts)}"
    close = did_you_mean(application, files.list("runs"))
    return SectionOpen(
        f"No run of {application!r}{of_what} that writes the shared stream {stream_id!r} is planned.",
        hint=f"{close}Start it; job.state.lease.wait.ms says how long a plan waits for it.",
        stream=stream_id,
        run=application,
    )


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
    final = declared.bounded
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

"""Inputs from run to run: what a run reads of each, how far runs have read it, and what of that was replaced since.

How far an input was read is state. It is found by the input's id, and fits only the same place, read in the same way.

Messages cannot be removed from a state. What replaces them, in a cleared run or by another run of the same slot, would
be read in addition, because it comes at new offsets; to pass it over would leave results that nobody sees are out of
date. So there is one rule for all unbounded inputs, and for the sections of shared streams: ``plan`` names the run that
read what was replaced, which is to be cleared. The plan step asks it, and so does the stage runner before it reads on.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from airflow_samza.application.application import ApplicationSpec
from airflow_samza.application.descriptors import StreamDescriptor
from airflow_samza.errors import StateError
from airflow_samza.runs.records.data_interval import fixed_folder
from airflow_samza.runs.records.folders import read
from airflow_samza.runs.records.run_plan import BoundStream, RunPlan
from airflow_samza.runs.records.state_meaning import (
    ARRIVALS,
    AT,
    INTERVAL,
    PLACE,
    POSITIONS,
    READ,
    SECTIONS,
    WHOLE,
    StateMeaning,
)
from airflow_samza.runs.state_history.folder import StateHistory
from airflow_samza.runs.state_history.state_changes import input_meaning
from airflow_samza.runs.state_history.versions import Version
from airflow_samza.secrecy import without_passwords
from airflow_samza.systems.capabilities import HasSections, LocatesStreams, Superseded, TakesArrivals
from airflow_samza.systems.filesystems.filesystem import Filesystem
from airflow_samza.systems.output_slots import run_of
from airflow_samza.systems.sections import Section
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
        control = checkpoint.get("control", {})
        marks = [
            {**entry, "stream": present.get(entry["stream"], entry["stream"])}
            for entry in control.get("watermarks", ())
        ]
        offsets, sources = by_present_id(checkpoint.get("offsets", {})), by_present_id(checkpoint.get("sources", {}))
        return {
            **left,
            "checkpoint": {
                **checkpoint,
                "control": {**control, "watermarks": marks},
                "offsets": offsets,
                "sources": sources,
            },
        }

    return dataclasses.replace(
        version,
        offsets=by_present_id(version.offsets),
        sections=by_present_id(version.sections),
        read=by_present_id(version.read),
        arrived=by_present_id(version.arrived),
        stages={name: {task: renamed(left) for task, left in tasks.items()} for name, tasks in version.stages.items()},
    )


@dataclass(frozen=True)
class InputHistory:
    """The inputs that the state of an application has read.

    ``version`` is the one that a run starts from (None: nothing yet), with the present ids of its inputs.
    """

    files: Filesystem
    spec: ApplicationSpec
    version: Version | None

    @property
    def history(self) -> StateHistory:
        """The records of its state."""
        return StateHistory(self.spec.name, self.spec.app_id)

    def reject_superseded(self, stream: BoundStream, system: System) -> None:
        """Reject an input of whose messages the state holds some that were superseded since they were read."""
        stream_id = stream.stream_id
        positions = self.version.read.get(stream_id) if self.version is not None else None
        if self.version is None or positions is None or not isinstance(system, HasSections):
            return
        superseded = system.superseded(stream.spec, positions, positions["first"], self.version.offsets[stream_id])
        if superseded:
            first = superseded[0]
            reader = self._reader(lambda version: _has_read(version, stream_id, first))
            raise self._replaced(
                _whose(f"part of the input {stream_id!r}", run_of(first.producer), first.by),
                stream_id,
                first.by,
                first.newer,
                reader,
            )

    def reject_replaced_sections(self, stream: BoundStream, sections: Sequence[Section]) -> None:
        """Reject a shared stream of whose sections the state holds one that was written again since."""
        stream_id = stream.stream_id
        marks = self.version.sections.get(stream_id, ()) if self.version is not None else ()
        before = {mark.rpartition("@")[0]: mark for mark in marks}
        for section in sections:
            of_others = (before[run] for run in sorted(section.replaced) if run in before)
            mark = next(of_others, before.get(section.run, section.mark))
            if mark != section.mark:
                reader = self._reader(lambda version: mark in version.sections.get(stream_id, ()))  # noqa: B023 - called at once
                raise self._replaced(
                    _whose(f"section of the shared stream {stream_id!r}", mark.rpartition("@")[0], section.producer),
                    stream_id,
                    section.producer,
                    section.generation,
                    reader,
                )

    def _reader(self, has_read: Callable[[Version], bool]) -> Version | None:
        """Return the version of the first run that has read something which the present version holds.

        None when it is not kept any more.
        """
        version = self.version
        while version is not None and version.parent:
            before = read(self.files, self.history.version(version.parent), Version)
            if before is None:
                return None
            before = with_present_inputs(self.spec, before)
            if not has_read(before):
                break
            version = before
        if version is not None and version.copy_of:
            version = read(self.files, self.history.version(version.copy_of), Version)
        return version

    def _replaced(self, what: str, stream_id: str, producer: str, newer: str, reader: Version | None) -> StateError:
        writer = Section(producer, newer)
        return StateError(
            f"{_written_anew(what, writer)}, and the state of {self.spec.name!r} was made from the former part.",
            hint=self._way_out(reader),
            application=self.spec.name,
            stream=stream_id,
            run=writer.run_id or producer,
            reader=reader.run if reader is not None else None,
        )

    def _way_out(self, reader: Version | None) -> str:
        assert self.version is not None
        if reader is None:
            return (
                "The run that read it is too long ago to be cleared (job.state.versions.keep says how many are kept): "
                "remove what earlier runs wrote, and forget the state, so that the next run reads anew all that is "
                f"there: {self.history.reset_command()}"
            )
        if reader.number == self.version.number:
            return f"Clear the run that read it, {reader.run!r}, from its plan on; then it reads the newer one."
        return (
            f"First undo the run that read it, {reader.run!r}, and those after it: "
            f"{self.history.reset_command(reader.parent)}; "
            "then clear them from their plans on, in their order."
        )


def replaced_while_running(run: RunPlan, stream_id: str, what: Superseded) -> StateError:
    """Return the error for a run with unbounded inputs, when what it has read was written again meanwhile."""
    writer = Section(what.by, what.newer)
    return StateError(
        f"{_written_anew(_whose(f'part of the input {stream_id!r}', run_of(what.producer), what.by), writer)}, and the "
        f"run {run.run_id!r} of {run.application!r} continues from what it had "
        "written before.",
        hint=f"Clear {run.run_id!r} from its plan on (on the command line: --again): it goes back to the state with "
        "which it began; if that holds it, too, the plan names the run to clear.",
        application=run.application,
        stream=stream_id,
        run=writer.run_id or what.by,
        reader=run.run_id,
    )


def _whose(what: str, former: str, by: str) -> str:
    """Return what was replaced as an object of a sentence about the run that did it; ``former`` run had written it."""
    return f"rewritten its {what}" if run_of(by) == former else f"replaced another run's {what}"


def _written_anew(what: str, writer: Section) -> str:
    of = f" of {writer.run.rpartition('/')[0]!r}" if writer.run_id else ""
    return f"The run {writer.run_id or writer.producer!r}{of} has {what} (generation {writer.generation})"


def _has_read(version: Version, stream_id: str, what: Superseded) -> bool:
    offsets = version.offsets.get(stream_id, ())
    return what.partition < len(offsets) and offsets[what.partition] > what.offset

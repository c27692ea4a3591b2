"""Runs whose output another application, that goes on from a state, has not read yet.

Such a reader may still reject what a run wrote, or want it written anew, and that takes the run's records.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from airflow_samza.runs.records.folders import RunFolder, numbers, read
from airflow_samza.runs.records.run_plan import RunPlan
from airflow_samza.runs.state_history.versions import Version
from airflow_samza.systems.capabilities import HasSections
from airflow_samza.systems.filesystems.filesystem import Filesystem
from airflow_samza.systems.system import StreamSpec, System


@dataclass(frozen=True)
class _Reader:
    """The position of an application in a topic: the sections (``<application>/<run>``), or else the next offsets."""

    application: str
    sections: frozenset[str] | None
    offsets: tuple[int, ...]


class UnreadOutputs:
    """The positions of all applications that carry state, as of their newest versions."""

    def __init__(self, files: Filesystem) -> None:
        self._files = files
        self._readers: dict[str, list[_Reader]] = {}
        self._written: dict[str, Mapping[str, tuple[int, ...]]] = {}
        for history in files.list("state"):
            self._take(f"state/{history}/versions")

    def _take(self, versions: str) -> None:
        all_numbers = numbers(self._files, versions)
        version = read(self._files, f"{versions}/{all_numbers[-1]:020}.json", Version) if all_numbers else None
        if version is None:
            return
        application = version.plan.application
        plan = read(self._files, RunFolder(application, version.run).plan(version.plan_generation), RunPlan)
        for stream_id, stream in plan.streams.items() if plan is not None else ():
            if stream.role != "input" or stream_id not in version.offsets:
                continue
            marks = version.sections.get(stream_id) if "sections" in (stream.slice or {}) else None
            read_ = frozenset(mark.rpartition("@")[0] for mark in marks) if marks is not None else None
            self._readers.setdefault(stream.spec.name, []).append(
                _Reader(application, read_, version.offsets[stream_id])
            )

    def reader(self, run: RunPlan, systems: Mapping[str, System]) -> str | None:
        """Return an application that has not read all that a run wrote to a topic of which it reads, if any."""
        for stage in run.plan.stages:
            for stream, system in run.outside(stage.outputs, systems, HasSections):
                if stream.spec.name not in self._readers:
                    continue
                producer = run.producer(stage.stage_id)
                end = self._ends(system, stream.spec).get(producer)
                for reader in self._readers[stream.spec.name] if end is not None else ():
                    assert end is not None
                    if reader.sections is not None:
                        is_unread = producer.rpartition("/")[0] not in reader.sections
                    else:
                        is_unread = any(written > done for written, done in zip(end, reader.offsets, strict=False))
                    if is_unread:
                        return reader.application
        return None

    def _ends(self, system: HasSections, stream: StreamSpec) -> Mapping[str, tuple[int, ...]]:
        place = system.location(stream)
        if place not in self._written:
            self._written[place] = system.written_ends(stream)
        return self._written[place]

"""Sections of a shared stream: what single runs wrote of it.

The writer of each, which are complete, and a filter for readers. User messages carry no run on the wire; the commits
that they came by name their producer, ``<application>/<run>/<stage>``. Readers of shared streams, the plan step and
Spark's source of topics ask it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from airflow_samza.control.messages import ControlMessage, EndOfStreamMessage, WatermarkMessage
from airflow_samza.control.sections import SectionBookkeeping
from airflow_samza.systems.output_slots import Owner
from airflow_samza.systems.system import ControlEnvelope, SystemStreamPartition


@dataclass
class Section:
    """Section: what one run has written of a shared stream, under the newest generation of its stage.

    ``offsets`` per partition, [first, end). ``replaced`` are the runs (``<application>/<run>``) whose sections it has
    replaced, as it is of the same slot.
    """

    producer: str
    generation: str
    offsets: dict[int, list[int]] = field(default_factory=dict)
    tasks: set[str] = field(default_factory=set)
    total: int | None = None
    is_complete: bool = False
    replaced: frozenset[str] = frozenset()

    @property
    def run(self) -> str:
        """``<application>/<run>``."""
        return self.producer.rpartition("/")[0]

    @property
    def run_id(self) -> str:
        """The run alone, as names hold it."""
        return self.run.rpartition("/")[2]

    @property
    def mark(self) -> str:
        """Mark that a reader keeps of it when it was read: ``<application>/<run>@<generation>``."""
        return f"{self.run}@{self.generation}"

    @property
    def progress(self) -> str:
        """Progress of its writer, as a part of a sentence."""
        return (
            f"{len(self.tasks)} of {self.total} tasks have ended it"
            if self.total is not None
            else "no task has ended it"
        )

    def take(self, partition: int, first: int, end: int, control: Iterable[ControlMessage]) -> None:
        """Add what a commit brought to a partition."""
        place = self.offsets.setdefault(partition, [first, end])
        place[:] = [min(place[0], first), max(place[1], end)]
        for message in control:
            if isinstance(message, EndOfStreamMessage):
                self.total = message.task_count if message.task_name is not None else self.total
                if message.task_name is not None:
                    self.tasks.add(message.task_name)
                self.is_complete = (
                    self.is_complete or message.task_name is None or len(self.tasks) >= message.task_count
                )


def says_all(slice_: Mapping[str, Any] | None) -> bool:
    """Return whether a slice says that what it covers is all there is: one of sections leaves that to their writers."""
    return slice_ is not None and "sections" not in slice_


def is_section(producer: str) -> bool:
    """Return whether a producer is a stage of a run; rows that were appended by hand belong to no section."""
    return producer.count("/") == 2


def described(section: Section) -> dict[str, str]:
    """Return a section as a slice names it."""
    return {"run": section.run, "producer": section.producer, "generation": section.generation}


class SectionFilter:
    """Filter of one partition by sections: their messages, and control messages as of a source (rule C10)."""

    def __init__(self, slice_: Mapping[str, Any], ssp: SystemStreamPartition) -> None:
        self._runs = {(named["producer"], named["generation"]): named["run"] for named in slice_["sections"]}
        self._final = slice_.get("sections_final")
        self._bookkeeping = SectionBookkeeping(ssp.stream, ssp.partition, self._runs.values())
        self._ssp = ssp

    def takes(self, owner: Owner | None) -> bool:
        """Return whether what this owner wrote is of one of the sections."""
        return owner in self._runs

    def control(self, owner: Owner, offset: int, message: ControlMessage) -> list[ControlEnvelope]:
        """Return what a reader sees of a control message of a section, at its offset."""
        assert isinstance(message, WatermarkMessage | EndOfStreamMessage)
        news = self._bookkeeping.update(self._runs[owner], message, offset=offset)
        return [ControlEnvelope(self._ssp, offset, self._of_run(own)) for own in news]

    def _of_run(self, message: ControlMessage) -> ControlMessage:
        if (
            isinstance(message, EndOfStreamMessage) and self._final is not None
        ):  # only the reader knows whether other sections follow
            return replace(message, final=self._final)
        return message

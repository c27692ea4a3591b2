"""The versions of a pushed table that open runs read, by what their plans pin and their epochs take up.

A stage reads what its newest epoch's intent names; before the first one, what the run's plan fixed. The sensor of
freshness and its trigger wait by it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from airflow_samza.runs.progress.run_list import runs_on
from airflow_samza.runs.records.epoch_records import newest_intent
from airflow_samza.runs.records.run_plan import RunPlan
from airflow_samza.runs.stages.newest_stages import newest_handle
from airflow_samza.runs.tables.versions import number_read
from airflow_samza.systems.filesystems.filesystem import Filesystem


@dataclass(frozen=True)
class Freshness:
    """A version of a table that runs are expected to read.

    It is read when every run of an application that is on, and at least ``least``, reads ``number`` of a table or
    newer.
    """

    application: str
    stream_id: str
    system: str
    topic: str
    number: int
    least: int = 1


@dataclass(frozen=True)
class Readers:
    """The versions that runs read, by run id, and the one that is wanted; 0: none that is known."""

    target: int
    least: int
    readers: Mapping[str, int] = field(default_factory=dict)

    @property
    def is_reached(self) -> bool:
        """Return whether all of them have it."""
        return len(self.readers) >= self.least and all(number >= self.target for number in self.readers.values())

    def __str__(self) -> str:
        said = ", ".join(f"{run} reads {number or 'none'}" for run, number in sorted(self.readers.items()))
        return f"version {self.target} is waited for; {said or 'no run is on'}"


def freshness(files: Filesystem, expected: Freshness) -> Readers:
    """Return the versions that the readers of a table have now."""
    numbers: dict[str, int] = {}
    for run in runs_on(files, expected.application):
        stages = [stage.stage_id for stage in run.plan.stages if expected.stream_id in stage.side_inputs]
        if stages:
            numbers[run.run_id] = min(
                number_read(files, expected.system, expected.topic, _slice(files, run, stage_id, expected.stream_id))
                for stage_id in stages
            )
    return Readers(expected.number, expected.least, numbers)


def _slice(files: Filesystem, run: RunPlan, stage_id: str, stream_id: str) -> Mapping[str, Any]:
    intent = newest_intent(files, newest_handle(files, run, stage_id).folder)
    if intent is not None and stream_id in intent.side_inputs:
        return intent.side_inputs[stream_id].slice
    return run.side_input(stream_id).slice or {}

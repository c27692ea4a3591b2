"""The context of an attempt at a stage, on the driver."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from airflow_samza.errors import StageCancelled
from airflow_samza.runs.records.run_plan import RunPlan
from airflow_samza.runs.records.spans import Stopwatch
from airflow_samza.runs.stages.stage_runners import StageRequest
from airflow_samza.runs.stages.stage_state import StageHandle, StageProgress, cancelled, superseded_by
from airflow_samza.runs.tables.push_request import PushRequest
from airflow_samza.schema import Schema
from airflow_samza.systems.filesystems.filesystem import Filesystem
from airflow_samza.systems.system import StreamSpec, System, SystemBinding


class Attempt(Protocol):
    """The attempt to which an epoch belongs."""

    handle: StageHandle
    group: str
    request: StageRequest
    watch: Stopwatch

    def report(self, progress: StageProgress) -> None:
        """Note how far the stage has come, after every epoch; it may be written only now and then."""
        ...

    def cancel_requested(self) -> bool:
        """Return whether somebody asked to cancel it."""
        ...


@dataclass(frozen=True)
class StageContext:
    """One attempt at a stage: the root's files, the run's systems (and how they are bound), the run's plan.

    ``origins`` maps the paths of shipped code to where the user wrote it, for what errors show.
    """

    files: Filesystem
    bindings: Mapping[str, SystemBinding] = field(repr=False)  # they hold secrets
    systems: Mapping[str, System]
    run: RunPlan
    attempt: Attempt
    origins: Mapping[str, str]

    @property
    def handle(self) -> StageHandle:
        """The generation of the stage that is run."""
        return self.attempt.handle


def reject_stopped(files: Filesystem, attempt: Attempt) -> None:
    """Stop an attempt that was cancelled, or whose stage has a newer generation."""
    handle = attempt.handle
    if attempt.cancel_requested():
        raise cancelled(handle)
    newest = handle.run.generations(files, handle.stage_id)[-1]
    if newest > handle.generation:
        raise StageCancelled(
            superseded_by(handle, newest),
            hint="Nothing is lost: the newer generation does the work.",
            stage=handle.stage_id,
            run=handle.run_id,
        )


@dataclass(frozen=True)
class PushContext:
    """One attempt at a push: the root's files, the systems' bindings, the table's system, and the request.

    ``origins`` maps the paths of shipped code to where the user wrote it, for what errors show.
    """

    files: Filesystem
    bindings: Mapping[str, SystemBinding] = field(repr=False)  # they hold secrets
    system: System
    request: PushRequest
    attempt: Attempt
    origins: Mapping[str, str]


class PushSource(Protocol):
    """The source of a push, opened and checked."""

    @property
    def schema(self) -> Schema:
        """The table's columns."""
        ...

    def stage(self, stream: StreamSpec, epoch: int) -> None:
        """Write the rows as segments of the push stream, with a manifest for each partition that has any."""
        ...

"""The context of an attempt at a stage, on the driver.

All that runs a stage gets it: epochs, tables of side inputs, and the jobs of Spark.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

from airflow_samza.engine.runner_records import AttemptState
from airflow_samza.engine.worker_errors import shown_as_written
from airflow_samza.errors import SamzaError, StageCancelled
from airflow_samza.runs.records.run_plan import RunPlan
from airflow_samza.runs.stages.stage_state import StageHandle, cancelled, superseded_by
from airflow_samza.runs.tables.push_request import PushRequest
from airflow_samza.schema import Schema
from airflow_samza.systems.filesystems.filesystem import Filesystem
from airflow_samza.systems.system import StreamSpec, System, SystemBinding


@dataclass(frozen=True)
class AttemptContext:
    """One attempt at a stage, or at a push: the root's files, and how systems are bound.

    ``origins`` maps the paths of shipped code to where the user wrote it, for what errors show.
    """

    files: Filesystem
    bindings: Mapping[str, SystemBinding] = field(repr=False)  # they hold secrets
    attempt: AttemptState
    origins: Mapping[str, str]

    @property
    def handle(self) -> StageHandle:
        """The generation of the stage that is run."""
        return self.attempt.handle

    @contextmanager
    def errors_as_written(self) -> Iterator[None]:
        """Have errors name the code that the user wrote: the runner, too, imported what was shipped."""
        try:
            yield
        except SamzaError as error:
            raise SamzaError.from_dict(shown_as_written(error.to_dict(), self.origins)) from error


@dataclass(frozen=True)
class StageContext(AttemptContext):
    """One attempt at a stage, with the run's systems and its plan."""

    systems: Mapping[str, System]
    run: RunPlan


@dataclass(frozen=True)
class PushContext(AttemptContext):
    """One attempt at a push, with the table's system and the request."""

    system: System
    request: PushRequest


def origins_of(files: Filesystem, settings: Mapping[str, Any]) -> dict[str, str]:
    """Return the paths of shipped code, with where the user wrote it, from the settings of a runner."""
    return {files.location(path): origin for path, origin in settings.get("origins", {}).items()}


def reject_stopped(files: Filesystem, attempt: AttemptState) -> None:
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


class PushSource(Protocol):
    """The source of a push, opened and checked."""

    @property
    def schema(self) -> Schema:
        """The table's columns."""

    def stage(self, stream: StreamSpec, epoch: int) -> None:
        """Write the rows as segments of the push stream, with a manifest for each partition that has any."""

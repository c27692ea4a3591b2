"""The context of an attempt at a stage, on the driver."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from airflow_samza.runs.records.run_plan import RunPlan
from airflow_samza.runs.records.spans import Stopwatch
from airflow_samza.runs.stages.stage_runners import StageRequest
from airflow_samza.runs.stages.stage_state import StageHandle, StageProgress
from airflow_samza.systems.filesystems.filesystem import Filesystem
from airflow_samza.systems.system import System, SystemBinding


class Attempt(Protocol):
    """The attempt to which an epoch belongs."""

    handle: StageHandle
    group: str
    request: StageRequest
    watch: Stopwatch

    def report(self, progress: StageProgress) -> None:
        """Note how far the stage has come, after every epoch; it may be written only now and then."""
        ...

    def cancel_asked(self) -> bool:
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

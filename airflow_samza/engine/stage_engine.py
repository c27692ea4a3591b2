"""The port through which stages are driven: an engine runs the tasks of an epoch.

The stage runner drives stages through it, on Spark or, in tests, in its own process. Decision 75.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Protocol

from airflow_samza.engine.stage_context import PushContext, PushSource, StageContext
from airflow_samza.engine.stage_setup import StageSetup
from airflow_samza.engine.tables.table_compaction import CompactionTask
from airflow_samza.runs.records.epoch_records import InputIntent, Intent
from airflow_samza.runs.records.run_plan import BoundStream, RunPlan
from airflow_samza.runs.stages.spark_page import SparkPage


class RunningStage(Protocol):
    """An attempt at a stage that an engine has made ready to run epochs."""

    @property
    def setup(self) -> StageSetup:
        """The stage's program, its output topics, and the work of its tasks."""

    def run_epoch(self, intent: Intent, messages: int | None) -> None:
        """Run the tasks of an epoch, each of which leaves a manifest under the root, unless it is there already.

        ``messages``: the epoch reads no more than so many; None where nobody knows.

        Raises:
            SamzaError: a task failed, or the attempt was cancelled.
        """

    def fill_tables(self, side_inputs: Mapping[str, InputIntent], tag: str) -> None:
        """Read side inputs into tables that hosts keep, beside the epochs; the tag cancels it."""

    def cancel(self, tag: str) -> None:
        """End the filling of tables with a tag; there may be none, or none yet."""

    def epoch_committed(self, epoch: int, standing: Mapping[int, int]) -> None:
        """Take note of a committed epoch, after which the engine may copy state to other hosts.

        ``standing``: each task's newest epoch.
        """


class StageEngine(Protocol):
    """An engine that runs the tasks of stages; each stage has a thread, so all but ``stop`` is called from many."""

    @property
    def place(self) -> str:
        """The engine's place for sentences, without secrets: ``the Spark Connect server sc://host:15002``."""

    def connect(self, context: StageContext) -> None:
        """Give the systems of a stage what they need of the engine to be written to."""

    def read_inputs(self, context: StageContext) -> RunPlan:
        """Return the run's plan with the slices of inputs that only the engine reads; read what was not read yet."""

    def start_stage(
        self, context: StageContext, inputs: Mapping[str, BoundStream]
    ) -> AbstractContextManager[RunningStage]:
        """Compile a stage and make the topics that it writes; its settings and sessions last as long as the context."""

    def open_source(self, push: PushContext) -> AbstractContextManager[PushSource]:
        """Open the source of a push, and check it against the table."""

    def compact(self, push: PushContext, work: CompactionTask) -> None:
        """Run the tasks of a compaction, after a push."""

    def cancel(self, tag: str) -> None:
        """End the epoch of an attempt, whose group is the tag, and no other; there may be none, or none yet."""

    def answers(self) -> bool:
        """Ask the engine something small, which it answers also while tasks run; True when it has.

        An engine that is frozen never answers.
        """

    @property
    def is_up(self) -> bool:
        """Return whether the engine is at work; one that comes up when it is needed may never be."""

    def page(self) -> SparkPage | None:
        """Return where people see the engine at work; None where it shows itself nowhere that is known."""

    def processor_seconds(self) -> float | None:
        """Return the processor time that the engine's own process has used; None where it is none of this host."""

    def stop(self, *, in_a_hurry: bool = False) -> None:
        """End the engine with all that still runs in it.

        Not ``in_a_hurry``, it may leave what lets the next one start sooner.
        """

    def kill(self) -> None:
        """End the engine's own process where it is this runner's, without asking it.

        Calls that wait for an answer fail then.
        """

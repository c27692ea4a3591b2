"""Records that are written before the first epoch of a stage.

The stage runner writes them, and tries at tasks and checks of a root read them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from airflow_samza.records import durable


@dataclass(frozen=True)
class TaskLeft:
    """The checkpoint of a task of an earlier run, and the description of its state's files; None: it left nothing."""

    checkpoint: Mapping[str, Any] | None = None
    state: Mapping[str, Any] | None = None


@durable("start of a stage")
@dataclass(frozen=True)
class StageStart:
    """The state of ``version`` by the tasks of a stage of this run; a task that is missing starts empty."""

    stage: str
    version: int
    tasks: Mapping[int, TaskLeft]


@durable("topics of a stage", 2, upgrades={1: lambda topics: {"topics": topics}})
@dataclass(frozen=True)
class StageTopics:
    """The identities of the run's own topics that a stage writes, by stream; None: the topic had none."""

    topics: Mapping[str, str | None]


@durable("note that a stage needs a runner", reports=True)
@dataclass(frozen=True)
class NeedsRunner:
    """A stage writes ``outputs`` that only a stage runner (the driver process) can publish."""

    outputs: tuple[str, ...] = ()

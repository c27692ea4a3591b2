"""Stand-ins for what a stage runner hands to the code that runs stages: a session of no Spark, and an attempt."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from airflow_samza.engine.runner_records import AttemptState
from airflow_samza.runs.records.spans import Stopwatch
from airflow_samza.runs.stages.stage_runners import StageRequest
from airflow_samza.runs.stages.stage_state import StageHandle, StageProgress
from airflow_samza.spark.sessions.driver_session import DriverSession


class Session(DriverSession):
    """Stands for a Spark that runs nothing."""

    place = "Spark"
    passes_properties = False

    def stage_session(self, conf: Mapping[str, str], *, own: bool) -> AbstractContextManager[Any]:
        return nullcontext()

    def tagged(self, *_: Any, **__: Any) -> AbstractContextManager[None]:
        return nullcontext()

    def cancel(self, tag: str) -> None: ...
    def stop(self) -> None: ...
    def kill(self) -> None: ...

    def answers(self) -> bool:
        return True


class Attempt(AttemptState):
    """An attempt that is wanted until it is cancelled; it keeps the progress that it is told."""

    def __init__(self, handle: StageHandle) -> None:
        self.group = "group"
        self.handle = handle
        self.request = StageRequest(handle.stage_id, str(handle.generation), handle.attempt)
        self.watch = Stopwatch(handle.attempt)
        self.progress: list[StageProgress] = []
        self.is_cancelled = False

    def report(self, progress: StageProgress) -> None:
        self.progress.append(progress)

    def cancel_requested(self) -> bool:
        return self.is_cancelled

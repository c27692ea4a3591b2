"""Stand-ins for what a stage runner hands to the code that runs stages: a session of no Spark, and an attempt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from airflow_samza.launch.bindings import bindings_to_json
from airflow_samza.runs.records.spans import Stopwatch
from airflow_samza.runs.stages.stage_runners import StageRequest
from airflow_samza.runs.stages.stage_state import StageHandle, StageProgress
from airflow_samza.systems.system import SystemBinding


class Session:
    """Stands for a Spark that runs nothing."""

    place = "Spark"
    is_up = True
    passes_properties = False
    cores = None
    knows_executors = False

    def executors(self) -> Sequence[Any]:
        return ()

    def frame_at(self, *_: Any) -> Any:
        raise NotImplementedError

    def stage_session(self, conf: Mapping[str, str], *, own: bool) -> AbstractContextManager[Any]:
        return nullcontext()

    def for_workers(self, spark: Any, bindings: Mapping[str, SystemBinding]) -> dict[str, Any]:
        return bindings_to_json(bindings)

    def tagged(self, *_: Any, **__: Any) -> AbstractContextManager[None]:
        return nullcontext()

    def ship(self, code: Sequence[str], archives: Sequence[str]) -> None: ...
    def cancel(self, tag: str) -> None: ...
    def page(self) -> None: ...
    def stop(self) -> None: ...
    def kill(self) -> None: ...

    def answers(self) -> bool:
        return True

    def processor_seconds(self) -> float | None:
        return None


class Attempt:
    """An attempt that is wanted until it is cancelled; it keeps the progress that it is told."""

    group = "group"

    def __init__(self, handle: StageHandle) -> None:
        self.handle = handle
        self.request = StageRequest(handle.stage_id, str(handle.generation), handle.attempt)
        self.watch = Stopwatch(handle.attempt)
        self.progress: list[StageProgress] = []
        self.is_cancelled = False

    def report(self, progress: StageProgress) -> None:
        self.progress.append(progress)

    def cancel_requested(self) -> bool:
        return self.is_cancelled

"""A home for Airflow outside the user's own, before anything imports Airflow; and a runtime that only remembers."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

import tests.support.airflow_home  # noqa: F401
from airflow_samza.application.loader import load_application
from airflow_samza.errors import SamzaError, StageCancelled, StageFailed
from airflow_samza.planner.planner import ExecutionPlanner
from airflow_samza.prepare.run_request import RunRequest
from airflow_samza.runs.progress.progress import ProgressReport
from airflow_samza.runs.records.names import Generation
from airflow_samza.runs.records.run_plan import BoundStream, RunPlan
from airflow_samza.runs.records.stage_result import InputResult, OutputResult, StageResult
from airflow_samza.runs.stages.stage_state import (
    CANCELLED,
    FAILED,
    QUEUED,
    RUNNING,
    SUCCEEDED,
    StageHandle,
    StageStatus,
)
from airflow_samza.runs.upkeep.keep import Keep
from airflow_samza.systems.filesystems.pace import FREE, Pace
from airflow_samza.systems.filesystems.root_access import NO_ACCESS
from airflow_samza.systems.system import StreamSpec

A_SLICE = {"kind": "files", "files": [{"path": "a"}, {"path": "b"}], "bytes": 7, "offsets": None}


@dataclass
class RememberingRuntime:
    """Plays the runtime at the hook's boundary: plans for real, runs nothing, remembers every call.

    A stage is queued, then running, then at the end that ``ends`` has for it (default: succeeded).
    """

    pace: ClassVar[Pace] = FREE

    ends: dict[str, SamzaError] = field(default_factory=dict)
    calls: list[tuple[Any, ...]] = field(default_factory=list)
    plans: dict[int, RunPlan] = field(default_factory=dict)
    endless: set[str] = field(default_factory=set)
    outputs: dict[str, str] = field(default_factory=dict)
    _asked: dict[str, int] = field(default_factory=dict)
    _cancelled: set[str] = field(default_factory=set)

    def prepare(self, request: RunRequest) -> RunPlan:
        self.calls.append(("prepare", request))
        spec = load_application(request.application).spec(request.config)
        counts = {
            stream.stream_id: stream.partitions or 2 for stream in [*spec.inputs.values(), *spec.outputs.values()]
        }
        plan = ExecutionPlanner(spec.config, counts).plan(spec)
        streams = {
            s.stream_id: BoundStream(s.stream_id, s.role, s.system or "log", StreamSpec(s.stream_id), A_SLICE)
            for s in plan.streams
        }
        run = RunPlan(
            spec.name,
            spec.app_id,
            request.application,
            request.run_id,
            request.generation,
            plan,
            streams,
            config=request.config,
            mode=request.mode or "staged",
        )
        return self.plans.setdefault(request.generation, run)

    def load_plan(self, application: str, run_id: str, generation: int | None = None) -> RunPlan:
        return self.plans[generation or max(self.plans)]

    def submit(self, run: RunPlan, stage_id: str, generation: int) -> StageHandle:
        self.calls.append(("submit", stage_id, f"{run.generation}.{generation}"))
        return StageHandle(run.application, run.run_id, stage_id, Generation(run.generation, generation), 1)

    def status(self, handle: StageHandle) -> StageStatus:
        asked = self._asked[handle.stage_id] = self._asked.get(handle.stage_id, 0) + 1
        if handle.stage_id in self._cancelled:
            return StageStatus(CANCELLED, 1)
        if asked < 3 or handle.stage_id in self.endless:
            return StageStatus(QUEUED if asked == 1 else RUNNING, 1, tasks=2, tasks_done=asked - 1)
        if handle.stage_id in self.ends:
            return StageStatus(FAILED, 1, error=self.ends[handle.stage_id].to_dict(), log="servers/x/runner.log")
        return StageStatus(SUCCEEDED, 1, tasks=2, tasks_done=2)

    def progress(self, handle: StageHandle, status: StageStatus) -> ProgressReport:
        self.calls.append(("progress", handle.stage_id))
        return ProgressReport(
            handle.stage_id, str(handle.generation), status.state, 0.0, tasks=2, tasks_done=status.tasks_done, read=50
        )

    def cancel(self, handle: StageHandle) -> None:
        self.calls.append(("cancel", handle.stage_id))
        self._cancelled.add(handle.stage_id)

    def abort(self, handle: StageHandle, why: str) -> None:
        self.calls.append(("abort", handle.stage_id))

    def drain(self, run: RunPlan, who: str) -> None:
        self.calls.append(("drain", run.run_id))

    def stop(self, run: RunPlan, who: str, *, at: float | None) -> None:
        self.calls.append(("stop", run.run_id, at))

    def finish(self, handle: StageHandle) -> StageResult:
        self.calls.append(("finish", handle.stage_id))
        if handle.stage_id in self._cancelled:
            raise StageCancelled(f"The stage {handle.stage_id} was cancelled.")
        if handle.stage_id in self.ends:
            raise self.ends[handle.stage_id]
        return a_result(handle, output=self.outputs.get(handle.stage_id))

    def close(self, run: RunPlan, *, succeeded: bool, keep_seconds: float) -> list[str]:
        self.calls.append(("close", succeeded, keep_seconds))
        return ["a-topic"]

    @property
    def upkeep(self) -> RememberingRuntime:
        return self

    def sweep_after(self, application: str, keep: Keep, tell: Any) -> None:
        self.calls.append(("sweep", application, keep))

    def named(self, name: str) -> list[tuple[Any, ...]]:
        """The calls of one name."""
        return [call for call in self.calls if call[0] == name]


def a_result(handle: StageHandle, *, files: int = 1, output: str | None = None) -> StageResult:
    """The progress of a stage of two tasks."""
    facts = {"path": "/out", "files": [f"part-{n:05d}.parquet" for n in range(files)], "offsets": {"0": 9}}
    return StageResult(
        application=handle.application,
        run_id=handle.run_id,
        stage_id=handle.stage_id,
        generation=str(handle.generation),
        tasks=2,
        seconds=1.25,
        task_seconds=2.0,
        inputs=(InputResult(handle.stage_id, "data", "in", 2, 100, 4, 2048),),
        outputs=(
            OutputResult(
                output or f"out-{handle.stage_id}", "warehouse", "out", 2, 90, 4, 1024, own=False, facts=facts
            ),
        ),
    )


TASKS: dict[tuple[str, int], Task] = {}
"""The task instance that was made last, by its id and map index."""


class Task:
    """A task instance as an operator sees it."""

    def __init__(self, operator: Any, **given: Any) -> None:
        self.task = operator
        self.dag_id = "flights"
        self.task_id = operator.task_id
        self.run_id = "manual__2026-01-01T00:00:00+00:00"
        self.map_index = -1
        self.try_number = 1
        self.max_tries = operator.retries
        self.pushed: dict[str, Any] = {}
        for name, value in given.items():
            setattr(self, name, value)
        TASKS[self.task_id, self.map_index] = self

    def xcom_push(self, key: str, value: Any) -> None:
        self.pushed[key] = value


def context_of(operator: Any, **given: Any) -> dict[str, Any]:
    """A context without a data interval, as a manual run without a date has it: the keys are absent."""
    more: dict[str, Any] = {
        name: given.pop(name) for name in ("data_interval_start", "data_interval_end") if name in given
    }
    ti = Task(operator, **given)
    return {
        "ti": ti,
        "task_instance": ti,
        "task": operator,
        "run_id": ti.run_id,
        "dag_run": SimpleNamespace(conf={}),
        **more,
    }


@pytest.fixture(autouse=True)
def _applications_can_be_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parent))


@pytest.fixture(autouse=True)
def _links_are_pushed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have links, which go to Airflow's database, lie with the XComs of their task."""
    from airflow.sdk.bases.xcom import BaseXCom

    def push(*, task_id: str, map_index: int, key: str, value: Any, **_: Any) -> None:
        TASKS[task_id, map_index].xcom_push(key, value)

    monkeypatch.setattr(BaseXCom, "set", push)


@pytest.fixture
def make_context() -> Any:
    return context_of


@pytest.fixture
def make_result() -> Any:
    return a_result


@pytest.fixture
def runtime(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> RememberingRuntime:
    """The remembering runtime in the hook's place for the real one."""
    from airflow_samza.provider.hooks.samza import SamzaHook

    remembering = RememberingRuntime()
    monkeypatch.setattr(SamzaHook, "get_conn", lambda self: remembering)
    monkeypatch.setattr(SamzaHook, "root", str(tmp_path))
    monkeypatch.setattr(SamzaHook, "access", NO_ACCESS)
    monkeypatch.setattr(SamzaHook, "reject_own_disk", lambda self: None)  # there is no connection to ask
    monkeypatch.setattr(SamzaHook, "has_succeeded", lambda self, run: not remembering.ends)
    return remembering


@pytest.fixture
def stage_failed() -> StageFailed:
    return StageFailed("Stage 'by-tail' failed.", hint="Look.", stage="by-tail")


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Triggers speak at once: no scheduler of Airflow's has to hear of anything before."""
    from airflow_samza.provider.triggers import settling

    monkeypatch.setattr(settling, "SETTLE_SECONDS", 0.0)

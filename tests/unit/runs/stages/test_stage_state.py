"""The state of a stage: what its records say of its newest attempt, and how little is asked where looks are charged."""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_samza.errors import StageFailed
from airflow_samza.runs.records.folders import RunFolder, replace, write_once
from airflow_samza.runs.records.liveness import identity
from airflow_samza.runs.records.names import Generation
from airflow_samza.runs.stages import stage_state
from airflow_samza.runs.stages.stage_runners import Claim, Heartbeat, RunnerFolder, RunnerPlace, StageRequest
from airflow_samza.runs.stages.stage_state import (
    CANCELLED,
    FAILED,
    LOST,
    QUEUED,
    RUNNING,
    SUCCEEDED,
    StageHandle,
    StageProgress,
    StatusRecord,
    stage_status,
)
from airflow_samza.systems.filesystems.local import LocalFilesystem
from airflow_samza.systems.filesystems.pace import CHARGED

HERE = Claim(**identity(), claimed_at=1.0)


class Charged(LocalFilesystem):
    """A root that charges for each request, and remembers what was read."""

    pace = CHARGED

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.asked: list[str] = []

    def read(self, path: str) -> bytes:
        self.asked.append(f"read {path}")
        return super().read(path)

    def list(self, directory: str) -> list[str]:
        self.asked.append(f"list {directory}")
        return super().list(directory)


class Ground:
    """A stage with an attempt that a runner has taken."""

    def __init__(self, root: Path, *, charged: bool, claim: Claim | None = HERE) -> None:
        self.files: Any = Charged(root) if charged else LocalFilesystem(root)
        self.handle = StageHandle("app", f"run-{root.name}", "views", Generation(1, 1), 1)
        self.runner = RunnerFolder(RunFolder("app", self.handle.run_id), "key", 1)
        request = StageRequest("views", "1.1", 1, runner=RunnerPlace("key", 1))
        write_once(self.files, self.handle.folder.attempt(1, "request"), request)
        if claim is None:
            return
        write_once(self.files, self.runner.claim, claim)
        for at in (1.0, 0.0):  # it is seen to move
            replace(self.files, self.runner.heartbeat, Heartbeat(time.time() - at))
            self.runner.is_alive(self.files)

    def tell(self, state: str, **more: Any) -> None:
        replace(self.files, self.handle.folder.attempt(1, "status"), StatusRecord(state, at=5.0, **more))

    def status(self) -> Any:
        return stage_status(self.files, self.handle)


@pytest.fixture(params=[False, True], ids=["free", "charged"])
def ground(request: pytest.FixtureRequest, tmp_path: Path) -> Ground:
    return Ground(tmp_path, charged=request.param)


def test_a_request_that_no_runner_has_reported_on_is_queued(ground: Ground) -> None:
    found = ground.status()
    assert (found.state, found.attempt, found.runner) == (QUEUED, 1, f"{HERE.host}, process {HERE.pid}")
    assert found.log == ground.runner.log


def test_an_attempt_at_work_says_what_its_runner_reports(ground: Ground) -> None:
    progress = StageProgress(waiting_for="clicks")
    ground.tell(RUNNING, progress=progress)
    found = ground.status()
    assert (found.state, found.progress, found.updated_at) == (RUNNING, progress, 5.0)


@pytest.mark.parametrize("state", [FAILED, CANCELLED])
def test_an_attempt_that_has_ended_says_how(ground: Ground, state: str) -> None:
    error = StageFailed("It failed.").to_dict() if state == FAILED else None
    ground.tell(state, error=error)
    found = ground.status()
    assert (found.state, found.error) == (state, error)


def test_a_result_counts_whatever_the_runner_has_reported(ground: Ground) -> None:
    ground.tell(SUCCEEDED)
    ground.files.put(ground.handle.folder.result, b'{"tasks": 2}')
    found = ground.status()
    assert (found.state, found.error, found.progress) == (SUCCEEDED, None, None)


@pytest.mark.parametrize("charged", [False, True])
@pytest.mark.parametrize("claim", [dataclasses.replace(HERE, started=1.0), None], ids=["died", "never taken"])
def test_an_attempt_whose_runner_is_not_there_is_lost(tmp_path: Path, charged: bool, claim: Claim | None) -> None:
    ground = Ground(tmp_path, charged=charged, claim=claim)  # another process has the id of the one that died
    ground.tell(RUNNING)
    assert ground.status().state == LOST


# -- a root that charges -----------------------------------------------------------------------------------------------


@pytest.fixture
def charged(tmp_path: Path) -> Ground:
    return Ground(tmp_path, charged=True)


def test_a_stage_at_work_is_asked_for_by_few_requests_and_its_tasks_are_counted_seldom(
    charged: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted: list[str] = []

    def task_progress(files: Any, folder: Any) -> tuple[int, int]:
        counted.append(folder.path)
        return 4, len(counted)

    now = [1000.0]
    monkeypatch.setattr(stage_state, "task_progress", task_progress)
    charged.tell(RUNNING)
    charged.status()
    charged.files.asked.clear()
    found = charged.status()
    assert charged.files.asked == [f"read {charged.handle.folder.attempt(1, 'status')}"]
    assert (found.state, found.tasks, found.tasks_done, counted) == (RUNNING, 0, 0, [])
    now[0] = time.monotonic() + CHARGED.most
    monkeypatch.setattr(stage_state, "time", SimpleNamespace(monotonic=lambda: now[0]))
    assert (charged.status().tasks, charged.status().tasks_done) == (4, 1)
    assert len(counted) == 1
    now[0] += CHARGED.most
    assert charged.status().tasks_done == 2


def test_of_a_stage_that_waits_in_the_queue_no_tasks_are_counted(
    charged: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    charged.status()
    monkeypatch.setattr(stage_state, "time", SimpleNamespace(monotonic=lambda: 1e9))
    monkeypatch.setattr(stage_state, "task_progress", lambda files, folder: pytest.fail("counted"))
    assert charged.status().tasks == 0


def test_a_stage_that_has_succeeded_has_the_tasks_of_its_result(charged: Ground) -> None:
    charged.tell(SUCCEEDED, progress=StageProgress())
    charged.files.put(charged.handle.folder.result, b'{"tasks": 3}')
    found = charged.status()
    assert (found.state, found.tasks, found.tasks_done, found.progress) == (SUCCEEDED, 3, 3, None)
    assert found.log == charged.runner.log


def test_a_stage_that_has_ended_is_not_remembered(charged: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, tuple[float, int, int]] = {}
    monkeypatch.setattr(stage_state, "_TASKS_SEEN", seen)
    charged.tell(RUNNING)
    charged.status()
    assert list(seen) == [charged.files.location(charged.handle.folder.path)]
    charged.tell(SUCCEEDED)
    charged.files.put(charged.handle.folder.result, b'{"tasks": 3}')
    charged.status()
    assert not seen


def test_no_more_stages_are_remembered_than_a_number(charged: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = {"a stage at which nobody looks any more": (1.0, 4, 2)}
    monkeypatch.setattr(stage_state, "_TASKS_SEEN", seen)
    monkeypatch.setattr(stage_state, "_MOST", 1)
    charged.tell(RUNNING)
    charged.status()
    assert list(seen) == [charged.files.location(charged.handle.folder.path)]


def test_a_stage_at_work_names_the_warm_runner_that_lends_its_java(tmp_path: Path) -> None:
    ground = Ground(tmp_path, charged=True, claim=dataclasses.replace(HERE, warm="key, run 3"))
    ground.tell(RUNNING)
    assert ground.status().runner == f"{HERE.host}, process {HERE.pid}, warm runner key, run 3"

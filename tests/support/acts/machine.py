"""A machine in one process: its stage runners are threads of this one, which import what was shipped to them.

Submission, records, code shipping and the loop over a runner's requests are the real ones. What is not: no process is
started, the engine runs tasks without Spark, signs of life are a look into a dictionary, waits are short.
"""

from __future__ import annotations

import importlib
import importlib.util
import itertools
import math
import os
import sys
import threading
import time
import zipimport
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, NoReturn

import pytest

from airflow_samza.application import loader
from airflow_samza.engine import stage_loop, stage_task, task_section
from airflow_samza.engine.runner_records import AttemptState
from airflow_samza.engine.stage_runner import StageRunner
from airflow_samza.engine.tables import warm_tables
from airflow_samza.errors import SamzaError
from airflow_samza.launch import code_shipping, launcher, recorded_runs, runtime, submission
from airflow_samza.launch.runner_settings import RunnerSettings
from airflow_samza.runs import failpoints
from airflow_samza.runs.records.folders import RunFolder, must_read
from airflow_samza.runs.records.names import Generation
from airflow_samza.runs.records.run_plan import RunPlan
from airflow_samza.runs.stages.stage_runners import RunnerFolder, StageRequest, claim_runner, enqueue as leave_request
from airflow_samza.storage.snapshots import TableCache
from airflow_samza.systems.filesystems.filesystem import Filesystem
from airflow_samza.systems.filesystems.opening import open_filesystem
from airflow_samza.systems.filesystems.pace import Looks
from tests.support.local_engine import LocalEngine

PATIENCE_SECONDS = 60.0
"""Seconds after which what is waited for will never come."""


MODULES = ("acts_app", "acts_moved")
"""Names of modules of applications."""


class Died(BaseException):
    """The end of a runner at a failpoint."""


class Hangs(Exception):
    """The end of a wait that is too long."""


@dataclass(frozen=True)
class Fault:
    """A runner that dies in a stage: the failpoint, and how many times it is reached before."""

    stage: str
    place: str
    times: int = 1


@dataclass(frozen=True)
class Seat:
    """A runner as it can be set up again: its folder and settings, the requests that it has taken."""

    folder: RunnerFolder
    settings: RunnerSettings
    modules: Mapping[str, ModuleType]
    taken: tuple[str, ...]


class RunnerHere(StageRunner):
    """A stage runner whose process is this one."""

    def __init__(
        self,
        machine: Machine,
        files: Filesystem,
        folder: RunnerFolder,
        settings: RunnerSettings,
        modules: Mapping[str, ModuleType] | None = None,
    ) -> None:
        super().__init__(files, folder, settings.to_json(), lambda *_: LocalEngine())
        self._engine = LocalEngine()
        self._machine = machine
        self.settings = settings
        self.modules = dict(modules or {})
        self.is_dead = False

    def look(self, *, wait: bool) -> None:
        """Take the requests that have come."""
        with self._machine.lock:
            self._take_requests()
        if wait:
            for thread in self._threads:
                thread.join()

    @property
    def seat(self) -> Seat:
        """Return what is needed to set it up again."""
        taken = tuple(self._files.list(self._folder.queue))
        return Seat(self._folder, self.settings, dict(self.modules), taken)

    def skip(self, names: tuple[str, ...]) -> None:
        """Regard requests as done."""
        for name in names:
            attempt = self._records.take(name)
            if attempt is not None:
                attempt.state = "failed"

    def module(self, name: str) -> ModuleType:
        """Return a module as the zips that were shipped have it."""
        with self._machine.lock:
            for zip_path in () if name in self.modules else self.settings.code:
                spec = zipimport.zipimporter(str(self._files.local_path(zip_path))).find_spec(name)
                if spec is not None and spec.loader is not None:
                    found = importlib.util.module_from_spec(spec)
                    spec.loader.exec_module(found)
                    self.modules[name] = found
                    break
        return self.modules[name] if name in self.modules else importlib.import_module(name)

    def _run(self, attempt: AttemptState) -> None:
        self._machine.here.runner, self._machine.here.stage = self, attempt.handle.stage_id
        super()._run(attempt)

    def _ended_badly(self, attempt: AttemptState, error: SamzaError) -> None:
        if self.is_dead:  # and so it tells nobody
            attempt.cancelled.clear()
            return
        super()._ended_badly(attempt, error)


class _Environment(dict[str, str]):
    """The variables in which a failpoint is looked up: set for the stage that it is meant for."""

    def __init__(self, machine: Machine) -> None:
        super().__init__()
        self._machine = machine

    def get(self, name: str, default: Any = None) -> Any:
        machine = self._machine
        machine.leave_if_dead()
        fault, stage = machine.fault, getattr(machine.here, "stage", None)
        if fault is None or name != failpoints.VARIABLE or fault.stage != stage:
            return default
        return f"{fault.place}*{fault.times}@{machine.marker}"


class _OwnModules:
    """Modules of the process as code shipping sees them: a task has imported few, a process of tests thousands."""

    base_prefix = sys.base_prefix

    @property
    def modules(self) -> dict[str, ModuleType]:
        """Return the modules of applications."""
        return {name: sys.modules[name] for name in MODULES if name in sys.modules}


@dataclass
class Machine:
    """The processes of a machine, all of them here."""

    folder: Path
    runners: dict[str, RunnerHere] = field(default_factory=dict)
    here: Any = field(default_factory=threading.local)
    fault: Fault | None = None
    lock: Any = field(default_factory=threading.RLock)
    _markers: Iterator[int] = field(default_factory=itertools.count)
    marker: str = ""
    deadline: float = math.inf

    @property
    def root(self) -> Path:
        """The root of topics and records."""
        return self.folder / "root"

    @property
    def lake(self) -> Path:
        """The folder of the files' system."""
        return self.folder / "lake"

    @property
    def code(self) -> Path:
        """The folder of the application's module, as the Dag bundle or the current folder has it."""
        return self.folder / "code"

    def write(self, name: str, source: str) -> None:
        """Write a module, in place of all there were: whoever imports it from now on, gets this one."""
        self.code.mkdir(exist_ok=True)
        for path in self.code.glob("*.py"):
            path.unlink()
            sys.modules.pop(path.stem, None)
        (self.code / f"{name}.py").write_text(source)
        sys.path_importer_cache.pop(str(self.code), None)
        sys.modules.pop(name, None)

    def arm(self, fault: Fault | None) -> None:
        """Have the next runner die that comes to a failpoint; give up waits that last too long from now on."""
        self.fault, self.deadline = fault, time.monotonic() + PATIENCE_SECONDS
        self.marker = str(self.folder / f"died-{next(self._markers)}")
        vars(failpoints)["_times"] = itertools.count(1)

    def struck(self) -> bool:
        """Return whether the runner has died."""
        return os.path.exists(self.marker)

    def forget(self) -> None:
        """Forget what a process knows of records and topics: the next one will have others in their place."""
        for cached in (stage_task.load_program, stage_task._systems, stage_task._sweep_once):
            cached.cache_clear()
        warm_tables._WARM = warm_tables.WarmTables()
        task_section._KNOWN = TableCache()
        zipimport._zip_directory_cache.clear()  # type: ignore[attr-defined]

    def stop(self) -> None:
        """End all runners, and wait until their threads have."""
        for runner in self.runners.values():
            runner.is_dead = True
        for runner in self.runners.values():
            for thread in runner._threads:
                thread.join(PATIENCE_SECONDS)
                assert not thread.is_alive(), "a stage runner does not end"
        self.runners.clear()

    def seats(self) -> list[Seat]:
        """Return the runners that live."""
        return [runner.seat for runner in self.runners.values() if self.is_alive(runner._folder)]

    def sit(self, seats: list[Seat]) -> None:
        """Set runners up again."""
        files = open_filesystem(str(self.root))
        for seat in seats:
            runner = self.runners[seat.folder.path] = RunnerHere(self, files, seat.folder, seat.settings, seat.modules)
            runner.skip(seat.taken)

    def is_alive(self, folder: RunnerFolder) -> bool:
        """Return whether a runner lives: until it dies, is closed, or its run is."""
        with self.lock:
            runner = self.runners.get(folder.path)
        if runner is None or runner.is_dead:
            return False
        files = runner._files
        return not files.exists(folder.closed) and not files.exists(folder.run.closed)

    def leave_if_dead(self) -> None:
        """End this thread, if it is of a runner that has died."""
        runner = getattr(self.here, "runner", None)
        if runner is not None and runner.is_dead:
            raise Died

    def _pause(self, pause: Callable[[Looks, float], float]) -> Callable[[Looks, float], float]:
        def paused(looks: Looks, own: float) -> float:
            self.leave_if_dead()
            if time.monotonic() > self.deadline:
                raise Hangs("It hangs.")
            return pause(looks, own)

        return paused

    @contextmanager
    def running(self) -> Iterator[None]:
        """Have everything in this process that plans, submits and runs do it here."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(loader, "importlib", SimpleNamespace(import_module=self._imported))
            patch.setattr(launcher, "check_place", lambda master, submit, python="": None)
            patch.setattr(launcher, "start_runner", self._start)
            patch.setattr(submission, "enqueue", self._enqueue)
            for name in ("is_alive", "gives_sign", "was_heard"):
                patch.setattr(RunnerFolder, name, lambda folder, files: self.is_alive(folder))
            system = SimpleNamespace(
                environ=_Environment(self),
                kill=self._die,
                open=os.open,
                close=os.close,
                getpid=os.getpid,
                O_CREAT=os.O_CREAT,
                O_EXCL=os.O_EXCL,
            )
            patch.setattr(failpoints, "os", system)
            for module in (recorded_runs, runtime):
                patch.setattr(module, "POLL_SECONDS", 0.002)
            patch.setattr(Looks, "pause", self._pause(Looks.pause))
            patch.setattr(stage_loop, "SHORTEST_SECONDS", 0.001)
            patch.setattr(stage_loop, "LONGEST_SECONDS", 0.005)
            patch.setattr(stage_loop, "LONG_SECONDS", 0.05)
            patch.setattr(code_shipping, "sys", _OwnModules())
            patch.setattr(sys, "dont_write_bytecode", True)
            patch.syspath_prepend(str(self.code))
            self.code.mkdir(exist_ok=True)
            patch.chdir(self.code)
            yield

    def _imported(self, name: str) -> ModuleType:
        runner = getattr(self.here, "runner", None)
        return importlib.import_module(name) if runner is None else runner.module(name)

    def _start(self, files: Filesystem, run: RunFolder, settings: RunnerSettings) -> None:
        with self.lock:
            folder = claim_runner(files, run, settings.key)
            if folder is not None:
                self.runners[folder.path] = RunnerHere(self, files, folder, settings)

    def _enqueue(self, files: Filesystem, folder: RunnerFolder, request: StageRequest) -> None:
        leave_request(files, folder, request)
        runner = self.runners.get(folder.path)
        if runner is not None and self.is_alive(folder):
            run = must_read(files, folder.run.plan(Generation.parse(request.generation).plan), RunPlan)
            runner.look(wait=not run.stages_run_concurrently)

    def _die(self, process: int, number: int) -> NoReturn:
        self.here.runner.is_dead = True
        raise Died

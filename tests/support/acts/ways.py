"""The ways in: each makes the first run of an application, and then what somebody does next."""

from __future__ import annotations

import functools
import json
import random
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest
import typer.testing
from airflow.sdk import DAG, Connection
from typer.testing import CliRunner

from airflow_samza.application.loader import load_application
from airflow_samza.cli.app import app as command_line
from airflow_samza.errors import SamzaError
from airflow_samza.launch import stage_watch
from airflow_samza.launch.runtime import SparkRuntime
from airflow_samza.planner.planner import plan_shape
from airflow_samza.prepare.run_request import RunRequest
from airflow_samza.provider.dag import SamzaDag
from airflow_samza.provider.hooks.samza import SamzaHook
from airflow_samza.provider.operators import producer_waits
from airflow_samza.provider.operators.cleanup import SamzaCleanupOperator
from airflow_samza.provider.operators.planning import SamzaPlanOperator
from airflow_samza.provider.operators.samza_operator import SamzaOperator
from airflow_samza.provider.operators.stream import SamzaStreamOperator
from airflow_samza.provider.producer_tasks import ProducerTasks
from airflow_samza.provider.task_group import SamzaTaskGroup
from airflow_samza.provider.triggers import settling
from airflow_samza.runs.records.data_interval import DataInterval
from airflow_samza.runs.records.names import safe
from airflow_samza.systems.system import SystemBinding
from tests.support.acts.machine import Machine
from tests.support.acts.sketches import Sketch
from tests.support.acts.small_airflow import DagRunHere

RETRY = "retry after a failure"
CLEAR = "clear a stage"
CLEAR_BELOW = "clear a stage and below"
CLEAR_PLAN = "clear plan"
RESUME = "resume"
AGAIN = "--again"
ANOTHER = "run the interval again"
MOVED = "from another module"
OTHER_WAY = "another way in"

NEXTS = (RETRY, CLEAR, CLEAR_BELOW, CLEAR_PLAN, RESUME, AGAIN, ANOTHER, MOVED, OTHER_WAY)
"""Next steps, after the act."""

SYSTEMS = {"lake": "acts_lake"}
"""Connections by system."""


COMMAND_LINE = "command line"


@dataclass
class Told:
    """The end of what was asked for: no error, or the sentence and hint as whoever asked has them, or a crash."""

    sentence: str = ""
    hint: str = ""
    kind: str = ""
    is_crash: bool = False

    @property
    def is_fine(self) -> bool:
        """Return whether it has succeeded."""
        return not self.sentence

    @classmethod
    def of(cls, error: BaseException | None) -> Told:
        """Return what an error tells."""
        if error is None:
            return cls()
        error = getattr(error, "error", error)  # Airflow's exceptions hold ours
        if isinstance(error, SamzaError):
            return cls(error.sentence, error.hint, type(error).__name__)
        return cls(f"{type(error).__name__}: {error}"[:500] or "?", is_crash=True)


@dataclass
class State:
    """The remains of a first run, for whoever goes on with it.

    ``reruns`` are the stages that ran again, None: all; ``stages`` is the plan's order.
    """

    run_id: str
    dag_run: DagRunHere | None = None
    generation: int = 1
    done: tuple[str, ...] = ()
    reruns: set[str] | None = None
    replans: bool = True
    """True if the input ranges and the versions of tables are those of now."""
    extra: dict[str, Any] = field(default_factory=dict)


class Way:
    """A way in."""

    name = ""
    nexts: tuple[str, ...] = NEXTS

    def __init__(self, machine: Machine) -> None:
        self.machine = machine

    def begin(self, sketch: Sketch, run: str = "first", interval: tuple[str, str] | None = None) -> tuple[State, Told]:
        """Make a run, from its plan to its end or its failure."""
        raise NotImplementedError

    def go_on(self, state: State, then: str, sketch: Sketch, rng: random.Random) -> Told:
        """Do what comes next to a run."""
        raise NotImplementedError

    def help(self, state: State, told: Told, sketch: Sketch) -> Told | None:
        """Do what a hint says; None where it names no act that can be done here."""
        raise NotImplementedError

    def plan_anew(self, state: State, sketch: Sketch) -> Told:
        """Have a run planned anew."""
        return self._again(state, sketch)

    def _resume(self, state: State, sketch: Sketch) -> Told:
        state.replans = False
        return run_command(self.machine, sketch, "--run-id", state.run_id)

    def _again(self, state: State, sketch: Sketch) -> Told:
        return run_command(self.machine, sketch, "--run-id", state.run_id, "--again")


def run_command(machine: Machine, sketch: Sketch, *arguments: str, interval: tuple[str, str] | None = None) -> Told:
    """Run ``airflow-samza run``, and return what it has told."""
    given = ["run", sketch.reference, "--root", str(machine.root), "--system", f"lake=files:{machine.lake}"]
    interval = interval or sketch.interval
    if interval is not None:
        given += ["--interval", "/".join(interval)]
    for key, value in sketch.given.items():
        given += ["--config", f"{key}={value}"]
    result = CliRunner().invoke(command_line, [*given, *arguments])
    if result.exit_code == 0:
        return Told()
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        return Told.of(result.exception)
    _, _, error = result.stderr.rpartition("Error: ")
    sentence, _, hint = error.partition("\n  Hint: ")
    return Told(sentence.strip() or "?", hint.strip(), COMMAND_LINE, is_crash=result.exit_code not in (1, 2))


class CommandLine(Way):
    """``airflow-samza run``."""

    name = COMMAND_LINE
    nexts = (RETRY, RESUME, AGAIN, ANOTHER, MOVED, OTHER_WAY)

    def begin(self, sketch: Sketch, run: str = "first", interval: tuple[str, str] | None = None) -> tuple[State, Told]:
        told = run_command(self.machine, sketch, "--run-id", run, interval=interval)
        return State(run), told

    def go_on(self, state: State, then: str, sketch: Sketch, rng: random.Random) -> Told:
        if then in (RETRY, RESUME):
            return self._resume(state, sketch)
        if then == AGAIN:
            return self._again(state, sketch)
        assert then == ANOTHER
        state.run_id = "another"
        return run_command(self.machine, sketch, "--run-id", state.run_id)

    def help(self, state: State, told: Told, sketch: Sketch) -> Told | None:
        return self._again(state, sketch) if "--again" in told.hint else None


class RuntimeWay(Way):
    """The runtime's interface in Python."""

    name = "runtime API"
    nexts = (RETRY, CLEAR, RESUME, AGAIN, ANOTHER, MOVED, OTHER_WAY)

    def begin(self, sketch: Sketch, run: str = "first", interval: tuple[str, str] | None = None) -> tuple[State, Told]:
        return State(run), self._run(sketch, run, 1, interval)

    def _runtime(self) -> SparkRuntime:
        binding = SystemBinding("files", {"root": str(self.machine.lake)})
        return SparkRuntime(str(self.machine.root), {"lake": binding})

    def _run(self, sketch: Sketch, run: str, generation: int, interval: tuple[str, str] | None = None) -> Told:
        return _told(lambda: self._runtime().run_application(request_of(sketch, run, generation, interval)))

    def go_on(self, state: State, then: str, sketch: Sketch, rng: random.Random) -> Told:
        if then in (RETRY, RESUME):
            state.replans = False
            return self._run(sketch, state.run_id, state.generation)
        if then == AGAIN:
            return self.plan_anew(state, sketch)
        if then == ANOTHER:
            state.run_id = "another"
            return self._run(sketch, state.run_id, 1)
        return self._clear(state, sketch, rng)

    def plan_anew(self, state: State, sketch: Sketch) -> Told:
        state.generation += 1
        return self._run(sketch, state.run_id, state.generation)

    def _clear(self, state: State, sketch: Sketch, rng: random.Random) -> Told:
        runtime = self._runtime()
        run = runtime.load_plan("acts", state.run_id)
        stage = rng.choice(run.plan.stages).stage_id
        state.reruns, state.replans = {stage}, False

        def clear() -> None:
            planned = runtime.prepare(request_of(sketch, state.run_id, state.generation))
            runtime.run_stage(planned, stage, 2)
            runtime.close(planned)

        return _told(clear)

    def help(self, state: State, told: Told, sketch: Sketch) -> Told | None:
        names = ("--again", "plan task", "generation", "`plan`")
        return self.plan_anew(state, sketch) if any(name in told.hint for name in names) else None


class HookWay(RuntimeWay):
    """The hook, in a task of one's own."""

    name = "hook"

    def _run(self, sketch: Sketch, run: str, generation: int, interval: tuple[str, str] | None = None) -> Told:
        def work() -> None:
            hook = SamzaHook("acts", systems=SYSTEMS)
            planned = hook.plan_run(request_of(sketch, run, generation, interval)).run
            for stage in planned.plan.stages:
                handle = hook.submit(planned, stage.stage_id)
                hook.finish(handle)
            hook.close(planned, after_success=timedelta(days=1), after_failure=timedelta(days=7))

        return _told(work)

    def _clear(self, state: State, sketch: Sketch, rng: random.Random) -> Told:
        hook = SamzaHook("acts", systems=SYSTEMS)
        stage = rng.choice(hook.load_run("acts", state.run_id).plan.stages).stage_id
        state.reruns, state.replans = {stage}, False

        def clear() -> None:
            planned = hook.plan_run(request_of(sketch, state.run_id, state.generation)).run
            hook.finish(hook.submit(planned, stage, 2))

        return _told(clear)


def request_of(sketch: Sketch, run: str, generation: int = 1, interval: tuple[str, str] | None = None) -> RunRequest:
    """Return the request for a run of a sketch."""
    interval = interval or sketch.interval
    return RunRequest(
        sketch.reference,
        run,
        generation=generation,
        config=dict(sketch.given),
        interval=DataInterval.from_iso(*interval) if interval is not None else None,
    )


def _told(work: Callable[[], object]) -> Told:
    try:
        work()
    except Exception as error:
        return Told.of(error)
    return Told()


class DagWay(Way):
    """A Dag; ``scope`` is in the ids of its runs."""

    scope = ""
    plan_task = "plan"
    together = False
    dag_id = "acts_dag"

    def dag(self, sketch: Sketch, state: State) -> Any:
        """Return the Dag as its file makes it now."""
        raise NotImplementedError

    def stage_tasks(self, dag: Any) -> dict[str, Any]:
        """Return the tasks that run stages, by task id."""
        return {task.task_id: task for task in dag.tasks if isinstance(task, SamzaStreamOperator)}

    def settings(self, sketch: Sketch) -> dict[str, Any]:
        """Return parameters of all operators."""
        return {
            "application": sketch.reference,
            "conn_id": "acts",
            "systems": SYSTEMS,
            "config": dict(sketch.given),
        }

    def begin(self, sketch: Sketch, run: str = "first", interval: tuple[str, str] | None = None) -> tuple[State, Told]:
        dag_run = DagRunHere(run, interval or sketch.interval)
        state = State(safe("~".join([self.dag_id, *([self.scope] if self.scope else []), run])), dag_run)
        return state, self._go(state, sketch)

    def go_on(self, state: State, then: str, sketch: Sketch, rng: random.Random) -> Told:
        assert state.dag_run is not None
        if then == RETRY:
            state.replans = False
            return self._go(state, sketch, retry=True)
        if then == RESUME:
            return self._resume(state, sketch)
        if then == AGAIN:
            return self._again(state, sketch)
        if then == ANOTHER:
            state.dag_run = DagRunHere("another", state.dag_run.interval)
            return self._go(state, sketch)
        dag = self.dag(sketch, state)
        if then == CLEAR_PLAN:
            return self.plan_anew(state, sketch)
        tasks = [name for name in self.stage_tasks(dag) if name in state.dag_run.tasks]
        if not tasks:
            return Told("there is no task to clear", kind="n/a")
        task_id = rng.choice(tasks)
        state.replans = False
        state.dag_run.clear(dag, task_id, downstream=then == CLEAR_BELOW)
        cleared = [name for name in tasks if state.dag_run.tasks[name].state is None]
        stages = {self.stage_tasks(dag)[name].stage for name in cleared}
        if None in stages:  # a task that runs them all
            state.done = ()
        else:
            state.reruns = stages
        return self._go(state, sketch)

    def plan_anew(self, state: State, sketch: Sketch) -> Told:
        assert state.dag_run is not None
        state.dag_run.clear(self.dag(sketch, state), self.plan_task, downstream=True)
        state.reruns, state.replans = None, True
        return self._go(state, sketch)

    def _go(self, state: State, sketch: Sketch, *, retry: bool = False) -> Told:
        assert state.dag_run is not None
        _RUNS[state.dag_run.run_id] = state.dag_run
        try:
            dag = self.dag(sketch, state)
            state.dag_run.go_on(dag, retry=retry, together=self.together)
        except Exception as error:
            return Told.of(error)
        found = [Told.of(error) for error in state.dag_run.errors(dag)]
        return next((told for told in found if told.is_crash), found[0] if found else Told())

    def help(self, state: State, told: Told, sketch: Sketch) -> Told | None:
        if told.kind == COMMAND_LINE:
            return CommandLine(self.machine).help(state, told, sketch)
        words = told.hint.lower()
        if "clear" in words and "plan" in words and "downstream" in words:
            return self.plan_anew(state, sketch)
        return None


class SamzaDagWay(DagWay):
    """``SamzaDag``."""

    name = "SamzaDag"
    scope = "application"

    def dag(self, sketch: Sketch, state: State) -> Any:
        return SamzaDag(
            self.dag_id, schedule=None, default_args={"retries": 1}, poll_interval=0.005, **self.settings(sketch)
        )


class GroupWay(DagWay):
    """A ``SamzaTaskGroup`` in a Dag."""

    name = "task group"
    scope = "shop"
    plan_task = "shop.plan"
    mode = "staged"

    def dag(self, sketch: Sketch, state: State) -> Any:
        with DAG(self.dag_id, schedule=None, default_args={"retries": 1}) as dag:
            SamzaTaskGroup("shop", mode=self.mode, poll_interval=0.005, **self.settings(sketch))
        return dag


class FusedWay(GroupWay):
    """A task group whose stages run in one task."""

    name = "fused"
    mode = "fused"


class PipelinedWay(GroupWay):
    """A task group whose stages run at the same time."""

    name = "pipelined"
    mode = "pipelined"
    together = True


class HandWay(DagWay):
    """Operators that are wired by hand; ``wired`` are the stages that the Dag file names, in their order."""

    name = "operators by hand"
    scope = "plan"

    def dag(self, sketch: Sketch, state: State) -> Any:
        shape = plan_shape(load_application(sketch.reference).spec(dict(sketch.given)))
        known = state.extra.setdefault("wired", [stage.stage_id for stage in shape.stages])
        stages = known if state.extra.get("keeps file") else [stage.stage_id for stage in shape.stages]
        upstream = {stage.stage_id: stage.upstream for stage in shape.stages}
        settings = self.settings(sketch)
        with DAG(self.dag_id, schedule=None, default_args={"retries": 1}) as dag:
            plan = SamzaPlanOperator(task_id="plan", **settings)
            tasks = [
                SamzaStreamOperator(
                    task_id=f"step_{number}", stage=stage, plan=plan.output, poll_interval=0.005, **settings
                )
                for number, stage in enumerate(stages)
            ]
            before: dict[str, Any] = dict(zip(stages, tasks, strict=True))
            for number, (stage, task) in enumerate(before.items()):
                for name in upstream.get(stage, stages[max(0, number - 1) : number]):
                    if name in before and name != stage:
                        before[name] >> task
            cleanup = SamzaCleanupOperator(task_id="cleanup", plan=plan.output, **settings)
            cleanup << tasks
            cleanup.as_teardown(on_failure_fail_dagrun=False)
        return dag

    def help(self, state: State, told: Told, sketch: Sketch) -> Told | None:
        asks = "stages are" in told.hint or "Add a SamzaStreamOperator" in told.hint
        if state.extra.get("keeps file") and asks:
            del state.extra["keeps file"]  # somebody corrects the Dag file
            return self.plan_anew(state, sketch)
        return super().help(state, told, sketch)


class AloneWay(DagWay):
    """The whole application in one task."""

    name = "one task"
    scope = "all"
    plan_task = "all"
    nexts = (RETRY, CLEAR, RESUME, AGAIN, ANOTHER, MOVED, OTHER_WAY)

    def dag(self, sketch: Sketch, state: State) -> Any:
        with DAG(self.dag_id, schedule=None, default_args={"retries": 1}) as dag:
            SamzaStreamOperator(task_id="all", poll_interval=0.005, **self.settings(sketch))
        return dag

    def go_on(self, state: State, then: str, sketch: Sketch, rng: random.Random) -> Told:
        return self.plan_anew(state, sketch) if then == CLEAR else super().go_on(state, then, sketch, rng)

    def help(self, state: State, told: Told, sketch: Sketch) -> Told | None:
        if told.kind == COMMAND_LINE:
            return super().help(state, told, sketch)
        return self.plan_anew(state, sketch) if "clear" in told.hint.lower() else None


WAYS: tuple[type[Way], ...] = (
    SamzaDagWay,
    GroupWay,
    HandWay,
    AloneWay,
    FusedWay,
    PipelinedWay,
    CommandLine,
    HookWay,
    RuntimeWay,
)


_RUNS: dict[str, DagRunHere] = {}
"""Runs of Dags by id: what Airflow would be asked for."""


def _states(asked: ProducerTasks) -> dict[str, str | None]:
    tasks = _RUNS[asked.run_id].tasks
    return {stage: tasks[task_id].state if task_id in tasks else None for stage, task_id in asked.tasks.items()}


class _NoLog:
    """A log that keeps nothing."""

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_, **__: None


@contextmanager
def connected(machine: Machine) -> Any:
    """Have the hook find connections, and tasks look often."""
    known = {
        "acts": Connection(conn_id="acts", conn_type="samza", extra=json.dumps({"root": str(machine.root)})),
        "acts_lake": Connection(conn_id="acts_lake", conn_type="fs", extra=json.dumps({"path": str(machine.lake)})),
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SamzaHook, "get_connection", staticmethod(known.__getitem__))
        testing: Any = typer.testing
        patch.setattr(testing, "_get_command", functools.cache(testing._get_command))
        patch.setattr(ProducerTasks, "states", _states)
        patch.setattr(SamzaOperator, "log", _NoLog())
        patch.setattr(settling, "SETTLE_SECONDS", 0.0)
        patch.setattr(producer_waits, "LOOK_AGAIN_SECONDS", 0.5)
        patch.setattr(stage_watch, "SHORTEST_NAP", 0.002)
        yield

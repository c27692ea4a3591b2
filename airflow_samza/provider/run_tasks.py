"""The tasks of a Dag that share a run, as an operator finds them when it runs: in the Dag that Airflow has read.

Tasks share a run when they go by the same plan: by the output of one plan task (``plan=``), or by the same ``scope=``.
A task group makes them so, and so does whoever wires them by hand; nothing here tells the two apart. Operators find by
it whom they run with, and the preview of a backfill its plan task.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from airflow_samza.application.rejections import listed
from airflow_samza.errors import PlanChanged, UnknownName
from airflow_samza.planner.plan import ExecutionPlan
from airflow_samza.planner.titles import stage_named

PLAN, STAGES, CLEANUP = "plan", "stages", "cleanup"
"""Parts of a run that tasks are for: see ``SamzaOperator.part``."""

_OR_CHANGED = "The application may have changed since the Dag file was read: then clear this task with its downstream."


@dataclass(frozen=True)
class StageTask:
    """A task that runs stages: those of ``names`` (ids or titles); None: all of them.

    ``is_late``: which ones, Airflow knows only when the task is mapped.
    """

    task_id: str
    names: tuple[str, ...] | None
    executor: str | None = None
    deferrable: Any = None
    is_late: bool = False


@dataclass(frozen=True)
class RunTasks:
    """The tasks that run the stages of one run."""

    stages: tuple[StageTask, ...] = ()

    @property
    def single(self) -> tuple[StageTask, ...]:
        """The tasks that each run some stages."""
        return tuple(task for task in self.stages if task.names is not None)

    @property
    def whole(self) -> StageTask | None:
        """The task that runs all stages."""
        return next((task for task in self.stages if task.names is None and not task.is_late), None)

    def by_stage(self, plan: ExecutionPlan) -> dict[str, str]:
        """Return the tasks that run the stages of a plan, by stage id, as far as the Dag tells."""
        tasks: dict[str, str] = {}
        for task in self.single:
            for name in task.names or ():
                with suppress(UnknownName):
                    tasks[stage_named(plan, name).stage_id] = task.task_id
        if not tasks and self.whole is not None:
            return {stage.stage_id: self.whole.task_id for stage in plan.stages}
        return {stage.stage_id: tasks[stage.stage_id] for stage in plan.stages if stage.stage_id in tasks}

    def check(self, plan: ExecutionPlan) -> None:
        """Reject tasks of stages that a plan does not have, and a plan with a stage for which there is no task."""
        for task in self.single:
            for name in task.names or ():
                try:
                    stage_named(plan, name)
                except UnknownName as error:
                    raise PlanChanged(
                        no_such_stage(task.task_id, name, plan.application),
                        hint=f"{error.hint} {_OR_CHANGED}",
                        task=task.task_id,
                        stage=name,
                    ) from None
        by_stage = self.by_stage(plan)
        missing = [stage.stage_id for stage in plan.stages if stage.stage_id not in by_stage]
        if self.single and missing and not any(task.is_late for task in self.stages):
            raise PlanChanged(
                f"No task of the Dag runs the {'stage' if len(missing) == 1 else 'stages'} {listed(missing)} of the "
                f"application {plan.application!r}.",
                hint=f"Add a SamzaStreamOperator(stage={missing[0]!r}) with the same plan=, or, where no task has one, "
                f"the same scope=. {_OR_CHANGED}",
                stages=tuple(missing),
                tasks=tuple(task.task_id for task in self.single),
            )


def no_such_stage(task_id: str, stage: str, application: str) -> str:
    """Return the sentence of an error for a task of a stage that its application does not have."""
    return f"The task {task_id!r} runs the stage {stage!r}, which the application {application!r} does not have."


def run_tasks(operator: Any, context: Mapping[str, Any]) -> RunTasks:
    """Return the tasks that share the run of a task; outside of a Dag none is known."""
    dag = _Dag.of(operator, context)
    scope = dag.scopes_of(operator.task_id)[0]
    return RunTasks(tuple(dag.stage_tasks(scope)) if dag.everything else ())


def tasks_before(task: Any) -> list[Any]:
    """Return all tasks before a task in its Dag, the last ones first."""
    dag = task.get_dag()
    return [dag.task_dict[task_id] for task_id in _upstream_of(task, dag.task_dict)] if dag is not None else []


def scopes_to_close(operator: Any, context: Mapping[str, Any]) -> list[str]:
    """Return the scopes of the runs that a cleanup task is for: its own, that of its plan, or those before it."""
    return _Dag.of(operator, context).scopes_of(operator.task_id)


@dataclass(frozen=True)
class _Dag:
    """The tasks of one application in a Dag, by id, as the Dag file has made them: nothing in them is rendered.

    ``everything`` are all tasks of the Dag.
    """

    tasks: Mapping[str, Any]
    everything: Mapping[str, Any]

    @classmethod
    def of(cls, operator: Any, context: Mapping[str, Any]) -> _Dag:
        """Return the tasks of an operator's application in its Dag; without a Dag, itself alone."""
        dag = operator.get_dag() or context.get("dag")
        dag_tasks = getattr(dag, "task_dict", {}) if dag is not None else {}
        ours = {task_id: task for task_id, task in dag_tasks.items() if _part(task) is not None}
        same = {
            task_id: task
            for task_id, task in ours.items()
            if task_id == operator.task_id
            or _rendered(operator, _get(task, "application"), context) == operator.application
        }
        return cls(same or {operator.task_id: operator}, dag_tasks)

    def scopes_of(self, task_id: str) -> list[str]:
        """Return the scopes under which a task's runs are: one, but for a cleanup that names none."""
        task = self.tasks[task_id]
        scope, part = _get(task, "scope"), _part(task)
        plan = _get(task, "plan") if part != PLAN else None
        if plan is None and part != CLEANUP:
            return [task_id if scope is None else str(scope)]
        outputs_of = [other.task_id for other, _ in getattr(plan, "iter_references", tuple)()]
        named = [name for name in outputs_of if name in self.tasks and _part(self.tasks[name]) == PLAN]
        if named:
            return self.scopes_of(named[0])
        if scope is not None:
            return [str(scope)]
        planners = [name for name in self.tasks if name != task_id and self._plans(name)]
        upstream = _upstream_of(task, self.everything)
        before = [name for name in planners if name in upstream]
        scopes = [self.scopes_of(name)[0] for name in before or planners]
        return list(dict.fromkeys(scopes)) or [task_id]

    def _plans(self, task_id: str) -> bool:
        part = _part(self.tasks[task_id])
        return part == PLAN or (part == STAGES and _get(self.tasks[task_id], "plan") is None)

    def stage_tasks(self, scope: str) -> Iterator[StageTask]:
        """Yield the tasks that run stages of the run of a scope."""
        for task_id, task in self.tasks.items():
            if _part(task) == STAGES and self.scopes_of(task_id) == [scope]:
                mapped_over = getattr(getattr(task, "expand_input", None), "value", None)
                later = mapped_over.get("stage") if isinstance(mapped_over, Mapping) else None
                listed_ = later if isinstance(later, list | tuple) else None
                stage = _get(task, "stage")
                yield StageTask(
                    task_id,
                    tuple(map(str, listed_)) if listed_ is not None else None if stage is None else (str(stage),),
                    _get(task, "executor"),
                    _get(task, "deferrable"),
                    is_late=later is not None and listed_ is None,
                )


def _upstream_of(task: Any, tasks: Mapping[str, Any]) -> list[str]:
    """Return the ids of all tasks before a task, the nearest first."""
    task_ids: dict[str, None] = {}
    waiting = [task]
    while waiting:
        new = [task_id for task_id in sorted(waiting.pop(0).upstream_task_ids) if task_id not in task_ids]
        task_ids.update(dict.fromkeys(new))
        waiting += [tasks[task_id] for task_id in new if task_id in tasks]
    return list(task_ids)


def _part(task: Any) -> str | None:
    """Return the part of a run that a task is for; None where it is none of ours."""
    part = getattr(getattr(task, "operator_class", type(task)), "part", None)
    return part if part in (PLAN, STAGES, CLEANUP) else None


def _get(task: Any, name: str) -> Any:
    """Return a parameter of a task; of one that is mapped over its values, what is the same for all of them."""
    return task.partial_kwargs.get(name) if hasattr(task, "partial_kwargs") else getattr(task, name, None)


def _rendered(operator: Any, value: Any, context: Mapping[str, Any]) -> Any:
    """Return a parameter as it is when the task runs."""
    return operator.render_template(value, dict(context)) if isinstance(value, str) and "{{" in value else value

"""The task that plans a run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from airflow_samza.errors import PlanChanged
from airflow_samza.planner.plan import ExecutionPlan
from airflow_samza.provider.deferral import deadline_of, is_deferrable
from airflow_samza.provider.failures import mapped_failures
from airflow_samza.provider.lineage.methods import TellsLineage
from airflow_samza.provider.operators.planning import PlanningOperator
from airflow_samza.provider.plan_xcoms import PlanTicket
from airflow_samza.provider.run_identity import generation_of
from airflow_samza.provider.run_tasks import PLAN, run_tasks
from airflow_samza.runs.progress.run_costs import table_facts
from airflow_samza.runs.records.run_plan import RunPlan


class SamzaPlanOperator(TellsLineage, PlanningOperator):
    """Plans a run: fixes partition counts and input ranges, rejects what cannot run, and stores the plan.

    The return value says where the plan is, for ``SamzaStreamOperator(plan=…)``. Under ``tables`` it names the snapshot
    or version that the run reads of each input that is a table of Iceberg or Delta. For each it gives the number of
    files, rows and bytes that are read. The XCom ``plan_text`` is the plan to read.

    ```python
    plan = SamzaPlanOperator(task_id="plan", application="pipelines.flights:flights_of_the_year")
    SamzaStreamOperator(task_id="all", application="pipelines.flights:flights_of_the_year", plan=plan.output)
    ```

    :param expected_stages: The stages for which the Dag has tasks; a plan with other stages is rejected. Default: those
        of the Dag's tasks that go by this plan.
    :param deferrable_tasks: The tasks of the run that defer, as executors by task id (None: Airflow's first executor).
        A task whose stage runner would end with it is rejected. Default: those of the Dag that go by this plan.
    """

    part = PLAN

    def __init__(
        self,
        *,
        expected_stages: Iterable[str] | None = None,
        deferrable_tasks: Mapping[str, str | None] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.expected_stages = tuple(expected_stages) if expected_stages is not None else None
        self.deferrable_tasks = None if deferrable_tasks is None else dict(deferrable_tasks)

    def execute(self, context: Any) -> dict[str, Any]:
        """Plan and return the ticket."""
        return self._plan(context, deadline_of(self))

    def execute_again(
        self, context: Any, event: Mapping[str, Any] | None = None, *, deadline: float | None = None
    ) -> dict[str, Any]:
        """Plan, now that the run that held the state has given it back."""
        with mapped_failures(self.log, lambda: self.hook):
            self.met(event)
        return self._plan(context, deadline)

    def _plan(self, context: Any, deadline: float | None) -> dict[str, Any]:
        with mapped_failures(self.log, lambda: self.hook), self.leaving_failure(context):
            self.hook.reject_own_disk()
            for task_id, executor in self._deferring(context).items():
                self.hook.reject_short_lived(task_id, executor)
            planned = self.plan_run(self.hook, context, generation_of(context), deadline)
            self._lineage = planned.run
            self.show_plan(planned, context)
            return ticket_of(planned.run).to_dict()

    def _deferring(self, context: Any) -> Mapping[str, str | None]:
        if self.deferrable_tasks is not None:
            return self.deferrable_tasks
        tasks = run_tasks(self, context).stages
        return {task.task_id: task.executor for task in tasks if is_deferrable(task.deferrable)}

    def check_tasks(self, shape: ExecutionPlan, context: Any) -> None:
        """Reject other stages than the Dag has tasks for."""
        if self.expected_stages is None:
            super().check_tasks(shape, context)
        else:
            check_stages(shape, self.expected_stages)


def ticket_of(run: RunPlan) -> PlanTicket:
    """Return the ticket of a plan."""
    stages = tuple(stage.stage_id for stage in run.plan.stages)
    return PlanTicket(run.application, run.run_id, run.generation, run.plan.fingerprint, stages, table_facts(run))


def check_stages(shape: ExecutionPlan, expected: Iterable[str]) -> None:
    """Reject a plan whose stages are not those that were expected."""
    stages = [stage.stage_id for stage in shape.stages]
    if set(expected) != set(stages):
        raise PlanChanged(
            f"The Dag has tasks for the stages {', '.join(expected)}, but the plan has {', '.join(stages)}.",
            hint="The application changed since the Dag file was read: clear this task with its downstream once it "
            "was read again.",
            found=", ".join(stages),
        )

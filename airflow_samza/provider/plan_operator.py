"""The task that plans a run."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any

from airflow_samza.errors import PlanChanged
from airflow_samza.provider.deferral import deadline_of, raise_what_the_trigger_met
from airflow_samza.provider.failures import mapped_failures
from airflow_samza.provider.lineage.methods import TellsLineage
from airflow_samza.provider.plan_note import PLAN_NOTE, PlanNote
from airflow_samza.provider.plan_ticket import PlanTicket
from airflow_samza.provider.planning import FUSED, PlanningOperator
from airflow_samza.provider.run_identity import generation_of
from airflow_samza.runs.records.run_plan import RunPlan

PLAN_TEXT = "plan_text"
"""XCom key of the plan as text."""


class SamzaPlanOperator(TellsLineage, PlanningOperator):
    """Plans a run: fixes partition counts and input ranges, rejects what cannot run, and stores the plan.

    The return value says where the plan is, for ``SamzaStreamOperator(plan=…)``. The XCom ``plan_text`` is the plan to
    read.

    ```python
    plan = SamzaPlanOperator(task_id="plan", application="pipelines.flights:flights_of_the_year")
    SamzaStreamOperator(task_id="all", application="pipelines.flights:flights_of_the_year", plan=plan.output)
    ```

    :param expected_stages: The stages for which the Dag has tasks; a plan with other stages is rejected.
    :param deferrable_tasks: The tasks of the run that defer, as executors by task id (None: Airflow's first executor).
        A task whose stage runner would end with it is rejected.
    """

    def __init__(
        self,
        *,
        expected_stages: Iterable[str] | None = None,
        deferrable_tasks: Mapping[str, str | None] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.expected_stages = tuple(expected_stages) if expected_stages is not None else None
        self.deferrable_tasks = dict(deferrable_tasks or {})
        self.stage_tasks: dict[str, str] = {}  # the tasks of the group's stages, for the page

    def execute(self, context: Any) -> dict[str, Any]:
        """Plan and return the ticket."""
        return self._plan(context, deadline_of(self))

    def execute_again(
        self, context: Any, event: Mapping[str, Any] | None = None, *, deadline: float | None = None
    ) -> dict[str, Any]:
        """Plan, now that the run that held the state has given it back."""
        with mapped_failures(self.log.error, lambda: self.hook.root):
            raise_what_the_trigger_met(event, self.task_id)
        return self._plan(context, deadline)

    def _plan(self, context: Any, deadline: float | None) -> dict[str, Any]:
        with mapped_failures(self.log.error, lambda: self.hook.root):
            self.hook.reject_own_disk()
            for task_id, executor in self.deferrable_tasks.items():
                self.hook.reject_short_lived(task_id, executor)
            planned = self.plan_run(self.hook, context, generation_of(context), deadline)
            self._lineage = planned.run
            self.tell(planned.text)
            ticket = ticket_of(planned.run)
            check_stages(ticket, self.expected_stages)
            context["ti"].xcom_push(key=PLAN_TEXT, value=planned.text)
            context["ti"].xcom_push(key=PLAN_NOTE, value=self._note(planned.run, self.tasks_of(planned.run)).to_dict())
            return ticket.to_dict()

    def tasks_of(self, run: RunPlan) -> dict[str, str]:
        """Return the tasks that run the stages of a plan, by stage id, as far as this task knows them."""
        return self.stage_tasks

    def _note(self, run: RunPlan, tasks: Mapping[str, str]) -> PlanNote:
        return PlanNote(
            run.application,
            run.run_id,
            run.generation,
            run.plan.fingerprint,
            self.conn_id,
            time.time(),
            FUSED if len(set(tasks.values())) < len(tasks) else run.mode,
            self.task_id if self.scope is None else self.scope,
            dict(self.systems or {}),
            dict(tasks),
            run.interval,
        )


def ticket_of(run: RunPlan) -> PlanTicket:
    """Return the ticket of a plan."""
    stages = tuple(stage.stage_id for stage in run.plan.stages)
    return PlanTicket(run.application, run.run_id, run.generation, run.plan.fingerprint, stages)


def check_stages(ticket: PlanTicket, expected: Iterable[str] | None) -> None:
    """Reject a plan whose stages are not those that the Dag has tasks for."""
    if expected is not None and set(expected) != set(ticket.stages):
        raise PlanChanged(
            f"The Dag has tasks for the stages {', '.join(expected)}, but the plan has {', '.join(ticket.stages)}.",
            hint="The application changed since the Dag file was read: clear this task with its downstream once it "
            "was read again.",
            found=", ".join(ticket.stages),
        )

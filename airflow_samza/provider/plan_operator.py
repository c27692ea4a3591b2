"""The task that plans a run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from airflow_samza.errors import PlanChanged
from airflow_samza.provider.bindings import text_map
from airflow_samza.provider.failures import mapped_failures
from airflow_samza.provider.plan_ticket import PlanTicket
from airflow_samza.provider.run_identity import generation_of, interval_of
from airflow_samza.provider.samza_operator import SamzaOperator
from airflow_samza.runs.run_plan import RunPlan

PLAN_TEXT = "plan_text"
"""XCom key of the plan as text."""


class SamzaPlanOperator(SamzaOperator):
    """Plans a run: fixes counts and slices, refuses what must be refused before anything runs, and stores the plan.

    The return value says where the plan lies, for ``SamzaStreamOperator(plan=...)``; the XCom ``plan_text`` is the plan to read.

    :param data_interval: The slice of time instead of the run's data interval: two moments, or a text ``start/end`` (templated).
    :param expected_stages: The stages that the Dag has tasks for; a plan with others is refused.
    :param shape: The fingerprint of the application as the Dag file saw it, for the stages to compare with theirs.
    """

    template_fields: Sequence[str] = (*SamzaOperator.template_fields, "data_interval")

    def __init__(
        self, *, data_interval: Any = None, expected_stages: Iterable[str] | None = None, shape: str | None = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.data_interval = data_interval
        self.expected_stages = tuple(expected_stages) if expected_stages is not None else None
        self.shape = shape

    def execute(self, context: Any) -> dict[str, Any]:
        """Plans and returns the ticket."""
        with mapped_failures(self.log.error):
            hook = self.hook
            planned = hook.plan(
                self.application,
                run_id=self._run_id(context),
                generation=generation_of(context),
                interval=interval_of(context, self.data_interval),
                config=text_map("config", self.config),
                shape=self.shape,
            )
            self.tell(planned.text)
            ticket = ticket_of(planned.run, self.shape)
            check_stages(ticket, self.expected_stages)
            context["ti"].xcom_push(key=PLAN_TEXT, value=planned.text)
            return ticket.to_dict()


def ticket_of(run: RunPlan, shape: str | None = None) -> PlanTicket:
    """The ticket of a plan."""
    stages = tuple(stage.stage_id for stage in run.plan.stages)
    return PlanTicket(run.application, run.run_id, run.generation, run.plan.fingerprint, shape or "", stages)


def check_stages(ticket: PlanTicket, expected: Iterable[str] | None) -> None:
    """Refuse a plan whose stages are not those that the Dag has tasks for."""
    if expected is not None and set(expected) != set(ticket.stages):
        raise PlanChanged(
            f"The Dag has tasks for the stages {', '.join(expected)}, but the plan has {', '.join(ticket.stages)}.",
            hint="The application changed since the Dag file was read: clear this task with its downstream once it was read again.",
            found=", ".join(ticket.stages),
        )

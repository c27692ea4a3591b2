"""The operator that ends a run: its stage runners stop, its topics are marked to expire."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

from airflow_samza.provider.airflow_versions import conf
from airflow_samza.provider.failures import mapped_failures
from airflow_samza.provider.get_provider_info import CONFIG_SECTION
from airflow_samza.provider.hooks import ClosedRun, SamzaHook
from airflow_samza.provider.lineage.methods import TellsLineage, openlineage_is_active
from airflow_samza.provider.lineage.task_lineage import whole_run
from airflow_samza.provider.plan_ticket import PlanTicket
from airflow_samza.provider.samza_operator import SamzaOperator
from airflow_samza.runs.records.run_plan import RunPlan


class SamzaCleanupOperator(TellsLineage, SamzaOperator):
    """Ends a run: stops its stage runners, and marks its intermediate topics to expire.

    Topics are kept for ``[samza] keep_topics_after_success`` hours if every stage has succeeded, otherwise for
    ``keep_topics_after_failure`` hours, so that the run can be cleared and resumed. Then what has expired of the
    application is deleted: topics of earlier runs, and runs beyond ``[samza] keep_runs`` and ``keep_runs_days``. This
    takes at most ten seconds; the next run continues.

    With OpenLineage the task also sends an event of the whole run.

    ```python
    plan = SamzaPlanOperator(task_id="plan", application="pipelines.flights:flights_of_the_year")
    SamzaCleanupOperator(task_id="cleanup", application="pipelines.flights:flights_of_the_year", plan=plan.output)
    ```

    :param plan: The output of the :class:`SamzaPlanOperator` (templated). Without it, because the plan failed, there is
        nothing to do.
    """

    template_fields: Sequence[str] = (*SamzaOperator.template_fields, "plan")

    def __init__(self, *, plan: Any = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.plan = plan

    def execute(self, context: Any) -> None:
        """Close the run."""
        with mapped_failures(self.log.error, lambda: self.hook.root):
            if self.plan is None:
                self.tell("The run was never planned; there is nothing to clean up.")
                return
            hook = self.hook
            run = hook.load_plan(PlanTicket.from_dict(self.plan))
            if openlineage_is_active():
                self._lineage = whole_run(hook, run, self.scope or self.task_id)
            closed = close_run(hook, run, self.tell)
            if self._lineage is not None:
                self._lineage.succeeded = closed.succeeded


def close_run(hook: SamzaHook, run: RunPlan, tell: Callable[[str], None]) -> ClosedRun:
    """Close a run; tell and return what is kept, and for how long."""
    closed = hook.close(
        run,
        after_success=timedelta(hours=conf.getfloat(CONFIG_SECTION, "keep_topics_after_success", fallback=24.0)),
        after_failure=timedelta(hours=conf.getfloat(CONFIG_SECTION, "keep_topics_after_failure", fallback=168.0)),
    )
    hours = closed.keep.total_seconds() / 3600
    outcome = "Every stage has succeeded" if closed.succeeded else "Not every stage has succeeded"
    topics = "1 topic" if len(closed.topics) == 1 else f"{len(closed.topics)} topics"
    kept = f", and its {topics} may be deleted after {hours:g} h" if closed.topics else ""
    tell(f"{outcome}: the run is closed{kept}.")
    for topic in closed.topics:
        tell(f"  {topic}")
    hook.sweep_after(run.application, tell)
    return closed

"""The operator that ends a run: its stage runners stop, its topics are marked to expire."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

from airflow_samza.errors import StageError
from airflow_samza.provider.airflow_versions import AirflowSkipException
from airflow_samza.provider.configured_numbers import configured_number
from airflow_samza.provider.failures import mapped_failures
from airflow_samza.provider.hooks.samza import ClosedRun, SamzaHook
from airflow_samza.provider.lineage.methods import TellsLineage, openlineage_is_active
from airflow_samza.provider.lineage.task_lineage import whole_run
from airflow_samza.provider.operators.samza_operator import EndOfRunOperator
from airflow_samza.provider.producer_tasks import task_states
from airflow_samza.provider.run_tasks import scopes_to_close
from airflow_samza.runs.records.folders import RunFolder
from airflow_samza.runs.records.run_plan import RunPlan


class SamzaCleanupOperator(TellsLineage, EndOfRunOperator):
    """Ends a run: stops its stage runners, and marks its intermediate topics to expire.

    Topics are kept for ``[samza] keep_topics_after_success`` hours if every stage has succeeded, otherwise for
    ``keep_topics_after_failure`` hours, so that the run can be cleared and resumed. Then what has expired of the
    application is deleted: topics of earlier runs, and runs beyond ``[samza] keep_runs`` and ``keep_runs_days``. This
    takes at most ten seconds; the next run continues.

    With OpenLineage the task also sends an event of the whole run.

    It is a teardown task. It also runs after a failure, is cleared with a stage and the tasks after it, and cannot turn
    a failed run green. If tasks follow it, it fails behind a run that has not succeeded, so that they do not run. Give
    ``trigger_rule`` to have an ordinary task, which fails then in any case.

    ```python
    plan = SamzaPlanOperator(task_id="plan", application="pipelines.flights:flights_of_the_year")
    SamzaCleanupOperator(task_id="cleanup", application="pipelines.flights:flights_of_the_year", plan=plan.output)
    ```
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        topics_kept()
        if "trigger_rule" not in kwargs:
            # A teardown plays no part in the state of the Dag run, so it cannot turn a failed run green.
            self.as_teardown(on_failure_fail_dagrun=False)

    def execute(self, context: Any) -> None:
        """Close the run."""
        with mapped_failures(self.log, lambda: self.hook):
            scopes = scopes_to_close(self, context)
            runs = self._runs(context, scopes)
            if not runs:
                self.tell("No task of this Dag run has planned a run; there is nothing to clean up.")
            succeeded = [self._end(run, scopes[0]) for run in runs]
            if not all(succeeded) or not runs:
                self._hold_back(context, [run.run_id for run, good in zip(runs, succeeded, strict=True) if not good])

    def _end(self, run: RunPlan, scope: str) -> bool:
        """Close a run unless it is closed; return whether it has succeeded."""
        if self.plan is None and self.hook.files.exists(RunFolder(run.application, run.run_id).closed):
            self.tell(f"The run {run.run_id} is closed already.")
            return self.hook.has_succeeded(run)
        if openlineage_is_active():
            self._lineage = whole_run(self.hook, run, scope)
        closed = close_run(self.hook, run, self.tell)
        if self._lineage is not None:
            self._lineage.succeeded = closed.succeeded
        return closed.succeeded

    def _hold_back(self, context: Any, failed: Sequence[str]) -> None:
        """Fail, or be skipped, where Airflow would take this task's success for that of the run.

        A teardown counts for nothing but the tasks behind it. ``failed`` are the runs that have not succeeded; none:
        no run was planned.
        """
        dag = self.get_dag()
        following = [dag.task_dict[name] for name in self.downstream_task_ids] if dag is not None else []
        if self.is_teardown and all(task.is_teardown for task in following):
            return
        if not failed and self._was_skipped(context):
            raise AirflowSkipException("The tasks before this one were skipped.")
        what = (
            f"Not every stage of the run {failed[0]!r} has succeeded"
            if failed
            else f"No task of this Dag run has planned a run of {self.application!r}"
        )
        raise StageError(
            f"{what}, so what follows the task {self.task_id!r} does not run.",
            hint="Clear what has failed before it; this task then runs again.",
            run=failed[0] if failed else None,
            task=self.task_id,
        )

    def _was_skipped(self, context: Any) -> bool:
        """Return whether Airflow has skipped all tasks right before this one."""
        states = task_states(context["ti"], sorted(self.upstream_task_ids))
        return bool(states) and all(state == "skipped" for state in states.values())


def close_run(hook: SamzaHook, run: RunPlan, tell: Callable[[str], None]) -> ClosedRun:
    """Close a run; tell and return what is kept, and for how long."""
    closed = hook.close(run, **topics_kept())
    hours = closed.keep.total_seconds() / 3600
    outcome = "Every stage has succeeded" if closed.succeeded else "Not every stage has succeeded"
    topics = "1 topic" if len(closed.topics) == 1 else f"{len(closed.topics)} topics"
    kept = f", and its {topics} may be deleted after {hours:g} h" if closed.topics else ""
    tell(f"{outcome}: the run is closed{kept}.")
    for topic in closed.topics:
        tell(f"  {topic}")
    for held in hook.held(run):
        tell(str(held))
    hook.sweep_after(run.application, tell)
    return closed


def topics_kept() -> dict[str, timedelta]:
    """Return for how long topics are kept, by the outcome of their run; reject hours that are no time."""
    return {
        name: timedelta(hours=configured_number(f"keep_topics_{name}", usual, "hours", may_be_0=True))
        for name, usual in (("after_success", 24.0), ("after_failure", 168.0))
    }

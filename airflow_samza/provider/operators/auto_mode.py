"""``mode="auto"``: a run of little data in one task, of more data in a task per stage, as its plan task decides.

Decision 87.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from airflow_samza.figures import size
from airflow_samza.provider.airflow_versions import SkipMixin
from airflow_samza.provider.configured_numbers import configured_number
from airflow_samza.provider.failures import mapped_failures
from airflow_samza.provider.operators.planning import SamzaPlanOperator
from airflow_samza.provider.run_tasks import run_tasks
from airflow_samza.provider.xcoms import PlanTicket
from airflow_samza.runs.records.run_plan import RunPlan

AUTO = "auto"

FUSE_BELOW = 64 * 1024 * 1024
"""Bytes of all inputs; by default of ``[samza] fuse_below``."""

XCOM_RESULT = "return_value"


class Choice(NamedTuple):
    """The decision for one task or for a task per stage, and its reason."""

    fused: bool
    why: str


def choose(run: RunPlan, limit: int) -> Choice:
    """Return whether a run is fused: when the sizes of all its inputs are known, and are ``limit`` bytes at most."""
    inputs = [stream for stream in run.streams.values() if stream.role == "input"]
    unknown = [stream.stream_id for stream in inputs if not isinstance((stream.slice or {}).get("bytes"), int)]
    if unknown:
        return Choice(False, f"the size of {', '.join(unknown)} is not known when it is planned")
    total = sum(int((stream.slice or {})["bytes"]) for stream in inputs)
    than = "no more" if total <= limit else "more"
    return Choice(total <= limit, f"its inputs hold {size(total)}, {than} than {size(limit)} ([samza] fuse_below)")


class SamzaAutoPlanOperator(SamzaPlanOperator, SkipMixin):
    """Plans a run, and skips either the task that runs all stages or the tasks of single stages.

    Parameters as of :class:`~airflow_samza.provider.operators.planning.SamzaPlanOperator`. The decision follows from
    the stored plan alone, so a retry decides as the first try did.
    """

    def tasks_of(self, run: RunPlan, context: Any) -> dict[str, str]:
        """Return the task that runs all stages, for each, where that is the choice."""
        fused = choose(run, configured_number("fuse_below", FUSE_BELOW, "bytes", may_be_0=True)).fused
        whole, tasks = run_tasks(self, context).whole, super().tasks_of(run, context)
        return dict.fromkeys(tasks, whole.task_id) if fused and whole is not None else tasks

    def _begin(self, context: Any, deadline: float | None) -> dict[str, Any]:
        ticket = super()._begin(context, deadline)
        with mapped_failures(self.log, lambda: self.hook):
            run = self.hook.load_plan(PlanTicket.from_dict(ticket))
            choice = choose(run, configured_number("fuse_below", FUSE_BELOW, "bytes", may_be_0=True))
        how = "in one task" if choice.fused else "in a task per stage"
        self.tell(f"The stages run {how}: {choice.why}.")
        # What skips tasks ends this one by an exception, after which Airflow keeps no result.
        context["ti"].xcom_push(key=XCOM_RESULT, value=ticket)
        self.skip_all_except(context["ti"], list(dict.fromkeys(self.tasks_of(run, context).values())))
        return ticket

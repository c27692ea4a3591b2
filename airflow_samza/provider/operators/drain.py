"""The operator that ends a run on unbounded inputs: by a drain, for good, or by a stop, for now."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from airflow_samza.errors import ConfigError, StageError, UnknownName
from airflow_samza.provider.deferral import (
    check_intervals,
    deadline_of,
    interval_seconds,
    is_deferrable,
    raise_what_the_trigger_met,
)
from airflow_samza.provider.failures import mapped_failures
from airflow_samza.provider.links import ENDED_RUN, PAGE, run_page
from airflow_samza.provider.operators.samza_operator import SamzaOperator
from airflow_samza.runs.progress.run_list import active_runs, origin_of
from airflow_samza.runs.records.run_plan import RunPlan
from airflow_samza.runs.stages.newest_stages import is_over
from airflow_samza.systems.filesystems.pace import Looks

DRAIN, STOP = "drain", "stop"


class SamzaDrainOperator(SamzaOperator):
    """Ends a continuous or pipelined run of an application, and waits for its end.

    A drain ends the run for good: what has arrived is processed, windows and joins are flushed, the stages end one
    after the other. A stop ends it for now: nothing more is read or flushed, and the next run continues from the state.
    The return value is the id of the run.

    ```python
    SamzaDrainOperator(task_id="drain", application="pipelines.departures:departures_live", missing_ok=True)
    ```

    :param run_id: The run, by its own id or by that of the Dag run (templated). Default: the newest run that has not
        ended.
    :param dag_id: Only runs of this Dag (templated).
    :param action: ``drain`` or ``stop`` (templated).
    :param missing_ok: If true, the task succeeds when no such run is running.
    :param wait_for_completion: If true, the task waits until the run has ended.
    :param poll_interval: Seconds between two checks. Default ``[samza] poll_interval`` (1).
    :param deferrable: If true, the task gives its worker slot back while it waits. Default ``[operators]
        default_deferrable``.
    """

    template_fields: Sequence[str] = (*SamzaOperator.template_fields, "run_id", "dag_id_", "action")
    operator_extra_links = (PAGE, ENDED_RUN)

    def __init__(
        self,
        *,
        run_id: str | None = None,
        dag_id: str | None = None,
        action: str = DRAIN,
        missing_ok: bool = False,
        wait_for_completion: bool = True,
        poll_interval: float | None = None,
        deferrable: bool | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.run_id = run_id
        self.dag_id_ = dag_id  # an operator has a dag_id of its own
        self.action = action
        self.missing_ok = missing_ok
        self.wait_for_completion = wait_for_completion
        check_intervals(self, poll_interval=poll_interval)
        self.poll_interval = poll_interval
        self.deferrable = is_deferrable(deferrable)
        self._killed = False

    def execute(self, context: Any) -> str | None:
        """Request the end, and wait; return the id of the run that was ended."""
        with mapped_failures(self.log, lambda: self.hook):
            if self.action not in (DRAIN, STOP):
                raise ConfigError(
                    f"action={self.action!r} of {self.task_id!r} is not known.",
                    hint="Choose drain or stop.",
                    key="action",
                    value=self.action,
                )
            application = self.application_spec().name
            runs = active_runs(self.hook.files, application, self.run_id or None, self.dag_id_ or None)
            if not runs:
                self._nothing_is_on(application)
                return None
            run = runs[0]
            ask = self.hook.drain if self.action == DRAIN else self.hook.stop
            ask(run, who=f"{context['ti'].dag_id}.{self.task_id}")
            self.tell(f"The run {run.run_id} of {application} was asked to {self.action}.")
            self._show_run(run, context)
            return self._wait(run, deadline_of(self)) if self.wait_for_completion else run.run_id

    def execute_complete(
        self, context: Any, event: Mapping[str, Any] | None = None, *, application: str, run_id: str, generation: int
    ) -> str:
        """Return the id of the run after its end."""
        with mapped_failures(self.log, lambda: self.hook):
            raise_what_the_trigger_met(event, self.task_id)
            run = self.hook.load_run(application, run_id, generation)
            self._show_run(run, context)
            return self._ended(run)

    def on_kill(self) -> None:
        """End the wait; a run whose end was requested ends all the same."""
        self._killed = True

    def _show_run(self, run: RunPlan, context: Any) -> None:
        """Have Airflow's page link to the page of the run that ends, where a Dag run has planned it."""
        origin = origin_of(self.hook.files, run.application, run.run_id)
        self.show(context, ENDED_RUN, run_page(origin.dag_id, origin.run_id) if origin.dag_id else "")

    def _wait(self, run: RunPlan, deadline: float | None) -> str:
        interval = interval_seconds("poll_interval", self.poll_interval)
        if self.deferrable and not is_over(self.hook.files, run):
            from airflow_samza.provider.triggers.runs import SamzaRunTrigger  # a Dag file need not load it

            place: dict[str, Any] = {"application": run.application, "run_id": run.run_id, "generation": run.generation}
            self.defer(
                trigger=SamzaRunTrigger(**self.hook.place_of_root, poll_interval=interval, deadline=deadline, **place),
                method_name="execute_complete",
                kwargs=place,
            )
        looks = Looks(self.hook.files.pace)
        while not is_over(self.hook.files, run) and not self._killed:
            time.sleep(looks.pause(interval))
        return self._ended(run)

    def _ended(self, run: RunPlan) -> str:
        if not self.hook.has_succeeded(run):
            raise StageError(
                f"The run {run.run_id!r} of {run.application!r} is over, and not every stage of it has succeeded.",
                hint=f"See what its tasks say, or: airflow-samza status {run.application} {run.run_id}",
                run=run.run_id,
            )
        self.tell(f"The run {run.run_id} of {run.application} is over: every stage has succeeded.")
        return run.run_id

    def _nothing_is_on(self, application: str) -> None:
        named = ", ".join(f"{what} {value!r}" for what, value in (("run", self.run_id), ("Dag", self.dag_id_)) if value)
        if not self.missing_ok:
            raise UnknownName(
                f"No run of {application!r}{f' ({named})' if named else ''} is running; there is nothing to "
                f"{self.action}.",
                hint="Only continuous and pipelined runs are drained and stopped; pass missing_ok=True if none has to "
                "be running.",
                name=application,
            )
        self.tell(f"No run of {application} is running; there is nothing to {self.action}.")


class SamzaStopOperator(SamzaDrainOperator):
    """Stops a continuous or pipelined run of an application for now, and waits for its end.

    Nothing more is read or flushed, and the next run continues from the state. It is a :class:`SamzaDrainOperator` with
    ``action="stop"``.

    ```python
    SamzaStopOperator(task_id="stop", application="pipelines.departures:departures_live", missing_ok=True)
    ```
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(action=STOP, **kwargs)

"""The task that runs a stage, or a whole application: it waits, or defers, and never runs Spark itself."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any

from airflow.sdk.configuration import conf
from airflow.sdk.exceptions import TaskDeferralError, TaskDeferralTimeout

from airflow_samza.application.loader import load_application
from airflow_samza.errors import ConfigError, PlanChanged, SamzaError
from airflow_samza.provider.bindings import text_map
from airflow_samza.provider.cleanup_operator import close_run
from airflow_samza.provider.deferral import deadline_of, raise_what_the_trigger_met
from airflow_samza.provider.failures import mapped_failures
from airflow_samza.provider.get_provider_info import CONFIG_SECTION
from airflow_samza.provider.hooks import SamzaHook
from airflow_samza.provider.plan_ticket import PlanTicket
from airflow_samza.provider.progress_log import DEFAULT_INTERVAL, ProgressLog
from airflow_samza.provider.run_identity import generation_of, interval_of
from airflow_samza.provider.samza_operator import SamzaOperator
from airflow_samza.provider.stage_summary import summary
from airflow_samza.provider.stage_watch import StageWatch
from airflow_samza.provider.stats import emitter
from airflow_samza.runs.run_plan import RunPlan
from airflow_samza.runs.stage_result import StageResult, describe_result
from airflow_samza.runs.stage_state import StageHandle

TRIGGER_GRACE_SECONDS = 120.0
"""How long after the deadline Airflow itself ends a trigger that has not."""


class SamzaStreamOperator(SamzaOperator):
    """Runs one stage of an application, or the whole of it, on Spark.

    A retry re-attaches to what still runs and never doubles output; a clear starts a new generation, whose output replaces the
    former one's. Killing the task cancels its Spark work and no other, deferred or not. The return value holds ``rows``, ``outputs`` and
    ``offsets`` by stream, ``seconds`` and the ``generation``.

    :param stage: The stage to run; None runs the whole application in this one task.
    :param plan: The output of a :class:`SamzaPlanOperator` (templated). Without one the task plans by itself.
    :param data_interval: See :class:`SamzaPlanOperator`; only where the task plans by itself (templated).
    :param shape: The fingerprint of the application as the Dag file saw it; a plan of another one is refused.
    :param poll_interval: Seconds between two questions for the state; default ``[samza] poll_interval``.
    :param progress_interval: Seconds between two reports of progress; default ``[samza] progress_interval``.
    :param deferrable: Gives the worker slot back while the stage runs; default ``[operators] default_deferrable``.
    """

    template_fields: Sequence[str] = (*SamzaOperator.template_fields, "plan", "data_interval")

    def __init__(
        self,
        *,
        stage: str | None = None,
        plan: Any = None,
        data_interval: Any = None,
        shape: str | None = None,
        poll_interval: float | None = None,
        progress_interval: float | None = None,
        deferrable: bool | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        for name, seconds in (("poll_interval", poll_interval), ("progress_interval", progress_interval)):
            if seconds is not None and seconds <= 0:
                raise ConfigError(
                    f"{name}={seconds} of the task {self.task_id!r} is not a time.",
                    hint="Give seconds above 0.",
                    key=name,
                    value=seconds,
                )
        self.stage = stage
        self.plan = plan
        self.data_interval = data_interval
        self.shape = shape
        self.poll_interval = poll_interval
        self.progress_interval = progress_interval
        self.deferrable = conf.getboolean("operators", "default_deferrable", fallback=False) if deferrable is None else deferrable
        self._watch: StageWatch | None = None

    def execute(self, context: Any) -> dict[str, Any]:
        """Submits, waits or defers, finishes; returns what was read and written."""
        with mapped_failures(self.log.error):
            hook = self.hook
            if self.deferrable:
                hook.refuse_short_lived(self.task_id, self.executor)
            run, generation = self._run_and_generation(hook, context)
            return self._run_stages(hook, run, generation, context, deadline_of(self))

    def execute_complete(
        self,
        context: Any,
        event: Mapping[str, Any] | None = None,
        *,
        stages: Mapping[str, Any],
        told: Sequence[str],
        generation: int,
        deadline: float | None,
    ) -> dict[str, Any]:
        """Goes on where the task deferred: finishes what has ended, and defers again while anything is still on.

        ``stages`` are the handles of what was submitted, ``told`` those whose results the log has already.
        """
        with mapped_failures(self.log.error):
            hook = self.hook
            handles = {stage_id: StageHandle.from_dict(handle) for stage_id, handle in stages.items()}
            try:
                raise_what_the_trigger_met(event, self.task_id)
            except BaseException:
                for handle in handles.values():
                    hook.cancel(handle)
                raise
            first = next(iter(handles.values()))
            run = hook.load_run(first.application, first.run_id, first.generation.plan)
            return self._run_stages(hook, run, generation, context, deadline, handles, told)

    def resume_execution(self, next_method: str, next_kwargs: dict[str, Any] | None, context: Any) -> Any:
        """As Airflow has it; a trigger that failed or timed out leaves nobody to look after the stages, so they are cancelled."""
        try:
            return super().resume_execution(next_method, next_kwargs, context)
        except (TaskDeferralError, TaskDeferralTimeout):
            with suppress(SamzaError):
                self._cancel_own(context)
            raise

    def on_kill(self) -> None:
        """Cancels this task's stages and no others."""
        if self._watch is not None:
            self._watch.kill()

    @property
    def _is_alone(self) -> bool:
        """Whether this task is the whole run, so that no cleanup task will close it."""
        return self.stage is None and self.plan is None

    def _run_stages(
        self,
        hook: SamzaHook,
        run: RunPlan,
        generation: int,
        context: Any,
        deadline: float | None,
        submitted: Mapping[str, StageHandle] | None = None,
        told: Sequence[str] = (),
    ) -> dict[str, Any]:
        """Runs the task's stages to their end, or as far as it gets before it has to defer."""
        stage_ids = [self.stage] if self.stage is not None else [stage.stage_id for stage in run.plan.stages]
        for stage_id in stage_ids:
            run.plan.stage(stage_id)
        watch = self._watch = self._new_watch(hook, run, context)
        try:
            if self.deferrable:
                watch.take_up(run, stage_ids, generation, submitted, told)
                still_on = watch.advance()
            else:
                watch.run(run, stage_ids, generation)
                still_on = False
        except SamzaError as error:
            if self._is_alone and not (error.retryable and _has_another_try(context)):
                close_run(hook, run, self.tell)
            raise
        if still_on:
            self._defer(hook, watch, generation, deadline)
        if self._is_alone:
            close_run(hook, run, self.tell)
        return summary(run, [watch.results[stage_id] for stage_id in stage_ids])

    def _defer(self, hook: SamzaHook, watch: StageWatch, generation: int, deadline: float | None) -> None:
        from airflow_samza.provider.triggers import SamzaStageTrigger  # a Dag file need not load it

        submitted = {stage_id: handle.to_dict() for stage_id, handle in {**watch.ended, **watch.active}.items()}
        self.defer(
            trigger=SamzaStageTrigger(
                root=hook.root,
                stages=[handle.to_dict() for handle in watch.active.values()],
                poll_interval=self._poll_interval,
                progress_interval=self._progress_interval,
                deadline=deadline,
            ),
            method_name="execute_complete",
            kwargs={"stages": submitted, "told": list(watch.ended), "generation": generation, "deadline": deadline},
            # Should no triggerer be there at the deadline, Airflow ends the wait a little later.
            timeout=timedelta(seconds=max(deadline - time.time(), 0.0) + TRIGGER_GRACE_SECONDS) if deadline is not None else None,
        )

    def _new_watch(self, hook: SamzaHook, run: RunPlan, context: Any) -> StageWatch:
        tags = getattr(context["ti"], "stats_tags", None)
        progress = ProgressLog(self.tell, hook.progress, self._progress_interval, emitter(run.application, tags))
        return StageWatch(hook, self.log, self._poll_interval, on_result=self._report, progress=progress)

    @property
    def _poll_interval(self) -> float:
        return self.poll_interval or conf.getfloat(CONFIG_SECTION, "poll_interval", fallback=1.0)

    @property
    def _progress_interval(self) -> float:
        return self.progress_interval or conf.getfloat(CONFIG_SECTION, "progress_interval", fallback=DEFAULT_INTERVAL)

    def _cancel_own(self, context: Any) -> None:
        """Cancels what this task may have submitted, from the records alone."""
        hook = self.hook
        if self.plan is not None:
            ticket = PlanTicket.from_dict(self.plan)
            run = hook.load_plan(ticket)
        else:
            run = hook.load_run(load_application(self.application).spec(text_map("config", self.config)).name, self._run_id(context))
        for stage in run.plan.stages:
            if self.stage in (None, stage.stage_id):
                hook.cancel(hook.newest_handle(run, stage.stage_id))

    def _run_and_generation(self, hook: SamzaHook, context: Any) -> tuple[RunPlan, int]:
        own = generation_of(context)
        if self.plan is not None:
            ticket = PlanTicket.from_dict(self.plan)
            if ticket.shape and self.shape and ticket.shape != self.shape:
                raise PlanChanged(
                    f"The application {ticket.application!r} changed since this run was planned.",
                    hint="Clear the plan task with its downstream, so that all stages of the run come from one version of the code.",
                    planned=ticket.shape,
                    found=self.shape,
                )
            return hook.load_plan(ticket), own
        # A stage by itself adopts the plan of its siblings and supersedes only its own output; a whole application supersedes all.
        planned = hook.plan(
            self.application,
            run_id=self._run_id(context),
            generation=1 if self.stage is not None else own,
            interval=interval_of(context, self.data_interval),
            config=text_map("config", self.config),
            shape=self.shape,
        )
        self.tell(planned.text)
        return planned.run, own if self.stage is not None else 1

    def _report(self, result: StageResult) -> None:
        for line in describe_result(result):
            self.log.info("%s", line)


def _has_another_try(context: Mapping[str, Any]) -> bool:
    ti = context["ti"]
    return int(ti.try_number) <= int(ti.max_tries)

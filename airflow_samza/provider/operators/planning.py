"""The task that plans a run, and the part that it shares with other tasks that plan one.

A run's mode, its slice of time, the state that it continues from, the sections that it reads. Operators of whole
applications derive from it; the preview of a backfill plans by it.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any

from airflow_samza.application.application import ApplicationSpec
from airflow_samza.application.rejections import unknown_mode
from airflow_samza.application.times import duration_ms
from airflow_samza.config import Config
from airflow_samza.errors import ConfigError, PlanChanged, SamzaError, SectionOpen, StateBusy
from airflow_samza.planner.plan import ExecutionPlan
from airflow_samza.planner.planner import plan_shape
from airflow_samza.prepare.run_request import FRESH, PREVIOUS, PREVIOUS_ALIAS, RunRequest
from airflow_samza.provider.assets import consumed_sections
from airflow_samza.provider.connections.bindings import text_map
from airflow_samza.provider.deferral import (
    OVER,
    SECTIONS,
    TIMED_OUT,
    deadline_of,
    is_deferrable,
    raise_what_the_trigger_met,
)
from airflow_samza.provider.disclosure import hint_of, sentence_of
from airflow_samza.provider.failures import mapped_failures
from airflow_samza.provider.hooks.samza import PlannedRun
from airflow_samza.provider.lineage.methods import TellsLineage
from airflow_samza.provider.operators.samza_operator import SamzaOperator
from airflow_samza.provider.run_identity import airflow_run_of, bundle_of, generation_of, interval_of, partition_key_of
from airflow_samza.provider.run_tasks import PLAN, STAGES, run_tasks
from airflow_samza.provider.xcoms import PLAN_FAILURE, PLAN_NOTE, PlanFailure, PlanNote, PlanTicket
from airflow_samza.runs.records.run_plan import CONTINUOUS, PIPELINED, STAGED, RunPlan
from airflow_samza.secrecy import without_passwords

FUSED = "fused"
MODES = (STAGED, FUSED, PIPELINED, CONTINUOUS)

PLAN_TEXT = "plan_text"
"""XCom key of the plan as text."""

SECTION_WAIT_SECONDS = 600.0
"""Seconds for which a plan waits for the runs whose sections it follows, unless job.state.lease.wait.ms is set."""

STATE_POLL_SECONDS = 5.0
"""Seconds between two looks at the run that holds the state; runs take minutes."""


class PlanningOperator(SamzaOperator):
    """A task that plans a run.

    :param mode: How the stages run: ``staged`` (one after the other), ``fused`` (the same in one task), ``pipelined``
        (all at the same time), or ``continuous`` (like ``pipelined``, without an end).
    :param run_for: The time after which a continuous run stops: ``"10 minutes"``, a timedelta or seconds (templated).
    :param data_interval: The data interval to read: two datetimes, or a text ``start/end`` or ``start/length``
        (``2026-01-01/P1D``, templated). Default: the Dag run's, else that of its partition.
    :param state_from: The state with which the run starts, if the application carries state: ``previous`` (the run
        before), ``fresh`` (none), or the id of a run (templated). Default: ``fresh`` in a backfill, otherwise
        ``previous``.
    :param table_versions: The versions of pushed tables to read, by table: ``current``, ``as_of_interval`` (the version
        that was current when the data interval began), or the id of a push (templated). Default: ``current``.
    :param input_versions: The snapshots (Iceberg) or versions (Delta) up to which inputs that are tables are read, by
        input, or ``current`` (templated). Default: those that the Dag run's asset events name, otherwise ``current``.
    :param sections: The runs whose sections of shared streams are read, by stream: a run id, ``APPLICATION@interval``
        or ``APPLICATION@latest`` (templated). ``APPLICATION@interval`` is the run for the same data interval and
        partition key. Default: those that the asset events name, otherwise all new ones. A pipelined or continuous run
        follows one that is still written, and waits, deferred, until its run is planned.
    :param wait_for_state: If true, the task waits, deferred, while another run holds the state; if false, it fails and
        can be retried.
    :param reuse: If true, a run that is planned anew keeps the results of stages that have not changed; if false, all
        stages run. A run is planned anew after a clear, or by a retry after an edit.
    """

    template_fields: Sequence[str] = (
        *SamzaOperator.template_fields,
        "run_for",
        "data_interval",
        "state_from",
        "table_versions",
        "input_versions",
        "sections",
    )

    def __init__(
        self,
        *,
        mode: str = STAGED,
        run_for: Any = None,
        data_interval: Any = None,
        state_from: str | None = None,
        table_versions: Mapping[str, str] | None = None,
        input_versions: Mapping[str, str] | None = None,
        sections: Mapping[str, str] | None = None,
        wait_for_state: bool = True,
        reuse: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        check_mode(self.task_id, mode, run_for)
        self.mode = mode
        self.run_for = run_for
        self.data_interval = data_interval
        self.state_from = state_from
        self.table_versions = table_versions
        self.input_versions = input_versions
        self.sections = sections
        self._has_waited = False
        self.wait_for_state = wait_for_state
        self.reuse = reuse

    def execute(self, context: Any) -> dict[str, Any]:
        """Do what the task is for, and return its XCom."""
        return self._begin(context, deadline_of(self))

    def execute_again(
        self, context: Any, event: Mapping[str, Any] | None = None, *, deadline: float | None = None
    ) -> dict[str, Any]:
        """Begin again, now that the application's state, the sections or the producers are there."""
        with mapped_failures(self.log, lambda: self.hook):
            if not (
                event and event.get(TIMED_OUT) and (deadline is None or time.time() < deadline)
            ):  # it was only time to look again
                self._has_waited = bool(event and event.get(SECTIONS) == OVER)
                raise_what_the_trigger_met(event, self.task_id)
        return self._begin(context, deadline)

    def _begin(self, context: Any, deadline: float | None) -> dict[str, Any]:
        """Do what the task is for, or defer until it can be done; return its XCom."""
        raise NotImplementedError

    def plan_run(self, context: Any, generation: int, deadline: float | None = None) -> PlannedRun:
        """Plan the run, or adopt the stored plan; defer while another run holds the state."""
        spec = self.application_spec()
        self.check_tasks(plan_shape(spec), context)
        request = self.run_request(spec, context, generation)
        try:
            planned = self.hook.plan_run(self._asked(request), airflow_run_of(context))
        except StateBusy as busy:
            grace = Config(spec.config).state_lease_grace_ms / 1000
            if not self.wait_for_state or not self.hook.holder_works(spec.name, spec.app_id, grace):
                raise
            self.tell(f"{busy.sentence} This task waits for it, deferred.")
            self._defer_for_state(spec.name, spec.app_id, grace, deadline)
        except SectionOpen as missing:
            named = {name: run for name, run in request.sections.items() if name in spec.inputs}
            if self._has_waited or not named or self.mode not in (PIPELINED, CONTINUOUS):
                raise
            self.tell(f"{missing.sentence} This task waits for it, deferred.")
            self._defer_for_sections(spec, request, named, deadline)
        if self.run_for is not None:
            self.hook.stop(
                planned.run, at=time.time() + seconds_of(self.run_for, self.task_id), who=f"run_for={self.run_for}"
            )
        return planned

    def run_request(self, spec: ApplicationSpec, context: Any, generation: int = 1) -> RunRequest:
        """Return the request for the run of the task in a Dag run."""
        return RunRequest(
            self.application,
            self._run_id(context),
            generation=generation,
            plans_anew=True,
            reuse=self.reuse,
            config=text_map("config", self.config),
            interval=interval_of(context, self.data_interval),
            partition_key=partition_key_of(context),
            mode=STAGED if self.mode == FUSED else self.mode,
            state_from=self._state_from(context, spec.name),
            sections=self._sections(context, spec),
            tables=text_map("table_versions", self.table_versions),
            input_versions=self._input_versions(context, spec),
            bundle=bundle_of(context),
        )

    def _asked(self, request: RunRequest) -> RunRequest:
        """Return the request for the run as the task asks for it."""
        return request

    @contextmanager
    def leaving_failure(self, context: Any) -> Iterator[None]:
        """Leave why the run cannot be planned, in the body, where the page of this package finds it."""
        try:
            yield
        except SamzaError as error:
            failure = PlanFailure(
                self.application if isinstance(self.application, str) else self.task_id,
                self.conn_id,
                type(error).__name__,
                without_passwords(sentence_of(error)),
                without_passwords(hint_of(error)),
                time.time(),
                error.rule,
            )
            with suppress(Exception):  # an Airflow that takes no XCom must not hide the error
                context["ti"].xcom_push(key=PLAN_FAILURE, value=failure.to_dict())
            from airflow_samza.prepare.plan_step import leave_why_not_planned

            with suppress(SamzaError, OSError):  # without a root there is no place for it
                config = text_map("config", self.config)
                run_id, origin = self._run_id(context), airflow_run_of(context)
                leave_why_not_planned(self.hook.files, self.application, run_id, config, error, origin)
            raise

    def check_tasks(self, shape: ExecutionPlan, context: Any) -> None:
        """Reject a Dag whose tasks are not those of an application's stages, before any of them runs."""
        run_tasks(self, context).check(shape)

    def show_plan(self, planned: PlannedRun, context: Any) -> None:
        """Write the plan to the log, and leave it where Airflow's page and the page of this package find it.

        Of tasks that share a run without a task that plans it, the one of the first stage leaves it.
        """
        self.tell(planned.text)
        tasks = self.tasks_of(planned.run, context)
        if self.part == STAGES and next(iter(tasks.values()), self.task_id) != self.task_id:
            return
        context["ti"].xcom_push(key=PLAN_TEXT, value=planned.text)
        context["ti"].xcom_push(key=PLAN_NOTE, value=self._note(planned.run, tasks).to_dict())

    def tasks_of(self, run: RunPlan, context: Any) -> dict[str, str]:
        """Return the tasks that run the stages of a plan, by stage id, as far as the Dag tells."""
        return run_tasks(self, context).by_stage(run.plan)

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
            run.slot.partition_key if run.slot is not None else None,
        )

    def _defer_for_state(self, application: str, app_id: str, grace: float, deadline: float | None) -> None:
        from airflow_samza.provider.triggers.runs import SamzaStateTrigger

        self.defer(
            trigger=SamzaStateTrigger(
                **self.hook.place_of_root,
                poll_interval=STATE_POLL_SECONDS,
                deadline=deadline,
                application=application,
                app_id=app_id,
                grace_seconds=grace,
            ),
            method_name="execute_again",
            kwargs={"deadline": deadline},
        )

    def _defer_for_sections(
        self,
        spec: ApplicationSpec,
        request: RunRequest,
        named: Mapping[str, str],
        deadline: float | None,
    ) -> None:
        from airflow_samza.provider.triggers.runs import SamzaSectionsTrigger

        wait = Config(spec.config).state_lease_wait_ms / 1000 or SECTION_WAIT_SECONDS
        self.defer(
            trigger=SamzaSectionsTrigger(
                **self.hook.place_of_root,
                poll_interval=STATE_POLL_SECONDS,
                deadline=deadline,
                sections={name: [spec.inputs[name].physical_name(spec.config), run] for name, run in named.items()},
                interval=list(request.interval.iso()) if request.interval is not None else None,
                partition_key=request.partition_key,
                until=time.time() + wait,
            ),
            method_name="execute_again",
            kwargs={"deadline": deadline},
        )

    def _state_from(self, context: Any, application: str) -> str:
        """Return the state that the run starts from, as a request names it."""
        named = str(self.state_from or "").strip()
        if named in (PREVIOUS, PREVIOUS_ALIAS, FRESH):
            return named
        if named:  # a run of the application, by its own id or by Airflow's
            return named if self.hook.has_run(application, named) else self._run_id({**context, "run_id": named})
        run_type = str(getattr(context.get("dag_run"), "run_type", ""))
        return FRESH if run_type.rpartition(".")[2].lower() == "backfill" else PREVIOUS

    def _input_versions(self, context: Any, spec: ApplicationSpec) -> dict[str, str]:
        """Return the version up to which each table is read: the one that is set, else that of this run's events."""
        from airflow_samza.provider.table_events import versions_of_events  # a Dag file need not load it

        found = versions_of_events(context, self.hook, spec, self.mode, self.tell)
        return {**found, **text_map("input_versions", self.input_versions)}

    def _sections(self, context: Any, spec: Any) -> dict[str, str]:
        """Return the section of each shared stream that is set, else the one that this run's asset event names.

        Several events at once are all sections that are new.
        """
        own = text_map("sections", self.sections)
        sections = {name: runs for name, runs in consumed_sections(context, spec).items() if name not in own}
        for stream_id, runs in sections.items():
            more = "" if len(runs) == 1 else f" and {len(runs) - 1} more: everything that is new is read"
            self.tell(f"The shared stream {stream_id} has a section of the run {runs[0]}{more}.")
        return {**own, **{stream_id: runs[0] for stream_id, runs in sections.items() if len(runs) == 1}}


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

    def _begin(self, context: Any, deadline: float | None) -> dict[str, Any]:
        """Plan, and return the ticket."""
        with mapped_failures(self.log, lambda: self.hook), self.leaving_failure(context):
            self.hook.reject_own_disk()
            for task_id, executor in self._deferring(context).items():
                self.hook.reject_short_lived(task_id, executor)
            planned = self.plan_run(context, generation_of(context), deadline)
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
        stages = [stage.stage_id for stage in shape.stages]
        if self.expected_stages is None:
            super().check_tasks(shape, context)
        elif set(self.expected_stages) != set(stages):
            raise PlanChanged(
                f"The Dag has tasks for the stages {', '.join(self.expected_stages)}, but the plan has "
                f"{', '.join(stages)}.",
                hint="The application changed since the Dag file was read: clear this task with its downstream once "
                "it was read again.",
                found=", ".join(stages),
            )


def check_mode(what: str, mode: str, run_for: Any = None, modes: Sequence[str] = MODES) -> None:
    """Reject an unknown mode, and a length of time for a run that ends by itself."""
    if mode not in modes:
        raise unknown_mode(repr(what), mode, modes)
    if run_for is not None and mode != CONTINUOUS:
        raise ConfigError(
            f"run_for={run_for!r} was set on {what!r}, whose runs end by themselves (mode={mode!r}).",
            hint='Leave it out, or choose mode="continuous".',
            key="run_for",
            value=str(run_for),
        )


def seconds_of(length: Any, what: str) -> float:
    """Return a length of time in seconds, from seconds, a timedelta or a text such as ``10 minutes``."""
    if isinstance(length, str) and length.replace(".", "", 1).isdigit():
        length = float(length)
    seconds = duration_ms(timedelta(seconds=length) if isinstance(length, int | float) else length) / 1000
    if seconds <= 0:
        raise ConfigError(
            f"run_for={length!r} of {what!r} is not above 0.",
            hint='Give a length of time above 0, such as "10 minutes".',
            key="run_for",
            value=str(length),
        )
    return seconds


def ticket_of(run: RunPlan) -> PlanTicket:
    """Return the ticket of a plan."""
    stages = tuple(stage.stage_id for stage in run.plan.stages)
    return PlanTicket(run.application, run.run_id, run.generation, run.plan.fingerprint, stages, run.table_facts)

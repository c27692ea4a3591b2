"""The task that runs a stage, or a whole application: it waits, or defers, and never runs Spark itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from airflow_samza.application.loader import load_application
from airflow_samza.errors import SamzaError, UnknownName
from airflow_samza.launch.stage_watch import StageWatch
from airflow_samza.planner.plan import ExecutionPlan, Stage
from airflow_samza.planner.titles import stage_named, stage_names, stage_titles
from airflow_samza.prepare.unchanged import reject_changed, reject_other_config
from airflow_samza.provider.connections.bindings import text_map
from airflow_samza.provider.deferral import (
    LOST,
    check_intervals,
    interval_seconds,
    is_deferrable,
    raise_what_the_trigger_met,
    trigger_timeout,
)
from airflow_samza.provider.disclosure import sentence_of
from airflow_samza.provider.failures import mapped_failures
from airflow_samza.provider.hooks.runtime import PLAN_ANEW
from airflow_samza.provider.lineage.methods import TellsLineage
from airflow_samza.provider.lineage.outlets import (
    announce,
    outlets_of_task,
    reject_partitions,
    slice_of,
    with_outlets,
)
from airflow_samza.provider.lineage.task_lineage import TaskLineage, names_in
from airflow_samza.provider.links import OUTPUT, PAGE, RESULTS, RUNNER_LOG, SPARK, task_page
from airflow_samza.provider.operators.cleanup import close_run, topics_kept
from airflow_samza.provider.operators.planning import PlanningOperator
from airflow_samza.provider.operators.producer_waits import producer_tasks, producers_guard, wait_for_producers
from airflow_samza.provider.parsed_application import application_if_there, words_on
from airflow_samza.provider.producer_tasks import producer_failed
from airflow_samza.provider.run_identity import bundle_of, generation_of, has_another_try
from airflow_samza.provider.run_tasks import STAGES, no_such_stage
from airflow_samza.provider.stats import emitter
from airflow_samza.provider.xcoms import PlanTicket, summary
from airflow_samza.runs.progress.progress_log import ProgressLog
from airflow_samza.runs.records.run_plan import RunPlan, other_code
from airflow_samza.runs.records.stage_result import StageResult, describe_result
from airflow_samza.runs.stages.stage_state import StageHandle

_DOCS = ("doc", "doc_md", "doc_json", "doc_yaml", "doc_rst")
"""Parameters of a task that say what it does."""


class SamzaStreamOperator(TellsLineage, PlanningOperator):
    """Runs an application, or one stage of it, on Spark.

    A retry continues the same generation and never doubles output; a clear begins a new generation, whose output
    replaces the former one. Killing the task cancels its Spark work. The return value has ``rows``, ``outputs`` and
    ``offsets`` by stream, ``seconds`` and ``generation``.

    ```python
    SamzaStreamOperator(
        task_id="delays",
        application="pipelines.flights:flights_of_the_year",
        systems={"data": "flights_data", "warehouse": "flights_warehouse"},
    )
    ```

    :param stage: The stage to run, by its id or its title. Without it the task runs the whole application.
    :param plan: The output of a :class:`SamzaPlanOperator` (templated). Without it the task plans the run itself.
    :param producers: The tasks of the stages that write what this one reads, as task ids by stage. This is for modes in
        which stages run at the same time: then the task waits, deferred, until its producers have started. Default:
        those of the Dag that go by the same plan.
    :param partition_key: The partition key of the asset events: a text, or ``data_interval`` for the start of the data
        interval (templated). By default the key of the Dag run, if it has one.
    :param poll_interval: Seconds between two checks of the stage's state. Default ``[samza] poll_interval`` (1).
    :param progress_interval: Seconds between two reports of progress. Default ``[samza] progress_interval`` (30).
    :param deferrable: If true, the task gives its worker slot back while the stage runs. Default ``[operators]
        default_deferrable``.
    """

    template_fields: Sequence[str] = (*PlanningOperator.template_fields, "plan", "partition_key")
    operator_extra_links = (PAGE, RUNNER_LOG, SPARK, OUTPUT)
    part = STAGES

    def __init__(
        self,
        *,
        stage: str | None = None,
        plan: Any = None,
        producers: Mapping[str, str] | None = None,
        partition_key: str | None = None,
        poll_interval: float | None = None,
        progress_interval: float | None = None,
        deferrable: bool | None = None,
        **kwargs: Any,
    ) -> None:
        own_stage = None
        parsed = application_if_there(kwargs.get("application"), kwargs.get("config"))
        if parsed is not None and stage is not None:
            own_stage = _stage_of(parsed.shape, stage, str(kwargs.get("task_id")))
            if kwargs.get("task_id") == own_stage.stage_id:  # the user has given it no name
                kwargs.setdefault("task_display_name", stage_titles(parsed.shape)[own_stage.stage_id])
        super().__init__(**kwargs)
        if parsed is not None and own_stage is not None and not any(getattr(self, name, None) for name in _DOCS):
            self.doc_md = words_on(own_stage, parsed.shape)
        reject_partitions(self.task_id, partition_key)
        ours = outlets_of_task(
            parsed.spec if parsed is not None else None,
            self.application,
            self.conn_id,
            self.systems,
            None if own_stage is None else own_stage.outputs,
            alone=stage is None and plan is None,
        )
        self.outlets = with_outlets(ours, self.outlets)
        check_intervals(self, poll_interval=poll_interval, progress_interval=progress_interval)
        topics_kept()
        self.stage = stage
        self.plan = plan
        self.producers = None if producers is None else dict(producers)
        self.partition_key = partition_key
        self.poll_interval = poll_interval
        self.progress_interval = progress_interval
        self.deferrable = is_deferrable(deferrable)

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
        """Continue after the deferral: finish stages that have ended, and defer again while any runs.

        ``stages`` are the handles of what was submitted, ``told`` those whose results the log has already.
        """
        with mapped_failures(self.log, lambda: self.hook):
            handles = {stage_id: StageHandle.from_dict(handle) for stage_id, handle in stages.items()}
            first = next(iter(handles.values()))
            run = self.hook.load_run(first.application, first.run_id, first.generation.plan)
            try:
                raise_what_the_trigger_met(event, self.task_id)
                for upstream in (event or {}).get(LOST, ()):
                    raise producer_failed(first.stage_id, run, upstream)
            except BaseException as error:
                for handle in handles.values():
                    with self._after_failure():
                        self.hook.cancel(handle)
                self._give_up(run, handles, error, context)
                raise
            said = (event or {}).get("said")
            return self._run_stages(run, generation, context, deadline, handles, told, said)

    @property
    def _is_alone(self) -> bool:
        """Return whether this task is the whole run, so that no cleanup task will close it."""
        return self.stage is None and self.plan is None

    def _go_by_id(self, run: RunPlan) -> None:
        """Go by the stage's id, under which all is kept, where the task names it by its title."""
        if self.stage is not None:
            try:
                self.stage = stage_named(run.plan, self.stage).stage_id
            except UnknownName:  # is it the application that has another stage now?
                reject_changed(run, load_application(self.application).spec(run.config), PLAN_ANEW)
                raise

    def _begin(self, context: Any, deadline: float | None) -> dict[str, Any]:
        """Submit, wait or defer, and finish; return what was read and written."""
        with mapped_failures(self.log, lambda: self.hook):
            if self.deferrable:
                self.hook.reject_short_lived(self.task_id, self.executor)
            run, generation = self._run_and_generation(context, deadline)
            self._go_by_id(run)
            if run.stages_run_concurrently and self.stage is not None:
                wait_for_producers(self, run, self.stage, context, deadline)
            return self._run_stages(run, generation, context, deadline)

    def _run_stages(
        self,
        run: RunPlan,
        generation: int,
        context: Any,
        deadline: float | None,
        submitted: Mapping[str, StageHandle] | None = None,
        reported: Sequence[str] = (),
        said: Mapping[str, str] | None = None,
    ) -> dict[str, Any]:
        """Run the task's stages to their end, or until it has to defer."""
        lineage = self._lineage = self._begun(run)
        stage_ids = lineage.stage_ids
        written = slice_of(context, self.partition_key, self.task_id, run.interval)
        watch = self._watch = self._new_watch(run, generation, context, said)
        upstream = _upstream_among(run, stage_ids)
        self._show_places(run, stage_ids, context)
        try:
            still_on = watch.run(upstream, submitted, reported, waits=not self.deferrable)
        except BaseException as error:
            self._give_up(run, {**watch.ended, **watch.active}, error, context)
            raise
        if still_on:
            self._defer(run, watch, generation, deadline, context)
        if self._is_alone:
            close_run(self.hook, run, self.tell)
        results = lineage.results = [watch.results[stage_id] for stage_id in stage_ids]
        announce(context.get("outlet_events"), self.outlets, run, results, self.hook, lineage.names, written)
        return self._summarized(run, results, context)

    def _summarized(self, run: RunPlan, results: Sequence[StageResult], context: Any) -> dict[str, Any]:
        """Return the task's return value for stages that have ended."""
        return summary(run, results)

    def _begun(self, run: RunPlan) -> TaskLineage:
        """Return the lineage of this task's stages, none of which has ended."""
        self._go_by_id(run)
        stage_ids = [self.stage] if self.stage is not None else [stage.stage_id for stage in run.plan.stages]
        return TaskLineage(run, stage_ids, names_in(self.hook, run), whole=self.stage is None)

    def _show_places(self, run: RunPlan, stage_ids: Sequence[str], context: Any) -> None:
        """Have Airflow's page link to the runner's log and, if the stages write outside the run, to their outputs."""
        results = task_page(context["ti"], RESULTS)
        self.show(context, RUNNER_LOG, results)
        outputs = (stream_id for stage_id in stage_ids for stream_id in run.plan.stage(stage_id).outputs)
        if not all(run.is_own(stream_id) for stream_id in outputs):
            self.show(context, OUTPUT, results)

    def _give_up(self, run: RunPlan, handles: Mapping[str, StageHandle], error: BaseException, context: Any) -> None:
        """Stop the readers of stages that no retry can help, and close the run where it is this task's own."""
        if self._lineage is not None:
            self._lineage.error = sentence_of(error)
        if not isinstance(error, SamzaError) or (error.retryable and has_another_try(context)):
            return
        if run.stages_run_concurrently:
            for handle in handles.values():
                with self._after_failure():
                    self.hook.abort(handle, error.sentence)
        if self._is_alone:
            with self._after_failure():
                close_run(self.hook, run, self.tell)

    def _defer(
        self,
        run: RunPlan,
        watch: StageWatch[StageResult],
        generation: int,
        deadline: float | None,
        context: Any,
    ) -> None:
        from airflow_samza.provider.triggers.runs import SamzaStageTrigger  # a Dag file need not load it

        submitted = {stage_id: handle.to_dict() for stage_id, handle in {**watch.ended, **watch.active}.items()}
        producers = producer_tasks(self, run, context)
        self.defer(
            trigger=SamzaStageTrigger(
                **self.hook.place_of_root,
                stages=[handle.to_dict() for handle in watch.active.values()],
                poll_interval=interval_seconds("poll_interval", self.poll_interval),
                progress_interval=self._progress_interval,
                deadline=deadline,
                said=watch.progress.said,
                producers=asdict(producers) if producers is not None else None,
                systems=self.hook.systems,
            ),
            method_name="execute_complete",
            kwargs={"stages": submitted, "told": list(watch.ended), "generation": generation, "deadline": deadline},
            timeout=trigger_timeout(deadline),
        )

    def _new_watch(
        self, run: RunPlan, generation: int, context: Any, said: Mapping[str, str] | None
    ) -> StageWatch[StageResult]:
        tags, names = getattr(context["ti"], "stats_tags", None), stage_names(run.plan)
        progress = ProgressLog(
            self.tell,
            self.hook.progress,
            self._progress_interval,
            emitter(run.application, tags),
            said=said,
            names=names,
        )
        return StageWatch(
            self.hook.get_conn(),
            self.log,
            run.run_id,
            lambda stage_id: self.hook.submit(run, stage_id, generation),
            self.hook.finish,
            interval_seconds("poll_interval", self.poll_interval),
            on_result=lambda result: self.tell("\n".join(describe_result(result, names[result.stage_id]))),
            progress=progress,
            guard=producers_guard(self, run, context),
            on_look=self._spark_shown(context),
        )

    @property
    def _progress_interval(self) -> float:
        return interval_seconds("progress_interval", self.progress_interval)

    def _cancel_submitted(self, context: Any, error: Exception) -> None:
        if self.plan is not None:
            run = self.hook.load_plan(PlanTicket.from_dict(self.plan))
        else:
            run = self.hook.load_run(self.application_spec().name, self._run_id(context))
        lineage = self._lineage = self._begun(run)
        lineage.error = sentence_of(error)
        for stage_id in lineage.stage_ids:
            self.hook.cancel(self.hook.newest_handle(run, stage_id))

    def _run_and_generation(self, context: Any, deadline: float | None) -> tuple[RunPlan, int]:
        own = generation_of(context)
        if self.plan is not None:
            # A retry or a clear of a stage runs what this task names, as far as that is what was planned.
            run = replace(self.hook.load_plan(PlanTicket.from_dict(self.plan)), reference=self.application)
            if said := other_code(bundle_of(context), run.bundle):
                self.tell(said)
            config = text_map("config", self.config)
            if config:
                reject_other_config(run, config, PLAN_ANEW)
            return run, own
        # A stage by itself adopts the plan of its siblings and supersedes only its own output; a whole application
        # supersedes all.
        with self.leaving_failure(context):
            planned = self.plan_run(context, 1 if self.stage is not None else own, deadline)
        self.show_plan(planned, context)
        return planned.run, own if self.stage is not None else 1


def _upstream_among(run: RunPlan, stage_ids: Sequence[str]) -> dict[str, set[str]]:
    """Return the stages that each of some waits for: those upstream of it; where they run at the same time, none."""
    return {
        stage.stage_id: set() if run.stages_run_concurrently else set(stage.upstream) & set(stage_ids)
        for stage in run.plan.stages
        if stage.stage_id in stage_ids
    }


def _stage_of(shape: ExecutionPlan, name: str, task_id: str) -> Stage:
    """Return the stage that a task names; one that the application does not have is rejected."""
    try:
        return stage_named(shape, name)
    except UnknownName as error:
        raise UnknownName(
            no_such_stage(task_id, name, shape.application),
            hint=error.hint,
            name=name,
        ) from None

"""SamzaHook: planner and runtime behind an Airflow connection. Operators call nothing else."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from airflow_samza.prepare.run_request import PREVIOUS, RunRequest
from airflow_samza.provider.connections.fields import DEFAULT_CONNECTION
from airflow_samza.provider.hooks.runtime import RuntimeHook
from airflow_samza.runs.held_outputs import HeldOutput, held_outputs
from airflow_samza.runs.progress.progress import ProgressReport
from airflow_samza.runs.progress.run_list import note_origin
from airflow_samza.runs.publication import GivenUp, Published
from airflow_samza.runs.records.data_interval import DataInterval
from airflow_samza.runs.records.folders import RunFolder, write_once
from airflow_samza.runs.records.run_plan import STAGED, RunPlan, other_code
from airflow_samza.runs.records.stage_result import StageResult
from airflow_samza.runs.stages.newest_stages import finished_result, is_finished, newest_handle
from airflow_samza.runs.stages.run_ends import RunEnd
from airflow_samza.runs.stages.stage_state import StageHandle, StageStatus
from airflow_samza.runs.state_history.lease import holder_works
from airflow_samza.systems.filesystems.root_access import access_within

if TYPE_CHECKING:
    from airflow_samza.provider.xcoms import PlanTicket
    from airflow_samza.runs.records.comparison import Comparison
    from airflow_samza.runs.tables.folder import TableFolder
    from airflow_samza.runs.tables.table_version import TableVersion


class PlannedRun(NamedTuple):
    """A run's plan and the same as text, as the command line prints it."""

    run: RunPlan
    text: str


class ClosedRun(NamedTuple):
    """The result of closing a run: whether every stage had succeeded, which topics are kept, and how long."""

    succeeded: bool
    topics: Sequence[str]
    keep: timedelta


class SamzaHook(RuntimeHook):
    """A hook that plans applications, and submits, watches, cancels and finishes their stages.

    Operators do their work with it; use it in a task of your own. Its methods raise
    :class:`~airflow_samza.errors.SamzaError`.

    ```python
    def progress_of(application: str, run_id: str) -> list[str]:
        hook = SamzaHook("samza_default")
        run = hook.load_run(application, run_id)
        handles = [hook.newest_handle(run, stage.stage_id) for stage in run.plan.stages]
        return [f"{handle.stage_id}: {hook.status(handle).state}" for handle in handles]
    ```

    :param conn_id: The connection of type ``samza``. Default ``samza_default``.
    :param samza_conn_id: Another name of ``conn_id``; give one of the two.
    :param systems: Connection ids by the names of the application's systems.
    :param spark_conf: Spark settings, over those of the connection.
    :param py_modules: Further Python code for the workers, by path: files, package folders, zips or wheels.
    :param archives: Archives that the workers unpack, by path.
    :param runner_python: The Python program of another environment that runs stage runners and workers, over the
        connection's.
    :param executor: The executor of the task that uses the hook. Default: Airflow's first. With an executor that gives
        each task a container, stage runners end with the task.
    """

    conn_name_attr = "conn_id"
    default_conn_name = DEFAULT_CONNECTION
    conn_type = "samza"
    hook_name = "Samza"

    def plan(
        self,
        application: str,
        *,
        run_id: str,
        generation: int = 1,
        interval: DataInterval | None = None,
        config: Mapping[str, str] | None = None,
        plans_anew: bool = False,
        reuse: bool = True,
        mode: str = STAGED,
        state_from: str = PREVIOUS,
        sections: Mapping[str, str] | None = None,
        tables: Mapping[str, str] | None = None,
        input_versions: Mapping[str, str] | None = None,
        partition_key: str | None = None,
        origin: Mapping[str, str] | None = None,
    ) -> PlannedRun:
        """Plan a run, and store the plan; the same generation again returns the stored plan, if nothing has changed.

        Raises :class:`~airflow_samza.errors.StateBusy` at once if another run holds the application's state.

        :param application: The application, as ``package.module:attribute``.
        :param run_id: The id of the run.
        :param generation: The number of the plan of this run, from 1.
        :param interval: The data interval to read. Default: the one that a partition key names, in UTC.
        :param config: Configuration keys, over those of the application.
        :param plans_anew: If true, a run whose application or options have changed is planned anew, as the next
            generation; if false, that is an error.
        :param reuse: If true, a run that is planned anew keeps the results of stages that have not changed.
        :param mode: ``staged``, ``pipelined`` or ``continuous``.
        :param state_from: ``previous``, ``fresh``, or the id of a run.
        :param sections: The runs whose parts of shared streams are read, by stream: a run id, ``APPLICATION@interval``
            or ``APPLICATION@latest``. Default: all new ones.
        :param tables: The versions of pushed tables, by table: ``current``, ``as_of_interval``, or the id of a push.
        :param input_versions: The snapshots or versions up to which inputs that are tables of a lake are read.
        :param partition_key: The partition key of the data: a later run for the same key and interval replaces what
            this one writes.
        :param origin: The Dag run that asks; kept with the run's records.
        """
        request = RunRequest(
            application,
            run_id,
            generation=generation,
            plans_anew=plans_anew,
            reuse=reuse,
            config=config or {},
            interval=interval,
            partition_key=partition_key,
            mode=mode,
            state_from=state_from,
            sections=sections or {},
            tables=tables or {},
            input_versions=input_versions or {},
        )
        return self.plan_run(request, origin)

    def plan_run(self, request: RunRequest, origin: Mapping[str, str] | None = None) -> PlannedRun:
        """Plan a run from a request, as :meth:`plan` does.

        :param request: The request.
        :param origin: The Dag run that asks; kept with the run's records.
        """
        from airflow_samza.planner.explain import explain

        self.application = self.application or request.application
        run = self.get_conn().prepare(replace(request, wait_seconds=0.0))
        if origin is not None:
            note_origin(self.files, RunFolder(run.application, run.run_id), origin)
        text = explain(run.plan, run.engine_texts, run.notes, run.reuse_texts)
        said = other_code(run.bundle, {"version": run.bundle.get("before", "")})
        return PlannedRun(run, f"{text}\n{said}\n" if said else text)

    def preview(self, request: RunRequest) -> RunPlan:
        """Return the plan that a run would get now; nothing is stored.

        :param request: The request.
        """
        self.application = self.application or request.application
        return self.get_conn().preview(request)

    def has_run(self, application: str, run_id: str) -> bool:
        """Return whether a run of an application is on record.

        :param application: The application's name.
        :param run_id: The id of the run.
        """
        return bool(RunFolder(application, run_id).plan_generations(self.files))

    def holder_works(self, application: str, app_id: str, grace_seconds: float) -> bool:
        """Return whether the run that holds an application's state is running, so that waiting for it helps.

        :param application: The application's name.
        :param app_id: The id of its copy.
        :param grace_seconds: The seconds without a sign of life after which a run counts as over
            (``job.state.lease.grace.ms``).
        """
        return holder_works(self.files, application, app_id, grace_seconds)

    def drain(self, run: RunPlan, who: str = "") -> None:
        """End a pipelined or continuous run for good: messages that have arrived are processed, windows are flushed.

        :param run: The plan of the run.
        :param who: The name to keep on record.
        """
        self.get_conn().drain(run, who)

    def stop(self, run: RunPlan, *, at: float | None = None, who: str = "") -> None:
        """Stop a pipelined or continuous run for now: nothing is flushed, the state is kept.

        :param run: The plan of the run.
        :param at: The time of the end, in seconds since 1970. Default: now.
        :param who: The name to keep on record.
        """
        self.get_conn().stop(run, who, at=at)

    def abort(self, handle: StageHandle, why: str = "") -> None:
        """Record that a stage failed for good; stages that read its output stop.

        :param handle: The handle that :meth:`submit` returned.
        :param why: The reason.
        """
        self.get_conn().abort(handle, why)

    def load_plan(self, ticket: PlanTicket) -> RunPlan:
        """Return the stored plan that a plan task's output names.

        :param ticket: The output of a :class:`SamzaPlanOperator`.
        """
        return self.load_run(ticket.application, ticket.run_id, ticket.generation)

    def load_run(self, application: str, run_id: str, generation: int | None = None) -> RunPlan:
        """Return the stored plan of a run; raise :class:`~airflow_samza.errors.UnknownName` if there is none.

        :param application: The application's name.
        :param run_id: The id of the run.
        :param generation: The number of the plan. Default: the newest.
        """
        return self.get_conn().load_plan(application, run_id, generation)

    def submit(self, run: RunPlan, stage_id: str, generation: int = 1) -> StageHandle:
        """Submit a stage and return its handle at once; a stage that runs already is not started again.

        :param run: The plan of the run.
        :param stage_id: The stage.
        :param generation: The generation of the stage, from 1; a clear counts it up.
        """
        return self.get_conn().submit(run, stage_id, generation)

    def status(self, handle: StageHandle) -> StageStatus:
        """Return the status of a stage.

        :param handle: The handle that :meth:`submit` returned.
        """
        return self.get_conn().status(handle)

    def progress(self, handle: StageHandle, status: StageStatus | None = None) -> ProgressReport:
        """Return the progress of a stage, by partition.

        :param handle: The handle that :meth:`submit` returned.
        :param status: Its status, where it is known already.
        """
        return self.get_conn().progress(handle, status)

    def newest_handle(self, run: RunPlan, stage_id: str) -> StageHandle:
        """Return the handle of the newest generation of a stage that was submitted under a plan.

        :param run: The plan of the run.
        :param stage_id: The stage.
        """
        return newest_handle(self.files, run, stage_id)

    def cancel(self, handle: StageHandle) -> None:
        """Request the end of a stage's Spark work.

        :param handle: The handle that :meth:`submit` returned.
        """
        self.get_conn().cancel(handle)

    def finish(self, handle: StageHandle) -> StageResult:
        """Return the result of a stage that has ended, or raise its error.

        :param handle: The handle that :meth:`submit` returned.
        """
        return self.get_conn().finish(handle)

    def close(self, run: RunPlan, *, after_success: timedelta, after_failure: timedelta) -> ClosedRun:
        """End a run: its stage runners stop, its topics are marked to expire.

        :param run: The plan of the run.
        :param after_success: The time for which topics are kept if every stage has succeeded.
        :param after_failure: The time for which they are kept otherwise.
        """
        runtime = self.get_conn()
        succeeded = self.has_succeeded(run)
        keep = after_success if succeeded else after_failure
        return ClosedRun(succeeded, runtime.close(run, succeeded=succeeded, keep_seconds=keep.total_seconds()), keep)

    def publish(self, run: RunPlan, who: str = "") -> list[Published]:
        """Publish what a run keeps back; a run that has not succeeded is rejected.

        That are outputs which wait for approval, and branches of tables.

        :param run: The plan of the run.
        :param who: The name of who has approved it, to keep on record.
        """
        return self.get_conn().publish(run, who)

    def request_to_compare(self, request: RunRequest, as_of: str | None = None, other: str | None = None) -> RunRequest:
        """Return the request for a run of what another run has read, whose outputs are compared with that run's.

        :param request: The request.
        :param as_of: The id of the other run. Default: the last one that has succeeded.
        :param other: The application of the other run, as ``package.module:attribute`` or by name. Default: the same.
        """
        return self.get_conn().request_to_compare(request, as_of, other)

    def compare(self, run: RunPlan, keys: Mapping[str, Sequence[str]] | None = None, samples: int = 5) -> Comparison:
        """Return how the outputs of a run differ from those of the run with which it is compared, and keep it.

        :param run: The plan of the run, which was made with :meth:`request_to_compare`.
        :param keys: The columns by which rows of an output are found again, by output.
        :param samples: The number of rows of each kind of which the masked keys are kept.
        """
        return self.get_conn().compare(run, keys, samples=samples)

    def held(self, run: RunPlan) -> list[HeldOutput]:
        """Return the outputs of a run's finished stages that wait for an approval, or did.

        :param run: The plan of the run.
        """
        return held_outputs(self.files, run)

    def give_up(self, run: RunPlan, who: str = "") -> list[GivenUp]:
        """Discard what a run keeps back, so that readers never see it.

        :param run: The plan of the run.
        :param who: The name of who has rejected it, to keep on record.
        """
        return self.get_conn().give_up(run, who)

    def sweep_after(self, application: str, tell: Callable[[str], None]) -> None:
        """Delete what has expired of an application, in at most ten seconds; it never raises.

        :param application: The application's name.
        :param tell: A function that logs a line.
        """
        self.get_conn().upkeep.sweep_after(application, self.keep, tell)

    def results(self, run: RunPlan) -> list[StageResult]:
        """Return the results of the stages of a run that have ended, in the order of the plan.

        :param run: The plan of the run.
        """
        results = [finished_result(self.files, run, stage.stage_id) for stage in run.plan.stages]
        return [result for result in results if result is not None]

    def has_succeeded(self, run: RunPlan) -> bool:
        """Return whether every stage of a run has succeeded, in its newest generation.

        :param run: The plan of the run.
        """
        return is_finished(self.files, run)

    def push(
        self,
        application: str,
        table: str,
        source: Any,
        push_id: str,
        *,
        source_conn_id: str | None = None,
        interval: DataInterval | None = None,
        config: Mapping[str, str] | None = None,
        **options: Any,
    ) -> StageHandle:
        """Submit a push of a table and return its handle at once; a push that runs already is not started again.

        :param application: The application, as ``package.module:attribute``.
        :param table: The table's id.
        :param source: What to read, as for :class:`SamzaTablePushOperator`.
        :param push_id: The unique id of the version.
        :param source_conn_id: A connection with URL, user and password of the source.
        :param interval: The data interval of the rows.
        :param config: Configuration keys, over those of the application.
        :param options: ``mode``, ``columns``, ``deletes``, ``min_rows`` and others of :class:`SamzaTablePushOperator`.
        """
        self.application = self.application or application
        secrets = self._source_options(source_conn_id)
        arguments = {"interval": interval, "config": config, "secrets": secrets, **options}
        return self.get_conn().push(application, table, source, push_id, **arguments)

    def finish_push(self, handle: StageHandle) -> TableVersion:
        """Return the version that a push has made, or raise its error.

        :param handle: The handle that :meth:`push` returned.
        """
        return self.get_conn().finish_push(handle)

    def close_push(self, handle: StageHandle) -> None:
        """End the runner of a push that is not retried.

        :param handle: The handle that :meth:`push` returned.
        """
        write_once(self.files, handle.run.closed, RunEnd())

    def rollback(
        self, application: str, table: str, to: str | int, push_id: str, config: Mapping[str, str] | None = None
    ) -> tuple[TableVersion, str]:
        """Make an older version of a table current again, and return the new version with a text for a log.

        Raises :class:`~airflow_samza.errors.NoSuchVersion` if the version does not exist or has expired.

        :param application: The application, as ``package.module:attribute``.
        :param table: The table's id.
        :param to: The version: ``previous``, a number, or the id of its push.
        :param push_id: The unique id of the new version; with a known id nothing is done.
        :param config: Configuration keys, over those of the application.
        """
        from airflow_samza.runs.tables.table_version import rollback_text
        from airflow_samza.runs.tables.versions import newest, rollback
        from airflow_samza.systems.bindings import UNDER_ROOT, bind_system

        place = self.pushed_table(application, table, config)
        with access_within(self.root, self.access):
            bound = bind_system(place.system, self.bindings().get(place.system) or UNDER_ROOT, self.root)
        version = rollback(self.files, place.system, place.topic, to, push_id, bound)
        return version, rollback_text(version, newest(self.files, place.system, place.topic))

    def pushed_table(self, application: str, table: str, config: Mapping[str, str] | None = None) -> TableFolder:
        """Return the place of a pushed table's versions.

        :param application: The application, as ``package.module:attribute``.
        :param table: The table's id.
        :param config: Configuration keys, over those of the application.
        """
        return self.get_conn().pushed_table(application, table, config)

"""The runtime, which plans runs and has their stages run by a stage runner (the driver process) of the run.

Hook, command line and tests use it alike. No pyspark is loaded here: only the stage runner has it.
"""

from __future__ import annotations

import dataclasses
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from airflow_samza.application.loader import load_application
from airflow_samza.launch.bindings import with_root_access
from airflow_samza.launch.class_archive import configured
from airflow_samza.launch.code_shipping import ship_archive, ship_code, ship_package
from airflow_samza.launch.comparison import compare_runs, run_to_compare
from airflow_samza.launch.drivers.driver_pod import why_driver_ended
from airflow_samza.launch.drivers.spark_submit import cluster_conf
from airflow_samza.launch.launcher import start_warm_ahead, want_spark_ahead
from airflow_samza.launch.masters import DEFAULT_MASTER, SubmitOptions, options_for, parse_master
from airflow_samza.launch.recorded_runs import RecordedRuns
from airflow_samza.launch.root_upkeep import RootUpkeep
from airflow_samza.launch.run_code import bring_code, code_for, present_code
from airflow_samza.launch.runner_python import checked_path
from airflow_samza.launch.runner_settings import DEFAULT_IDLE_SECONDS, IDLE_OF_ONE_SECONDS, POLL_SECONDS, RunnerSettings
from airflow_samza.launch.spark_settings import is_per_job, reject_static
from airflow_samza.launch.stage_watch import StageWatch
from airflow_samza.launch.submission import checked_conf, stage_error, submit
from airflow_samza.launch.table_push import prepare_push, push_bindings, submit_push, table_place
from airflow_samza.launch.warm.settings import WarmRunners, configured_warm_runners
from airflow_samza.prepare.bound_systems import bind_systems, run_bindings
from airflow_samza.prepare.compared_run import with_options_of
from airflow_samza.prepare.kept_stages import keep_result
from airflow_samza.prepare.plan_step import prepare_run, preview_run
from airflow_samza.prepare.run_request import RunRequest
from airflow_samza.prepare.spark_streams import reject_over_connect
from airflow_samza.prepare.unchanged import PLAN_ANEW
from airflow_samza.runs.finish import finish_stage, stage_deliveries
from airflow_samza.runs.held_outputs import WAITING_SECONDS, has_open_outputs
from airflow_samza.runs.progress.progress import ProgressReport
from airflow_samza.runs.progress.run_costs import may_do_without_spark
from airflow_samza.runs.progress.stage_progress import bound_answers, heads_that_answer, stage_progress
from airflow_samza.runs.publication import GivenUp, Published, give_up_run, publish_run
from airflow_samza.runs.records.comparison import Comparison
from airflow_samza.runs.records.data_interval import DataInterval
from airflow_samza.runs.records.folders import RunFolder, read_fixed, write_once
from airflow_samza.runs.records.names import Generation
from airflow_samza.runs.records.run_code import RunCode
from airflow_samza.runs.records.run_plan import RunPlan
from airflow_samza.runs.records.stage_result import StageResult
from airflow_samza.runs.stages.run_ends import RunEnd
from airflow_samza.runs.stages.stage_state import (
    SUCCEEDED,
    UNFINISHED,
    StageHandle,
    StageStatus,
)
from airflow_samza.runs.state_history.state_at_end import leave_state, reject_fenced
from airflow_samza.runs.tables.folder import TableFolder
from airflow_samza.runs.tables.push_finish import finish_push
from airflow_samza.runs.tables.push_request import standing_request
from airflow_samza.runs.tables.table_version import TableVersion
from airflow_samza.runs.upkeep.topic_expiry import (
    KEEP_AFTER_FAILURE_SECONDS,
    KEEP_AFTER_SUCCESS_SECONDS,
    expire_topics,
    reopen,
)
from airflow_samza.systems.filesystems.object_store import requests
from airflow_samza.systems.filesystems.opening import open_filesystem
from airflow_samza.systems.filesystems.pace import Looks
from airflow_samza.systems.filesystems.root_access import RootAccess, access_within, give_access, opens_root
from airflow_samza.systems.system import System, SystemBinding

log = logging.getLogger(__name__)


class SparkRuntime(RecordedRuns):
    """Runs of stages on ``master`` (:mod:`airflow_samza.launch.masters`), with all topics and records under ``root``.

    ``submit`` are options of spark-submit, for the masters that it serves. ``systems`` binds the names that
    applications use; a name that is bound nowhere and declared with a kind uses that. Topics of runs lie in the system
    ``default_system`` if it is bound, else in the log under the root. ``py_modules`` and ``archives`` are further code
    and files for the workers; ``spark_conf`` are settings of every stage. ``class_archives`` is a folder of this host
    for archives of Spark's classes, with which a local Spark starts sooner (None: as in the environment). With an
    ``owner`` (any text) stage runners are shared only with runtimes of the same one: where a runner ends with the
    container of the task that started it. ``access`` is how the root is opened, here and by all who run its stages;
    without options, as in the environment of each (None: as this process was given). ``runner_python`` runs stage
    runners and workers (empty: ours). ``warm_runners`` is how many Sparks of this host stay for the next run of the
    same ``tenant`` (any text; None: as in the environment). ``plan_anew`` is the hint of an error for a run whose
    application has changed: how it is planned anew from where it was asked for.
    """

    def __init__(
        self,
        root: str,
        systems: Mapping[str, SystemBinding] | None = None,
        *,
        default_system: str | None = None,
        master: str = DEFAULT_MASTER,
        submit: SubmitOptions | None = None,
        spark_conf: Mapping[str, str] | None = None,
        py_modules: Sequence[str] = (),
        archives: Sequence[str] = (),
        idle_seconds: float = DEFAULT_IDLE_SECONDS,
        class_archives: str | None = None,
        owner: str = "",
        access: RootAccess | None = None,
        runner_python: str = "",
        warm_runners: str | WarmRunners | None = None,
        tenant: str = "",
        plan_anew: str = PLAN_ANEW,
    ) -> None:
        if access is None:
            super().__init__(open_filesystem(root))
        else:
            with access_within(root, access):
                super().__init__(open_filesystem(root))
        self.access = access
        for written in (root, self.root) if access else ():
            give_access(written, access or RootAccess())
        self._systems = dict(systems or {})
        self._default_system = default_system
        self._master = parse_master(master)
        self._submit = options_for(self._master, submit or SubmitOptions())
        self._conf = checked_conf(spark_conf or {})
        self._py_modules = tuple(py_modules)
        self._archives = tuple(archives)
        self._idle_seconds = idle_seconds
        self._class_archives = configured(class_archives)
        self._owner = owner
        self._runner_python = checked_path(runner_python)
        self._warm = configured_warm_runners(warm_runners)
        self._tenant = tenant
        self._plan_anew = plan_anew

    @opens_root
    def prepare(self, request: RunRequest, on_wait: Callable[[str], None] | None = None) -> RunPlan:
        """Plan a run: fix counts and slices, reject what cannot run, create its topics, and store the plan.

        The same generation again returns the stored plan, if the application and the options are the same (or has the
        run planned anew, ``request.plans_anew``). ``on_wait`` gets a sentence when the run has to wait for the
        run before it.
        """
        code = present_code(request.application, self._py_modules)
        ahead = None
        if self._master.is_local:
            ahead = self._settings(RunCode(), RunFolder("", request.run_id), {}, self._conf)
            start_warm_ahead(request.run_id, ahead)
        run = prepare_run(
            self._files,
            self._systems,
            self._default_system,
            request,
            on_wait,
            code.digests,
            self._plan_anew,
            over_connect=self._master.is_connect,
        )
        if ahead is not None and not may_do_without_spark(run):
            want_spark_ahead(ahead)
        bring_code(self._files, run, self._py_modules, code)
        return run

    @opens_root
    def preview(self, request: RunRequest) -> RunPlan:
        """Return the plan that a run would get now; nothing is made or stored."""
        shipped = present_code(request.application, self._py_modules).digests
        connect = self._master.is_connect
        return preview_run(self._files, self._systems, self._default_system, request, shipped, over_connect=connect)

    @opens_root
    def submit(
        self, run: RunPlan, stage_id: str, generation: int = 1, spark_conf: Mapping[str, str] | None = None
    ) -> StageHandle:
        """Submit a stage to the run's runner, and return at once.

        A stage that the plan keeps has its result at once. A stage that is submitted for the first time under its plan
        runs the code with which the run was planned; a retry and a clear bring the present code, which is rejected if
        it declares anything else.

        ``generation`` counts the clears of the stage from 1. Submitting the same generation again re-attaches to a live
        attempt or a finished one; a dead or failed one is attempted again, and keeps what its tasks had staged. A newer
        generation cancels an older one that still runs, and supersedes its output.
        """
        run.plan.stage(stage_id)
        reject_fenced(self._files, run)
        conf = {**self._conf, **checked_conf(spark_conf or {})}
        handle = StageHandle(run.application, run.run_id, stage_id, Generation(run.generation, generation))
        bindings = run_bindings(run.systems, self._systems)
        systems = bind_systems(bindings, self.root)
        if keep_result(self._files, run, handle):
            reopen(self._files, systems, run)
            return handle
        if self._master.is_connect:  # the run may have been planned for another master
            reject_over_connect(run, systems)

        def settings(is_first: bool) -> tuple[RunnerSettings, RunCode]:
            code = code_for(self._files, run, self._py_modules, self._plan_anew, is_first=is_first)
            of_runner = self._settings(code, handle.run, bindings, conf)
            return dataclasses.replace(of_runner, is_small=may_do_without_spark(run)), code

        return submit(self._files, handle, settings, conf, lambda: reopen(self._files, systems, run))

    @opens_root
    def push(
        self,
        application: str,
        table: str,
        source: object,
        push_id: str,
        *,
        interval: DataInterval | None = None,
        config: Mapping[str, str] | None = None,
        secrets: Mapping[str, str] | None = None,
        spark_conf: Mapping[str, str] | None = None,
        **options: Any,
    ) -> StageHandle:
        """Submit a push, which fills a table from what Spark reads, and return at once.

        ``status``, ``wait`` and ``cancel`` serve it as a stage.

        ``source`` is a path, or a mapping with one of ``path`` (with ``format``, ``options``), ``table``, ``query``,
        ``jdbc`` (options), ``callable``, ``iceberg`` (with ``system``, ``snapshot``) or ``delta`` (with ``system``,
        ``version``); ``secrets`` are options of it that must lie in no file. ``options`` are those of
        :class:`PushRequest`. A push that was made under this id is found again, one that died half-way goes
        on.
        """
        files = self._files
        request = prepare_push(
            files,
            self._systems,
            application,
            table,
            source,
            push_id,
            self._default_system,
            interval=interval,
            config=config,
            **options,
        )
        conf = {**self._conf, **checked_conf(spark_conf or {})}
        bindings = push_bindings(self._systems, request, secrets or {})
        system = bind_systems({request.system: bindings[request.system]}, self.root)[request.system]
        return submit_push(
            files,
            system,
            request,
            lambda: self._settings(
                ship_code(files, request.handle.run, present_code(request.reference, self._py_modules)),
                request.handle.run,
                bindings,
                conf,
            ),
            conf,
        )

    @opens_root
    def finish_push(self, handle: StageHandle) -> TableVersion:
        """Return the version that a push has become; roll it forward if needed, raise the error that ended it."""
        status = self.status(handle)
        if status.state not in (SUCCEEDED, UNFINISHED):
            raise stage_error(handle, status, dict, self._why_ended)  # a version is published once
        request = standing_request(self._files, handle)
        bindings = push_bindings(self._systems, request, {})
        return finish_push(self._files, bind_systems(bindings, self.root)[request.system], request)

    @opens_root
    def pushed_table(self, application: str, table: str, config: Mapping[str, str] | None = None) -> TableFolder:
        """Return the folder of the versions of a pushed table."""
        place = table_place(
            load_application(application).spec(config or {}), table, self._systems, self._default_system
        )
        return TableFolder(place.system, place.topic)

    @opens_root
    def progress(self, handle: StageHandle, status: StageStatus | None = None) -> ProgressReport:
        """Return how far the stage has come, by partition; ``status`` spares asking again.

        Warnings name the systems that gave no latest offsets.
        """
        run, systems = self._planned(handle)
        bound_answers(systems.values())
        unknown: dict[str, str] = {}
        heads = heads_that_answer(systems, unknown)
        report = stage_progress(self._files, heads, run, handle.stage_id, handle.generation, status=status)
        return dataclasses.replace(report, warnings=(*report.warnings, *unknown.values()))

    @opens_root
    def finish(self, handle: StageHandle) -> StageResult:
        """Return the result of a stage that has ended; roll it forward if needed, raise the error that ended it."""
        result = read_fixed(self._files, handle.folder.result, StageResult)
        if result is not None:
            return result
        status = self.status(handle)
        if status.state in (SUCCEEDED, UNFINISHED):
            run, systems = self._planned(handle)
            return finish_stage(self._files, systems, run, handle.stage_id, handle.generation, handle.folder)
        raise stage_error(
            handle, status, lambda: stage_deliveries(*self._planned(handle), handle.stage_id), self._why_ended
        )

    def _why_ended(self, host: str) -> str:
        return why_driver_ended(self._master, self._submit, self._conf, host)

    def run_stage(
        self,
        run: RunPlan,
        stage_id: str,
        generation: int = 1,
        spark_conf: Mapping[str, str] | None = None,
        on_progress: Callable[[StageStatus], None] | None = None,
    ) -> StageResult:
        """Submit a stage, waits for it and finishes it."""
        handle = self.submit(run, stage_id, generation, spark_conf)
        self.wait(handle, on_progress=on_progress)
        return self.finish(handle)

    def run_application(
        self,
        request: RunRequest,
        *,
        spark_conf: Mapping[str, str] | None = None,
        on_result: Callable[[StageResult], None] = lambda result: None,
    ) -> list[StageResult]:
        """Plan a run, run all its stages, one after the other or together, and end its runner."""
        run = self.prepare(request)
        try:
            results = self.run_stages(run, request.generation, spark_conf, on_result=on_result)
        except BaseException:
            self.close(run, succeeded=False)
            raise
        self.close(run)
        return results

    def run_stages(
        self,
        run: RunPlan,
        generation: int = 1,
        spark_conf: Mapping[str, str] | None = None,
        *,
        on_submit: Callable[[str], None] = lambda stage_id: None,
        on_progress: Callable[[str, StageStatus], None] = lambda stage_id, status: None,
        on_result: Callable[[StageResult], None] = lambda result: None,
    ) -> list[StageResult]:
        """Run all stages, at once or one after the other as the mode says; their results in the order of the plan.

        The first error cancels the rest and is raised. ``on_progress`` gets each status that differs from the one
        before.
        """
        shown: dict[str, str] = {}

        def submitted(stage_id: str) -> StageHandle:
            on_submit(stage_id)
            return self.submit(run, stage_id, generation, spark_conf)

        def looked(handle: StageHandle, status: StageStatus) -> None:
            if shown.get(handle.stage_id) != str(status):
                shown[handle.stage_id] = str(status)
                watch.looks.news()
                on_progress(handle.stage_id, status)

        watch = StageWatch(
            self,
            log,
            run.run_id,
            submitted,
            self.finish,
            POLL_SECONDS,
            on_result=on_result,
            on_look=looked,
        )
        stage_ids = [stage.stage_id for stage in run.plan.stages]
        before = {stage_id: stage_ids[:number] for number, stage_id in enumerate(stage_ids)}
        watch.run(dict.fromkeys(stage_ids, ()) if run.stages_run_concurrently else before)
        return [watch.results[stage_id] for stage_id in stage_ids]

    @opens_root
    def close(
        self, run: RunPlan, *, succeeded: bool = True, keep_seconds: float | None = None, wait_seconds: float = 0.0
    ) -> list[str]:
        """End the run: its runners stop, its topics are marked to expire (after a day, after failure a week).

        Deletes nothing.

        Returns the topics marked. ``wait_seconds`` waits for the runners' end that long. A run that is submitted to
        again is open again.
        """
        folder = RunFolder(run.application, run.run_id)
        write_once(self._files, folder.closed, RunEnd(succeeded, time.time(), requests.take()))
        leave_state(self._files, run)
        if keep_seconds is None:
            keep_seconds = KEEP_AFTER_SUCCESS_SECONDS if succeeded else KEEP_AFTER_FAILURE_SECONDS
        if has_open_outputs(self._files, run):  # topics of the run may hold what is staged
            keep_seconds = max(keep_seconds, WAITING_SECONDS + KEEP_AFTER_SUCCESS_SECONDS)
        marked = expire_topics(self._files, self._systems_of(run), run, time.time() + keep_seconds)
        deadline, looks = time.monotonic() + wait_seconds, Looks(self._files.pace)
        while time.monotonic() < deadline and self.live_runners(run):
            time.sleep(looks.pause(POLL_SECONDS))
        return marked

    @opens_root
    def publish(self, run: RunPlan, who: str = "") -> list[Published]:
        """Publish what a run keeps back, as ``who`` has approved it; again, it changes nothing more."""
        return publish_run(self._files, self._systems_of(run), run, who)

    @opens_root
    def give_up(self, run: RunPlan, who: str = "") -> list[GivenUp]:
        """Discard what a run keeps back, as ``who`` has rejected it; again, it changes nothing more."""
        return give_up_run(self._files, self._systems_of(run), run, who)

    @opens_root
    def request_to_compare(self, request: RunRequest, as_of: str | None = None, other: str | None = None) -> RunRequest:
        """Return the request for a run of what another run has read, whose outputs are compared with that run's.

        ``as_of`` is its id (None: the last one that has succeeded), ``other`` the application of which it is, as
        ``module:attribute`` or by name (None: the same one).
        """
        return with_options_of(request, run_to_compare(self._files, request, as_of, other))

    @opens_root
    def compare(
        self, run: RunPlan, keys: Mapping[str, Sequence[str]] | None = None, *, samples: int = 5, shows: bool = False
    ) -> Comparison:
        """Return how the outputs of a run differ from those of the run with which it is compared; keep it on record.

        ``keys`` are the columns by which rows are found again, by output. Values of up to ``samples`` rows of each kind
        are masked, unless the caller ``shows`` them.
        """
        return compare_runs(self._files, self._systems, run, keys or {}, samples, shows=shows)

    @property
    def upkeep(self) -> RootUpkeep:
        """Delete what has expired under the root."""
        return RootUpkeep(self._files, self._systems, self.access)

    def _planned(self, handle: StageHandle) -> tuple[RunPlan, dict[str, System]]:
        """Return the plan of a stage's run, and its systems."""
        run = self.load_plan(handle.application, handle.run_id, handle.generation.plan)
        return run, self._systems_of(run)

    def _systems_of(self, run: RunPlan) -> dict[str, System]:
        return bind_systems(run_bindings(run.systems, self._systems), self.root)

    def _settings(
        self,
        code: RunCode,
        folder: RunFolder,
        bindings: Mapping[str, SystemBinding],
        conf: Mapping[str, str],
    ) -> RunnerSettings:
        static = {key: value for key, value in conf.items() if not is_per_job(key)}
        archives, package = self._archives, ""
        if self._master.is_connect:
            reject_static(static)
        if not self._master.is_local:  # other hosts have nothing of this one but the root
            archives = tuple(ship_archive(self._files, folder, archive) for archive in archives)
            package = ship_package(self._files, folder)
        if self._master.is_submitted:
            on_workers = self._files.local_path(package) or package.rpartition("/")[2]
            static = cluster_conf(self._master, self._submit, static, on_workers, self._runner_python)
        return RunnerSettings(
            root=self.root,
            bindings=with_root_access(bindings, self.root),
            code=(code.path,),
            origins={code.path: code.origin},
            archives=archives,
            package=package,
            master=self._master.url,
            submit=self._submit,
            conf=static,
            idle_seconds=min(self._idle_seconds, IDLE_OF_ONE_SECONDS) if self._owner else self._idle_seconds,
            class_archives=self._class_archives,
            owner=self._owner,
            python=self._runner_python,
            warm=self._warm,
            tenant=self._tenant,
        )

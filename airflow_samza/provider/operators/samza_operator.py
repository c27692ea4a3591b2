"""The shared part of all operators of this package, which only translate between Airflow and the hook."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any, ClassVar

from airflow.sdk import BaseOperator, BaseOperatorLink

from airflow_samza.application.application import ApplicationSpec
from airflow_samza.application.loader import load_application
from airflow_samza.errors import SamzaError
from airflow_samza.launch.stage_watch import StageWatch
from airflow_samza.provider.airflow_versions import TaskDeferralError, TaskDeferralTimeout
from airflow_samza.provider.connections.bindings import text_map
from airflow_samza.provider.connections.fields import connection_id
from airflow_samza.provider.hooks.samza import SamzaHook
from airflow_samza.provider.links import PAGE, SPARK, SamzaLink, SparkPages, show_link, task_page
from airflow_samza.provider.run_identity import run_id_of
from airflow_samza.provider.run_tasks import CLEANUP
from airflow_samza.provider.xcoms import PlanTicket
from airflow_samza.runs.records.run_plan import RunPlan
from airflow_samza.runs.stages.stage_state import StageHandle, StageStatus


class SamzaOperator(BaseOperator):
    """The base class of all operators on an application.

    :param application: The application, as ``package.module:attribute`` (templated).
    :param conn_id: The connection of type ``samza`` (templated). Default ``samza_default``.
    :param samza_conn_id: Another name of ``conn_id``; give one of the two.
    :param systems: The connections of the application's systems: connection ids by the names of systems (templated).
    :param config: Configuration keys, over those of the application (templated).
    :param spark_conf: Spark settings, over those of the connection (templated).
    :param py_modules: Further Python code for the workers, by path: files, package folders, zips or wheels (templated).
    :param archives: Archives that the workers unpack, by path, each with ``#name`` to name its folder (templated).
    :param runner_python: The Python program of another environment that runs stage runners (the driver processes) and
        workers, over the connection's (templated).
    :param scope: The name that tells several uses of an application in one Dag apart. Default: the id of the task
        group, otherwise of the task.
    :param kwargs: Parameters of Airflow's ``BaseOperator``: ``task_id``, ``retries``, ``pool``, …
    """

    template_fields: Sequence[str] = (
        "application",
        "conn_id",
        "systems",
        "config",
        "spark_conf",
        "py_modules",
        "archives",
        "runner_python",
    )
    template_fields_renderers: ClassVar[dict[str, str]] = {
        "systems": "json",
        "config": "json",
        "spark_conf": "json",
        "plan": "json",
    }
    ui_color = "#e8f1fb"
    part: ClassVar[str | None] = None
    """The part of a run that the task is for, of those in :mod:`airflow_samza.provider.run_tasks`."""
    operator_extra_links: Collection[BaseOperatorLink] = (PAGE,)
    _watch: StageWatch[Any] | None = None
    """The watch over what the task has submitted, where it submits something."""

    def __init__(
        self,
        *,
        application: str,
        conn_id: str | None = None,
        samza_conn_id: str | None = None,
        systems: Mapping[str, str] | None = None,
        config: Mapping[str, Any] | None = None,
        spark_conf: Mapping[str, Any] | None = None,
        py_modules: Sequence[str] = (),
        archives: Sequence[str] = (),
        runner_python: str | None = None,
        scope: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.application = application
        self.conn_id = connection_id(f"The task {self.task_id!r}", conn_id, samza_conn_id)
        self.systems = systems
        self.config = config
        self.spark_conf = spark_conf
        self.py_modules = py_modules
        self.archives = archives
        self.runner_python = runner_python
        self.scope = scope
        self.shown_links: dict[str, str] = {}

    @cached_property
    def hook(self) -> SamzaHook:
        """The hook for this task's connection and systems."""
        hook = SamzaHook(
            self.conn_id,
            systems=self.systems,
            spark_conf=self.spark_conf,
            py_modules=self.py_modules,
            archives=self.archives,
            runner_python=self.runner_python,
            executor=self.executor,
        )
        hook.application = self.application
        return hook

    def application_spec(self) -> ApplicationSpec:
        """Return the application with the configuration of this task."""
        return load_application(self.application).spec(text_map("config", self.config))

    def tell(self, text: str) -> None:
        """Write text to the task's log, a record a line: Airflow's page shows line breaks within a record badly."""
        for line in text.splitlines():
            self.log.info("%s", line)

    def pre_execute(self, context: Any) -> None:
        """Have Airflow's page link to the task's own page from the first moment on."""
        super().pre_execute(context)
        self.show(context, PAGE, task_page(context["ti"]))

    def resume_execution(self, next_method: str, next_kwargs: dict[str, Any] | None, context: Any) -> Any:
        """Set the keyword arguments that Airflow sets.

        A trigger that failed or timed out leaves nobody to look after submitted work, so it is cancelled.
        """
        try:
            return super().resume_execution(next_method, next_kwargs, context)
        except (TaskDeferralError, TaskDeferralTimeout) as error:
            with self._after_failure():
                self._cancel_submitted(context, error)
            raise

    def show(self, context: Mapping[str, Any], link: SamzaLink, address: str) -> None:
        """Have Airflow's page show a link on this task from now on; an empty address is none.

        That it cannot be written fails no task.
        """
        if not address or self.shown_links.get(link.xcom_key) == address:
            return
        self.shown_links[link.xcom_key] = address
        show_link(context["ti"], link, address)

    def on_kill(self) -> None:
        """Cancel what this task has submitted, and nothing else."""
        if self._watch is not None:
            self._watch.kill()

    @contextmanager
    def _after_failure(self) -> Iterator[None]:
        """Do, in the body, what follows a failure: that it fails, too, is logged, and hides nothing."""
        try:
            yield
        except (SamzaError, OSError) as error:
            self.tell(f"What follows the failure could not be done: {error}")

    def _spark_shown(self, context: Any) -> Callable[[StageHandle, StageStatus], None]:
        """Return what has Airflow's page link to Spark's with each look at a stage, as soon as it has one."""
        pages = SparkPages()
        return lambda handle, status: self.show(context, SPARK, pages.look(self.hook.files, handle, status))

    def _cancel_submitted(self, context: Any, error: Exception) -> None:
        """Cancel what the task may have submitted, from the records alone; note the error as lineage."""

    def _run_id(self, context: Mapping[str, Any], scope: str | None = None) -> str:
        """Return the id of the task's run, or of the run of another scope in the same Dag run."""
        own = self.task_id if self.scope is None else self.scope
        return run_id_of(context, own if scope is None else scope)


class EndOfRunOperator(SamzaOperator):
    """The base class of operators behind the stages of runs.

    :param plan: The output of the :class:`SamzaPlanOperator` (templated). Without it the task is for the application's
        runs that the tasks before it have planned in this Dag run, or those with its ``scope``.
    """

    template_fields: Sequence[str] = (*SamzaOperator.template_fields, "plan")
    part = CLEANUP

    def __init__(self, *, plan: Any = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.plan = plan

    def _runs(self, context: Any, scopes: Sequence[str]) -> list[RunPlan]:
        """Return the runs that the task is for: that of its plan, else those of scopes in this Dag run."""
        if self.plan is not None:
            return [self.hook.load_plan(PlanTicket.from_dict(self.plan))]
        application = self.application_spec().name
        run_ids = dict.fromkeys(self._run_id(context, scope) for scope in scopes)
        return [self.hook.load_run(application, run_id) for run_id in run_ids if self.hook.has_run(application, run_id)]

"""The operators: plan an application, run one stage or all of them, clean up after a run.

They only translate between Airflow and the hook: identity of the run, generation, data interval, XComs, log, failures, kill.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any, ClassVar

from airflow.sdk import BaseOperator
from airflow.sdk.configuration import conf

from airflow_samza.errors import ConfigError, PlanChanged, SamzaError
from airflow_samza.provider.bindings import text_map
from airflow_samza.provider.failures import mapped_failures
from airflow_samza.provider.get_provider_info import CONFIG_SECTION
from airflow_samza.provider.hooks import DEFAULT_CONNECTION, SamzaHook
from airflow_samza.provider.plan_ticket import PlanTicket
from airflow_samza.provider.run_identity import generation_of, interval_of, run_id_of
from airflow_samza.provider.stage_watch import StageWatch
from airflow_samza.runs.run_plan import RunPlan
from airflow_samza.runs.stage_result import StageResult, describe_result

PLAN_TEXT = "plan_text"
"""XCom key of the plan as text."""

LONGEST_LIST = 50
"""Files of an output beyond this many are left out of the XCom."""


class SamzaOperator(BaseOperator):  # type: ignore[misc]
    """What all tasks of an application share.

    :param application: The application, as ``package.module:attribute`` (templated).
    :param conn_id: The Samza connection (templated).
    :param systems: Connection ids by the names of the application's systems (templated).
    :param config: Samza's configuration keys, over those of the application (templated).
    :param spark_conf: Spark settings, over those of the connection (templated).
    :param py_modules: Further code for the workers: files, package folders, zips or wheels, by path (templated).
    :param archives: Archives that the workers unpack, by path (templated).
    :param scope: What tells this use of the application from others in the same Dag; the task group's id, or the task's own.
    """

    template_fields: Sequence[str] = ("application", "conn_id", "systems", "config", "spark_conf", "py_modules", "archives")
    template_fields_renderers: ClassVar[dict[str, str]] = {"systems": "json", "config": "json", "spark_conf": "json", "plan": "json"}
    ui_color = "#e8f1fb"

    def __init__(
        self,
        *,
        application: str,
        conn_id: str = DEFAULT_CONNECTION,
        systems: Mapping[str, str] | None = None,
        config: Mapping[str, Any] | None = None,
        spark_conf: Mapping[str, Any] | None = None,
        py_modules: Sequence[str] = (),
        archives: Sequence[str] = (),
        scope: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.application = application
        self.conn_id = conn_id
        self.systems = systems
        self.config = config
        self.spark_conf = spark_conf
        self.py_modules = py_modules
        self.archives = archives
        self.scope = scope

    @property
    def hook(self) -> SamzaHook:
        """A hook for this task's connection and systems."""
        return SamzaHook(self.conn_id, systems=self.systems, spark_conf=self.spark_conf, py_modules=self.py_modules, archives=self.archives)

    def tell(self, text: str) -> None:
        """Writes text to the task's log, a record a line: the page shows a record's line breaks badly."""
        for line in text.splitlines():
            self.log.info("%s", line)

    def _run_id(self, context: Mapping[str, Any]) -> str:
        return run_id_of(context, self.task_id if self.scope is None else self.scope)


class SamzaPlanOperator(SamzaOperator):
    """Plans a run: fixes counts and slices, refuses what must be refused before anything runs, and stores the plan.

    The return value says where the plan lies, for ``SamzaStreamOperator(plan=...)``; the XCom ``plan_text`` is the plan to read.

    :param data_interval: The slice of time instead of the run's data interval: two moments, or a text ``start/end`` (templated).
    :param expected_stages: The stages that the Dag has tasks for; a plan with others is refused.
    :param shape: The fingerprint of the application as the Dag file saw it, for the stages to compare with theirs.
    """

    template_fields: Sequence[str] = (*SamzaOperator.template_fields, "data_interval")

    def __init__(
        self, *, data_interval: Any = None, expected_stages: Iterable[str] | None = None, shape: str | None = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.data_interval = data_interval
        self.expected_stages = tuple(expected_stages) if expected_stages is not None else None
        self.shape = shape

    def execute(self, context: Any) -> dict[str, Any]:
        """Plans and returns the ticket."""
        with mapped_failures(self.log.error):
            hook = self.hook
            planned = hook.plan(
                self.application,
                run_id=self._run_id(context),
                generation=generation_of(context),
                interval=interval_of(context, self.data_interval),
                config=text_map("config", self.config),
                shape=self.shape,
            )
            self.tell(planned.text)
            ticket = ticket_of(planned.run, self.shape)
            check_stages(ticket, self.expected_stages)
            context["ti"].xcom_push(key=PLAN_TEXT, value=planned.text)
            return ticket.to_dict()


class SamzaStreamOperator(SamzaOperator):
    """Runs one stage of an application, or the whole of it, on Spark.

    A retry re-attaches to what still runs and never doubles output; a clear starts a new generation, whose output replaces the
    former one's. Killing the task cancels its Spark work and no other. The return value holds ``rows``, ``outputs`` and
    ``offsets`` by stream, ``seconds`` and the ``generation``.

    :param stage: The stage to run; None runs the whole application in this one task.
    :param plan: The output of a :class:`SamzaPlanOperator` (templated). Without one the task plans by itself.
    :param data_interval: See :class:`SamzaPlanOperator`; only where the task plans by itself (templated).
    :param shape: The fingerprint of the application as the Dag file saw it; a plan of another one is refused.
    :param poll_interval: Seconds between two questions for the state; default ``[samza] poll_interval``.
    :param deferrable: Not yet: refused when true.
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
        deferrable: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if deferrable:
            raise ConfigError(
                f"deferrable=True was set on the task {self.task_id!r}, and this version cannot defer a stage.",
                hint="Leave deferrable out: the task holds its worker slot while the stage runs; the trigger comes in a later version.",
                key="deferrable",
                value=True,
            )
        if poll_interval is not None and poll_interval <= 0:
            raise ConfigError(
                f"poll_interval={poll_interval} of the task {self.task_id!r} is not a time.",
                hint="Give seconds above 0.",
                key="poll_interval",
                value=poll_interval,
            )
        self.stage = stage
        self.plan = plan
        self.data_interval = data_interval
        self.shape = shape
        self.poll_interval = poll_interval
        self._watch: StageWatch | None = None

    def execute(self, context: Any) -> dict[str, Any]:
        """Submits, waits, finishes; returns what was read and written."""
        with mapped_failures(self.log.error):
            hook = self.hook
            interval = self.poll_interval or conf.getfloat(CONFIG_SECTION, "poll_interval", fallback=1.0)
            self._watch = StageWatch(hook, self.log, interval, on_result=self._report)
            run, generation = self._run_and_generation(hook, context)
            stages = [run.plan.stage(self.stage)] if self.stage is not None else run.plan.stages
            try:
                results = self._watch.run(run, [stage.stage_id for stage in stages], generation)
            except SamzaError as error:
                if self._is_alone and not (error.retryable and _has_another_try(context)):
                    close_run(hook, run, self.tell)
                raise
            if self._is_alone:
                close_run(hook, run, self.tell)
            return summary(run, results.values())

    def on_kill(self) -> None:
        """Cancels this task's stages and no others."""
        if self._watch is not None:
            self._watch.kill()

    @property
    def _is_alone(self) -> bool:
        """Whether this task is the whole run, so that no cleanup task will close it."""
        return self.stage is None and self.plan is None

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


class SamzaCleanupOperator(SamzaOperator):
    """Ends a run: its stage runners stop, and its intermediate topics are marked as expired; nothing is deleted yet.

    They are kept ``[samza] keep_topics_after_success`` hours when every stage has succeeded, else
    ``keep_topics_after_failure`` hours, so that a failed run can still be cleared and resumed.

    :param plan: The output of the :class:`SamzaPlanOperator` (templated); without one (the plan failed) there is nothing to do.
    """

    template_fields: Sequence[str] = (*SamzaOperator.template_fields, "plan")

    def __init__(self, *, plan: Any = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.plan = plan

    def execute(self, context: Any) -> None:
        """Closes the run."""
        with mapped_failures(self.log.error):
            if self.plan is None:
                self.tell("The run was never planned; there is nothing to clean up.")
                return
            hook = self.hook
            close_run(hook, hook.load_plan(PlanTicket.from_dict(self.plan)), self.tell)


def ticket_of(run: RunPlan, shape: str | None = None) -> PlanTicket:
    """The ticket of a plan."""
    stages = tuple(stage.stage_id for stage in run.plan.stages)
    return PlanTicket(run.application, run.run_id, run.generation, run.plan.fingerprint, shape or "", stages)


def check_stages(ticket: PlanTicket, expected: Iterable[str] | None) -> None:
    """Refuse a plan whose stages are not those that the Dag has tasks for."""
    if expected is not None and set(expected) != set(ticket.stages):
        raise PlanChanged(
            f"The Dag has tasks for the stages {', '.join(expected)}, but the plan has {', '.join(ticket.stages)}.",
            hint="The application changed since the Dag file was read: clear this task with its downstream once it was read again.",
            found=", ".join(ticket.stages),
        )


def close_run(hook: SamzaHook, run: RunPlan, tell: Callable[[str], None]) -> None:
    """Closes a run and says what is kept for how long."""
    closed = hook.close(
        run,
        after_success=timedelta(hours=conf.getfloat(CONFIG_SECTION, "keep_topics_after_success", fallback=24.0)),
        after_failure=timedelta(hours=conf.getfloat(CONFIG_SECTION, "keep_topics_after_failure", fallback=168.0)),
    )
    hours = closed.keep.total_seconds() / 3600
    outcome = "Every stage has succeeded" if closed.succeeded else "Not every stage has succeeded"
    topics = "1 topic" if len(closed.topics) == 1 else f"{len(closed.topics)} topics"
    tell(f"{outcome}: the run is closed, and its {topics} may be deleted after {hours:g} h.")
    for topic in closed.topics:
        tell(f"  {topic}")


def summary(run: RunPlan, results: Iterable[StageResult]) -> dict[str, Any]:
    """What the XCom of stages holds, by stream: what was read, the slices, the rows and where they are; seconds; generation."""
    found = list(results)
    outputs = [output for result in found for output in result.outputs]
    inputs = [read for result in found for read in result.inputs]
    return {
        "run_id": run.run_id,
        "stages": [result.stage_id for result in found],
        "generation": found[-1].generation if found else None,
        "seconds": round(sum(result.seconds for result in found), 3),
        "read": {read.stream_id: {"messages": read.messages, "control": read.control, "bytes": read.bytes} for read in inputs},
        "slices": {read.stream_id: _slice_of(run, read.stream_id) for read in inputs if not run.is_own(read.stream_id)},
        "rows": {output.stream_id: output.messages for output in outputs},
        "outputs": {
            output.stream_id: {
                "system": output.system,
                "stream": output.stream,
                "control": output.control,
                "bytes": output.bytes,
                **_short_facts(output.facts),
            }
            for output in outputs
        },
    }


def _slice_of(run: RunPlan, stream_id: str) -> dict[str, Any]:
    """What was fixed for an input from outside: counts and offsets, without lists of files."""
    known = run.stream(stream_id).slice or {}
    return {
        name: len(value) if name == "files" else value for name, value in known.items() if name in ("files", "bytes", "offsets") and value
    }


def _has_another_try(context: Mapping[str, Any]) -> bool:
    ti = context["ti"]
    return int(ti.try_number) <= int(ti.max_tries)


def _short_facts(facts: Mapping[str, Any]) -> dict[str, Any]:
    """A system's facts without long lists: XComs lie in Airflow's database."""
    short: dict[str, Any] = {}
    for name, value in facts.items():
        if isinstance(value, list | tuple) and len(value) > LONGEST_LIST:
            short[name] = [*value[:LONGEST_LIST]]
            short[f"{name}_left_out"] = len(value) - LONGEST_LIST
        else:
            short[name] = value
    return short

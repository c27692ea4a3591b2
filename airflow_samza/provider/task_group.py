"""SamzaTaskGroup: an application as a task group, plan → one task per stage → cleanup (decision 66).

The Dag file is parsed all the time, so only the application's shape is planned here: no counts, no I/O, no Spark,
milliseconds.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from airflow.sdk import TaskGroup

from airflow_samza.application.rejections import reject_unknown
from airflow_samza.errors import ConfigError, UnknownName
from airflow_samza.planner.plan import ExecutionPlan
from airflow_samza.planner.titles import stage_named
from airflow_samza.provider.connections.fields import connection_id
from airflow_samza.provider.operators.auto_mode import AUTO, SamzaAutoPlanOperator
from airflow_samza.provider.operators.cleanup import SamzaCleanupOperator
from airflow_samza.provider.operators.planning import FUSED, MODES, SamzaPlanOperator, check_mode
from airflow_samza.provider.operators.stream import SamzaStreamOperator
from airflow_samza.provider.parsed_application import is_late, parse_application, reject_late, reject_mapping
from airflow_samza.runs.records.run_plan import CONTINUOUS, PIPELINED, STAGED

PLAN_TASK = "plan"
RUN_TASK = "run"
DONE_TASK = "done"
CLEANUP_TASK = "cleanup"


_OF_GROUPS = frozenset(
    name
    for name, parameter in inspect.signature(TaskGroup.__init__).parameters.items()
    if parameter.kind is not inspect.Parameter.VAR_KEYWORD and name != "self"
)
"""The parameters of Airflow's groups."""


class SamzaTaskGroup(TaskGroup):
    """A task group with the tasks of one application: ``plan``, a task per stage, ``cleanup``.

    | ``mode`` | tasks |
    |---|---|
    | ``staged`` | a task per stage, which starts when its producers have ended |
    | ``fused`` | one task ``run`` for all stages |
    | ``pipelined`` | a task per stage, all at the same time; each ends when its inputs have ended |
    | ``continuous`` | the same over unbounded inputs, until the run is drained or stopped, or ``run_for`` is over |
    | ``auto`` | ``fused`` or ``staged``, as the plan task decides by the size of the inputs (``[samza] fuse_below``) |

    ```python
    SamzaTaskGroup(
        group_id="delays",
        application="pipelines.flights:flights_of_the_year",
        systems={"data": "flights_data", "warehouse": "flights_warehouse"},
        spark_conf={"spark.driver.memory": "4g"},
    )
    ```

    :param group_id: The group's id; it also tells several uses of an application in one Dag apart.
    :param application: The application, as ``package.module:attribute``; it is loaded when the Dag file is parsed.
    :param conn_id: The connection of type ``samza`` (templated). Default ``samza_default``.
    :param samza_conn_id: Another name of ``conn_id``; give one of the two.
    :param systems: The connections of the application's systems: connection ids by the names of systems (templated).
    :param mode: How the stages run, as in the table above.
    :param run_for: The time after which a continuous run stops: ``"10 minutes"``, a timedelta or seconds (templated).
    :param stages: Settings of single stages, by id or title: ``pool``, ``retries``, ``executor_config``, ``spark_conf``
        and other parameters of :class:`SamzaStreamOperator`.
    :param config: Configuration keys, over those of the application (values templated).
    :param spark_conf: Spark settings of all stages, over those of the connection (templated).
    :param py_modules: Further Python code for the workers, by path: files, package folders, zips or wheels (templated).
    :param archives: Archives that the workers unpack, by path, each with ``#name`` to name its folder (templated).
    :param runner_python: The Python program of another environment that runs stage runners (the driver processes) and
        workers, over the connection's (templated).
    :param data_interval: The data interval to read: two datetimes, or a text ``start/end`` (templated). Default: the
        Dag run's.
    :param state_from: The state with which the run starts, if the application carries state: ``previous`` (the run
        before), ``fresh`` (none), or the id of a run (templated). Default: ``fresh`` in a backfill, otherwise
        ``previous``.
    :param table_versions: The versions of pushed tables to read, by table: ``current``, ``as_of_interval`` (the version
        that was current when the data interval began), or the id of a push (templated). Default: ``current``.
    :param input_versions: The snapshots (Iceberg) or versions (Delta) up to which inputs that are tables are read, by
        input, or ``current`` (templated). Default: those that the Dag run's asset events name, otherwise ``current``.
    :param sections: The runs whose sections of shared streams are read, by stream: a run id, ``APPLICATION@interval``
        or ``APPLICATION@latest`` (templated). Default: those that the asset events name, otherwise all new ones. A
        pipelined or continuous run follows one that is still written.
    :param wait_for_state: If true, ``plan`` waits, deferred, while another run holds the state; if false, it fails and
        can be retried.
    :param reuse: If true, a run that is planned anew keeps the results of stages that have not changed; if false, all
        stages run.
    :param partition_key: The partition key of the asset events: a text, or ``data_interval`` for the start of the data
        interval (templated). By default the key of the Dag run, if it has one.
    :param poll_interval: Seconds between two checks of a stage's state. Default ``[samza] poll_interval`` (1).
    :param progress_interval: Seconds between two reports of a stage's progress. Default ``[samza] progress_interval``
        (30).
    :param deferrable: If true, tasks give their worker slot back while their stage runs. Default ``[operators]
        default_deferrable``.
    :param group: Parameters of Airflow's ``TaskGroup``: ``default_args``, ``tooltip``, …
    """

    def __init__(
        self,
        group_id: str,
        *,
        application: str,
        conn_id: str | None = None,
        samza_conn_id: str | None = None,
        systems: Mapping[str, str] | None = None,
        mode: str = STAGED,
        run_for: Any = None,
        stages: Mapping[str, Mapping[str, Any]] | None = None,
        config: Mapping[str, Any] | None = None,
        spark_conf: Mapping[str, Any] | None = None,
        py_modules: Sequence[str] = (),
        archives: Sequence[str] = (),
        runner_python: str | None = None,
        data_interval: Any = None,
        state_from: str | None = None,
        table_versions: Mapping[str, str] | None = None,
        input_versions: Mapping[str, str] | None = None,
        sections: Mapping[str, str] | None = None,
        wait_for_state: bool = True,
        reuse: bool = True,
        partition_key: str | None = None,
        poll_interval: float | None = None,
        progress_interval: float | None = None,
        deferrable: bool | None = None,
        **group: Any,
    ) -> None:
        for name in group:
            if name not in _OF_GROUPS:
                reject_unknown(name, [*_OF_GROUPS, *OWN_PARAMETERS], f"The task group {group_id!r}")
        reject_late(group_id, application=application, mode=mode, stages=stages)
        check_mode(group_id, mode, run_for, (*MODES, AUTO))
        shape = parse_application(application, config).shape
        settings = _stage_settings(group_id, shape, mode, stages or {})
        group.setdefault("tooltip", f"{application} on Samza, {mode}")
        super().__init__(group_id=group_id, **group)
        conn_id = self._connection_id(conn_id, samza_conn_id)
        shared: dict[str, Any] = {
            "application": application,
            "conn_id": conn_id,
            "systems": systems if is_late(systems) else dict(systems or {}),
            "config": config if is_late(config) else dict(config or {}),
            "py_modules": list(py_modules),
            "archives": list(archives),
            "runner_python": runner_python,
            "scope": self.group_id,
        }
        with self:
            kind = SamzaAutoPlanOperator if mode == AUTO else SamzaPlanOperator
            self.plan_task = kind(
                task_id=PLAN_TASK,
                mode=STAGED if mode == AUTO else mode,
                run_for=run_for,
                data_interval=data_interval,
                state_from=state_from,
                table_versions=dict(table_versions or {}),
                input_versions=dict(input_versions or {}),
                sections=dict(sections or {}),
                wait_for_state=wait_for_state,
                reuse=reuse,
                spark_conf=dict(spark_conf or {}),
                **shared,
            )
            watched = {
                **shared,
                "plan": self.plan_task.output,
                "poll_interval": poll_interval,
                "progress_interval": progress_interval,
                "partition_key": partition_key,
                "deferrable": deferrable,
            }
            if mode == FUSED:
                self.stage_tasks = {RUN_TASK: self._fused(spark_conf, watched)}
            else:
                self.stage_tasks = {
                    stage.stage_id: SamzaStreamOperator(
                        **{
                            "task_id": stage.stage_id,
                            "stage": stage.stage_id,
                            **watched,
                            **settings.get(stage.stage_id, {}),
                            "spark_conf": {
                                **(spark_conf or {}),
                                **settings.get(stage.stage_id, {}).get("spark_conf", {}),
                            },
                        }
                    )
                    for stage in shape.stages
                }
                if mode not in (PIPELINED, CONTINUOUS):
                    for stage in shape.stages:
                        producers = [self.stage_tasks[name] for name in stage.upstream if name != stage.stage_id]
                        self.stage_tasks[stage.stage_id] << producers
            if mode == AUTO:
                self._choose_between(self._fused(spark_conf, watched))
            self.cleanup_task = SamzaCleanupOperator(task_id=CLEANUP_TASK, plan=self.plan_task.output, **shared)
            self.cleanup_task << list(self.stage_tasks.values())

    @staticmethod
    def _fused(spark_conf: Mapping[str, Any] | None, watched: Mapping[str, Any]) -> SamzaStreamOperator:
        """Return the task that runs all stages."""
        return SamzaStreamOperator(task_id=RUN_TASK, spark_conf=dict(spark_conf or {}), **watched)

    def _choose_between(self, run: SamzaStreamOperator) -> None:
        """Have ``done`` follow whichever ``plan`` does not skip: ``run``, or the stages.

        Else what follows the group would be skipped with the branch that is.
        """
        from airflow.providers.standard.operators.empty import EmptyOperator

        stages = list(self.stage_tasks.values())
        done = EmptyOperator(task_id=DONE_TASK, trigger_rule="none_failed_min_one_success")
        last = [task for task in stages if not {other.task_id for other in stages} & task.downstream_task_ids]
        [run, *last] >> done
        self.stage_tasks[RUN_TASK] = run

    @classmethod
    def partial(cls, *_: Any, **__: Any) -> NoReturn:
        """Reject the group as a mapped operator, which it is not: it is mapped within a ``@task_group``."""
        raise reject_mapping(cls.__name__)

    @classmethod
    def expand(cls, *_: Any, **__: Any) -> NoReturn:
        """Reject as :meth:`partial` does."""
        raise reject_mapping(cls.__name__)

    def _connection_id(self, conn_id: str | None, samza_conn_id: str | None) -> str:
        """Return the connection that the group names, else the one of ``default_args``, as operators have it."""
        what = f"The task group {self.group_id!r}"
        if conn_id is None and samza_conn_id is None:
            usual = {**(self.dag.default_args if self.dag is not None else {}), **self.default_args}
            return connection_id(what, usual.get("conn_id"), usual.get("samza_conn_id"))
        return connection_id(what, conn_id, samza_conn_id)


OWN_PARAMETERS = frozenset(
    name
    for name, parameter in inspect.signature(SamzaTaskGroup.__init__).parameters.items()
    if parameter.kind is inspect.Parameter.KEYWORD_ONLY
)
"""The parameters that a group of ours has beside those of Airflow's."""


def _stage_settings(
    group_id: str, shape: ExecutionPlan, mode: str, stages: Mapping[str, Mapping[str, Any]]
) -> dict[str, dict[str, Any]]:
    stage_ids = [stage.stage_id for stage in shape.stages]
    settings: dict[str, dict[str, Any]] = {}
    for name, values in stages.items():
        try:
            stage_id = stage_named(shape, name).stage_id
        except UnknownName as error:
            raise UnknownName(
                f"The task group {group_id!r} has settings for the stage {name!r}, which "
                "the application does not have.",
                hint=error.hint,
                name=name,
            ) from None
        if stage_id in settings:
            raise ConfigError(
                f"The task group {group_id!r} has settings for the stage {stage_id!r} twice: by its id and its title.",
                hint="Put them together under one of the two.",
                key="stages",
                value=name,
            )
        settings[stage_id] = dict(values)
    taken = [name for name in stage_ids if mode == AUTO and name in (RUN_TASK, DONE_TASK)]
    if taken:
        raise ConfigError(
            f"The task group {group_id!r} has mode='auto' and the stage {taken[0]!r}, which is the name of another "
            "task of such a group.",
            hint=f"Give the operator at which the stage begins another id than {taken[0]!r}, or choose another mode.",
            key="mode",
            value=mode,
        )
    if mode == FUSED and stages:
        raise ConfigError(
            f"The task group {group_id!r} is fused into one task, so settings by stage "
            f"({', '.join(stages)}) have no effect.",
            hint='Set them for the group (default_args, spark_conf), or use mode="staged".',
            key="stages",
            value=", ".join(stages),
        )
    return settings

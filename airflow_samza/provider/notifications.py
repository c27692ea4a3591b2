"""The notifier that ends continuous runs when a task or a Dag fails, or succeeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from airflow.sdk import BaseNotifier

from airflow_samza.application.loader import load_application
from airflow_samza.errors import ConfigError
from airflow_samza.provider.connections.bindings import text_map
from airflow_samza.provider.connections.fields import connection_id
from airflow_samza.provider.hooks.root import RootHook
from airflow_samza.provider.operators.drain import DRAIN, STOP
from airflow_samza.runs.progress.run_list import active_runs
from airflow_samza.runs.records.folders import RunFolder
from airflow_samza.runs.stages.run_ends import ask_to_drain, ask_to_stop


class SamzaStopNotifier(BaseNotifier):
    """A callback that ends the running continuous or pipelined runs of an application.

    It requests the end and does not wait. It does nothing if no such run is running.

    ```python
    stop = SamzaStopNotifier(application="pipelines.departures:departures_live")
    SamzaTablePushOperator(
        task_id="push_all",
        application="pipelines.delay_model:scores",
        table="delay-model",
        source="/data/model",
        on_failure_callback=stop,
    )
    ```

    :param application: The application, as ``package.module:attribute`` (templated).
    :param action: ``stop`` (nothing more is read, the state is kept) or ``drain`` (what has arrived is processed).
    :param run_id: Only this run, by its own id or by that of the Dag run (templated).
    :param dag_id: Only runs of this Dag (templated).
    :param conn_id: The connection of type ``samza`` (templated). Default ``samza_default``.
    :param samza_conn_id: Another name of ``conn_id``; give one of the two.
    :param config: Configuration keys, over those of the application (templated).
    :param kwargs: Parameters of Airflow's ``BaseNotifier``.
    """

    template_fields: Sequence[str] = ("application", "run_id_", "dag_id_", "conn_id", "config")

    def __init__(
        self,
        *,
        application: str,
        action: str = STOP,
        run_id: str | None = None,
        dag_id: str | None = None,
        conn_id: str | None = None,
        samza_conn_id: str | None = None,
        config: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if action not in (DRAIN, STOP):
            raise ConfigError(
                f"action={action!r} of the notifier on {application!r} is not known.",
                hint="Choose drain or stop.",
                key="action",
                value=action,
            )
        self.application = application
        self.action = action
        self.run_id_ = run_id  # Airflow puts templated fields into the context, which has a run_id of its own
        self.dag_id_ = dag_id
        self.conn_id = connection_id("The notifier", conn_id, samza_conn_id)
        self.config = config

    def notify(self, context: Any) -> None:
        """Request the end of each run that is on."""
        files = RootHook(self.conn_id).files
        application = load_application(self.application).spec(text_map("config", self.config)).name
        ti = context.get("ti")
        who = f"{ti.dag_id}.{ti.task_id}" if ti is not None else "a callback"
        ask = ask_to_drain if self.action == DRAIN else ask_to_stop
        runs = active_runs(files, application, self.run_id_ or None, self.dag_id_ or None)
        for run in runs:
            ask(files, RunFolder(run.application, run.run_id), run.generation, who)
            self.log.info("The run %s of %s was asked to %s.", run.run_id, application, self.action)
        if not runs:
            self.log.info("No run of %s is running; there is nothing to %s.", application, self.action)

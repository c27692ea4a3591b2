"""The sensor that waits until a stream that a run writes has its end, in all partitions."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict
from typing import Any

from airflow_samza.application.loader import load_application
from airflow_samza.provider.connections.fields import connection_id
from airflow_samza.provider.failures import mapped_failures
from airflow_samza.provider.hooks.root import RootHook
from airflow_samza.provider.sensors.deferrable_sensor import DeferrableSensor
from airflow_samza.runs.progress.sensed_runs import StreamQuery, stream_end


class SamzaEndOfStreamSensor(DeferrableSensor):
    """Waits until a run has written a stream to its end: an output, or a topic between stages.

    All of the stream is published then. The sensor also waits for a run that does not exist yet, and for one that
    failed, since it can be cleared. A stream that no stage writes fails the task. The return value has ``run_id``,
    ``stream``, and ``generations`` by stage.

    ```python
    SamzaEndOfStreamSensor(
        task_id="wait", application="pipelines.departures:departures_feed", stream="departures", deferrable=True
    )
    ```

    :param application: The application, as ``package.module:attribute`` or by its name (templated).
    :param stream: The stream's id (templated).
    :param run_id: The run, by its own id or by that of the Dag run (templated). Default: the newest.
    :param external_dag_id: Only runs of this Dag (templated).
    :param conn_id: The connection of type ``samza`` (templated). Default ``samza_default``.
    :param samza_conn_id: Another name of ``conn_id``; give one of the two.
    :param deferrable: If true, the sensor waits in the triggerer, without a worker slot. Default ``[operators]
        default_deferrable``.
    :param kwargs: Parameters of Airflow's ``BaseSensorOperator``: ``poke_interval``, ``timeout``, …
    """

    template_fields: Sequence[str] = ("application", "stream", "run_id", "external_dag_id", "conn_id")

    def __init__(
        self,
        *,
        application: str,
        stream: str,
        run_id: str | None = None,
        external_dag_id: str | None = None,
        conn_id: str | None = None,
        samza_conn_id: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.application = application
        self.stream = stream
        self.run_id = run_id
        self.external_dag_id = external_dag_id
        self.conn_id = connection_id(f"The task {self.task_id!r}", conn_id, samza_conn_id)

    def look(self) -> tuple[bool, Any]:
        """Return whether the stream has its end now, and the stream."""
        end = stream_end(self._hook.files, self._query)
        self.log.info("%s", end)
        return end.is_reached, end.to_dict()

    def trigger(self) -> Any:
        """Return the trigger that waits in the sensor's place."""
        from airflow_samza.provider.triggers.runs import SamzaEndOfStreamTrigger  # a Dag file need not load it

        return SamzaEndOfStreamTrigger(
            **self._hook.place_of_root, poll_interval=self.poke_interval, stream=asdict(self._query)
        )

    def _mapped_failures(self) -> AbstractContextManager[None]:
        return mapped_failures(self.log, lambda: self._hook)

    @property
    def _hook(self) -> RootHook:
        return RootHook(self.conn_id)

    @property
    def _query(self) -> StreamQuery:
        name = load_application(self.application).spec({}).name if ":" in self.application else self.application
        return StreamQuery(name, self.stream, self.run_id or None, self.external_dag_id or None)

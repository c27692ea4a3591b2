"""The sensor that waits until a table of a lake has a commit after a point in time."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timezone
from typing import Any

from airflow_samza.errors import ConfigError
from airflow_samza.provider.run_identity import interval_of, partition_key_of
from airflow_samza.provider.sensors.deferrable_sensor import DeferrableSensor

_GIVE_TIME = 'Give one in ISO form: at="2026-11-01T00:00Z", or at="{{ dag_run.run_after }}".'


class SamzaTableSensor(DeferrableSensor):
    """Waits until a table of Iceberg or Delta has a commit at or after a point in time, such as the end of an interval.

    The sensor also waits for a table that does not exist yet, and for a catalog that does not answer. Compactions do
    not count, nor do changes of columns and properties, and ``VACUUM``. The return value has ``table``, ``version`` (of
    the first such commit: the id of a snapshot, or the number of a version) and ``committed``. A run reads just this
    version with ``input_versions={"views": "{{ ti.xcom_pull(task_ids='wait')['version'] }}"}``.

    ```python
    SamzaTableSensor(task_id="wait", table="web.views", lake_conn_id="lake", deferrable=True)
    ```

    :param table: The table, as the option ``table`` of inputs names it (templated).
    :param lake_conn_id: The connection of type ``iceberg`` or ``delta`` (templated).
    :param at: The point in time, in ISO form (templated). Default: the end of the run's data interval, or of the one
        that its partition key names.
    :param branch: The branch of a table of Iceberg (templated). Default: its main branch.
    :param deferrable: If true, the sensor waits in the triggerer, without a worker slot. Default ``[operators]
        default_deferrable``.
    :param kwargs: Parameters of Airflow's ``BaseSensorOperator``: ``poke_interval``, ``timeout``, …
    """

    template_fields: Sequence[str] = ("table", "lake_conn_id", "at", "branch")

    def __init__(
        self,
        *,
        table: str,
        lake_conn_id: str,
        at: str | datetime | None = None,
        branch: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.table = table
        self.lake_conn_id = lake_conn_id
        self.at = at
        self.branch = branch

    def _prepare(self, context: Any) -> None:
        """Take the end of the run's interval where no point in time is given."""
        if self.at is None:
            interval = interval_of(context)
            if interval is None:
                key = partition_key_of(context)
                named = "" if key is None else f", and its partition key {key!r} names none"
                raise ConfigError(
                    f"The task {self.task_id!r} waits for the end of the data interval, and the Dag run has none"
                    f"{named}.",
                    hint=_GIVE_TIME,
                    key="at",
                    value="",
                )
            self.at = interval.end

    def trigger(self) -> Any:
        """Return the trigger that waits in the sensor's place."""
        from airflow_samza.provider.triggers.tables import TableCommitTrigger  # a Dag file need not load it

        return TableCommitTrigger(
            conn_id=self.lake_conn_id,
            table=self.table,
            branch=self.branch,
            at=self._time.isoformat(),
            poll_interval=self.poke_interval,
        )

    @property
    def _time(self) -> datetime:
        assert self.at is not None
        try:
            at = self.at if isinstance(self.at, datetime) else datetime.fromisoformat(self.at.replace("Z", "+00:00"))
        except ValueError:
            raise ConfigError(
                f"at={self.at!r} of the task {self.task_id!r} is no point in time"
                f"{'' if self.at else ': the Dag run has no data interval'}.",
                hint=_GIVE_TIME,
                key="at",
                value=self.at,
            ) from None
        return at if at.tzinfo is not None else at.replace(tzinfo=timezone.utc)

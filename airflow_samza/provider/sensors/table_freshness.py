"""The sensor that waits until the readers of a pushed table have reached a version."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict
from datetime import datetime
from functools import cached_property
from typing import Any

from airflow_samza.application.loader import load_application
from airflow_samza.errors import NoSuchVersion
from airflow_samza.provider.connections.bindings import text_map
from airflow_samza.provider.connections.fields import connection_id
from airflow_samza.provider.deferral import raise_what_the_trigger_met
from airflow_samza.provider.failures import mapped_failures
from airflow_samza.provider.hooks.samza import SamzaHook
from airflow_samza.provider.sensors.deferrable_sensor import DeferrableSensor
from airflow_samza.runs.progress.sensed_runs import Freshness, freshness
from airflow_samza.runs.tables.folder import TableFolder
from airflow_samza.runs.tables.pins import CURRENT
from airflow_samza.runs.tables.table_version import TableVersion
from airflow_samza.runs.tables.versions import find_target, from_newest
from airflow_samza.systems.filesystems.filesystem import Filesystem


class SamzaTableFreshnessSensor(DeferrableSensor):
    """Waits until all running runs of an application read a version of a pushed table, or a newer one.

    A continuous run takes over a newer version between two epochs, also while no message comes. Other runs keep the
    version of their plan. The return value has ``version`` and ``readers``.

    ```python
    SamzaTableFreshnessSensor(
        task_id="wait", application="pipelines.delay_model:scores", table="delay-model", least=0, deferrable=True
    )
    ```

    :param application: The application that reads the table, as ``package.module:attribute`` (templated).
    :param table: The table's id (templated).
    :param version: The version: ``current`` (when the sensor starts), a number, or the id of its push (templated).
    :param least: The smallest number of running runs that must read it. With 0 the sensor succeeds when none runs.
    :param conn_id: The connection of type ``samza`` (templated). Default ``samza_default``.
    :param samza_conn_id: Another name of ``conn_id``; give one of the two.
    :param systems: Connection ids by the names of the application's systems (templated).
    :param config: Configuration keys, over those of the application (templated).
    :param deferrable: If true, the sensor waits in the triggerer, without a worker slot. Default ``[operators]
        default_deferrable``.
    :param kwargs: Parameters of Airflow's ``BaseSensorOperator``: ``poke_interval``, ``timeout``, …
    """

    template_fields: Sequence[str] = ("application", "table", "version", "conn_id", "systems", "config")

    def __init__(
        self,
        *,
        application: str,
        table: str,
        version: str | int = CURRENT,
        least: int = 1,
        conn_id: str | None = None,
        samza_conn_id: str | None = None,
        systems: Mapping[str, str] | None = None,
        config: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.application = application
        self.table = table
        self.version = version
        self.least = least
        self.conn_id = connection_id(f"The task {self.task_id!r}", conn_id, samza_conn_id)
        self.systems = systems
        self.config = config
        self._started: datetime | None = None

    def _prepare(self, context: Any) -> None:
        """Take when the sensor has started, if it was rescheduled: each of its looks is a process of its own."""
        self._started = context["ti"].get_first_reschedule_date(context) if self.reschedule else None

    def look(self) -> tuple[bool, Any]:
        """Return whether all readers have the version now, and the versions that they have."""
        readers = freshness(self._hook.files, self._target)
        self.log.info("%s", readers)
        return readers.is_reached, {"version": readers.target, "readers": dict(readers.readers)}

    def trigger(self) -> Any:
        """Return the trigger that waits in the sensor's place."""
        from airflow_samza.provider.triggers.tables import TableFreshnessTrigger  # a Dag file need not load it

        return TableFreshnessTrigger(
            **self._hook.place_of_root, poll_interval=self.poke_interval, table=asdict(self._target)
        )

    def execute_complete(
        self, context: Any, event: Mapping[str, Any] | None = None, *, deadline: float | None = None
    ) -> dict[str, Any]:
        """Log the versions that the readers have."""
        with self._mapped_failures():
            raise_what_the_trigger_met(event, self.task_id)
        facts = dict(event or {})
        self.log.info("All readers have version %s: %s", facts.get("version"), facts.get("readers"))
        return facts

    def _mapped_failures(self) -> AbstractContextManager[None]:
        return mapped_failures(self.log, lambda: self._hook)

    @property
    def _hook(self) -> SamzaHook:
        return SamzaHook(self.conn_id, systems=self.systems)

    @cached_property
    def _target(self) -> Freshness:
        """The version that is waited for: that of the start, whatever is pushed meanwhile."""
        config = text_map("config", self.config)
        hook = self._hook
        place = hook.pushed_table(self.application, self.table, config)
        files = hook.files
        if str(self.version) == CURRENT:
            version = _current(files, place, self._started)
            if version is None:
                raise NoSuchVersion(
                    f"The table {self.table!r} has no version to wait for.",
                    hint="Push it first.",
                    table=self.table,
                    wanted=CURRENT,
                )
        else:
            version = find_target(files, place.system, place.topic, str(self.version))
        name = load_application(self.application).spec(config).name
        return Freshness(name, f"{self.table}-push", place.system, place.topic, version.number, self.least)


def _current(files: Filesystem, place: TableFolder, started: datetime | None) -> TableVersion | None:
    """Return the version of a table that is current, or was at a start, by the time of its push.

    Where all were pushed later, by the clocks of their hosts, it is the first of them.
    """
    current = None
    for version in from_newest(files, place.system, place.topic):
        if not version.is_late:
            current = version
            if started is None or datetime.fromisoformat(version.pushed_at) <= started:
                break
    return current


TableFreshnessSensor = SamzaTableFreshnessSensor
"""The name that it had first."""

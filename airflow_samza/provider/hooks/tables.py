"""TablesHook: pushes of tables, their versions, and rollbacks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from airflow_samza.provider.connections.spark import source_options
from airflow_samza.provider.hooks.runtime import RuntimeHook
from airflow_samza.runs.records.folders import write_once
from airflow_samza.runs.stages.run_ends import RunEnd
from airflow_samza.systems.filesystems.root_access import access_within

if TYPE_CHECKING:
    from airflow_samza.runs.records.data_interval import DataInterval
    from airflow_samza.runs.stages.stage_state import StageHandle
    from airflow_samza.runs.tables.folder import TableFolder
    from airflow_samza.runs.tables.table_version import TableVersion


class TablesHook(RuntimeHook):
    """The part of the hook that makes versions of pushed tables."""

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
        secrets = source_options(source_conn_id, self._source_connection(source_conn_id)) if source_conn_id else None
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
        from airflow_samza.runs.tables.rollback import rollback
        from airflow_samza.runs.tables.table_version import rollback_text
        from airflow_samza.runs.tables.versions import newest
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

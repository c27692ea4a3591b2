"""The trigger of the sensor that waits for a commit of a table."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from airflow_samza.provider.connections.bindings import find_commit
from airflow_samza.provider.triggers.client_threads import ClientTrigger, Look


@dataclass(kw_only=True, eq=False, repr=False)
class TableCommitTrigger(ClientTrigger):
    """Waits until a table has a commit at or after a point in time, or an error lasts: the task looks again then.

    :param conn_id: The connection of type ``iceberg`` or ``delta``.
    :param table: The table.
    :param branch: The branch of a table of Iceberg; None: its main branch.
    :param at: The point in time, in ISO form with its zone.
    :param poll_interval: Seconds between two checks.
    :param deferred_by: Identity of the process that defers. Default: this process.
    """

    conn_id: str
    table: str
    branch: str | None
    at: str

    def look(self) -> Look:
        """Return the first commit that is late enough."""
        from airflow.sdk import BaseHook

        at = datetime.fromisoformat(self.at)
        commit = find_commit(self.conn_id, BaseHook.get_connection, self.table, self.branch, at)
        if commit is None:
            return Look(f"The table {self.table} has no commit at or after {self.at}.", False)
        version, committed = commit[0], commit[1].isoformat()
        value = {"table": self.table, "version": version, "committed": committed}
        return Look(f"The table {self.table} has version {version}, of {committed}.", True, value)

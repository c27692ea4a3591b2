"""RootHook: the root of a Samza connection, and what opens it.

The sensor of ends and the notifier open roots by it, and the other hooks of Samza derive from it.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import cached_property
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseHook

from airflow_samza.provider.connections.bindings import root_of
from airflow_samza.provider.connections.fields import defined
from airflow_samza.provider.connections.root_access import OF_TYPES, find_access
from airflow_samza.systems.filesystems.root_access import RootAccess, access_within, give_access

if TYPE_CHECKING:
    from airflow_samza.systems.filesystems.filesystem import Filesystem


class RootHook(BaseHook):
    """The part of the hook that finds the root and opens it.

    :param conn_id: The Samza connection.
    """

    def __init__(self, conn_id: str) -> None:
        super().__init__()
        self.conn_id = conn_id

    @property
    def root(self) -> str:
        """The root of topics and run records."""
        return root_of(self.conn_id, self._connection(self.conn_id))

    @cached_property
    def access(self) -> RootAccess:
        """The options that open the root, by the connections; this process may open it with them from now on."""
        root = self.root
        access = find_access(self.conn_id, self._connection(self.conn_id), root, self._store_connection)
        if access:
            give_access(root, access)
        return access

    @property
    def place_of_root(self) -> dict[str, Any]:
        """The arguments by which a trigger finds the root, and the connection (no secret of it) that opens it."""
        return {"root": self.root, **({"conn_id": self.conn_id} if self.access else {})}

    @property
    def files(self) -> Filesystem:
        """The records of runs."""
        from airflow_samza.systems.filesystems.opening import open_filesystem

        with access_within(self.root, self.access):
            return open_filesystem(self.root)

    def last_lines(self, log: str) -> list[str]:
        """Return no lines of a stage runner's log: only the hook of runs knows which texts of it are secret.

        :param log: The path of the log, from the root on.
        """
        return []

    def _connection(self, conn_id: str, types: Collection[str] = ("samza",)) -> Any:
        """Return a connection, which has one of the types where all is well."""
        return defined(conn_id, types, self.get_connection, [self.conn_id])

    def _store_connection(self, conn_id: str) -> Any:
        """Return a connection that opens the root, or files, on an object store."""
        return self._connection(conn_id, tuple(OF_TYPES))

"""From Airflow connections to the access of a root, or of files: ``root_conn_id`` names the connection that has it.

The fields of the connections are read here, so that no provider of a cloud has to be installed. What takes a chain of
identities is left to that provider's hook, where it is there. The hook of roots opens a root by it, and so do triggers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from airflow_samza.errors import ConfigError
from airflow_samza.provider.connections.cloud import OF_TYPES, STORES
from airflow_samza.provider.connections.fields import extra_of, masked
from airflow_samza.systems.filesystems.root_access import NO_ACCESS, RootAccess
from airflow_samza.systems.filesystems.webhdfs.address import is_hdfs

FIELD = "root_conn_id"
"""The field of a connection that names another one, whose credentials open the root."""

_SCHEMES = {scheme: store for store, (schemes, _) in STORES.items() for scheme in schemes}


def find_access(conn_id: str, connection: Any, root: str, get_connection: Callable[[str], Any]) -> RootAccess:
    """Return the access of a root by the connection that names it.

    On HDFS its login is the user, its password a delegation token. On an object store :data:`FIELD` names a connection
    of the store's type; without one the environment decides.
    """
    named = str(extra_of(conn_id, connection).get(FIELD) or "").strip() or None
    if is_hdfs(root):
        _reject_field(conn_id, root, named)
        options = {"user": connection.login, "token": connection.password}
        return masked(RootAccess({name: value for name, value in options.items() if value}, conn_id))
    if named is None:
        return NO_ACCESS
    store = _SCHEMES.get(root.partition("://")[0].lower()) if "://" in root else None
    if store is None:
        _reject_field(conn_id, root, named)
    other = get_connection(named)
    kind = str(other.conn_type or "")
    types = STORES[str(store)][1]
    if kind not in types:
        raise ConfigError(
            f"The connection {conn_id!r} opens {root} with the connection {named!r}, which is of type {kind!r}.",
            hint=f"Name a connection of type {' or '.join(types)} as {FIELD}."
            + (_KEEPS_TYPE if kind == "generic" else ""),
            key=FIELD,
            value=named,
        )
    return masked(RootAccess(OF_TYPES[kind](named, other), conn_id))


_KEEPS_TYPE = " Without the cloud's provider Airflow makes it generic, unless it is added with --conn-json or as a URI."


def _reject_field(conn_id: str, root: str, named: str | None) -> None:
    if named is not None:
        raise ConfigError(
            f"The connection {conn_id!r} names the connection {named!r} as its {FIELD}, and its root {root} is on no "
            "object store.",
            hint=f"Leave {FIELD} out; on HDFS the connection's own login is the user, its password a delegation token.",
            key=FIELD,
            value=named,
        )

"""Airflow's connections of the types ``iceberg`` and ``delta``; the former has the fields of Airflow's own provider."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from airflow_samza.errors import ConfigError
from airflow_samza.provider.connections.fields import extra_of, masked
from airflow_samza.provider.connections.missing_connections import adding
from airflow_samza.provider.connections.root_access import FIELD, find_access
from airflow_samza.systems.system import SystemBinding


def iceberg_binding(name: str, conn_id: str, connection: Any) -> SystemBinding:
    """Return the binding of the system ``name`` that a connection gives.

    The extra holds pyiceberg's properties, or ``root`` of a catalog in a folder. The host is the URI of a catalog, of
    type ``rest`` unless the extra says otherwise; login and password are then its credential. The catalog's name is the
    connection's id, as in hooks of that provider, unless the extra has ``catalog``.
    """
    options: dict[str, Any] = extra_of(conn_id, connection)
    if "root" not in options:
        options.setdefault("catalog", conn_id)
    host = str(connection.host or "").strip().rstrip("/")
    if host:
        options.setdefault("uri", host)
        options.setdefault("type", "rest")
    if options.get("type") == "rest" and connection.login and connection.password:
        options.setdefault("credential", f"{connection.login}:{connection.password}")
    return masked(SystemBinding("iceberg", options))


def delta_binding(conn_id: str, connection: Any, get_connection: Callable[[str], Any]) -> SystemBinding:
    """Return the binding of a system of Delta tables.

    The extra has ``root``, and may have ``partitions``; ``root_conn_id`` names the connection that opens a bucket, as
    it does for the root of topics.
    """
    extra = extra_of(conn_id, connection)
    root = str(extra.get("root") or connection.host or "").strip()
    if not root:
        raise ConfigError(
            f"The connection {conn_id!r} of type delta has no root.",
            hint=f"Set it, for example: {adding(conn_id, 'delta')}.",
            key="root",
            value=conn_id,
        )
    access = find_access(conn_id, connection, root, get_connection)
    ours = {name: value for name, value in extra.items() if name not in ("root", FIELD)}
    return masked(SystemBinding("delta", {**ours, "root": root, **access.options}, access.secret))

"""Airflow's connections of type ``iceberg``, with the fields that Airflow's own provider of Iceberg gives them."""

from __future__ import annotations

from typing import Any

from airflow_samza.provider.connections.fields import extra_of
from airflow_samza.provider.connections.masking import masked
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

"""From an Airflow connection to options of Spark's readers, for the source of a push."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow_samza.provider.connections.fields import extra_of

_DRIVERS: Mapping[str, tuple[str, str, int]] = {
    "postgres": ("postgresql", "org.postgresql.Driver", 5432),
    "mysql": ("mysql", "com.mysql.cj.jdbc.Driver", 3306),
}
"""By connection type: the name in a JDBC URL, the driver, the port."""

SOURCE_TYPES = ("jdbc", *_DRIVERS)
"""Connection types that name a database to read."""


def source_options(conn_id: str, connection: Any) -> dict[str, str]:
    """Return the options of a connection: ``url``, ``driver``, ``user`` and ``password``, as far as it has them.

    A connection of type ``jdbc`` has the whole URL as its host, and may name the driver in its extra (``driver`` or
    ``driver_class``).
    """
    extra = extra_of(conn_id, connection)
    kind, host = str(connection.conn_type or ""), str(connection.host or "")
    found = {"user": connection.login, "password": connection.password}
    found["driver"] = extra.get("driver_class") or extra.get("driver")
    if host.startswith("jdbc:"):
        found["url"] = host
    elif kind in _DRIVERS:
        name, driver, port = _DRIVERS[kind]
        found["url"] = f"jdbc:{name}://{host}:{connection.port or port}/{connection.schema or ''}"
        found["driver"] = found["driver"] or driver
    return {name: str(value) for name, value in found.items() if value}

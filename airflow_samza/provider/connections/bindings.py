"""From Airflow connections to the bindings of systems.

Code names systems only; ``systems={name: conn_id}`` binds them here. Secrets stay in the connections: they are marked,
so that no plan and no log shows them. Hooks, operators, sensors and triggers bind their systems by it.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

from airflow_samza.errors import ConfigError
from airflow_samza.provider.connections.fields import adding, defined, extra_of, mapping_of, masked
from airflow_samza.provider.connections.kafka import kafka_binding
from airflow_samza.provider.connections.root_access import FIELD, find_access
from airflow_samza.system_kinds import find_kind
from airflow_samza.systems.bindings import bind_system
from airflow_samza.systems.capabilities import HasTableVersions
from airflow_samza.systems.system import StreamSpec, SystemBinding, option_text

GetConnection = Callable[[str], Any]

SUPPORTED = (
    "samza (a log under a root), fs (files under a path), kafka (topics), iceberg (tables of a catalog), delta "
    "(tables in a folder), jdbc (a database) and spark_sql (what else Spark reads and writes)"
)

_OF_KINDS = {
    "files": ("fs",),
    "kafka": ("kafka",),
    "spark": ("spark_sql", "jdbc"),
    "log": ("samza",),
    "iceberg": ("iceberg",),
    "delta": ("delta",),
}
"""Connection types by the kind of the system that they bind."""


def types_of(kind: str | None) -> tuple[str, ...]:
    """Return the types of connections that bind a system of a kind, the usual one first; none where none can."""
    kind_of_system = find_kind(kind) if kind else None
    return _OF_KINDS.get(kind or "", (kind,) if kind and kind_of_system is not None and kind_of_system.connects else ())


def binding_of(name: str, conn_id: str, connection: Any, get_connection: GetConnection) -> SystemBinding:
    """Return the binding that one connection gives to the system ``name``; other connection types are rejected.

    Files, and a log under a root of its own, may be opened with another connection, which ``get_connection`` finds.
    """
    conn_type = str(connection.conn_type or "")
    if conn_type == "samza":
        return _with_access("log", root_of(conn_id, connection), conn_id, connection, get_connection)
    if conn_type == "delta":
        return _delta(conn_id, connection, get_connection)
    if conn_type == "fs":
        path = str(extra_of(conn_id, connection).get("path") or "").strip()
        if not path:
            raise ConfigError(
                f"The connection {conn_id!r}, which binds the system {name!r}, has no path.",
                hint=f"Set its path, for example: {adding(conn_id, 'fs')}.",
                key="systems",
                value=conn_id,
            )
        return _with_access("files", path, conn_id, connection, get_connection)
    if conn_type == "kafka":
        return kafka_binding(name, conn_id, connection)
    if conn_type == "iceberg":
        return _iceberg(conn_id, connection)
    if conn_type == "jdbc":
        return _database(name, conn_id, connection)
    if conn_type == "spark_sql":
        return SystemBinding("spark", extra_of(conn_id, connection))
    kind_of_system = find_kind(conn_type)
    if kind_of_system is not None and kind_of_system.connects:
        fields = {name: getattr(connection, name) for name in ("host", "port", "login", "password")}
        options = {**extra_of(conn_id, connection), **{name: value for name, value in fields.items() if value}}
        return SystemBinding(conn_type, options, frozenset({"password"} & set(options)))
    raise ConfigError(
        f"The connection {conn_id!r} of type {conn_type!r} cannot bind the system {name!r}.",
        hint=f"Types that can: {SUPPORTED}.",
        key="systems",
        value=conn_id,
    )


def find_commit(
    conn_id: str, get_connection: GetConnection, table: str, branch: str | None, at: datetime
) -> tuple[str, datetime] | None:
    """Return the version and the time of a table's first commit at or after a point in time; None: there is none yet.

    The connection is one of tables: of Iceberg, or of Delta, which has no branches.
    """
    connection = defined(conn_id, ("iceberg", "delta"), get_connection)
    system = bind_system("lake", binding_of("lake", conn_id, connection, get_connection), "")
    if not isinstance(system, HasTableVersions):
        raise ConfigError(
            f"The connection {conn_id!r} is of type {connection.conn_type}, which has no tables with commits.",
            hint="Name a connection of type iceberg or delta.",
            key="lake_conn_id",
            value=conn_id,
        )
    options = (("table", table), *((("ref", branch),) if branch else ()))
    return system.first_commit(StreamSpec(table, options=options), at)


def _with_access(kind: str, root: str, conn_id: str, connection: Any, get_connection: GetConnection) -> SystemBinding:
    """Return the binding of a system under a root, with what opens it."""
    access = find_access(conn_id, connection, root, get_connection)
    return SystemBinding(kind, {"root": root, **access.options}, access.secret)


def _database(name: str, conn_id: str, connection: Any) -> SystemBinding:
    """Return the binding of a database that a ``jdbc`` connection describes.

    The URL is the host, the driver's class stands in the extra.
    """
    url = str(connection.host or "").strip()
    if not url.startswith("jdbc:"):
        raise ConfigError(
            f"The connection {conn_id!r}, which binds the system {name!r}, has no JDBC URL.",
            hint="Set its host to the connection URL, such as jdbc:postgresql://host:5432/database.",
            key="systems",
            value=conn_id,
        )
    extra = extra_of(conn_id, connection)
    options: dict[str, Any] = {"format": "jdbc", "url": url}
    if extra.get("driver_class"):
        options["driver"] = extra["driver_class"]
    if connection.login:
        options["user"] = connection.login
    if connection.password:
        options["password"] = connection.password
    return SystemBinding("spark", options, frozenset({"password", "url"}))  # a URL may hold a password, too


def _iceberg(conn_id: str, connection: Any) -> SystemBinding:
    """Return the binding of a catalog of Iceberg, by the fields of Airflow's own provider.

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


def _delta(conn_id: str, connection: Any, get_connection: GetConnection) -> SystemBinding:
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


def root_of(conn_id: str, connection: Any) -> str:
    """Return the root of topics and run records that a ``samza`` connection names.

    Its field ``root``, else its host or URI path.
    """
    root = str(extra_of(conn_id, connection).get("root") or connection.host or "").strip()
    if not root:
        raise ConfigError(
            f"The Samza connection {conn_id!r} has no root.",
            hint=f"Set it, for example: {adding(conn_id, 'samza')}.",
            key="root",
            value=conn_id,
        )
    return root


def text_map(name: str, value: Any) -> dict[str, str]:
    """Return settings as text by key, from a mapping or from JSON text (as a connection's form stores it)."""
    settings = mapping_of(value)
    if settings is None:
        raise ConfigError(
            f"{name} is not a mapping of settings.",
            hint=f'Write {name} as {{"key": "value"}}.',
            key=name,
            value=type(value).__name__,
        )
    return {str(key): option_text(item) for key, item in settings.items()}

"""The id of the Samza connection, which Dag files give as ``conn_id`` or, by Airflow's habit, as ``samza_conn_id``."""

from __future__ import annotations

from airflow_samza.errors import ConfigError

DEFAULT_CONNECTION = "samza_default"


def connection_id(what: str, conn_id: str | None, samza_conn_id: str | None) -> str:
    """Return the connection that ``what`` (a task, a group, a hook) names under either name, or the default.

    >>> connection_id("The task 'views'", None, "samza_eu")
    'samza_eu'
    """
    if conn_id is not None and samza_conn_id is not None and conn_id != samza_conn_id:
        raise ConfigError(
            f"{what} has conn_id={conn_id!r} and samza_conn_id={samza_conn_id!r}, which mean the same parameter.",
            hint="Leave one of them out (default_args count, too).",
            key="samza_conn_id",
            value=samza_conn_id,
        )
    found = conn_id if conn_id is not None else samza_conn_id
    return DEFAULT_CONNECTION if found is None else found

"""An Airflow connection as an environment of the command line, for ``--conn-id``."""

from __future__ import annotations

from airflow_samza.cli.environment import Environment


def environment_of(conn_id: str) -> Environment:
    """Return the root of a Samza connection, and what opens it; this process opens it so from now on.

    Systems are bound by connections in Dag files alone, so there are none.
    """
    from airflow_samza.provider.hooks import SamzaHook

    hook = SamzaHook(conn_id)
    return Environment(conn_id, hook.root, origin=f"the connection {conn_id!r}", access=hook.access)

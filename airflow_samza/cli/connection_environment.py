"""An Airflow connection as an environment of the command line, for ``--conn-id``."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager

from airflow_samza.cli.environment import Environment
from airflow_samza.launch.programs import variables_set

_PROCESS = "_AIRFLOW_PROCESS_CONTEXT"


def environment_of(conn_id: str) -> Environment:
    """Return the root of a Samza connection, and what opens it; this process opens it so from now on.

    Systems are bound by connections in Dag files alone, so there are none.
    """
    from airflow_samza.provider.hooks.samza import SamzaHook

    with looking_in_database():
        hook = SamzaHook(conn_id)
        return Environment(conn_id, hook.root, origin=f"the connection {conn_id!r}", access=hook.access)


def looking_in_database() -> AbstractContextManager[None]:
    """Have Airflow look connections up in its database, too, as its own commands do.

    Without the variable it takes a process that is none of its own for a task's, which asks the API server.
    """
    return variables_set({_PROCESS: os.environ.get(_PROCESS) or "server"})

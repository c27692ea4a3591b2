"""An Airflow connection as an environment of the command line, for ``--conn-id``."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from airflow_samza.cli.environment import Environment

_PROCESS = "_AIRFLOW_PROCESS_CONTEXT"


def environment_of(conn_id: str) -> Environment:
    """Return the root of a Samza connection, and what opens it; this process opens it so from now on.

    Systems are bound by connections in Dag files alone, so there are none.
    """
    from airflow_samza.provider.hooks.samza import SamzaHook

    with looking_in_database():
        hook = SamzaHook(conn_id)
        return Environment(conn_id, hook.root, origin=f"the connection {conn_id!r}", access=hook.access)


@contextmanager
def looking_in_database() -> Iterator[None]:
    """Have Airflow look connections up in its database, too, as its own commands do.

    Without the variable it takes a process that is none of its own for a task's, which asks the API server.
    """
    with variable_set(_PROCESS, os.environ.get(_PROCESS) or "server"):
        yield


@contextmanager
def variable_set(name: str, value: str) -> Iterator[None]:
    """Set a variable of the environment for a while."""
    former = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        os.environ.pop(name)
        if former is not None:
            os.environ[name] = former

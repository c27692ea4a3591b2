"""Ids of Samza connections, the extra fields of all kinds of connections, and their secrets in logs.

Hooks, operators and sensors read connections by them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TypeVar

from airflow_samza.errors import ConfigError
from airflow_samza.secrecy import secret_texts
from airflow_samza.systems.filesystems.root_access import RootAccess
from airflow_samza.systems.system import SystemBinding

HasSecrets = TypeVar("HasSecrets", SystemBinding, RootAccess)


def extra_of(conn_id: str, connection: Any) -> dict[str, Any]:
    """Return a connection's extra fields; ``{}`` when it has none."""
    extra = mapping_of(connection.extra)
    if extra is None:
        # Without the value: an extra field may hold a password.
        raise ConfigError(
            f"The extra of the connection {conn_id!r} is not a JSON object.",
            hint="Correct it.",
            key="extra",
            value=conn_id,
        )
    return {**extra}


def mapping_of(value: Any) -> Mapping[str, Any] | None:
    """Return a mapping, which may be JSON text, as forms keep one: ``{}`` of nothing, and None of anything else."""
    if value in (None, ""):
        return {}
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return None
    return value if isinstance(value, Mapping) else None


def masked(options: HasSecrets) -> HasSecrets:
    """Have Airflow's logs mask every secret of options, also those that it does not know by their names."""
    from airflow.sdk.log import mask_secret

    for name in options.secret:
        for text in secret_texts(options.options[name]):
            mask_secret(text)
    return options


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
    chosen = conn_id if conn_id is not None else samza_conn_id
    return DEFAULT_CONNECTION if chosen is None else chosen

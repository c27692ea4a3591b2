"""Connections of any type: their ids, extra fields and secrets, and the error for one that is not there.

Hooks, operators and sensors read connections by them. Airflow's command line, environment and page define connections
alike; hints show the first.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, TypeVar

from airflow_samza.application.rejections import did_you_mean
from airflow_samza.errors import ConfigError
from airflow_samza.provider.airflow_versions import AirflowNotFoundException
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


_EXTRAS: Mapping[str, Mapping[str, str]] = {
    "samza": {"root": "/data/samza"},
    "fs": {"path": "/data"},
    "kafka": {"bootstrap.servers": "broker:9092"},
    "delta": {"root": "/data/lake"},
}
_PLACES: Mapping[str, str] = {
    "jdbc": "--conn-host jdbc:postgresql://host:5432/database",
    "spark": "--conn-host spark://host --conn-port 7077",
    "spark_connect": "--conn-host sc://host --conn-port 15002",
}

_VARIABLE = "AIRFLOW_CONN_"


def adding(conn_id: str, conn_type: str) -> str:
    r"""Return an example of the command that defines a connection of a type.

    >>> adding("lake", "fs")
    'airflow connections add lake --conn-type fs --conn-extra \'{"path": "/data"}\''
    """
    extra = _EXTRAS.get(conn_type)
    more = f"--conn-extra '{json.dumps(extra)}'" if extra is not None else _PLACES.get(conn_type, "")
    return f"airflow connections add {conn_id} --conn-type {conn_type} {more}".rstrip()


def candidate_ids(others: Iterable[str] = ()) -> list[str]:
    """Return the ids of connections that are known without asking: of the environment, and ``others`` that are named.

    Airflow lists connections for nobody but its own commands and page.
    """
    inherited = (name.removeprefix(_VARIABLE).lower() for name in os.environ if name.startswith(_VARIABLE))
    return sorted({*inherited, *others})


def defined(
    conn_id: str, types: Collection[str], get_connection: Callable[[str], Any], others: Iterable[str] = ()
) -> Any:
    """Return a connection, which has one of the types where all is well; one that is not there is an error.

    ``others`` are ids of connections that are named where this one is.
    """
    try:
        return get_connection(conn_id)
    except AirflowNotFoundException:
        raise not_defined(conn_id, types, candidates=candidate_ids(others)) from None


def not_defined(
    conn_id: str, types: Collection[str], *, said: str = "", binds: str = "", candidates: Iterable[str] = ()
) -> ConfigError:
    """Return the error for a connection that is not there.

    :param types: The types that it may have, the usual one first.
    :param said: The same in words; None of the types is known to be the right one, where it is given.
    :param binds: The system that it binds, where it binds one.
    :param candidates: Ids of connections among which a near one is looked for.
    """
    whose = f", by which the system {binds!r} is bound" if binds else ""
    near = did_you_mean(conn_id, [other for other in candidates if other != conn_id])
    usual = next(iter(types))
    others = f" ({' or '.join(types)})" if len(types) > 1 else ""
    how = (
        f"Define it with the type of what it binds: {said}; for example: {adding(conn_id, usual)}."
        if said
        else f"Define it{others}, for example: {adding(conn_id, usual)}."
    )
    return ConfigError(
        f"The connection {conn_id!r} is not defined{whose}.",
        hint=near + how,
        key="systems" if binds else "conn_id",
        value=conn_id,
    )

"""From Airflow's connections to plain values for Spark: master, deploy mode, settings; options of its readers.

The Spark provider reads its own connections (its hooks know every form that they may have, and unpack a keytab); what
it found becomes a master URL, a deploy mode and Spark settings, so that nothing below knows Airflow. The hooks of the
runtime and of pushes take their Spark from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from airflow_samza.errors import ConfigError, RuntimeMissing
from airflow_samza.launch.masters import DEFAULT_MASTER, SubmitOptions, options_for, parse_master
from airflow_samza.provider.connections.fields import extra_of

# What the Spark provider's hook finds in a connection, and the Spark setting that says the same.
_SETTING_OF = {
    "queue": "spark.yarn.queue",
    "namespace": "spark.kubernetes.namespace",
    "principal": "spark.kerberos.principal",
    "keytab": "spark.kerberos.keytab",
}

CONNECT_TYPE = "spark_connect"

# The Spark provider makes these types of URIs such as k8s://https://host, and reads them.
SUBMIT_TYPES = ("spark", "yarn", "k8s", "local")


@dataclass(frozen=True)
class SparkPlace:
    """The place where stages run. ``master`` may hold a token; ``conf`` are the connection's Spark settings."""

    master: str = field(default=DEFAULT_MASTER, repr=False)
    submit: SubmitOptions = field(default_factory=SubmitOptions)
    conf: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def in_cluster(self) -> bool:
        """Return whether drivers run in a cluster, so that the worker may go."""
        return parse_master(self.master).is_submitted and self.submit.in_cluster


def spark_place(conn_id: str, connection: Any, start_seconds: float) -> SparkPlace:
    """Return the place that a Spark connection names; ``start_seconds`` bounds a driver's start."""
    kind = str(connection.conn_type or "")
    if kind == CONNECT_TYPE:
        from airflow.providers.apache.spark.hooks.spark_connect import SparkConnectHook

        return SparkPlace(_checked(conn_id, SparkConnectHook(conn_id).get_connection_url()))
    if kind not in SUBMIT_TYPES:
        raise ConfigError(
            f"The connection {conn_id!r} of type {kind!r} is no Spark.",
            hint="Stages run on a connection of type spark (local[*], "
            "spark://host:7077, yarn, k8s://…) or spark_connect.",
            key="spark_conn_id",
            value=conn_id,
        )
    resolved = _resolved(conn_id)
    master = _checked(conn_id, _with_scheme(resolved["master"]))
    named = extra_of(conn_id, connection).get("spark-binary")  # the hook's own default is whatever is on PATH
    asked = SubmitOptions(resolved["deploy_mode"] or "client", str(named or ""), start_seconds)
    submit = options_for(parse_master(master), asked)
    return SparkPlace(master, submit, {key: str(resolved[name]) for name, key in _SETTING_OF.items() if resolved[name]})


def _resolved(conn_id: str) -> dict[str, Any]:
    """Return the place that the Spark provider makes of a connection of its type."""
    from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook

    try:
        resolved: dict[str, Any] = SparkSubmitHook(conn_id=conn_id)._connection
    except (RuntimeError, NameError, ValueError) as error:
        if isinstance(error, NameError) or "kubernetes" in str(error).lower():  # it needs Kubernetes' client
            raise RuntimeMissing(
                f"The connection {conn_id!r} names a Kubernetes, which Airflow's Spark provider reads only with its "
                "Kubernetes part.",
                hint="Install it: pip install 'apache-airflow-providers-apache-spark[cncf-kubernetes]'.",
            ) from error
        raise ConfigError(
            f"Airflow's Spark provider rejects the connection {conn_id!r}: {error}",
            hint="Correct the connection.",
            key="spark_conn_id",
            value=conn_id,
        ) from error
    return resolved


def _with_scheme(master: str) -> str:
    """Return the URL of a standalone cluster with its scheme, which releases 5 of the Spark provider leave out.

    >>> [_with_scheme(master) for master in ("here:7077", "spark://here:7077", "local[2]", "yarn")]
    ['spark://here:7077', 'spark://here:7077', 'local[2]', 'yarn']
    """
    return f"spark://{master}" if ":" in master and "://" not in master else master


def _checked(conn_id: str, master: str) -> str:
    try:
        return parse_master(master).url
    except ConfigError as error:
        raise ConfigError(
            f"The Spark connection {conn_id!r}: {error.sentence}", hint=error.hint, key="spark_conn_id", value=conn_id
        ) from None


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
    options = {"user": connection.login, "password": connection.password}
    options["driver"] = extra.get("driver_class") or extra.get("driver")
    if host.startswith("jdbc:"):
        options["url"] = host
    elif kind in _DRIVERS:
        name, driver, port = _DRIVERS[kind]
        options["url"] = f"jdbc:{name}://{host}:{connection.port or port}/{connection.schema or ''}"
        options["driver"] = options["driver"] or driver
    return {name: str(value) for name, value in options.items() if value}

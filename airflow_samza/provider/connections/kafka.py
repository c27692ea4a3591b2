"""Airflow's connections of type ``kafka``, as the provider of Kafka has them: the extra holds librdkafka's settings."""

from __future__ import annotations

from typing import Any

from airflow_samza.errors import ConfigError
from airflow_samza.provider.connections.fields import extra_of
from airflow_samza.provider.connections.not_defined import adding
from airflow_samza.systems.kafka.access import ADDRESSES, PASSWORD, USER, shared_options
from airflow_samza.systems.system import SystemBinding


def kafka_binding(name: str, conn_id: str, connection: Any) -> SystemBinding:
    """Return the binding of the system ``name`` that a connection gives.

    Host, port, login and password stand for settings that the extra leaves out, as in
    ``kafka://user:password@broker:9092``. What the extra says for consumers and producers of other operators (their
    group, where they begin, callbacks) is left out.
    """
    options = shared_options(extra_of(conn_id, connection))
    if connection.host and not options.get(ADDRESSES):
        options[ADDRESSES] = f"{connection.host}:{connection.port}" if connection.port else connection.host
    for setting, value in ((USER, connection.login), (PASSWORD, connection.password)):
        if value and setting not in options:
            options[setting] = value
    if not options.get(ADDRESSES):
        raise ConfigError(
            f"The connection {conn_id!r}, which binds the system {name!r}, has no {ADDRESSES}.",
            hint=f"Set it, for example: {adding(conn_id, 'kafka')}.",
            key="systems",
            value=conn_id,
        )
    return _masked(SystemBinding("kafka", options))


def _masked(binding: SystemBinding) -> SystemBinding:
    """Have Airflow's logs mask every secret, also those that it does not know by their names."""
    from airflow.sdk.log import mask_secret

    for name in binding.secret:
        mask_secret(str(binding.options[name]))
    return binding

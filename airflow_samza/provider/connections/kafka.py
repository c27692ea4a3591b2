"""Airflow's connections of type ``kafka``: the systems that they bind, and their brokers for triggers and sensors.

As the provider of Kafka has them, the extra holds librdkafka's settings. The binding of systems, the sensor of lags and
the triggers on topics use it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_samza.errors import ConfigError
from airflow_samza.provider.connections.fields import adding, defined, extra_of, masked
from airflow_samza.systems.kafka.access import ADDRESSES, PASSWORD, USER, access_of, shared_options
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
    return masked(SystemBinding("kafka", options))


if TYPE_CHECKING:
    from airflow_samza.systems.kafka.brokers import Brokers

DEFAULT_KAFKA = "kafka_default"
"""The connection that Airflow's own provider of Kafka takes where none is named, too."""

ANSWER_SECONDS = 20.0
"""Seconds within which brokers have to answer here."""


def find_brokers(conn_id: str) -> Brokers:
    """Return the brokers of a connection of type ``kafka``, once they let us in; blocks for at most 20 s or so."""
    from airflow.sdk import BaseHook

    connection = defined(conn_id, ("kafka",), BaseHook.get_connection)
    if connection.conn_type != "kafka":
        raise ConfigError(
            f"The connection {conn_id!r} is of type {connection.conn_type!r}, and brokers of Kafka are asked with one "
            "of type 'kafka'.",
            hint="Name such a connection.",
            key="conn_id",
            value=conn_id,
        )
    binding = kafka_binding(conn_id, conn_id, connection)

    # Loaded here: a Dag file that names a trigger needs no client of Kafka.
    from airflow_samza.systems.kafka.access_check import check_brokers
    from airflow_samza.systems.kafka.brokers import Brokers

    access = access_of(conn_id, binding)
    check_brokers(access, ANSWER_SECONDS)
    return Brokers(access, ANSWER_SECONDS)

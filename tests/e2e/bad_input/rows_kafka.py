"""Rows of Kafka's brokers: settings of a system, and reports of the client as a real broker makes it give them."""

from __future__ import annotations

import json
from typing import Any

from airflow.sdk import Connection
from confluent_kafka import KafkaError

from airflow_samza.provider.connections.bindings import binding_of
from airflow_samza.systems.kafka.access import KafkaAccess, access_of
from airflow_samza.systems.kafka.access_check import PATIENCE, check_brokers
from airflow_samza.systems.kafka.columns import MessageColumns
from airflow_samza.systems.kafka.connection_failures import (
    GROUP,
    READ,
    TOPIC,
    TRANSACTION,
    WRITE,
    connection_failure,
    missing_right,
)
from airflow_samza.systems.kafka.failures import (
    contended,
    expired,
    markers_missing,
    missing,
    other_count,
    published_before,
    recreated,
    silent,
    superseded,
    too_large,
)
from airflow_samza.systems.kafka.output import IN_TRANSACTIONS, OutputOptions
from airflow_samza.systems.system import StreamSpec, SystemBinding
from tests.e2e.bad_input.page import row
from tests.e2e.bad_input.scene import Scene, raised

PLANNED, BY_STAGE = "by `plan`", "by the stage"
BROKERS = {"bootstrap.servers": "kafka.invalid:9092"}
SASL = {
    **BROKERS,
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "PLAIN",
    "sasl.username": "etl",
    "sasl.password": "hunter2",
}


def access(settings: dict[str, Any], **changed: Any) -> KafkaAccess:
    named = {name.replace("_", "."): value for name, value in changed.items()}
    return access_of("events", SystemBinding("kafka", {**settings, **named}))


def reported(found: KafkaAccess, code: int, report: str) -> str:
    """The error that a report of the client leads to."""
    return str(
        connection_failure(found, KafkaError(code, f"sasl_ssl://kafka.invalid:9092/bootstrap: {report}"), PATIENCE)
    )


@row("kafka", "A connection without brokers", PLANNED)
def _(scene: Scene) -> str:
    made = Connection(conn_id="events", conn_type="kafka", extra=json.dumps({"group.id": "views"}))
    return raised(lambda: binding_of("events", "events", made, {"events": made}.__getitem__))


@row("kafka", "A setting that a system may not set", PLANNED)
def _(scene: Scene) -> str:
    return raised(lambda: access(BROKERS, auto_offset_reset="latest"))


@row("kafka", "A function that fetches tokens", PLANNED)
def _(scene: Scene) -> str:
    return raised(lambda: access_of("events", SystemBinding("kafka", {**BROKERS, "oauth_cb": "etl.tokens"})))


@row("kafka", "A file for TLS that does not exist", PLANNED)
def _(scene: Scene) -> str:
    return raised(lambda: access(BROKERS, ssl_ca_location="/etc/kafka/authority.pem"))


@row("kafka", "A setting that Kafka's client does not know", PLANNED)
def _(scene: Scene) -> str:
    return raised(lambda: check_brokers(access(BROKERS, security_protocol="TLS")))


@row("kafka", "A wrong password", PLANNED)
def _(scene: Scene) -> str:
    report = "SASL authentication error: Authentication failed: Invalid username or password (after 302ms in state X)"
    return reported(access(SASL), KafkaError._AUTHENTICATION, report)


@row("kafka", "A mechanism that brokers do not take", PLANNED)
def _(scene: Scene) -> str:
    report = (
        "SASL PLAIN mechanism handshake failed: Broker: Unsupported SASL mechanism: broker's supported mechanisms: "
        "SCRAM-SHA-512,OAUTHBEARER (after 303ms in state AUTH_HANDSHAKE)"
    )
    return reported(access(SASL), KafkaError._AUTHENTICATION, report)


@row("kafka", "A certificate of brokers that is not trusted", PLANNED)
def _(scene: Scene) -> str:
    report = "SSL handshake failed: error:0A000086:SSL routines::certificate verify failed: broker certificate could"
    return reported(access(SASL), KafkaError._SSL, report)


@row("kafka", "Brokers that want a certificate of the client", PLANNED)
def _(scene: Scene) -> str:
    report = "Receive failed: error:0A000412:SSL routines::ssl/tls alert bad certificate: SSL alert number 42"
    return reported(access(BROKERS, security_protocol="SSL"), KafkaError._TRANSPORT, report)


@row("kafka", "TLS where brokers speak none", PLANNED)
def _(scene: Scene) -> str:
    report = (
        "SSL handshake failed: Disconnected: SSL connection closed by peer: connecting to a PLAINTEXT broker listener? "
        "(after 14ms in state SSL_HANDSHAKE)"
    )
    return reported(access(SASL), KafkaError._TRANSPORT, report)


@row("kafka", "Brokers that are down", PLANNED)
def _(scene: Scene) -> str:
    report = "Connect to ipv4#10.1.2.3:9092 failed: Connection refused (after 0ms in state CONNECT)"
    return reported(access(BROKERS), KafkaError._TRANSPORT, report)


@row("kafka", "Brokers whose name is not known", PLANNED)
def _(scene: Scene) -> str:
    report = "Failed to resolve 'kafka.invalid:9092': Name or service not known (after 0ms in state CONNECT)"
    return reported(access(BROKERS), KafkaError._RESOLVE, report)


@row("kafka", "Brokers that do not answer", PLANNED)
def _(scene: Scene) -> str:
    return str(connection_failure(access(BROKERS), None, PATIENCE))


@row("kafka", "A topic that may not be read", PLANNED)
def _(scene: Scene) -> str:
    return str(missing_right(access(SASL), TOPIC, "views", READ))


@row("kafka", "A consumer group that may not be used", PLANNED)
def _(scene: Scene) -> str:
    return str(missing_right(access(SASL), GROUP, "dashboards", READ))


@row("kafka", "Transactional ids that may not be used", PLANNED)
def _(scene: Scene) -> str:
    return str(missing_right(access(SASL), TRANSACTION, "page-views", WRITE))


def columns(**declared: Any) -> str:
    """The error of an input whose declaration does not fit."""
    stream = StreamSpec("views", **{"schema": "id bigint, at timestamp", **declared})
    return raised(lambda: MessageColumns.of(stream).check_sliced(stream.timestamp, "events"))


@row("kafka", "A topic that does not exist", PLANNED)
def _(scene: Scene) -> str:
    return str(missing("views", "events"))


@row("kafka", "An input sliced by a column inside of its messages", PLANNED)
def _(scene: Scene) -> str:
    return columns(timestamp="at")


@row("kafka", "An option that topics do not have", PLANNED)
def _(scene: Scene) -> str:
    return columns(options=(("group.id", "views"),))


@row("kafka", "An option that names a column which is not declared", PLANNED)
def _(scene: Scene) -> str:
    return columns(options=(("key_column", "member"),))


@row("kafka", "A column of another type than its part of a message has", PLANNED)
def _(scene: Scene) -> str:
    return columns(options=(("offset_column", "at"),))


@row("kafka", "Messages that retention has deleted before they were read", "by `plan`, or by the stage")
def _(scene: Scene) -> str:
    return str(expired("views", 2, 100, 1350))


@row("kafka", "A topic that was created again", BY_STAGE)
def _(scene: Scene) -> str:
    return str(recreated("views", "events"))


@row("kafka", "A topic that got more partitions", BY_STAGE)
def _(scene: Scene) -> str:
    return str(other_count("views", "events", 6, 4))


@row("kafka", "Brokers that stop answering", BY_STAGE)
def _(scene: Scene) -> str:
    return str(
        silent(
            system="events",
            brokers="kafka.invalid:9092",
            stream="views",
            partition=2,
            position=1350,
            seconds=180,
            why="no answer came",
        )
    )


def output(**options: str) -> str:
    """The error of an output with these options."""
    return raised(lambda: OutputOptions.of(StreamSpec("slow", options=tuple(options.items()), written=True)))


@row("kafka", "An output with an option that is not known", PLANNED)
def _(scene: Scene) -> str:
    return output(delivry="at_least_once")


@row("kafka", "An output with a delivery that is not known", PLANNED)
def _(scene: Scene) -> str:
    return output(delivery="once")


@row("kafka", "A rerun of what is published already", "by `plan`, or by the stage")
def _(scene: Scene) -> str:
    return str(published_before("slow", 12_000, "generation 1.1 of this run"))


@row("kafka", "A message that is larger than the topic takes", BY_STAGE)
def _(scene: Scene) -> str:
    return str(too_large("slow", b"de", 1_600_120, 1_048_588))


@row("kafka", "A publication whose stage was cleared meanwhile", BY_STAGE)
def _(scene: Scene) -> str:
    return str(superseded("slow", "1.1", "1.2"))


@row("kafka", "A topic of markers that was deleted", BY_STAGE)
def _(scene: Scene) -> str:
    return str(markers_missing("airflow-samza-publications", "events", "slow"))


@row("kafka", "Two runners that publish the same", BY_STAGE)
def _(scene: Scene) -> str:
    return str(contended("slow", "1.1", IN_TRANSACTIONS))

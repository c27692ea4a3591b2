"""Rights that an output needs, at brokers with a log-in: the plan names those that are missing."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from airflow_samza.errors import TopicError
from airflow_samza.systems.kafka.markers import TOPIC
from airflow_samza.systems.kafka.outputs import KafkaOutputs
from airflow_samza.systems.system import StreamSpec
from tests.support.kafka_outputs import ids_of, new_topic, outputs, publication, read_all, rows, stage, stream
from tests.support.one_kafka import USERS
from tests.support.waiting import until

if TYPE_CHECKING:
    from demo.kafka import Kafka

pytestmark = [pytest.mark.extended, pytest.mark.kafka, pytest.mark.timeout(300)]

PREFIX, LITERAL = ResourcePatternType.PREFIXED, ResourcePatternType.LITERAL


def permit(kafka: Kafka, *rights: tuple[ResourceType, str, ResourcePatternType, AclOperation]) -> None:
    admin = AdminClient({"bootstrap.servers": kafka.address})
    allow = AclPermissionType.ALLOW
    wanted = [AclBinding(kind, name, how, "User:alice", "*", what, allow) for kind, name, how, what in rights]
    for answer in admin.create_acls(wanted).values():
        answer.result(30)


def of_alice(kafka: Kafka, root: Path) -> KafkaOutputs:
    security = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "alice",
        "sasl.password": USERS["alice"],
        "ssl.ca.location": str(kafka.certificates.authority),
    }
    return outputs(kafka.sasl_address, root, 30.0, **security)


def answer(found: KafkaOutputs, spec: StreamSpec) -> str:
    """Return the sentence with which an output is rejected; empty if it is not."""
    try:
        found.check_writable(spec)
    except TopicError as error:
        return error.sentence
    return ""


def test_rejects_an_output_step_by_step_until_all_that_it_needs_is_permitted(kafka: Kafka, tmp_path: Path) -> None:
    spec = stream(new_topic())
    outputs(kafka.address, tmp_path).create([spec])
    kind = ResourceType.TOPIC
    # A broker applies a right some moments after it has confirmed it.
    permit(kafka, (kind, spec.name, LITERAL, AclOperation.DESCRIBE), (kind, TOPIC, LITERAL, AclOperation.DESCRIBE))
    found = of_alice(kafka, tmp_path)
    until(lambda: f"do not let the user 'alice' write the topic '{spec.name}'" in answer(found, spec), 60)
    permit(kafka, (kind, spec.name, LITERAL, AclOperation.WRITE))
    until(lambda: f"do not let the user 'alice' write the topic '{TOPIC}'" in answer(found, spec), 60)
    permit(kafka, (kind, TOPIC, LITERAL, AclOperation.WRITE))
    until(lambda: f"do not let the user 'alice' read the topic '{TOPIC}'" in answer(found, spec), 60)
    permit(kafka, (kind, TOPIC, LITERAL, AclOperation.READ))
    until(lambda: "do not let the user 'alice' send messages with the transactional id" in answer(found, spec), 60)
    found.check_writable(stream(spec.name, delivery="at_least_once"))
    transactional = ResourceType.TRANSACTIONAL_ID
    permit(kafka, (transactional, "airflow-samza", PREFIX, AclOperation.WRITE))
    until(lambda: not answer(found, spec), 60)
    found.publish(spec, publication(stage(found, spec, [rows(0, 10)])))
    assert sorted(ids_of(read_all(kafka.address, spec.name))) == list(range(10))

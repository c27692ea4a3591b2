"""Rights that an output needs, at brokers with a log-in: the plan names those that are missing."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka.admin import AclOperation, AdminClient, ResourceType

from airflow_samza.errors import TopicError
from airflow_samza.systems.kafka.markers import TOPIC
from airflow_samza.systems.kafka.outputs import KafkaOutputs
from airflow_samza.systems.system import StreamSpec
from tests.support.kafka_outputs import ids_of, new_topic, outputs, publication, read_all, rows, stage, stream
from tests.support.kafka_users import PREFIXED, logged_in, permit
from tests.support.waiting import until

if TYPE_CHECKING:
    from demo.kafka import Kafka

pytestmark = [pytest.mark.extended, pytest.mark.kafka, pytest.mark.timeout(300)]


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
    admin = AdminClient({"bootstrap.servers": kafka.address})
    permit(admin, "alice", AclOperation.DESCRIBE, spec.name)
    permit(admin, "alice", AclOperation.DESCRIBE, TOPIC)
    found = outputs(kafka.sasl_address, tmp_path, 30.0, **logged_in(kafka, "alice"))
    until(lambda: f"do not let the user 'alice' write the topic '{spec.name}'" in answer(found, spec), 60)
    permit(admin, "alice", AclOperation.WRITE, spec.name)
    until(lambda: f"do not let the user 'alice' write the topic '{TOPIC}'" in answer(found, spec), 60)
    permit(admin, "alice", AclOperation.WRITE, TOPIC)
    until(lambda: f"do not let the user 'alice' read the topic '{TOPIC}'" in answer(found, spec), 60)
    permit(admin, "alice", AclOperation.READ, TOPIC)
    until(lambda: "do not let the user 'alice' send messages with the transactional id" in answer(found, spec), 60)
    found.check_writable(stream(spec.name, delivery="at_least_once"))
    permit(admin, "alice", AclOperation.WRITE, "airflow-samza", ResourceType.TRANSACTIONAL_ID, PREFIXED)
    until(lambda: not answer(found, spec), 60)
    found.publish(spec, publication(stage(found, spec, [rows(0, 10)])))
    assert sorted(ids_of(read_all(kafka.address, spec.name))) == list(range(10))

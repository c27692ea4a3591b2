"""The broker that tests use lets clients in as they identify themselves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from demo.kafka import ADMIN, Kafka

pytestmark = pytest.mark.kafka


SASL = {"security.protocol": "SASL_SSL", "sasl.username": ADMIN, "sasl.password": "admin-secret"}
TOKEN = {"enable.sasl.oauthbearer.unsecure.jwt": "true", "sasl.oauthbearer.config": f"principal={ADMIN}"}


@pytest.mark.parametrize(
    "client",
    [
        {**SASL, "sasl.mechanism": "PLAIN"},
        {**SASL, "sasl.mechanism": "SCRAM-SHA-512"},
        {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER", **TOKEN},
    ],
    ids=lambda client: client["sasl.mechanism"],
)
def test_a_user_logs_in_by_each_mechanism(kafka: Kafka, client: dict[str, str]) -> None:
    settings: dict[str, Any] = {
        **client,
        "bootstrap.servers": kafka.sasl_address,
        "ssl.ca.location": str(kafka.certificates.authority),
    }
    assert AdminClient(settings).list_topics(timeout=30).brokers


def test_a_certificate_names_its_user(kafka: Kafka, tmp_path: Path) -> None:
    certificate = str(kafka.certificates.client(ADMIN))
    settings: dict[str, Any] = {
        "bootstrap.servers": kafka.mtls_address,
        "security.protocol": "SSL",
        "ssl.ca.location": str(kafka.certificates.authority),
        "ssl.certificate.location": certificate,
        "ssl.key.location": certificate,
    }
    admin = AdminClient(settings)
    assert admin.create_topics([NewTopic("by-certificate", 1, 1)])["by-certificate"].result(30) is None

"""Missing rights and failed log-ins are one sentence of ``plan``, within seconds: each case at a real broker."""

from __future__ import annotations

import socket
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka.admin import AclOperation, AdminClient, NewTopic, ResourceType

from airflow_samza.errors import ConfigError, SamzaError, StorageUnavailable, TopicError
from airflow_samza.systems.kafka.access import KafkaAccess, access_of
from airflow_samza.systems.kafka.access_check import (
    check_brokers,
    check_group,
    check_readable,
    check_transactional_id,
    check_writable,
)
from airflow_samza.systems.system import SystemBinding
from demo.kafka import Kafka
from tests.support.kafka_users import PREFIXED, logged_in, permit

pytestmark = [pytest.mark.extended, pytest.mark.kafka]

SHORT = 2.0
"""Patience where a broker never answers."""


class Client:
    """Accesses of the user bob to a broker, with single settings changed."""

    def __init__(self, kafka: Kafka) -> None:
        self.kafka = kafka
        self.sasl = logged_in(kafka, "bob")
        pem = str(kafka.certificates.client("bob"))
        self.mtls = {
            "bootstrap.servers": kafka.mtls_address,
            "security.protocol": "SSL",
            "ssl.ca.location": str(kafka.certificates.authority),
            "ssl.certificate.location": pem,
            "ssl.key.location": pem,
        }

    def by_sasl(self, **changed: Any) -> KafkaAccess:
        return access(self.sasl, changed)

    def by_certificate(self, **changed: Any) -> KafkaAccess:
        return access(self.mtls, changed)


def access(settings: dict[str, str], changed: dict[str, Any]) -> KafkaAccess:
    named = {name.replace("_", "."): value for name, value in changed.items()}
    return access_of("events", SystemBinding("kafka", {**settings, **named}))


@pytest.fixture(scope="module")
def client(kafka: Kafka) -> Client:
    return Client(kafka)


@pytest.fixture
def closed_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@pytest.fixture
def silent_port() -> Iterator[int]:
    """A port that takes connections, and never says anything."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield int(listener.getsockname()[1])


def rejected(found: KafkaAccess, kind: type[SamzaError] = TopicError, patience: float = 30.0) -> str:
    with pytest.raises(SamzaError) as caught:
        check_brokers(found, patience)
    assert type(caught.value) is kind
    return str(caught.value).replace(found.addresses, "ADDRESS")


@pytest.mark.parametrize(
    "changed",
    [
        {"sasl_mechanism": "PLAIN"},
        {"sasl_mechanism": "SCRAM-SHA-512"},
        {
            "sasl_mechanism": "OAUTHBEARER",
            "enable_sasl_oauthbearer_unsecure_jwt": True,
            "sasl_oauthbearer_config": "principal=bob",
        },
    ],
    ids=lambda changed: changed["sasl_mechanism"],
)
def test_a_user_is_let_in_by_each_mechanism(client: Client, changed: dict[str, Any]) -> None:
    check_brokers(client.by_sasl(**changed))


def test_a_client_is_let_in_by_its_certificate(client: Client) -> None:
    check_brokers(client.by_certificate())


def test_certificates_and_keys_are_given_as_text_too(client: Client) -> None:
    authority = client.kafka.certificates.authority.read_text()
    pem = client.kafka.certificates.client("bob").read_text()
    key, mark, certificate = pem.partition("-----BEGIN CERTIFICATE-----")
    settings = {
        "bootstrap.servers": client.kafka.mtls_address,
        "security.protocol": "SSL",
        "ssl.ca.pem": authority,
        "ssl.certificate.pem": mark + certificate,
        "ssl.key.pem": key,
    }
    check_brokers(access(settings, {}))


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_rejects_a_user_when_the_password_is_wrong(client: Client, mechanism: str) -> None:
    said = rejected(client.by_sasl(sasl_mechanism=mechanism, sasl_password="hunter2"))
    assert said.startswith(
        f"The brokers ADDRESS of the system 'events' do not let the user 'bob' in by {mechanism}: Authentication failed"
    )
    assert "\n  Hint: Correct sasl.username and sasl.password of the connection" in said
    assert "hunter2" not in said


def test_rejects_a_user_when_brokers_do_not_take_the_mechanism(client: Client) -> None:
    assert rejected(client.by_sasl(sasl_mechanism="SCRAM-SHA-256")) == (
        "The brokers ADDRESS of the system 'events' do not take the mechanism SCRAM-SHA-256.\n"
        "  Hint: Set sasl.mechanism to one that they take: PLAIN, SCRAM-SHA-512, OAUTHBEARER."
    )


def test_rejects_a_token_when_brokers_do_not_take_it(client: Client) -> None:
    found = client.by_sasl(
        sasl_mechanism="OAUTHBEARER",
        sasl_username=None,
        sasl_password=None,
        enable_sasl_oauthbearer_unsecure_jwt=True,
        sasl_oauthbearer_config="principalClaimName=other principal=bob",
    )
    assert "do not let the holder of the token (OAUTHBEARER) in by OAUTHBEARER" in rejected(found)


def test_reports_an_endpoint_of_tokens_that_does_not_answer(client: Client, closed_port: int) -> None:
    found = client.by_sasl(
        sasl_mechanism="OAUTHBEARER",
        sasl_oauthbearer_method="oidc",
        sasl_oauthbearer_client_id="samza",
        sasl_oauthbearer_client_secret="hunter2",
        sasl_oauthbearer_token_endpoint_url=f"http://127.0.0.1:{closed_port}/token",
    )
    said = rejected(found, StorageUnavailable)
    assert said.startswith("There is no token for the brokers ADDRESS of the system 'events': ")
    assert "hunter2" not in said


def test_rejects_brokers_when_their_certificate_is_not_trusted(client: Client) -> None:
    assert rejected(client.by_sasl(ssl_ca_location=None)) == (
        "The brokers ADDRESS of the system 'events' show a certificate that is not trusted: unable to get local issuer "
        "certificate.\n  Hint: Give the certificate of the authority that signed theirs: ssl.ca.location (a file) or "
        "ssl.ca.pem (its text)."
    )


def test_rejects_brokers_when_their_certificate_has_another_name(client: Client) -> None:
    said = rejected(client.by_sasl(bootstrap_servers=f"localhost:{client.kafka.sasl_port}"))
    assert "is not trusted: Hostname mismatch, certificate is not valid for 'localhost'.\n" in said
    assert said.endswith("Name them as their certificate does.")


def test_rejects_a_client_when_brokers_want_its_certificate(client: Client) -> None:
    said = rejected(client.by_certificate(ssl_certificate_location=None, ssl_key_location=None))
    assert "do not accept the certificate of the client, or the lack of one: bad certificate.\n" in said


def test_rejects_plaintext_when_brokers_ask_for_tls(client: Client) -> None:
    said = rejected(access({"bootstrap.servers": client.kafka.sasl_address}, {}))
    assert said == (
        "The brokers ADDRESS of the system 'events' ask for TLS, and security.protocol is plaintext.\n"
        "  Hint: Set security.protocol to ssl, or sasl_ssl."
    )


def test_rejects_tls_when_brokers_speak_none(client: Client) -> None:
    said = rejected(client.by_sasl(bootstrap_servers=client.kafka.address))
    assert said.startswith("The brokers ADDRESS of the system 'events' speak no TLS at this address, and ")


def test_reports_brokers_when_they_close_what_does_not_log_in(client: Client) -> None:
    said = rejected(client.by_sasl(security_protocol="SSL"), StorageUnavailable, SHORT)
    assert "they close the connection of a client that does not log in (security.protocol is ssl).\n" in said
    assert "set security.protocol to sasl_ssl" in said


def test_reports_brokers_when_nobody_listens(closed_port: int) -> None:
    said = rejected(access({"bootstrap.servers": f"127.0.0.1:{closed_port}"}, {}), StorageUnavailable, SHORT)
    assert "cannot be asked: Connect to ipv4#ADDRESS failed: Connection refused.\n" in said


def test_reports_brokers_when_their_name_is_not_known() -> None:
    said = rejected(access({"bootstrap.servers": "kafka.invalid:9092"}, {}), StorageUnavailable, SHORT)
    assert "cannot be asked: Failed to resolve 'ADDRESS': " in said


def test_reports_brokers_when_they_never_answer(silent_port: int) -> None:
    said = rejected(access({"bootstrap.servers": f"127.0.0.1:{silent_port}"}, {}), StorageUnavailable, SHORT)
    assert "cannot be asked: no answer for 2 s.\n" in said


def test_one_broker_that_answers_is_enough(kafka: Kafka, closed_port: int) -> None:
    check_brokers(access({"bootstrap.servers": f"127.0.0.1:{closed_port},{kafka.address}"}, {}))


@pytest.mark.parametrize(
    "settings",
    [{"security.protocol": "TLS"}, {"sasl.mechanism": "PLAIN", "security.protocol": "SASL_SSL"}, {"no.such": "x"}],
)
def test_rejects_settings_when_the_client_does_not_know_them(settings: dict[str, str]) -> None:
    found = access({"bootstrap.servers": "127.0.0.1:1", **settings}, {})
    said = rejected(found, ConfigError)
    assert said.startswith("The settings of the system 'events' are rejected by Kafka's client: ")


def test_rejects_a_key_that_cannot_be_read_without_showing_it(client: Client) -> None:
    found = client.by_certificate(ssl_key_location=None, ssl_key_pem="-----BEGIN PRIVATE KEY-----\nhunter2")
    assert "hunter2" not in rejected(found, ConfigError)


class Rights:
    """Topics of a test, and what bob may do, given by the admin."""

    def __init__(self, kafka: Kafka) -> None:
        self.admin = AdminClient({"bootstrap.servers": kafka.address})
        self.unique = uuid.uuid4().hex[:8]

    def topic(self, *permitted: AclOperation) -> str:
        name = f"rights-{uuid.uuid4().hex[:8]}"
        self.admin.create_topics([NewTopic(name, 1, 1)])[name].result(30)
        for operation in permitted:
            permit(self.admin, "bob", operation, name)
        return name


@pytest.fixture
def rights(kafka: Kafka) -> Rights:
    return Rights(kafka)


@pytest.mark.parametrize("permitted", [[], [AclOperation.DESCRIBE], [AclOperation.WRITE]], ids=str)
def test_rejects_a_topic_when_it_may_not_be_read(client: Client, rights: Rights, permitted: list[AclOperation]) -> None:
    topic = rights.topic(*permitted)
    with pytest.raises(TopicError) as caught:
        check_readable(client.by_sasl(), [topic])
    assert str(caught.value).replace(topic, "T").replace(client.kafka.sasl_address, "ADDRESS") == (
        "The brokers ADDRESS of the system 'events' do not let the user 'bob' read the topic 'T'.\n"
        "  Hint: Grant it: kafka-acls --add --allow-principal User:bob --operation Read --topic T. Brokers give the same answer if the topic does not exist, and the user may not know."
    )


def test_a_topic_that_may_be_read_passes_and_may_not_be_written(client: Client, rights: Rights) -> None:
    topic = rights.topic(AclOperation.READ)
    check_readable(client.by_sasl(), [topic])
    with pytest.raises(TopicError, match=rf"do not let the user 'bob' write the topic '{topic}'\."):
        check_writable(client.by_sasl(), [topic])


def test_a_topic_that_may_be_written_passes(client: Client, rights: Rights) -> None:
    check_writable(client.by_certificate(), [rights.topic(AclOperation.WRITE)])


def test_a_topic_that_is_missing_passes(kafka: Kafka) -> None:
    check_readable(access({"bootstrap.servers": kafka.address}, {}), ["no-such-topic"])


def test_rejects_a_group_when_no_offsets_may_be_committed_for_it(client: Client, rights: Rights) -> None:
    group = f"group-{rights.unique}"
    with pytest.raises(TopicError, match=rf"do not let the user 'bob' commit offsets of the consumer group '{group}'"):
        check_group(client.by_sasl(), group)
    permit(rights.admin, "bob", AclOperation.READ, group, ResourceType.GROUP)
    check_group(client.by_sasl(), group)


def test_rejects_transactional_ids_when_nothing_may_be_sent_with_them(client: Client, rights: Rights) -> None:
    prefix = f"run-{rights.unique}"
    with pytest.raises(TopicError, match=rf"send messages with the transactional id '{prefix}-probe'") as caught:
        check_transactional_id(client.by_sasl(), prefix)
    assert "--operation Write --transactional-id" in caught.value.hint
    permit(rights.admin, "bob", AclOperation.WRITE, prefix, ResourceType.TRANSACTIONAL_ID, PREFIXED)
    check_transactional_id(client.by_sasl(), prefix)


def test_the_client_writes_nothing_of_a_failure_itself(client: Client, capfd: pytest.CaptureFixture[str]) -> None:
    rejected(client.by_sasl(sasl_password="hunter2"))
    assert capfd.readouterr() == ("", "")

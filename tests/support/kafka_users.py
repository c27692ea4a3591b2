"""Users of the one Kafka: how they log in with a password, and what the admin lets them do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

if TYPE_CHECKING:
    from demo.kafka import Kafka

LITERAL, PREFIXED = ResourcePatternType.LITERAL, ResourcePatternType.PREFIXED


def logged_in(kafka: Kafka, user: str) -> dict[str, Any]:
    """Return the settings of a client that logs in as a user."""
    return {
        "bootstrap.servers": kafka.sasl_address,
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": user,
        "sasl.password": kafka.users[user],
        "ssl.ca.location": str(kafka.certificates.authority),
    }


def permit(
    admin: AdminClient,
    user: str,
    operation: AclOperation,
    name: str,
    kind: ResourceType = ResourceType.TOPIC,
    pattern: ResourcePatternType = LITERAL,
) -> None:
    """Let a user do something; a broker applies a right some moments after it has confirmed it."""
    right = AclBinding(kind, name, pattern, f"User:{user}", "*", operation, AclPermissionType.ALLOW)
    admin.create_acls([right])[right].result(30)

"""Checks of what brokers permit, before a run: whether they let us in, and which rights we have there.

A client would try for ever; here the first lasting reason ends the question, and ``plan`` reports it within seconds.
The plan step asks it through the system, and so does the test of a connection.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer, TopicCollection
from confluent_kafka.admin import AclOperation, AdminClient

from airflow_samza.errors import SamzaError
from airflow_samza.systems.kafka.access import KafkaAccess
from airflow_samza.systems.kafka.brokers import ANSWER_SECONDS, answer_to
from airflow_samza.systems.kafka.clients import CLIENT_LOG
from airflow_samza.systems.kafka.connection_failures import (
    DELETE,
    GROUP,
    LASTING,
    READ,
    TOPIC,
    TRANSACTION,
    WRITE,
    connection_failure,
    has_other_protocol,
    missing_right,
    rejected_setting,
)
from airflow_samza.systems.kafka.failures import error_of
from airflow_samza.systems.kafka.pools import Shared, guarded, released

PATIENCE = 30.0
"""Seconds in which brokers have to answer: one that starts again does. Tasks wait longer for those that are away."""

_clients: Shared[KafkaAccess, AdminClient] = Shared()


def check_brokers(access: KafkaAccess, patience: float = PATIENCE) -> None:
    """Reject brokers that cannot be asked, with the reason; they are asked once per process and access."""
    _client(access, patience)


def check_readable(access: KafkaAccess, topics: Iterable[str], patience: float = PATIENCE) -> None:
    """Reject topics that may not be read; one that is missing passes."""
    _check_topics(access, topics, READ, patience)


def check_writable(access: KafkaAccess, topics: Iterable[str], patience: float = PATIENCE) -> None:
    """Reject topics that may not be written; one that is missing passes."""
    _check_topics(access, topics, WRITE, patience)


def check_own_topic(access: KafkaAccess, topic: str, beginning: str, patience: float = PATIENCE) -> None:
    """Reject a topic of a run's own that may not be written, read and deleted; all such names have one beginning."""
    for operation in (WRITE, READ, DELETE):
        _check_topics(access, [topic], operation, patience, beginning)


def check_group(access: KafkaAccess, group: str, patience: float = PATIENCE) -> None:
    """Reject a consumer group for which no offsets may be committed."""

    def ask() -> Any:
        (answer,) = (
            _client(access, patience)
            .describe_consumer_groups(
                [group], include_authorized_operations=True, request_timeout=_answer_seconds(patience)
            )
            .values()
        )
        return answer.result()

    _check(access, GROUP, group, READ, ask, patience)


def check_transactional_id(access: KafkaAccess, prefix: str, patience: float = PATIENCE) -> None:
    """Reject a prefix of transactional ids with which nothing may be sent.

    An id of its own is tried, since whoever takes an id up ends the transactions of its owner.
    """
    _client(access, patience)
    name = f"{prefix}-probe"
    settings = {**access.settings, "transactional.id": name, "log_level": 0}
    producer = Producer(settings, logger=CLIENT_LOG)
    try:
        producer.init_transactions(patience)
    except KafkaException as raised:
        error = error_of(raised)
        if error.code() == KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
            raise missing_right(access, TRANSACTION, name, WRITE) from raised
        raise connection_failure(access, error, patience) from raised
    finally:
        del producer  # an error would keep it, by this frame, and no child of this process can destroy it


def _check_topics(
    access: KafkaAccess, topics: Iterable[str], operation: str, patience: float, prefix: str | None = None
) -> None:
    for topic in sorted(set(topics)):

        def ask(topic: str = topic) -> Any:
            # No variable holds the client: an error would keep it, by this frame, until it is collected.
            (answer,) = (
                _client(access, patience)
                .describe_topics(
                    TopicCollection([topic]),
                    include_authorized_operations=True,
                    request_timeout=_answer_seconds(patience),
                )
                .values()
            )
            return answer.result()

        _check(access, TOPIC, topic, operation, ask, patience, prefix)


def _check(
    access: KafkaAccess,
    kind: str,
    name: str,
    operation: str,
    ask: Callable[[], Any],
    patience: float,
    prefix: str | None = None,
) -> None:
    """Reject a thing on which brokers, asked for it with our rights, do not permit an operation."""
    try:
        description = answer_to(ask, patience)
    except KafkaException as raised:
        error = error_of(raised)
        if error.code() in _DENIED:
            raise missing_right(access, kind, name, operation, prefix) from raised
        if error.code() in _MISSING:
            return
        raise connection_failure(access, error, patience) from raised
    permitted = description.authorized_operations
    if (
        permitted is not None and AclOperation[operation.upper()] not in permitted
    ):  # None: the brokers are too old to say so
        raise missing_right(access, kind, name, operation, prefix)


_DENIED = frozenset({KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.GROUP_AUTHORIZATION_FAILED})
_MISSING = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError.GROUP_ID_NOT_FOUND})


def _answer_seconds(patience: float) -> float:
    """Return for how long one request waits before it is sent again: a connection may be dead without a sign of it."""
    return min(ANSWER_SECONDS, patience / 3)


def _client(access: KafkaAccess, patience: float) -> AdminClient:
    return _clients.get(access, lambda: _connected(access, patience))


def _connected(access: KafkaAccess, patience: float) -> AdminClient:
    """Return a client that has had an answer of the brokers."""
    heard: list[KafkaError] = []
    try:
        # log_level 0: what it would log of each try is in the error, once.
        settings: dict[str, Any] = {**access.settings, "error_cb": heard.append, "log_level": 0}
        client = guarded(AdminClient(settings, logger=CLIENT_LOG))
    except KafkaException as raised:
        raise rejected_setting(access, error_of(raised)) from raised
    cluster: Any = client.describe_cluster(request_timeout=patience)
    deadline = time.monotonic() + patience
    looked = False
    while not cluster.done() and not _is_settled(heard) and time.monotonic() < deadline:
        client.poll(0.02)
        if not looked and _may_have_other_protocol(heard):
            looked = True
            if has_other_protocol(access):
                break
    if cluster.done() and cluster.exception() is None:
        return client
    released(client)
    raise _failure(access, heard, patience)


def _is_settled(heard: list[KafkaError]) -> bool:
    """Return whether no later try can help: a lasting failure was reported, and no broker is left."""
    if any(error.str().startswith("Failed to acquire") for error in heard):
        return True  # without a token no broker is asked
    lasting = any(error.code() in LASTING or "SSL alert" in error.str() for error in heard)
    return lasting and any(error.code() == KafkaError._ALL_BROKERS_DOWN for error in heard)


def _may_have_other_protocol(heard: list[KafkaError]) -> bool:
    """Return whether connections were closed as a listener of another protocol closes them."""
    reasons = [error.str() for error in heard if error.code() != KafkaError._ALL_BROKERS_DOWN]
    return bool(heard) and all("SSL" in reason and "alert" not in reason for reason in reasons)


def _failure(access: KafkaAccess, heard: list[KafkaError], patience: float) -> SamzaError:
    reasons = [error for error in heard if error.code() != KafkaError._ALL_BROKERS_DOWN]
    lasting = [error for error in reasons if error.code() in LASTING]
    errors = lasting or reasons or heard
    return connection_failure(access, errors[-1] if errors else None, patience)

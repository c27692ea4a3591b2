"""Access to brokers: the settings of librdkafka that lead to them, from a system's binding; it loads no client.

The options of a binding of the kind ``kafka`` are librdkafka's own settings (``bootstrap.servers``,
``security.protocol``, ``sasl.username``, …), but those that decide what is read and written, which are ours. The Kafka
system, the connections of Airflow and the names of datasets read it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from airflow_samza.errors import ConfigError
from airflow_samza.secrecy import is_secret_name, without
from airflow_samza.systems.system import SystemBinding

ADDRESSES = "bootstrap.servers"
PROTOCOL = "security.protocol"
USER = "sasl.username"
PASSWORD = "sasl.password"

_POSITIONS = "offsets are fixed by the plan of a run, and kept in its records"
_WRITING = "the commit of an epoch decides what is written"
_GROUPS = "partitions are assigned to tasks, which join no group"

OWNED: Mapping[str, str] = {
    "group.id": _GROUPS,
    "group.instance.id": _GROUPS,
    "group.protocol": _GROUPS,
    "group.remote.assignor": _GROUPS,
    "partition.assignment.strategy": _GROUPS,
    "auto.offset.reset": _POSITIONS,
    "enable.auto.commit": _POSITIONS,
    "auto.commit.interval.ms": _POSITIONS,
    "enable.auto.offset.store": _POSITIONS,
    "enable.partition.eof": _POSITIONS,
    "isolation.level": "only messages whose transactions were committed are read",
    "transactional.id": _WRITING,
    "enable.idempotence": _WRITING,
    "acks": _WRITING,
    "request.required.acks": _WRITING,
    "partitioner": "the plan decides which partition a key belongs to",
}
"""Settings that a system may not have, with the reason; connections that others use, too, may have them."""

CALLBACKS = (
    "error_cb",
    "log_cb",
    "logger",
    "oauth_cb",
    "on_commit",
    "on_delivery",
    "stats_cb",
    "throttle_cb",
)
"""Settings that are functions: none can be sent to another process."""

_OF_OTHERS = ("schema.registry.", "publications.")
"""Beginnings of options that are no settings of a client of brokers."""

_FILES = (
    "ssl.ca.location",
    "ssl.certificate.location",
    "ssl.key.location",
    "ssl.keystore.location",
    "ssl.crl.location",
    "sasl.oauthbearer.assertion.private.key.file",
)
_TEXTS = {
    "ssl.ca.location": "ssl.ca.pem",
    "ssl.certificate.location": "ssl.certificate.pem",
    "ssl.key.location": "ssl.key.pem",
}
_LOOKED_FOR = "probe"
"""A value of ``ssl.ca.location``: the client looks where operating systems keep authorities."""


@dataclass(frozen=True)
class KafkaAccess:
    """Settings that lead to the brokers of a system, secrets among them, which no text shows."""

    system: str
    pairs: tuple[tuple[str, str], ...] = field(repr=False)

    @property
    def settings(self) -> dict[str, str]:
        """The settings, for a client of librdkafka."""
        return dict(self.pairs)

    @property
    def addresses(self) -> str:
        """The addresses under which brokers are looked for."""
        return self.settings[ADDRESSES]

    def of_group(self, group: str) -> KafkaAccess:
        """Return the access with which a client is one of this consumer group."""
        return replace(self, pairs=tuple({**self.settings, "group.id": group}.items()))

    @property
    def protocol(self) -> str:
        """The protocol of the listeners: ``plaintext``, ``ssl``, ``sasl_plaintext`` or ``sasl_ssl``."""
        return self.settings.get(PROTOCOL, "plaintext").lower()

    @property
    def mechanism(self) -> str:
        """The mechanism of SASL by which a client identifies itself."""
        names = ("sasl.mechanism", "sasl.mechanisms")
        return next((self.settings[name] for name in names if name in self.settings), "GSSAPI")

    @property
    def identity(self) -> str:
        """Return the name of whoever asks, as a part of a sentence."""
        if self.protocol.startswith("sasl"):
            user = self.settings.get(USER)
            return f"the user {user!r}" if user else f"the holder of the token ({self.mechanism})"
        if self.protocol == "ssl" and any(name in self.settings for name in _CERTIFICATES):
            return "the owner of the client's certificate"
        return "a client that does not say who it is"

    def without_secrets(self, text: str) -> str:
        """Return a text in which no secret can be read."""
        return without(text, [value for name, value in self.pairs if is_secret_name(name)])


_CERTIFICATES = ("ssl.certificate.location", "ssl.certificate.pem", "ssl.keystore.location")


def access_of(system: str, binding: SystemBinding) -> KafkaAccess:
    """Return the access of a system by its binding; ConfigError for settings that cannot be, and files that are not.

    Of the client's own settings only its ``client.id`` is added, by which brokers name it in their logs.
    """
    settings = {"client.id": f"airflow-samza-{system}"}
    for name, value in sorted(binding.options.items()):
        if name.startswith(_OF_OTHERS) or value is None:
            continue
        _reject_owned(system, name)
        settings[name] = _text(system, name, value)
    if not settings.get(ADDRESSES, "").strip():
        raise ConfigError(
            f"The system {system!r} of kind kafka has no {ADDRESSES}.",
            hint="Set it to addresses of brokers, such as kafka-1:9092,kafka-2:9092.",
            key=f"systems.{system}.{ADDRESSES}",
            value=None,
        )
    for name in _FILES:
        _check_file(system, name, settings.get(name))
    return KafkaAccess(system, tuple(sorted(settings.items())))


def _reject_owned(system: str, name: str) -> None:
    key = f"systems.{system}.{name}"
    if name in OWNED:
        raise ConfigError(
            f"The system {system!r} sets {name}, which a system may not set: {OWNED[name]}.",
            hint="Leave it out.",
            key=key,
            value=name,
        )
    if name in CALLBACKS:
        raise ConfigError(
            f"The system {system!r} sets {name}, a function, which cannot be sent to the processes that run stages.",
            hint="Leave it out."
            if name != "oauth_cb"
            else "Have the client fetch tokens: sasl.oauthbearer.method=oidc with sasl.oauthbearer.client.id, "
            "…client.secret and …token.endpoint.url.",
            key=key,
            value=name,
        )


def _text(system: str, name: str, value: object) -> str:
    """Return a setting's value as librdkafka reads it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float):
        return str(value)
    raise ConfigError(
        f"The setting {name} of the system {system!r} is a {type(value).__name__}, and settings of librdkafka are "
        "texts, numbers, true or false.",
        hint="Correct it.",
        key=f"systems.{system}.{name}",
        value=type(value).__name__,
    )


def _check_file(system: str, name: str, path: str | None) -> None:
    if path is None or os.path.exists(path) or (name == "ssl.ca.location" and path == _LOOKED_FOR):
        return
    instead = f", or give its text as {_TEXTS[name]}" if name in _TEXTS else ""
    raise ConfigError(
        f"The system {system!r} has {name}={path!r}, and there is no such file on this host.",
        hint=f"Put it there, on every host that plans or runs stages{instead}.",
        key=f"systems.{system}.{name}",
        value=path,
    )


def shared_options(options: Mapping[str, object]) -> dict[str, object]:
    """Return the options of a connection that others use, too, without those that are for their clients alone."""
    return {name: value for name, value in options.items() if name not in OWNED and name not in _CALLBACKS_OF_OTHERS}


_CALLBACKS_OF_OTHERS = frozenset(CALLBACKS) - {"oauth_cb"}  # without that one nobody would be let in

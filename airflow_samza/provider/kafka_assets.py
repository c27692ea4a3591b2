"""Topics of Kafka as Airflow assets: ``kafka://broker:9092/topic``, by the brokers' addresses, whatever connection."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import SplitResult

from airflow.sdk import Asset, AssetWatcher

from airflow_samza.errors import ConfigError

SCHEME = "kafka"
_PORT = "9092"


def kafka_topic(topic: str, brokers: str | Sequence[str], *, watchers: Sequence[AssetWatcher] = ()) -> Asset:
    """Return the asset of a topic of Kafka, for ``schedule=`` of Dags.

    A run that has published messages to the topic is an event. With a watcher, messages of other senders are events,
    too.

    >>> kafka_topic("views", "kafka-2:9093, kafka-1").uri
    'kafka://kafka-1:9092,kafka-2:9093/views'

    :param topic: The topic's name.
    :param brokers: The addresses of ``bootstrap.servers``, in any order; the port is 9092 unless it is given.
    :param watchers: Asset watchers with a :class:`~airflow_samza.triggers.KafkaMessagesTrigger`, which announce
        messages of other senders.
    """
    uri = topic_uri(topic, brokers)
    return Asset(name=uri, uri=uri, watchers=list(watchers))


def topic_uri(topic: str, brokers: str | Sequence[str]) -> str:
    """Return the URI of a topic, one for all orders of its brokers."""
    servers = brokers.split(",") if isinstance(brokers, str) else brokers
    addresses = _addresses(servers)
    if not addresses or not topic:
        missing = "topic" if addresses else "brokers"
        raise ConfigError(
            f"The asset of the topic {topic!r} has no {missing}.",
            hint='Write kafka_topic("page-views", "broker:9092").',
            key=missing,
            value=topic,
        )
    return f"{SCHEME}://{addresses}/{topic}"


def sanitize_uri(parts: SplitResult) -> SplitResult:
    """Return the parts of a ``kafka://`` URI as :func:`kafka_topic` has them; Airflow calls it for each such asset."""
    topic = parts.path.strip("/")
    if not parts.netloc or not topic or "/" in topic:
        raise ValueError(f"The asset {parts.geturl()!r} is not of the form kafka://broker:9092/topic")
    return parts._replace(netloc=_addresses(parts.netloc.split(",")), path=f"/{topic}")


def _addresses(addresses: Sequence[str]) -> str:
    """Return addresses in their one order, with their ports and without their protocols."""
    plain = {address.strip().rpartition("://")[2].lower() for address in addresses} - {""}
    return ",".join(sorted(a if ":" in a.rpartition("]")[2] else f"{a}:{_PORT}" for a in plain))

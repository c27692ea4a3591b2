"""Triggers on topics of Kafka: new messages, as a watcher of an asset, and a consumer group that has caught up.

What waits for brokers runs in threads of clients, so that it holds up nobody else's trigger (decision 90).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow.triggers.base import BaseEventTrigger, TriggerEvent

from airflow_samza.errors import ConfigError, SamzaError
from airflow_samza.provider.connections.kafka import DEFAULT_KAFKA, find_brokers
from airflow_samza.provider.triggers import class_path
from airflow_samza.provider.triggers.client_threads import ClientTrigger, Look, in_client_thread

if TYPE_CHECKING:
    from airflow_samza.systems.kafka.brokers import Brokers
    from airflow_samza.systems.kafka.input_range import TopicNews

ANNOUNCED = "airflow_samza.announced"
"""The key under which the asset's state has the position behind what was announced."""

STORED_SECONDS = 5.0
"""Seconds after which Airflow has stored an event."""


class KafkaMessagesTrigger(BaseEventTrigger):
    """Watches a topic for an asset: an event whenever committed messages have arrived.

    The payload of an event has ``topic``, ``topic_id``, ``messages`` (a number of offsets) and ``offsets``, ``[from,
    to)`` by partition. Each message is announced at least once. The first event announces what the topic holds. With
    Airflow 3.3 the watch continues behind the last event after a restart of the triggerer. In older releases, and if
    one trigger watches several assets, a restart announces all again. Brokers that do not answer, and a missing topic,
    are warnings in the triggerer's log, and the watch goes on.

    ```python
    arrivals = kafka_topic(
        "page-views",
        "broker:9092",
        watchers=[AssetWatcher(name="page-views", trigger=KafkaMessagesTrigger(topic="page-views", at_most_every=60))],
    )
    ```

    :param topic: The topic's name.
    :param conn_id: The connection of type ``kafka``.
    :param min_messages: The smallest number of new messages for an event.
    :param at_most_every: The shortest time between two events, in seconds or as a timedelta.
    :param poll_interval: The time between two checks, in seconds or as a timedelta; at least 0.1 s.
    """

    def __init__(
        self,
        *,
        topic: str,
        conn_id: str = DEFAULT_KAFKA,
        min_messages: int = 1,
        at_most_every: float | timedelta = 0.0,
        poll_interval: float | timedelta = 10.0,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # Airflow has not annotated it
        self.topic = topic
        self.conn_id = conn_id
        self.min_messages = int(min_messages)
        self.at_most_every = _seconds(at_most_every)
        self.poll_interval = _seconds(poll_interval)
        for name, value, least in (
            ("min_messages", self.min_messages, 1),
            ("at_most_every", self.at_most_every, 0.0),
            ("poll_interval", self.poll_interval, 0.1),
        ):
            if value < least:
                raise ConfigError(
                    f"{name}={value} of the trigger on the topic {topic!r} is too little.",
                    hint=f"Give at least {least}.",
                    key=name,
                    value=value,
                )
        self._brokers: Brokers | None = None
        self._problem = ""

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return class path and arguments; Airflow takes triggers with equal ones for one, whoever declares them."""
        return class_path(type(self)), {
            "topic": self.topic,
            "conn_id": self.conn_id,
            "min_messages": self.min_messages,
            "at_most_every": self.at_most_every,
            "poll_interval": self.poll_interval,
        }

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Yield an event for each piece of news, without an end."""
        announced = await self._remembered()
        while True:
            news = await self._look(announced)
            if news is not None and news.messages >= self.min_messages:
                yield TriggerEvent(news.to_dict())
                announced = {**news.position, "at": time.time()}
                # Airflow stores an event a moment later: a triggerer that dies before announces it again.
                await asyncio.sleep(STORED_SECONDS)
                await self._remember(announced)
            quiet = 0.0 if announced is None else announced["at"] + self.at_most_every - time.time()
            await asyncio.sleep(max(self.poll_interval, quiet))

    async def _look(self, announced: Mapping[str, Any] | None) -> TopicNews | None:
        try:
            if self._brokers is None:
                self._brokers = await in_client_thread(partial(find_brokers, self.conn_id))
            news = await in_client_thread(partial(_news, self._brokers, self.topic, announced))
        except Exception as error:  # a watcher that has ended would watch no more, and nobody would see it
            self._brokers = None  # the connection may be corrected meanwhile
            problem = str(error) if isinstance(error, SamzaError) else f"{type(error).__name__}: {error}"
            if problem != self._problem:
                self._problem = problem
                self.log.warning("The topic %r cannot be watched at present: %s", self.topic, problem)
            return None
        if self._problem:
            self._problem = ""
            self.log.info("The topic %r is watched again.", self.topic)
        return news

    async def _remembered(self) -> dict[str, Any] | None:
        """Return the position behind what was announced; None where nobody knows it."""
        store = getattr(self, "asset_state_store", None)  # since Airflow 3.3
        if store is None:
            return None
        try:
            stored = await store.aget(ANNOUNCED)
        except Exception as error:
            self.log.warning("What was announced of the topic %r is not known: %s", self.topic, error)
            return None
        return dict(stored) if isinstance(stored, Mapping) else None

    async def _remember(self, announced: Mapping[str, Any]) -> None:
        store = getattr(self, "asset_state_store", None)
        if store is None:
            return
        try:
            await store.aset(ANNOUNCED, dict(announced))
        except Exception as error:
            self.log.warning("What was announced of the topic %r cannot be kept: %s", self.topic, error)


@dataclass(kw_only=True, eq=False, repr=False)
class KafkaLagTrigger(ClientTrigger):
    """Waits until a consumer group's lag is small enough, or an error lasts: the task looks again then.

    :param conn_id: The connection of type ``kafka``.
    :param group: The consumer group.
    :param topics: The topics.
    :param at_most: The lag in messages that is small enough.
    :param poll_interval: Seconds between two checks.
    :param deferred_by: Identity of the process that defers. Default: this process.
    """

    conn_id: str
    group: str
    topics: Sequence[str]
    at_most: int

    def look(self) -> Look:
        """Return the lag by topic, and whether it is small enough."""
        from airflow_samza.systems.kafka.group_offsets import group_lag

        lag = group_lag(find_brokers(self.conn_id), self.group, self.topics)
        by_topic = {topic: sum(partitions) for topic, partitions in lag.topics.items()}
        return Look(str(lag), lag.offsets <= self.at_most, by_topic)


def _seconds(length: float | timedelta) -> float:
    return length.total_seconds() if isinstance(length, timedelta) else float(length)


def _news(brokers: Brokers, topic: str, announced: Mapping[str, Any] | None) -> TopicNews:
    from airflow_samza.systems.kafka.input_range import topic_news

    return topic_news(brokers, topic, announced)

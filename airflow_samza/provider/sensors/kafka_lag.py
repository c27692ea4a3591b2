"""The sensor that waits until a consumer group of Kafka has caught up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow_samza.errors import ConfigError
from airflow_samza.provider.connections.kafka import DEFAULT_KAFKA
from airflow_samza.provider.sensors.deferrable_sensor import DeferrableSensor


class SamzaKafkaLagSensor(DeferrableSensor):
    """Waits until a consumer group of Kafka has at most a number of offsets left to read.

    The group can be that of another reader, or the one to which runs commit their offsets (option ``group`` of an input
    stream). Of a partition without a committed offset all offsets count. The sensor waits for brokers that do not
    answer; a missing topic or a wrong password fails the task. The return value is the lag by topic, in offsets.

    ```python
    SamzaKafkaLagSensor(task_id="wait", group="page-views-report", topics=["page-views"], at_most=1000, deferrable=True)
    ```

    :param group: The consumer group (templated).
    :param topics: The topics (templated).
    :param at_most: The greatest number of offsets left to read, of all topics together (templated).
    :param kafka_conn_id: The connection of type ``kafka`` (templated).
    :param deferrable: If true, the sensor waits in the triggerer, without a worker slot. Default ``[operators]
        default_deferrable``.
    :param kwargs: Parameters of Airflow's ``BaseSensorOperator``: ``poke_interval``, ``timeout``, …
    """

    template_fields: Sequence[str] = ("group", "topics", "at_most", "kafka_conn_id")

    def __init__(
        self,
        *,
        group: str,
        topics: Sequence[str] | str,
        at_most: int | str = 0,
        kafka_conn_id: str = DEFAULT_KAFKA,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.group = group
        self.topics = topics
        self.at_most = at_most
        self.kafka_conn_id = kafka_conn_id

    def trigger(self) -> Any:
        """Return the trigger that waits in the sensor's place."""
        from airflow_samza.provider.triggers.kafka import KafkaLagTrigger  # a Dag file need not load it

        return KafkaLagTrigger(
            conn_id=self.kafka_conn_id,
            group=self.group,
            topics=[self.topics] if isinstance(self.topics, str) else list(self.topics),
            at_most=self._bound,
            poll_interval=self.poke_interval,
        )

    @property
    def _bound(self) -> int:
        try:
            return int(self.at_most)
        except (TypeError, ValueError):
            raise ConfigError(
                f"at_most={self.at_most!r} of the task {self.task_id!r} is no number of offsets.",
                hint="Give a whole number.",
                key="at_most",
                value=self.at_most,
            ) from None

"""Hooks by which Airflow knows the connection types of systems, where no other provider brings them."""

from __future__ import annotations

from airflow.sdk import BaseHook

from airflow_samza.provider.connections.bindings import binding_of
from airflow_samza.systems.system import SystemBinding


class SystemHook(BaseHook):
    """The part that the hooks of all systems share.

    :param conn_id: The connection of the system.
    """

    conn_name_attr = "conn_id"

    def __init__(self, conn_id: str) -> None:
        super().__init__()
        self.conn_id = conn_id

    def get_conn(self) -> SystemBinding:
        """Return the binding that the connection gives to a system."""
        return binding_of(self.conn_id, self.conn_id, self.get_connection(self.conn_id), self.get_connection)


class DeltaHook(SystemHook):
    """A connection of Delta tables in a folder."""

    conn_type = "delta"
    hook_name = "Delta tables"


class IcebergHook(SystemHook):
    """A connection of a catalog of Iceberg."""

    conn_type = "iceberg"
    hook_name = "Iceberg"


class JdbcHook(SystemHook):
    """A connection of a database."""

    conn_type = "jdbc"
    hook_name = "JDBC"


class KafkaHook(SystemHook):
    """A connection of the brokers of Kafka."""

    conn_type = "kafka"
    hook_name = "Kafka"

"""Keys of messages by the columns that they are made of: Kafka's own serializers for one column, else JSON objects."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from airflow_samza.application.declarations.serdes import JSON, OF_ONE_COLUMN
from airflow_samza.schema import DataType
from airflow_samza.systems.serdes.binding import bind_serde
from airflow_samza.systems.serdes.serde import Serde


def bind_key_serde(schema: pa.Schema, names: Sequence[str], stream: str) -> Serde:
    """Return the serde of keys that are made of some columns of a stream."""
    kinds = {DataType(kind).to_arrow(): serde for serde, kind in OF_ONE_COLUMN.items()}
    serde = kinds.get(schema.field(names[0]).type, JSON) if len(names) == 1 else JSON
    return bind_serde(serde, pa.schema([schema.field(name) for name in names]), stream)

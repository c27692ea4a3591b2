"""Schemas of Spark as Arrow's, and back, by pyspark's own rules; its releases have them under different parameters."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType


def arrow_schema(schema: StructType) -> pa.Schema:
    """Return a schema of Spark as Arrow's, where timestamps are in UTC."""
    from pyspark.sql.pandas import types

    convert: Any = types.to_arrow_schema
    named = "timezone" in inspect.signature(convert).parameters  # before 4.2 it is always UTC
    return convert(schema, timezone="UTC") if named else convert(schema)


def spark_schema(schema: pa.Schema) -> StructType:
    """Return a schema of Arrow as Spark's, where timestamps without a zone stay without one."""
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(schema, prefer_timestamp_ntz=True)

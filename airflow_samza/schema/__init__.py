"""Message schemas: a dataclass, a Spark DDL string or an Arrow schema, one value inside.

A :class:`Schema` is pure Python, so that planning loads neither pyarrow nor pyspark; both forms are made on request.
Type names are Spark's (``bigint``, ``array<string>``, ``decimal(10,2)``), as a user writes them in DDL.
"""

from airflow_samza.schema.annotations import declared_type
from airflow_samza.schema.data_type import SIMPLE_TYPES, DataType, Field, key_type, type_from_arrow, unquoted
from airflow_samza.schema.ddl import parse_type
from airflow_samza.schema.schema import Schema, parse_ddl

__all__ = [
    "SIMPLE_TYPES",
    "DataType",
    "Field",
    "Schema",
    "declared_type",
    "key_type",
    "parse_ddl",
    "parse_type",
    "type_from_arrow",
    "unquoted",
]

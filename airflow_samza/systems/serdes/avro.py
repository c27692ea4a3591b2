"""The serde ``avro:<schema file>``: each message is one record of Avro's binary encoding, without a header."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from airflow_samza.errors import SchemaError
from airflow_samza.systems.files.formats.avro import fastavro
from airflow_samza.systems.serdes.avro_records import AvroRecords, field_names


def avro_serde(schema: pa.Schema, record: Any, stream: str) -> AvroRecords:
    """Return the serde of Avro records of one schema (``record``, as JSON), which writer and readers share.

    A declared column that the record does not have is a SchemaError.
    """
    try:
        parsed = fastavro().parse_schema(record)
    except Exception as error:  # whatever the parser trips over in a file of the user's
        raise SchemaError(
            f"The Avro schema of stream {stream!r} cannot be read: {type(error).__name__}: {error}.",
            hint="Give the file of one record's schema, as JSON.",
            stream=stream,
        ) from error
    if not isinstance(record, dict) or record.get("type") != "record":
        raise SchemaError(
            f"The Avro schema of stream {stream!r} is no record.",
            hint="Give a record with a field for each column.",
            stream=stream,
        )
    names = field_names(record)
    lacking = [name for name in schema.names if name not in names]
    if lacking:
        raise SchemaError(
            f"The Avro schema of stream {stream!r} has no field {lacking[0]!r}.",
            hint=f"Its fields are {', '.join(names)}: correct the declared columns, or the file.",
            stream=stream,
            column=lacking[0],
        )
    return AvroRecords(schema, parsed)

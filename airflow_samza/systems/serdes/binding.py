"""Making of the serde that an application declares (``serde=``)."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

from airflow_samza.application.serdes import AVRO, BYTES, JSON, STRING
from airflow_samza.errors import ConfigError
from airflow_samza.systems.serdes.serde import Serde

if TYPE_CHECKING:
    import pyarrow as pa


def bind_serde(declared: str, schema: pa.Schema, stream: str) -> Serde:
    """Return the serde of a stream of these columns. ``declared`` is as :func:`with_schema_file` gives it."""
    if declared == JSON:
        from airflow_samza.systems.files.formats.json_lines import JsonLinesFormat
        from airflow_samza.systems.serdes.built_in import JsonSerde

        JsonLinesFormat().check(schema, stream)
        return JsonSerde(schema)
    if declared in (STRING, BYTES):
        from airflow_samza.systems.serdes.built_in import BytesSerde, StringSerde

        return StringSerde(schema, stream) if declared == STRING else BytesSerde(schema, stream)
    if declared.startswith(AVRO):
        from airflow_samza.systems.serdes.avro import AvroSerde

        return AvroSerde(schema, json.loads(declared[len(AVRO) :]), stream)
    from airflow_samza.systems.serdes.plugged import PluggedSerde

    return PluggedSerde(schema, declared, stream)


def with_schema_file(declared: str, stream: str, module: str | None) -> str:
    """Return a declared serde for workers: an Avro schema itself in the place of its file's name.

    A relative name counts from the folder of ``module``, the file whose code declares the stream.
    """
    if not declared.startswith(AVRO):
        return declared
    name = declared[len(AVRO) :]
    path = os.path.join(os.path.dirname(module or ""), name)
    try:
        with open(path, encoding="utf-8") as file:
            return AVRO + json.dumps(json.load(file), sort_keys=True)
    except (OSError, ValueError, RecursionError) as error:
        what = error.strerror or str(error) if isinstance(error, OSError) else f"it is no JSON ({error})"
        raise ConfigError(
            f"The Avro schema {path} of stream {stream!r} cannot be read: {what}.",
            hint="Name a file of one record's schema; a relative name counts from the folder of the code that "
            "declares the stream.",
            key="serde",
            value=declared,
            stream=stream,
        ) from error

"""Making of the serde that an application declares (``serde=``).

Streams of Kafka and of the test driver, and Spark's staging, make theirs here; the plan step checks it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from airflow_samza.application.declarations.serdes import AVRO, BYTES, JSON, OF_ONE_COLUMN, REGISTRY, STRING
from airflow_samza.errors import ConfigError, SchemaError
from airflow_samza.schema import DataType
from airflow_samza.systems.serdes.serde import Serde

if TYPE_CHECKING:
    import pyarrow as pa


def bind_serde(
    declared: str,
    schema: pa.Schema,
    stream: str,
    *,
    options: Mapping[str, Any] | None = None,
    system: str = "",
) -> Serde:
    """Return the serde of a stream of these columns. ``declared`` is as :func:`with_schema_file` gives it.

    ``options`` are those of the stream's ``system``, among which a schema registry's settings may be; there the
    stream's schemas have the name ``<stream>-value``.
    """
    if declared == JSON:
        from airflow_samza.systems.files.formats.json_lines import JsonLinesFormat
        from airflow_samza.systems.files.formats.options import FileOptions
        from airflow_samza.systems.serdes.json import JsonSerde

        JsonLinesFormat().check(schema, stream, FileOptions())
        return JsonSerde(schema)
    if declared in OF_ONE_COLUMN:
        return _of_one_column(declared, schema, stream)
    if declared.startswith(AVRO):
        from airflow_samza.systems.serdes.avro import avro_serde

        return avro_serde(schema, json.loads(declared[len(AVRO) :]), stream)
    if declared.startswith(REGISTRY):
        from airflow_samza.systems.serdes.registry.client import registry_settings
        from airflow_samza.systems.serdes.registry.serde import registry_serde

        form, _, own = declared[len(REGISTRY) :].partition(":")
        settings = registry_settings(options or {})
        return registry_serde(form, own or None, schema, stream, settings, system, f"{stream}-value")
    from airflow_samza.systems.serdes.plugged import PluggedSerde

    return PluggedSerde(schema, declared, stream)


def _of_one_column(declared: str, schema: pa.Schema, stream: str) -> Serde:
    kind = DataType(OF_ONE_COLUMN[declared])
    if schema.types != [kind.to_arrow()]:
        raise SchemaError(
            f"The stream {stream!r} has serde={declared!r} and the columns {', '.join(schema.names)}: it is for one "
            f"column of type {kind.name}.",
            hint="Select that column alone before it is sent, or take another serde.",
            stream=stream,
        )
    from airflow_samza.systems.serdes.one_column import BytesSerde, NumberSerde, StringSerde

    if declared in (STRING, BYTES):
        return StringSerde(schema) if declared == STRING else BytesSerde(schema)
    return NumberSerde(schema, declared)


def with_schema_file(declared: str, stream: str, module: str | None) -> str:
    """Return a declared serde for workers: an Avro schema itself in the place of its file's name.

    A relative name counts from the folder of ``module``, the file whose code declares the stream.
    """
    before = AVRO if declared.startswith(AVRO) else f"{REGISTRY}{AVRO}"
    if not declared.startswith(before):
        return declared
    name = declared[len(before) :]
    path = os.path.join(os.path.dirname(module or ""), name)
    try:
        with open(path, encoding="utf-8") as file:
            return before + json.dumps(json.load(file), sort_keys=True)
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

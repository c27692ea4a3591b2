"""Serdes in a run's plan: rejected for systems that keep columns and send no bytes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow_samza.application.application import ApplicationSpec
from airflow_samza.application.declarations.serdes import REGISTRY
from airflow_samza.application.descriptors import StreamDescriptor
from airflow_samza.errors import ConfigError, SamzaError, UnsupportedShape
from airflow_samza.runs.records.run_plan import BoundStream
from airflow_samza.schema import Schema
from airflow_samza.system_kinds import traits_of
from airflow_samza.systems.capabilities import SendsBytes
from airflow_samza.systems.serdes.binding import bind_serde, with_schema_file
from airflow_samza.systems.serdes.serde import AsksRegistry
from airflow_samza.systems.system import System


def serde_of(stream: StreamDescriptor) -> str | None:
    """Return what a run's record keeps of a stream's serde: an Avro schema itself in the place of its file's name."""
    if stream.serde is None:
        return None
    return with_schema_file(
        stream.serde, stream.stream_id, stream.location.file if stream.location is not None else None
    )


def check_serdes(
    spec: ApplicationSpec,
    bound: Mapping[str, BoundStream],
    kept: Mapping[str, Mapping[str, Any]],
    systems: Mapping[str, System],
) -> list[SamzaError]:
    """Return the errors in the serdes of an application, for the systems of its streams."""
    return [
        error
        for stream in bound.values()
        if stream.spec.serde is not None
        for error in _wrong(spec, stream, kept[stream.system]["kind"], systems[stream.system])
    ]


def _wrong(spec: ApplicationSpec, stream: BoundStream, kind: str, system: System) -> list[SamzaError]:
    declared = spec.stream(stream.stream_id)
    subject = f"The stream {stream.stream_id!r} has serde={declared.serde!r}, and"
    rejected = traits_of(kind).without_serdes
    if rejected is not None:
        what, hint = rejected
        where = f"{subject} is in the system {stream.system!r} of kind {kind}, {what}."
        return [UnsupportedShape(where, hint=hint, stream=stream.stream_id, system=stream.system)]
    if stream.spec.interval is not None and traits_of(kind).through_topics:
        return [
            UnsupportedShape(
                f'{subject} slice="timestamp": Spark cannot look into the bytes for the rows of the data interval.',
                hint="Bound the input by its path=, or by a query over a column beside the bytes.",
                stream=stream.stream_id,
            )
        ]
    if dict(stream.spec.options).get("partition_by"):
        return [
            ConfigError(
                f"{subject} is written with partition_by, whose columns are inside of the bytes.",
                hint="Leave partition_by out, or leave serde= out.",
                key="partition_by",
                stream=stream.stream_id,
            )
        ]
    asks = str(stream.spec.serde).startswith(REGISTRY)
    if stream.spec.schema is None and not asks:
        return []  # the columns of what is sent, which are known when it is
    try:
        if isinstance(system, SendsBytes):
            serde = system.value_serde(stream.spec)
        else:
            columns = Schema(()) if stream.spec.schema is None else Schema.of(stream.spec.schema)
            schema = columns.to_arrow()
            serde = bind_serde(str(stream.spec.serde), schema, stream.stream_id, system=stream.system)
        if isinstance(serde, AsksRegistry):
            serde.check_written() if stream.spec.written else serde.check_read()
    except SamzaError as error:
        return [error]
    return []

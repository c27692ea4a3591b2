"""The serdes ``registry:avro``, ``registry:json``, ``registry:protobuf``: messages of one schema are read at once.

Messages have Confluent's wire format: a byte 0, the id of a schema in four bytes, then the message itself. The binding
of serdes makes it.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_samza.errors import ConfigError, SchemaError
from airflow_samza.systems.serdes.decoding import ValueSerde, merged
from airflow_samza.systems.serdes.registry.bodies import AvroBodies, Bodies, JsonBodies
from airflow_samza.systems.serdes.registry.client import AUTO_REGISTER, PREFIX, Registered, Registry, SchemaText
from airflow_samza.systems.serdes.registry.protobuf_bodies import ProtobufBodies
from airflow_samza.systems.serdes.serde import BadMessage, Decoded, Serde

_HEAD_BYTES = 5

_BODIES: dict[str, type[Bodies]] = {"avro": AvroBodies, "json": JsonBodies, "protobuf": ProtobufBodies}


def framed_values(values: pa.Array) -> tuple[dict[int, Any], list[BadMessage]]:
    """Return the places of values (none null) by the ids that they name, and those values that name none."""
    count = len(values)
    if not count:
        return {}, []
    offsets = np.frombuffer(values.buffers()[1], np.int32, count + 1, values.offset * 4)
    data = np.frombuffer(values.buffers()[2] or b"", np.uint8)
    framed = np.diff(offsets) >= _HEAD_BYTES
    framed[framed] = data[offsets[:-1][framed]] == 0
    starts = offsets[:-1][framed]
    ids = data[starts[:, None] + np.arange(1, _HEAD_BYTES)].view(">u4").reshape(-1)
    places = np.flatnonzero(framed)
    by_id = {int(id): places[ids == id] for id in np.unique(ids)}
    return by_id, [BadMessage(place, _why(values[place].as_py())) for place in np.flatnonzero(~framed).tolist()]


def framed(id: int, bodies: pa.Array, after: bytes = b"") -> pa.Array:
    """Return messages behind the id of their schema."""
    head = pa.scalar(struct.pack(">bI", 0, id) + after, pa.binary())
    return pc.binary_join_element_wise(head, bodies, pa.scalar(b"", pa.binary()))


def _why(value: bytes) -> str:
    if not value:
        return "it is empty"
    if value[:1] != b"\0":
        return f"it begins with the byte {value[0]}, and not with 0 and the id of a schema"
    return f"it has {len(value)} bytes, which are too few for the id of a schema"


class RegistrySerde(ValueSerde):
    """Serde of messages that name their schema's id in a registry.

    They are read with the schema that wrote them, into the declared columns; a column that it does not have is null, or
    what ``own``, the stream's own schema, has as its default. They are written with ``own``, which has to be
    registered, or without one with the subject's latest version.
    """

    def __init__(self, bodies: Bodies, schema: pa.Schema, registry: Registry, subject: str, own: str | None) -> None:
        self._bodies = bodies
        self._schema = schema
        self._registry = registry
        self._subject = subject
        self._own = own
        self._readers: dict[int, Serde | str] = {}
        self._writer: tuple[int, Serde] | None = None

    def encode(self, batch: pa.RecordBatch) -> pa.Array:
        """Return the messages, each behind the id of its schema."""
        if self._writer is None:
            written = self._written()
            self._writer = (written.id, self._writer_of(written))
        id, writer = self._writer
        return framed(id, writer.encode(batch), self._bodies.after_id)

    def decode_present(self, values: pa.Array) -> Decoded:
        """Return the messages that can be read, those of one schema at once."""
        by_id, unframed = framed_values(values)
        nullable = pa.schema([field.with_nullable(True) for field in self._schema])
        nothing = pa.RecordBatch.from_pylist([], schema=nullable)
        parts: list[tuple[Any, Decoded]] = []
        for id, places in by_id.items():
            reader = self._reader(id)
            if isinstance(reader, str):
                parts.append((places, Decoded(nothing, [BadMessage(n, reader) for n in range(len(places))])))
            else:
                some = values if len(places) == len(values) else values.take(pa.array(places))
                decoded = reader.decode_each(pc.binary_replace_slice(some, 0, _HEAD_BYTES, b""))
                batch = pa.RecordBatch.from_arrays(decoded.batch.columns, schema=nullable)
                parts.append((places, Decoded(batch, decoded.bad)))
        if unframed or not parts:
            places = np.array([one.place for one in unframed], np.int64)
            parts.append((places, Decoded(nothing, [one.at(number) for number, one in enumerate(unframed)])))
        return merged(parts)

    def _reader(self, id: int) -> Serde | str:
        """Return what reads messages of a schema, or why none can be."""
        if id not in self._readers:
            written = self._registry.schema(id, self._bodies.kind)
            if written is None:
                return f"the registry has no schema {id}"  # it may be registered later
            if written.kind != self._bodies.kind:
                self._readers[id] = f"its schema {id} is of {written.kind}, and not of {self._bodies.kind}"
            else:
                try:
                    self._readers[id] = self._bodies.reader(written, self._own, self._schema)
                except ValueError as error:
                    self._readers[id] = f"its schema {id} cannot be read with the declared columns ({error})"
        return self._readers[id]

    def _written(self) -> Registered:
        if self._own is not None:
            id = self._registry.id_of(self._subject, self._own, self._bodies.kind)
            if id is not None:
                return Registered(id, SchemaText(self._bodies.kind, self._own))
            raise ConfigError(
                f"The subject {self._subject!r} of the schema registry does not have the schema of the stream's file.",
                hint=f"Register it, or set {PREFIX}{AUTO_REGISTER}=true for the system.",
                key="serde",
                value=self._subject,
            )
        latest = self._registry.latest(self._subject, self._bodies.kind)
        if latest is None:
            raise ConfigError(
                f"The schema registry has no subject {self._subject!r}, so there is no schema "
                "to write the stream with.",
                hint="Register a schema there; a run never registers one.",
                key="serde",
                value=self._subject,
            )
        return latest

    def _writer_of(self, written: Registered) -> Serde:
        self._check_kind(written)
        try:
            return self._bodies.writer(written.schema, self._schema)
        except ValueError as error:
            raise SchemaError(
                f"The columns {', '.join(self._schema.names)} cannot be written with schema {written.id} of the "
                f"subject {self._subject!r}: {error}.",
                hint="Select the columns that it has, or register another version of it.",
                subject=self._subject,
            ) from error

    def _check_kind(self, registered: Registered) -> None:
        if registered.schema.kind != self._bodies.kind:
            raise SchemaError(
                f"The subject {self._subject!r} of the schema registry has a schema of {registered.schema.kind}, and "
                f"the stream's serde is of {self._bodies.kind}.",
                hint=f'Write serde="registry:{registered.schema.kind.lower()}", or correct the subject.',
                subject=self._subject,
            )

    def check_read(self) -> None:
        """Reject columns that no field of the subject's latest schema is; the registry has to answer.

        Messages may be of other subjects: one that is missing is no error.
        """
        latest = self._registry.latest(self._subject, self._bodies.kind)
        if latest is None:
            return
        self._check_kind(latest)
        missing = self._bodies.lacking(latest.schema, self._schema)
        if missing and self._own is None:
            raise SchemaError(
                f"The latest schema of the subject {self._subject!r}, with the id {latest.id}, "
                f"has no field {missing[0]!r}.",
                hint="Correct the declared columns, or give the stream a schema file with a default for it.",
                subject=self._subject,
                column=missing[0],
            )

    def check_written(self) -> None:
        """Reject a stream that could not be written: for what is known of its columns."""
        written = self._written()
        if self._schema.names:
            self._writer_of(written)
        else:
            self._check_kind(written)


def registry_serde(
    form: str, own: str | None, schema: pa.Schema, stream: str, settings: Mapping[str, Any], system: str, subject: str
) -> RegistrySerde:
    """Return the serde of a stream's values, or its keys, with a schema of this subject."""
    if not settings:
        raise ConfigError(
            f"The stream {stream!r} has serde='registry:{form}', and the system {system!r} names no schema registry.",
            hint=f"Set {PREFIX}url among the system's options: in the extra of its connection, for example.",
            key=f"{PREFIX}url",
            stream=stream,
        )
    return RegistrySerde(_BODIES[form](), schema, Registry(system, settings), subject, own)

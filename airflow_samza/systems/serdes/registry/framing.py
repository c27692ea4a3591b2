"""Confluent's wire format: a byte 0, the id of a schema in four bytes, then the message."""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_samza.systems.serdes.serde import BadMessage

SIZE = 5


class Frames(NamedTuple):
    """Values by the id of their schema: the places of each in the array; ``bad`` are those without one."""

    by_id: dict[int, Any]
    bad: list[BadMessage]


def frames_of(values: pa.Array) -> Frames:
    """Return the ids that values (none null) name."""
    count = len(values)
    if not count:
        return Frames({}, [])
    offsets = np.frombuffer(values.buffers()[1], np.int32, count + 1, values.offset * 4)
    data = np.frombuffer(values.buffers()[2] or b"", np.uint8)
    framed = np.diff(offsets) >= SIZE
    framed[framed] = data[offsets[:-1][framed]] == 0
    starts = offsets[:-1][framed]
    ids = np.zeros(len(starts), np.int64)
    for byte in range(1, SIZE):
        ids = ids << 8 | data[starts + byte]
    places = np.flatnonzero(framed)
    if len(ids) and (ids == ids[0]).all():
        by_id = {int(ids[0]): places}
    else:
        by_id = {int(id): places[ids == id] for id in np.unique(ids)}
    bad = [BadMessage(place, _why(values[place].as_py())) for place in np.flatnonzero(~framed).tolist()]
    return Frames(by_id, bad)


def bodies_of(values: pa.Array, places: Any) -> pa.Array:
    """Return the messages behind the ids, of the values at these places."""
    some = values if len(places) == len(values) else values.take(pa.array(places))
    return pc.binary_replace_slice(some, 0, SIZE, b"")


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

"""Search for the messages that cannot be read: by halves, so that the others are read together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_samza.systems.serdes.serde import BadMessage, Decoded

ReadTogether = Callable[[pa.Array], pa.RecordBatch | None]
"""Reads all values at once, or returns None."""

SMALLEST = 16
"""Messages that are looked at one by one: below that, to read them together costs as much."""


def decoded_by_halves(values: pa.Array, read: ReadTogether, one_by_one: Callable[[pa.Array], Decoded]) -> Decoded:
    """Return what is read of the values together, in parts as large as can be; the others are read one by one."""
    batches: list[pa.RecordBatch] = []
    bad: list[BadMessage] = []
    waiting = [(0, len(values))]
    while waiting:
        start, end = waiting.pop()
        part = values.slice(start, end - start)
        batch = read(part)
        if batch is not None:
            batches.append(batch)
        elif end - start <= SMALLEST:
            decoded = one_by_one(part)
            batches.append(decoded.batch)
            bad += [one.at(start + one.place) for one in decoded.bad]
        else:
            middle = (start + end) // 2
            waiting += [(middle, end), (start, middle)]
    return Decoded(joined(batches), bad)


def merged(parts: Sequence[tuple[Any, Decoded]]) -> Decoded:
    """Return what was read of parts of an array, in its order; each comes with the places (numbers) of its values."""
    batches, rows, bad = [], [], []
    for places, decoded in parts:
        batches.append(decoded.batch)
        rows.append(np.delete(places, [one.place for one in decoded.bad]))
        bad += [one.at(int(places[one.place])) for one in decoded.bad]
    bad.sort(key=lambda one: one.place)
    if len(batches) == 1:
        return Decoded(batches[0], bad)
    order = np.argsort(np.concatenate(rows), kind="stable")
    return Decoded(pa.concat_batches(batches).take(pa.array(order)), bad)


def joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    """Return batches, at least one, as one."""
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)


def without_nulls(values: pa.Array, read: Callable[[pa.Array], Decoded]) -> Decoded:
    """Return what is read of the values that are there; a message without a value is bad."""
    if not values.null_count:
        return read(values)
    there = pc.is_valid(values)
    decoded = read(values.filter(there))
    mask = there.to_numpy(zero_copy_only=False)
    places = np.flatnonzero(mask).tolist()
    bad = [one.at(places[one.place]) for one in decoded.bad]
    bad += [BadMessage(place, "it has no value") for place in np.flatnonzero(~mask).tolist()]
    return Decoded(decoded.batch, sorted(bad, key=lambda one: one.place))


def reject_nulls(values: pa.Array) -> None:
    """Reject nulls: a message without a value has no bytes, and no columns."""
    if values.null_count:
        raise BadMessage(int(pc.index(pc.is_null(values), True).as_py()), "it has no value")

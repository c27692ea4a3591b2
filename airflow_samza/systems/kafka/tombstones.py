"""Messages without a value, which delete their key from a compacted topic, as rows of a side input.

Such a row has its key columns, and is marked in the column ``_deleted``. Key columns that are inside of the values
of other messages are read out of its key, where outputs of ours write them, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_samza.application.declarations.tables import PUSH_DELETES
from airflow_samza.systems.kafka.columns import bind_key_serde
from airflow_samza.systems.serdes.serde import BadMessage, Serde


@dataclass(frozen=True)
class Tombstones:
    """Marks messages without a value; ``serde`` reads the columns ``names`` out of their keys (None: no column)."""

    names: tuple[str, ...]
    serde: Serde | None

    @classmethod
    def of(cls, payload: pa.Schema, key: Sequence[str], columns: Sequence[str], stream: str) -> Tombstones:
        """Return those of a stream whose values have the columns ``payload``, ``key`` among them."""
        if not key or not set(key) <= set(columns):
            return cls((), None)
        return cls(tuple(key), bind_key_serde(payload, key, stream))

    def mark(self, keys: pa.Array, values: pa.Array, columns: dict[str, pa.Array]) -> list[BadMessage]:
        """Add the column ``_deleted`` to columns, where there is anything to mark, and what the keys hold.

        Returns the messages whose keys cannot be read.
        """
        if not values.null_count:
            return []
        is_deleted = values.is_null()
        before = columns.get(PUSH_DELETES)
        columns[PUSH_DELETES] = is_deleted if before is None else pc.or_(is_deleted, before.fill_null(False))
        if self.serde is None:
            return []
        batch, wrong = rows_of(self.serde, pc.if_else(is_deleted, keys, pa.scalar(None, pa.binary())))
        for name in self.names:
            columns[name] = pc.if_else(is_deleted, batch.column(name), columns[name])
        return [
            BadMessage(
                one.place,
                f"it has no value, so that it deletes its key, and {', '.join(self.names)} cannot be read out of that "
                f"({one}); where keys are written in another form, name a column of theirs as key_column",
            )
            for one in wrong
        ]


def rows_of(serde: Serde, values: pa.Array) -> tuple[pa.RecordBatch, Sequence[BadMessage]]:
    """Return a row for each value: of nulls where there is none, or one that cannot be read; and these."""
    # A message without a value deletes its key from a compacted topic; one without a key has a key that is null.
    present = values.drop_null() if values.null_count else values
    decoded = serde.decode_each(present)
    if decoded.batch.num_rows == len(values):
        return decoded.batch, ()
    places = np.flatnonzero(values.is_valid().to_numpy(zero_copy_only=False))
    bad = [one.at(int(places[one.place])) for one in decoded.bad]
    places = np.delete(places, [one.place for one in decoded.bad])
    rows = np.full(len(values), -1, np.int64)
    rows[places] = np.arange(len(places))
    return decoded.batch.take(pa.array(rows, mask=rows < 0)), bad

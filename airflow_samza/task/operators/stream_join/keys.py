"""Join keys as whole numbers: equal keys have equal numbers.

Where different keys may share one, the pairs found are compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_samza.partitioner import partition_array
from airflow_samza.schema import Schema, key_type, parse_type
from airflow_samza.storage.key_hashes import whole_numbers

Numbers = np.ndarray[Any, np.dtype[np.int64]]

_HASH_SPACE = 1 << 30
_LONG_DIGITS = 18
"""Decimals of at most so many digits lie in 64 bits."""


class JoinKey:
    """The key columns of one side. ``exact``: a number stands for one key, and its side needs no comparing."""

    def __init__(self, columns: Sequence[str], schema: Schema) -> None:
        self.columns = tuple(columns)
        self._kinds = [key_type(schema[column].type) for column in columns]
        self.exact = len(self.columns) == 1 and _is_number(self._kinds[0])

    def numbers(self, batch: pa.RecordBatch) -> Numbers:
        """The number of every row's key, none of which is null."""
        if self.exact:
            return as_numbers(batch.column(self.columns[0]))
        return partition_array(batch, self.columns, _HASH_SPACE).astype(np.int64)

    def values(self, batch: pa.RecordBatch, rows: pa.Array) -> list[pa.Array]:
        """The key columns of some rows in a form in which equal keys are equal values, NaN included."""
        columns = [batch.column(name).take(rows) for name in self.columns]
        return [
            pa.array(as_numbers(column)) if _is_number(kind) else column
            for column, kind in zip(columns, self._kinds, strict=True)
        ]


def equal_rows(left: Sequence[pa.Array], right: Sequence[pa.Array]) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Return a mask of the rows in which all columns are equal."""
    same = [pc.equal(one, other).to_numpy(zero_copy_only=False) for one, other in zip(left, right, strict=True)]
    return np.logical_and.reduce(same)  # type: ignore[no-any-return]  # Arrow has no types


def as_numbers(column: pa.Array) -> Numbers:
    """A column without nulls as int64, one number for each value."""
    numbers = whole_numbers(column)
    if numbers is not None:
        return numbers
    decimals = column.cast(pa.decimal64(_LONG_DIGITS, column.type.scale))  # of few digits
    return decimals.view(pa.int64()).to_numpy()  # type: ignore[no-any-return]  # Arrow has no types


def _is_number(kind: str) -> bool:
    if kind.startswith("decimal"):
        return parse_type(kind).precision <= _LONG_DIGITS
    return kind in ("bigint", "double", "boolean", "date") or kind.startswith("timestamp")

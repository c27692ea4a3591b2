"""Sort order of a table of Iceberg: the rows of each data file are in that order.

Null is first or last, as the order says; NaN is above all numbers, as the specification has it. Outputs to Iceberg sort
by it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from airflow_samza.systems.tables.columns import TableField
from airflow_samza.systems.tables.transforms import transformed


class SortField(NamedTuple):
    """Field of a sort order: the id of the column that it is made of, the transform, and the direction."""

    source: int
    transform: str
    descending: bool
    nulls_first: bool


def sorted_rows(rows: pa.Table, fields: Sequence[tuple[SortField, TableField, int]]) -> pa.Table:
    """Return rows in the order of some fields, each with its column and the place of that among those of the rows."""
    rows = rows.combine_chunks()
    keys: dict[str, pa.Array] = {}
    order: list[tuple[str, Literal["ascending", "descending"]]] = []

    def by(values: pa.Array, *, descending: bool) -> None:
        name = str(len(keys))
        keys[name] = values
        order.append((name, "descending" if descending else "ascending"))

    for field, column, place in fields:
        whole = rows.column(place).combine_chunks()
        values = transformed(whole, column.type.word, field.transform)
        if values.null_count:
            by(values.is_null(), descending=field.nulls_first)
        if types.is_floating(values.type):
            by(pc.is_nan(values).fill_null(False), descending=field.descending)
        by(values, descending=field.descending)
    return rows.take(pc.sort_indices(pa.table(keys), sort_keys=order))

"""Parts of aggregations that are lists: all values (collect), the distinct ones, registers of a sketch.

They are made and merged group by group. Every function gets rows in the order of their groups (``rows``: their numbers)
and how many each group has.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_samza.task.operators.aggregation.sketches import codes


@dataclass(frozen=True)
class Groups:
    """Groups of rows.

    ``rows`` are the rows' numbers, group after group and in order within each, ``counts`` the rows of each group.
    """

    rows: Any
    counts: Any

    @property
    def owners(self) -> Any:
        """The group of each of ``rows``."""
        return np.repeat(np.arange(len(self.counts)), self.counts)


def each_row(rows: int) -> Groups:
    """Every row a group of its own."""
    return Groups(np.arange(rows), np.ones(rows, np.int64))


def is_list_function(function: str) -> bool:
    """Return whether a part's function is one of these."""
    return function.partition(" ")[0] in _FUNCTIONS


def list_part(function: str, column: pa.Array, groups: Groups) -> pa.Array:
    """A list per group. ``function`` may have a parameter behind a space (the precision of a sketch)."""
    name, _, precision = function.partition(" ")
    taken, made = _FUNCTIONS[name]
    owners, values = taken(column, groups)
    lists: pa.Array = made(owners, codes(values, int(precision)) if precision else values, groups)
    return lists


def interleaved(values: pa.Array, places: pa.Array, groups: Groups) -> tuple[pa.Array, pa.Array]:
    """Lists of values put together in the order of the places that stand beside them; the values and the places."""
    owners, flat = _exploded(values, groups)
    _, where = _exploded(places, groups)
    order = np.lexsort((where.to_numpy(), owners))
    return _lists(owners, flat.take(order), groups), _lists(owners, where.take(order), groups)


def _values(column: pa.Array, groups: Groups) -> tuple[Any, pa.Array]:
    """The values that are not null, in the order of the groups, and the group of each."""
    taken = column.take(groups.rows)
    if not taken.null_count:
        return groups.owners, taken
    return groups.owners[taken.is_valid().to_numpy(zero_copy_only=False)], taken.drop_null()


def _exploded(column: pa.Array, groups: Groups) -> tuple[Any, pa.Array]:
    """Return the values of the lists, in the order of the groups, and the group of each."""
    taken = column.take(groups.rows)
    lengths = pc.fill_null(pc.list_value_length(taken), 0).to_numpy(zero_copy_only=False)
    return np.repeat(groups.owners, lengths), taken.flatten()


def _distinct(owners: Any, values: pa.Array, groups: Groups) -> pa.Array:
    distinct = (
        pa.table([owners, values], ["g", "v"]).group_by(["g", "v"], use_threads=False).aggregate([]).combine_chunks()
    )
    owners = distinct.column("g").to_numpy()
    order = np.argsort(owners, kind="stable")
    return _lists(owners[order], distinct.column("v").combine_chunks().take(pa.array(order)), groups)


def _registers(owners: Any, values: Any, groups: Groups) -> pa.Array:
    hits = np.asarray(values)
    place = owners.astype(np.int64) << 32 | hits >> 6
    order = np.lexsort((hits & 63, place))
    place, hits = place[order], hits[order]
    last = np.append(place[1:] != place[:-1], True)[: len(place)]  # the greatest rank of its register
    return _lists(place[last] >> 32, hits[last], groups)


def _lists(owners: Any, values: Any, groups: Groups) -> pa.Array:
    lengths = np.bincount(owners, minlength=len(groups.counts))
    flat = values if isinstance(values, pa.Array) else pa.array(values, pa.int32())
    return pa.ListArray.from_arrays(pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32()), flat)


_FUNCTIONS: dict[str, Any] = {
    "collect": (_values, _lists),
    "concat": (_exploded, _lists),
    "distinct": (_values, _distinct),
    "distinct_lists": (_exploded, _distinct),
    "sketch": (_values, _registers),
    "sketches": (_exploded, _registers),
}
"""The two steps of each function: taking the values of the rows, and making the lists of them."""

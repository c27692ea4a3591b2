"""Differences of two sets of rows: those that are in one only, and with a key those that differ, by column.

Rows are compared by hashes of 128 bits (:mod:`airflow_samza.systems.tables.row_hashes`), column for column by name.
Sets that are larger than :data:`HELD_BYTES` are cut into buckets by their keys, in files of this host, and compared
bucket by bucket. Runs that are compared with another are judged by it.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import types

from airflow_samza.errors import SchemaError
from airflow_samza.partitioner import split_by_partition
from airflow_samza.systems.tables.row_hashes import Hashes, hashes_of, row_hashes
from airflow_samza.task.operators.aggregation.accumulators import key_codes

HELD_BYTES = 512 * 2**20
"""Rows of both sets that are held in memory, in bytes; with more of them all go through files."""

BUCKETS = 128
"""Files of each set, of which a pair is compared at a time."""

Places = npt.NDArray[np.int64]


@dataclass
class RowDifferences:
    """The rows of two sets: how many each has, how many are in both, and how the others differ.

    Without a key ``different`` is 0: a row that has changed is one that is gone and one that is new. ``columns`` are
    counts of the different rows by the column in which they differ. ``columns_new`` and ``columns_gone`` are in one set
    only, ``types`` are columns of which neither type can be read as the other; none of them is compared. Of each kind
    some rows are kept, with the columns of the key alone where there is one.
    """

    before: int = 0
    after: int = 0
    same: int = 0
    added: int = 0
    gone: int = 0
    different: int = 0
    columns: Counter[str] = field(default_factory=Counter)
    columns_new: tuple[str, ...] = ()
    columns_gone: tuple[str, ...] = ()
    types: dict[str, tuple[str, str]] = field(default_factory=dict)
    samples: dict[str, list[dict[str, Any]]] = field(default_factory=dict)


def row_differences(
    before: Iterable[pa.RecordBatch],
    after: Iterable[pa.RecordBatch],
    key: Sequence[str] = (),
    *,
    samples: int = 5,
    held_bytes: int = HELD_BYTES,
) -> RowDifferences:
    """Return how two sets of rows differ.

    With a ``key`` rows of one key are compared with each other. Where several have it, equal ones cancel out, and the
    others are compared in their order. Of each kind up to ``samples`` rows are kept.

    Raises:
        SchemaError: a column of the key is in one set only, or has different types.
    """
    old, new = _Peeked(before), _Peeked(after)
    found = RowDifferences(samples={"added": [], "gone": [], "different": []})
    columns = _compared_columns(old.schema, new.schema, key, found)
    sets = (old.conformed(columns), new.conformed(columns))
    with tempfile.TemporaryDirectory(prefix="samza-compare-") as folder:
        for pair in _buckets(sets, key, columns, Path(folder), held_bytes):
            _compare(pair, key, found, samples)
    return found


class _Peeked:
    """Rows of which the first batch has told the columns; None where there are no rows."""

    def __init__(self, batches: Iterable[pa.RecordBatch]) -> None:
        rest = (batch for batch in batches if batch.num_rows)
        first = next(rest, None)
        self.schema: pa.Schema | None = None if first is None else _plain_schema(first)
        self._batches: Iterator[pa.RecordBatch] = iter(()) if first is None else chain((first,), rest)

    def conformed(self, columns: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Yield the rows with these columns, of these types; one that a batch lacks is null."""
        for batch in self._batches:
            arrays = [_conformed(batch, field) for field in columns]
            # A batch without columns has no number of rows of its own: a column of nulls carries it.
            yield pa.RecordBatch.from_arrays([*arrays, pa.nulls(batch.num_rows, pa.int8())], [*columns.names, _ROWS])


_ROWS = "\0rows"


def _plain_schema(batch: pa.RecordBatch) -> pa.Schema:
    return pa.schema([pa.field(one.name, _plain_type(one.type)) for one in batch.schema])


def _plain_type(kind: pa.DataType) -> pa.DataType:
    """Return the type as rows are compared: of texts and lists there are several in Arrow."""
    if types.is_dictionary(kind):
        return _plain_type(kind.value_type)
    if types.is_large_string(kind):
        return pa.string()
    if types.is_large_binary(kind):
        return pa.binary()
    if types.is_null(kind):
        return pa.int8()
    if types.is_float16(kind):
        return pa.float32()
    if types.is_list(kind) or types.is_large_list(kind):
        return pa.list_(_plain_type(kind.value_type))
    if types.is_map(kind):
        return pa.map_(_plain_type(kind.key_type), _plain_type(kind.item_type))
    if types.is_struct(kind):
        return pa.struct([pa.field(one.name, _plain_type(one.type)) for one in kind.fields])
    return kind


def _conformed(batch: pa.RecordBatch, wanted: pa.Field) -> pa.Array:
    place = batch.schema.get_field_index(wanted.name)
    if place < 0:
        return pa.nulls(batch.num_rows, wanted.type)
    column = batch.column(place)
    return column if column.type.equals(wanted.type) else column.cast(wanted.type)


def _compared_columns(
    old: pa.Schema | None, new: pa.Schema | None, key: Sequence[str], found: RowDifferences
) -> pa.Schema:
    """Return the columns that both sets have, of a type that both can be read as; note the others."""
    if old is None or new is None:
        only: pa.Schema | None = old if old is not None else new
        if only is None:
            return pa.schema([pa.field(name, pa.int8()) for name in key])
        _check_key(key, only.names, found)
        return only
    found.columns_gone = tuple(name for name in old.names if name not in new.names)
    found.columns_new = tuple(name for name in new.names if name not in old.names)
    compared = []
    for one in old:
        if one.name in new.names:
            kind = _common_type(one.type, new.field(one.name).type)
            if kind is None:
                found.types[one.name] = (str(one.type), str(new.field(one.name).type))
            else:
                compared.append(pa.field(one.name, kind))
    _check_key(key, [one.name for one in compared], found)
    return pa.schema(compared)


def _common_type(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    try:
        schemas = [pa.schema([pa.field("_", kind)]) for kind in (one, other)]
        return pa.unify_schemas(schemas, promote_options="permissive").field(0).type
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return None


def _check_key(key: Sequence[str], shared: Sequence[str], found: RowDifferences) -> None:
    for name in key:
        if name not in shared:
            what = f"is {' and '.join(found.types[name])}" if name in found.types else "is not in the rows of both"
            raise SchemaError(
                f"Rows cannot be compared by the key column {name!r}: it {what}.",
                hint=f"Name a key that both have (--key OUTPUT=COLUMN). They share the columns {', '.join(shared)}.",
                column=name,
            )


Pair = tuple[pa.Table, pa.Table]


def _buckets(
    sets: tuple[Iterator[pa.RecordBatch], Iterator[pa.RecordBatch]],
    key: Sequence[str],
    columns: pa.Schema,
    folder: Path,
    held_bytes: int,
) -> Iterator[Pair]:
    """Yield the rows of both sets, all at once or, where these are many, by buckets of their keys."""
    schema = columns.append(pa.field(_ROWS, pa.int8()))
    held: tuple[list[pa.RecordBatch], list[pa.RecordBatch]] = ([], [])
    size = 0
    for side, batch in ((side, batch) for side, batches in enumerate(sets) for batch in batches):
        held[side].append(batch)
        size += batch.nbytes
        if size > held_bytes:
            break
    else:
        yield pa.Table.from_batches(held[0], schema), pa.Table.from_batches(held[1], schema)
        return
    spilled = [_Spilled(folder / name, schema, key) for name in ("before", "after")]
    for side, batches in enumerate(sets):
        spilled[side].write(chain(held[side], batches))
        held[side].clear()
    for bucket in range(BUCKETS):
        yield spilled[0].table(bucket), spilled[1].table(bucket)


class _Spilled:
    """Files of one set, a bucket each."""

    def __init__(self, folder: Path, schema: pa.Schema, key: Sequence[str]) -> None:
        folder.mkdir()
        self._folder, self._schema, self._key = folder, schema, key

    def write(self, batches: Iterable[pa.RecordBatch]) -> None:
        """Write rows, each into the file of its bucket."""
        writers: dict[int, pa.ipc.RecordBatchStreamWriter] = {}
        try:
            for batch in batches:
                hashes = row_hashes(batch.select(list(self._key)) if self._key else batch)
                buckets = (hashes.first >> np.uint64(64 - (BUCKETS - 1).bit_length())).astype(np.uint8)
                for bucket, rows in split_by_partition(batch, buckets, BUCKETS):
                    if bucket not in writers:
                        writers[bucket] = pa.ipc.new_stream(str(self._folder / str(bucket)), self._schema)
                    writers[bucket].write_batch(rows)
        finally:
            for writer in writers.values():
                writer.close()

    def table(self, bucket: int) -> pa.Table:
        """Return the rows of a bucket."""
        path = self._folder / str(bucket)
        if not path.exists():
            return self._schema.empty_table()
        with pa.ipc.open_stream(str(path)) as reader:
            table = reader.read_all()
        path.unlink()
        return table


def _hashes(table: pa.Table, names: Sequence[str]) -> Hashes:
    return hashes_of(table.select(list(names)).to_batches())


def _compare(pair: Pair, key: Sequence[str], found: RowDifferences, samples: int) -> None:
    """Add the differences of the rows of a bucket: first equal rows cancel out, then the others are paired by key."""
    found.before += pair[0].num_rows
    found.after += pair[1].num_rows
    same, *left = _paired(*pair, pair[0].column_names)
    found.same += len(same[0])
    old, new = (table.take(places) for table, places in zip(pair, left, strict=True))
    if key:
        different, removed, added = _paired(old, new, key)
        counterparts = old.take(different[0]), new.take(different[1])
        _take(found, "different", counterparts[0], key, samples)
        found.columns.update(_differing(*counterparts))
        old, new = old.take(removed), new.take(added)
    _take(found, "gone", old, key, samples)
    _take(found, "added", new, key, samples)


def _paired(old: pa.Table, new: pa.Table, names: Sequence[str]) -> tuple[tuple[Places, Places], Places, Places]:
    """Return the places of rows that are equal in some columns, the n-th of one set with the n-th of the other.

    Then the places of those of each set for which there is none in the other.
    """
    mine, theirs = _hashes(old, names), _hashes(new, names)
    words = [np.concatenate([mine.first, theirs.first]), np.concatenate([mine.second, theirs.second])]
    groups = key_codes([pa.array(word) for word in words], old.num_rows + new.num_rows)
    of_old, of_new = groups[: old.num_rows], groups[old.num_rows :]
    size = int(groups.max(initial=-1)) + 1
    shared = np.minimum(np.bincount(of_old, minlength=size), np.bincount(of_new, minlength=size))
    (in_old, alone_old), (in_new, alone_new) = (_first_of_each(side, shared) for side in (of_old, of_new))
    return (in_old, in_new), alone_old, alone_new


def _first_of_each(numbers: Places, counts: Places) -> tuple[Places, Places]:
    """Return the places of the first ``counts`` rows of each number, by number, and of the others, in their order."""
    order = np.argsort(numbers, kind="stable")
    in_order = numbers[order]
    starts = np.searchsorted(in_order, in_order, side="left")
    taken = np.arange(len(order)) - starts < counts[in_order]
    return order[taken], np.sort(order[~taken])


def _differing(old: pa.Table, new: pa.Table) -> Mapping[str, int]:
    """Return in how many of the rows, which stand side by side, each column differs."""
    counts = {}
    for name in old.column_names:
        one, other = _hashes(old, [name]), _hashes(new, [name])
        count = int(np.count_nonzero((one.first != other.first) | (one.second != other.second)))
        if count:
            counts[name] = count
    return counts


def _take(found: RowDifferences, kind: str, rows: pa.Table, key: Sequence[str], samples: int) -> None:
    """Count rows of a kind, and keep some of them."""
    setattr(found, kind, getattr(found, kind) + rows.num_rows)
    kept = found.samples[kind]
    names = list(key) or [name for name in rows.column_names if name != _ROWS]
    if names:  # of no column Arrow gives as many rows as one asks for
        kept += rows.select(names).slice(0, max(samples - len(kept), 0)).to_pylist()

"""Hashes of rows, in 128 bits: equal rows have equal ones, and others so rarely differ in nothing that none ever will.

Values count to the bit: not-a-number is equal to itself, and zero is not minus zero. Readers of changes cancel rows by
them, upserts know keys by them, and compared runs are compared by them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import types

Words = npt.NDArray[np.uint64]

_NULL = np.uint64(0x6A09E667F3BCC909)
_STEP = np.uint64(0x9E3779B97F4A7C15)
_ROUNDS = ((np.uint64(30), np.uint64(0xBF58476D1CE4E5B9)), (np.uint64(27), np.uint64(0x94D049BB133111EB)))
_SECOND = np.uint64(0xD1342543DE82EF95)
_HEADS = np.array([(1 << 8 * count) - 1 for count in range(9)], np.uint64)
"""Masks of the first bytes of eight."""

_WHOLE = {1: pa.int8(), 8: pa.int8(), 16: pa.int16(), 32: pa.int32(), 64: pa.int64()}


class Hashes(NamedTuple):
    """Hash of each row: two words of 64 bits that are made in different ways."""

    first: Words
    second: Words


def row_hashes(batch: pa.RecordBatch) -> Hashes:
    """Return the hashes of the rows of a batch over all of its columns, which may be nested."""
    return _combined(list(map(_hashes, batch.columns)), batch.num_rows)


def hashes_of(batches: Iterable[pa.RecordBatch]) -> Hashes:
    """Return the hashes of the rows of several batches, one after the other."""
    hashes = [row_hashes(batch) for batch in batches]
    none = np.empty(0, np.uint64)
    return Hashes(*(np.concatenate([none, *(one[word] for one in hashes)]) for word in (0, 1)))


def _combined(columns: list[Hashes], rows: int) -> Hashes:
    first, second = np.zeros(rows, np.uint64), np.zeros(rows, np.uint64)
    for column in columns:
        first = _mixed(first + column.first)
        second = _mixed(second * _SECOND + column.second)
    return Hashes(first, second)


def _hashes(column: pa.Array) -> Hashes:
    kind = column.type
    if types.is_struct(kind):
        found = _combined(list(map(_hashes, column.flatten())), len(column))
    elif types.is_list(kind):
        found = _of_lists(column, _hashes(column.values))
    elif types.is_map(kind):
        found = _of_lists(column, _combined([_hashes(column.keys), _hashes(column.items)], len(column.keys)))
    elif types.is_decimal(kind):
        words = np.frombuffer(column.buffers()[1], np.uint64)[2 * column.offset : 2 * (column.offset + len(column))]
        found = _combined([_of_words(words[0::2]), _of_words(words[1::2])], len(column))
    elif types.is_string(kind) or types.is_binary(kind) or types.is_fixed_size_binary(kind):
        found = _of_bytes(column)
    else:
        whole = column.cast(pa.int8()) if types.is_boolean(kind) else column.view(_WHOLE[kind.bit_width])
        found = _of_words(whole.cast(pa.int64()).fill_null(0).to_numpy().view(np.uint64))
    if not column.null_count:
        return found
    is_null = column.is_null().to_numpy(zero_copy_only=False)
    return Hashes(*(np.where(is_null, _NULL, one) for one in found))


def _of_words(words: Words) -> Hashes:
    return Hashes(_mixed(words), _mixed(words * _SECOND))


def _of_bytes(column: pa.Array) -> Hashes:
    """Return the hashes of texts or bytes, which are taken eight bytes at a time from all rows that have as many."""
    binary = column.cast(pa.binary())
    _, places, data = binary.buffers()
    offsets = np.frombuffer(places, np.int32)[binary.offset : binary.offset + len(binary) + 1]
    content = np.frombuffer(data, np.uint8)[: offsets[-1]] if data is not None else np.empty(0, np.uint8)
    padded = np.append(content, np.zeros(8, np.uint8))
    words: Words = np.ndarray(len(content) + 1, np.uint64, padded, strides=(1,))
    starts, lengths = offsets[:-1], np.diff(offsets)
    first, second = _of_words(lengths.astype(np.uint64))
    rows, place = np.flatnonzero(lengths), 0
    while len(rows):
        left = lengths[rows] - place
        word = words[starts[rows] + place] & _HEADS[np.minimum(left, 8)]
        first[rows] = _mixed(first[rows] + word)
        second[rows] = _mixed(second[rows] * _SECOND + word)
        rows, place = rows[left > 8], place + 8
    return Hashes(first, second)


def _of_lists(column: pa.Array, inner: Hashes) -> Hashes:
    """Return the hashes of lists from those of their values, each of which counts with its place in the list."""
    offsets = column.offsets.to_numpy()
    begins, ends = offsets[:-1], offsets[1:]
    lengths = (ends - begins).astype(np.uint64)
    places = np.arange(len(inner.first))
    owners = np.searchsorted(offsets, places, side="right") - 1
    within = (places - offsets[owners]).astype(np.uint64)
    found = []
    for one in inner:
        sums = np.append(np.uint64(0), np.cumsum(_mixed(one + within * _STEP), dtype=np.uint64))
        found.append(_mixed(sums[ends] - sums[begins] + lengths))
    return Hashes(*found)


def _mixed(words: Words) -> Words:
    """Return words of which each bit depends on all bits of the former ones (SplitMix64)."""
    mixed: Words = words + _STEP
    for shift, factor in _ROUNDS:
        mixed ^= mixed >> shift
        mixed *= factor
    mixed ^= mixed >> np.uint64(31)
    return mixed


class RewrittenRows:
    """Rows that a commit has put into files, by hashes; those that it took out of others are compared with them.

    First all removed rows are asked for (:meth:`removed`), then those that were added (:meth:`added`). Of equal rows
    that were taken out and put in, as many cancel out as there are of both. It holds 24 bytes for each of the rows.
    """

    def __init__(self, added: Iterable[pa.RecordBatch]) -> None:
        first, second = hashes_of(added)
        self._first, places, counts = np.unique(first, return_index=True, return_counts=True)
        self._second = second[places]
        self._counts = counts
        self._left = counts.copy()
        self._moved: npt.NDArray[np.int64] | None = None

    def removed(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows, of some that were taken out of files, that were not put into others."""
        return batch.filter(pa.array(~self._taken(self._left, row_hashes(batch))))

    def added(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows, of some that were put into files, that were not in others before."""
        if self._moved is None:
            self._moved = self._counts - self._left
        return batch.filter(pa.array(~self._taken(self._moved, row_hashes(batch))))

    def _taken(self, left: npt.NDArray[np.int64], hashes: Hashes) -> npt.NDArray[np.bool_]:
        """Return which rows are among those that are left, and take them: of equal ones the first that come."""
        taken = np.zeros(len(hashes.first), bool)
        if not len(self._first) or not len(taken):
            return taken
        places = np.searchsorted(self._first, hashes.first).clip(max=len(self._first) - 1)
        hits = np.flatnonzero((self._first[places] == hashes.first) & (self._second[places] == hashes.second))
        hits = hits[np.argsort(places[hits], kind="stable")]
        groups, begins, counts = np.unique(places[hits], return_index=True, return_counts=True)
        number = np.arange(len(hits)) - np.repeat(begins, counts)
        taken[hits[number < np.repeat(left[groups], counts)]] = True
        left[groups] -= np.minimum(left[groups], counts)
        return taken

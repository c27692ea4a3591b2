"""Row numbers by key, a column at a time: by a table over the range of whole numbers, or by a hash table.

Both are plain arrays, and hold no keys (decision 43): keys are found in the rows, so an index can be kept beside these
in a file, and be mapped by any process that opens it. Of rows with one key the last one counts, in both. Tables of
tasks, joins of streams and operators that drop copies look rows up by it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_samza.errors import StoreError
from airflow_samza.storage.key_hashes import Numbers, key_hashes, whole_numbers

_DENSE = 4
"""A table over the whole range of integer keys is used when the range is at most this many times the number of rows."""

_SMALL_RANGE = 1 << 16

_CHUNK = 32_768
"""Keys looked up at a time: the temporary columns then stay in the processor's cache."""

_BUILT = 1 << 18
"""Rows that are put into an index at a time, for the same reason."""

_ROW_BITS = np.uint64(32)
_ROW = np.uint64(0xFFFFFFFF)
MOST_ROWS = (1 << 32) - 2
"""A hash table keeps a row's number, and as many bits of its key's hash, in one word."""


def make_index(keys: Sequence[pa.Array]) -> tuple[KeyIndex, Numbers | None]:
    """Return an index of rows whose keys are not null, and the rows that count, in order: None when all of them do."""
    rows = len(keys[0])
    if rows > MOST_ROWS:
        raise StoreError(
            f"One task has {rows} rows of a table, and at most {MOST_ROWS} are possible.",
            hint="Give the table more partitions.",
            rows=rows,
        )
    if len(keys) == 1 and pa.types.is_integer(keys[0].type) and rows:
        numbers = whole_numbers(keys[0])
        assert numbers is not None
        least, span = int(numbers.min()), int(numbers.max()) - int(numbers.min()) + 1
        if span <= max(_DENSE * rows, _SMALL_RANGE):
            return _dense(numbers, least, span)
    return _hashed(keys)


def index_from(array: Numbers, least: int | None) -> KeyIndex:
    """Return the index of an array; ``least`` is the key of its first place, None where keys are hashed."""
    return HashIndex(array) if least is None else RangeIndex(least, array)


def _counted(rows: int, kept: Numbers) -> tuple[Numbers | None, Numbers]:
    """Return the rows that count, None when all do; and the new number of each."""
    if kept.all():
        return None, np.empty(0, np.int64)
    return np.flatnonzero(kept), np.cumsum(kept) - 1


def _dense(numbers: Numbers, least: int, span: int) -> tuple[KeyIndex, Numbers | None]:
    rows = len(numbers)
    at, each = numbers - least, np.arange(rows, dtype=np.int64)
    places = np.full(span + 1, -1, np.int64)
    np.maximum.at(places, at, each)
    counting, renumbered = _counted(rows, places[at] == each)
    if counting is not None:
        places = np.where(places >= 0, renumbered[places], -1)
    return RangeIndex(least, places.astype(np.int32) if rows < 1 << 31 else places), counting


@dataclass(frozen=True)
class RangeIndex:
    """Index of one column of whole numbers that lie close together: ``places[key - least]``.

    The last place stands for all other keys.
    """

    least: int
    places: Numbers

    def parts(self) -> tuple[str, Numbers, int | None]:
        """Return the places with a name, and the key of the first one; :func:`index_from` makes the index again."""
        return "places", self.places, self.least

    def find(self, keys: Sequence[pa.Array], columns: Sequence[pa.Array]) -> Numbers:
        """Return the row (int64) of each key in ``columns``, -1 where there is none; ``keys`` are those of the rows."""
        column = _plain(columns[0])
        numbers = whole_numbers(column)
        assert numbers is not None
        span = len(self.places) - 1
        inside = (numbers >= self.least) & (numbers <= self.least + span - 1)  # a difference might overflow
        if column.null_count:
            inside &= column.is_valid().to_numpy(zero_copy_only=False)
        at = numbers - self.least
        if not inside.all():
            at[~inside] = span
        rows: Numbers = self.places[at].astype(np.int64)
        return rows


def _hashed(keys: Sequence[pa.Array]) -> tuple[KeyIndex, Numbers | None]:
    """Put rows into slots in the order of their hashes: the memory is gone through from one end to the other."""
    rows = len(keys[0])
    bits = min(32, max(4, (rows + rows // 2).bit_length()))
    size, shift = 1 << bits, np.uint64(64 - bits)
    hashes = key_hashes(keys)
    order = hashes & ~_ROW
    order |= np.arange(rows, dtype=np.uint64)
    order.sort()  # by half of the hash, then by row
    superseded = _superseded(keys, hashes, order)
    kept = np.ones(rows, bool)
    kept[superseded] = False
    counting, renumbered = _counted(rows, kept)
    if counting is not None:
        order = order[kept[(order & _ROW).astype(np.int64)]]
    slots = np.zeros(size, np.uint64)
    before, beyond = -1, []
    for start in range(0, len(order), _BUILT):
        part = order[start : start + _BUILT]
        each = np.arange(len(part), dtype=np.int64)
        at = (part >> shift).astype(np.int64) - each
        at[0] = max(at[0], before + 1)  # the first that is free from its own slot on, with all before it in theirs
        np.maximum.accumulate(at, out=at)
        at += each
        before = int(at[-1])
        here = (part & _ROW).astype(np.int64)
        entries = hashes[here] << _ROW_BITS
        entries |= ((here if counting is None else renumbered[here]) + 1).astype(np.uint64)
        fits = int(np.searchsorted(at, size))
        slots[at[:fits]] = entries[:fits]
        beyond.append(entries[fits:])
    around = np.concatenate(beyond) if beyond else slots[:0]
    if len(around):  # behind the last slot comes the first one
        slots[np.flatnonzero(slots == 0)[: len(around)]] = around
    return HashIndex(slots), counting


def _superseded(keys: Sequence[pa.Array], hashes: Numbers, order: Numbers) -> Numbers:
    """Return the rows whose key comes again in a later row; ``order`` has the rows by half of their hash."""
    halves = order >> _ROW_BITS
    alike = halves[1:] == halves[:-1]
    several = np.zeros(len(order), bool)
    several[1:] = alike
    several[:-1] |= alike
    left = _by_hash((order[several] & _ROW).astype(np.int64), halves[several], hashes)
    stored, superseded = _Keys(keys), [left[:0]]
    while len(left):
        own = hashes[left]
        ends = np.append(np.flatnonzero(own[1:] != own[:-1]), len(left) - 1)
        last = np.repeat(left[ends], np.diff(ends, prepend=-1))
        others = last != left
        left, last = left[others], last[others]
        same = stored.same(last, stored, left)
        superseded.append(left[same])
        left = left[~same]  # keys that have no more in common than their hash
    return np.concatenate(superseded)


def _by_hash(rows: Numbers, halves: Numbers, hashes: Numbers) -> Numbers:
    """Return rows, which are by half of their hash, by the whole of it; those of one hash stay in their order."""
    own = hashes[rows]
    mixed = np.unique(halves[1:][(halves[1:] == halves[:-1]) & (own[1:] != own[:-1])])
    if len(mixed):
        places = np.flatnonzero(mixed[np.minimum(np.searchsorted(mixed, halves), len(mixed) - 1)] == halves)
        rows[places] = rows[places[np.argsort(own[places], kind="stable")]]
    return rows


@dataclass(frozen=True)
class HashIndex:
    """Index of any keys: slots of half a hash and a row, tried in turn from the slot that the other half names."""

    slots: Numbers

    def parts(self) -> tuple[str, Numbers, int | None]:
        """Return the slots with a name; None says that keys are hashed."""
        return "slots", self.slots, None

    def find(self, keys: Sequence[pa.Array], columns: Sequence[pa.Array]) -> Numbers:
        """Return the same as of :class:`RangeIndex`."""
        stored = _Keys(keys)
        rows = len(columns[0])
        if rows <= _CHUNK:
            return self._find(stored, columns)
        parts = [[column.slice(start, _CHUNK) for column in columns] for start in range(0, rows, _CHUNK)]
        return np.concatenate([self._find(stored, part) for part in parts])

    def _find(self, stored: _Keys, columns: Sequence[pa.Array]) -> Numbers:
        size = len(self.slots)
        plain = [_like(column, key) for column, key in zip(columns, stored.columns, strict=True)]
        # Of a dictionary each text is hashed once.
        hashed = [c if pa.types.is_dictionary(c.type) else as_key for c, as_key in zip(columns, plain, strict=True)]
        hashes = key_hashes(hashed)
        searched = _Keys(plain)
        places = np.full(len(hashes), -1, np.int64)
        left = np.arange(len(hashes))
        for column in columns:
            if column.null_count:
                left = left[column.is_valid().to_numpy(zero_copy_only=False)[left]]
        # The first slots are by the upper bits of the hash; the lower half is the tag.
        at = (hashes[left] >> np.uint64(65 - size.bit_length())).astype(np.int64)
        tags = hashes & _ROW
        while len(left):
            slots = self.slots[at]
            going_on = slots != 0
            maybe = np.flatnonzero(going_on & (slots >> _ROW_BITS == tags[left]))
            rows = (slots[maybe] & _ROW).astype(np.int64) - 1
            same = stored.same(rows, searched, left[maybe])
            places[left[maybe[same]]] = rows[same]
            going_on[maybe[same]] = False
            next_ = np.flatnonzero(going_on)
            left, at = left[next_], (at[next_] + 1) & (size - 1)
        return places


KeyIndex = RangeIndex | HashIndex
"""An index from keys to rows."""


class _Keys:
    """Key columns of which rows are compared."""

    def __init__(self, columns: Sequence[pa.Array]) -> None:
        self.columns = columns
        self._numbers = [_native(column) for column in columns]

    def same(self, rows: Numbers, others: _Keys, other_rows: Numbers) -> Numbers:
        """Return whether each of these rows has the key of the other row, which may be of wider numbers."""
        equal: Numbers = np.ones(len(rows), bool)
        if not len(rows):
            return equal
        for mine, theirs, number, other in zip(
            self.columns, others.columns, self._numbers, others._numbers, strict=True
        ):
            if number is not None and other is not None:
                equal &= number[rows] == other[other_rows]
            else:
                equal &= _equal_values(_taken(mine, rows), _taken(theirs, other_rows))
        return equal


def _equal_values(mine: pa.Array, theirs: pa.Array) -> Numbers:
    one, other = whole_numbers(mine), whole_numbers(theirs)
    if one is not None and other is not None:
        return one == other  # type: ignore[no-any-return]  # an array, though == may return anything
    return pc.equal(mine, theirs).to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]  # Arrow has no types


def _native(column: pa.Array) -> Numbers | None:
    """Return numbers that numpy compares as they lie; floats are not among them (NaN)."""
    kind = column.type
    if not (pa.types.is_integer(kind) or pa.types.is_timestamp(kind) or pa.types.is_date32(kind)) or not len(column):
        return None
    width = kind.bit_width // 8
    letter = "u" if pa.types.is_unsigned_integer(kind) else "i"
    return np.frombuffer(column.buffers()[1], f"{letter}{width}", len(column), column.offset * width)


def _like(column: pa.Array, key: pa.Array) -> pa.Array:
    """Return a column of keys that are asked for in a form that is compared with the stored ones."""
    column = _plain(column)
    if column.type.equals(key.type) or whole_numbers(key.slice(0, 0)) is not None:
        return column
    return column.cast(key.type)


def _plain(column: pa.Array) -> pa.Array:
    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column


def _taken(column: pa.Array, rows: Numbers) -> pa.Array:
    return column.take(as_rows(rows))


def as_rows(rows: Numbers) -> pa.Array:
    """Return row numbers for Arrow (int64), without a copy.

    ``pa.array`` would load pandas, to ask whether this is a Series.
    """
    return pa.Array.from_buffers(pa.int64(), len(rows), [None, pa.py_buffer(np.ascontiguousarray(rows, np.int64))])

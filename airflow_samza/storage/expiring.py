"""Stores whose entries live for a time, by the clock of the task, over any store.

The time of each entry is one more column of its value, so snapshots and changes carry it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa

from airflow_samza.schema import Field, Schema, parse_type
from airflow_samza.storage.store import KeyValueStore, StoreLayout, Values

WRITTEN = "written_ms"

_SWEEPS = 4
"""Number of times per time to live that expired entries are looked for; up to a quarter more room is taken."""


def with_times(layout: StoreLayout) -> StoreLayout:
    """Return the layout of the store that an :class:`ExpiringStore` of this one stands on."""
    return replace(layout, value=Schema((*layout.value.fields, Field(WRITTEN, parse_type("bigint"), nullable=False))))


class ExpiringStore:
    """Store whose entries expire: ``inner`` has the layout of :func:`with_times`, ``clock`` gives ms since 1970."""

    def __init__(self, layout: StoreLayout, inner: KeyValueStore, ttl_ms: int, clock: Callable[[], int]) -> None:
        self.layout = layout
        self._inner = inner
        self._ttl = ttl_ms
        self._clock = clock
        self._swept = clock()

    def get(self, key: Any) -> Values | None:
        """Return the value of a key that is alive, or None."""
        value = self._inner.get(key)
        return value[:-1] if value is not None and value[-1] > self._clock() - self._ttl else None

    def get_all(self, keys: Iterable[Any]) -> dict[Any, Values]:
        """Return the values of those keys that are there and alive."""
        oldest = self._clock() - self._ttl
        return {key: value[:-1] for key, value in self._inner.get_all(keys).items() if value[-1] > oldest}

    def put(self, key: Any, value: Values) -> None:
        """Set a value; its time begins."""
        self._inner.put(key, (*value, self._clock()))

    def delete(self, key: Any) -> None:
        """Remove a key; one that is not there is no error."""
        self._inner.delete(key)

    def range(self, first: Any = None, last: Any = None) -> Iterator[tuple[Any, Values]]:
        """Return the entries alive now from ``first`` up to and without ``last``, in key order."""
        oldest = self._clock() - self._ttl
        return ((key, value[:-1]) for key, value in self._inner.range(first, last) if value[-1] > oldest)

    def kept(self) -> dict[str, pa.Table]:
        """Return what the store under it keeps; now and then without expired entries."""
        self._sweep()
        return self._inner.kept()

    def restore_kept(self, tables: Mapping[str, pa.Table]) -> None:
        """Take over what :meth:`kept` gave, in place of all that it holds."""
        self._inner.restore_kept(tables)

    def close(self) -> None:
        """Give back what it holds."""
        self._inner.close()

    def _sweep(self) -> None:
        now = self._clock()
        if now - self._swept < self._ttl // _SWEEPS:
            return
        self._swept = now
        for key in [key for key, value in self._inner.range() if value[-1] <= now - self._ttl]:
            self._inner.delete(key)

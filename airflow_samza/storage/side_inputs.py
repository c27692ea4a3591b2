"""The entries that processors of side inputs make of messages, and what they do to a store (rule S2).

A *place* is one partition of one side input, ``(stream, partition)``. Nothing here reads a topic. Source: side-inputs.
Tasks fill tables through it, wherever these lie.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

Place = tuple[str, int]


class EntryStore(Protocol):
    """Protocol of a store that side inputs fill."""

    def put(self, key: Any, value: Any) -> None:
        """Set a value."""

    def delete(self, key: Any) -> None:
        """Remove a key."""


def apply_entries(store: EntryStore, entries: Iterable[tuple[Any, Any]] | None) -> int:
    """Write entries in their order: a value None deletes, a key None is left out (rule S2).

    Returns how many were left out.
    """
    if entries is None:
        raise TypeError("it returned None and not (key, row) pairs, of which there may be none")
    ignored = 0
    for key, value in entries:
        if key is None:
            ignored += 1
        elif value is None:
            store.delete(key)
        else:
            store.put(key, value)
    return ignored

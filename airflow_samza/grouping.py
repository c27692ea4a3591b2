"""Lists of what belongs together, by key: which operators read each stream, which tasks a host runs.

The planner and the task look up neighbours in its groups, systems and pages their rows.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")


def grouped(pairs: Iterable[tuple[Key, Value]]) -> dict[Key, list[Value]]:
    """Return the values of each key; keys and values keep the order in which they come.

    >>> grouped([("readers", 1), ("writers", 2), ("readers", 3)])
    {'readers': [1, 3], 'writers': [2]}
    """
    groups: dict[Key, list[Value]] = {}
    for key, value in pairs:
        groups.setdefault(key, []).append(value)
    return groups

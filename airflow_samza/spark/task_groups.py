"""Groups of an epoch's tasks, each run in turn by one task of Spark: starting one costs more than a small task does."""

from __future__ import annotations

from collections.abc import Sequence

GROUP_SECONDS = 2.0  # decision 119
"""A group begins no further task after so many seconds: then tasks are so large that each is worth one of Spark's.

So stages that share Spark's cores wait for one another no longer than for a task, and no task waits behind large ones.
"""

_MOST = 128
"""Tasks of a group."""

_SPREAD = 0.6180339887498949
"""The golden ratio, whose multiples lie evenly between whole numbers: a group gets tasks from everywhere.

Partitions that follow each other are often alike, for instance large.
"""


def in_groups(tasks: Sequence[int], cores: int) -> list[tuple[int, ...]]:
    """Return the tasks in groups, of which so many run at a time: the first are large, the last single tasks.

    Each group has half of what a core would get of the tasks that are left, so all cores end at about the same time.

    >>> [len(group) for group in in_groups(range(32), cores=2)]
    [8, 6, 4, 3, 2, 2, 1, 1, 1, 1, 1, 1, 1]
    >>> in_groups(range(4), cores=2)
    [(0,), (1,), (2,), (3,)]
    """
    left = list(tasks)
    if len(left) >= 4 * cores:
        left = [task for _, task in sorted((place * _SPREAD % 1, task) for place, task in enumerate(left))]
    groups = []
    while left:
        size = min(max(len(left) // (2 * cores), 1), _MOST)
        groups.append(tuple(left[:size]))
        del left[:size]
    return groups

"""Counts of the requests that this process has sent to object stores, by kind: each costs money and time there.

Results of stages, the command ``status`` and logs show them.
"""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Iterable, Mapping

KINDS = ("PUT", "GET", "HEAD", "LIST", "DELETE", "COPY")
"""Kinds of requests. A multipart upload is a PUT per part and two more; a bulk deletion is one DELETE."""

RETRIED, THROTTLED = "retried", "throttled"
"""Requests among them that were sent again, and those that the store answered with *slow down*."""

_counts: Counter[str] = Counter()
_recorded: Counter[str] = Counter()
_lock = threading.Lock()


def count(kind: str, number: int = 1) -> None:
    """Add requests of a kind."""
    with _lock:
        _counts[kind] += number


def snapshot() -> dict[str, int]:
    """Return the requests of this process so far, by kind; a kind without requests is left out."""
    with _lock:
        return {kind: number for kind, number in _counts.items() if number}


def since(before: Mapping[str, int]) -> dict[str, int]:
    """Return the requests since a snapshot, by kind."""
    return {kind: number - before.get(kind, 0) for kind, number in snapshot().items() if number > before.get(kind, 0)}


def take() -> dict[str, int]:
    """Return the requests of this process that no record holds yet; the caller puts them into one.

    It is one that is written anyway: counting costs no request.
    """
    with _lock:
        counts = {kind: number - _recorded[kind] for kind, number in _counts.items() if number > _recorded[kind]}
        _recorded.update(counts)
    return counts


def record(counts: Mapping[str, int]) -> None:
    """Note that a record of its own holds these requests of this process, as a task's does."""
    with _lock:
        _recorded.update(counts)


def added(parts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Return the sum of the requests of several processes, or tasks."""
    return dict(sum(map(Counter, parts), Counter()))


def described(counts: Mapping[str, int]) -> str:
    """Return requests as people read them: ``312 requests (80 PUT, 202 GET, 30 LIST)``."""
    kinds = [f"{counts[kind]:,} {kind}" for kind in KINDS if counts.get(kind)]
    others = [f"{counts[name]:,} {name}" for name in (RETRIED, THROTTLED) if counts.get(name)]
    total = sum(counts.get(kind, 0) for kind in KINDS)
    return f"{total:,} request{'' if total == 1 else 's'}" + (f" ({', '.join(kinds + others)})" if total else "")


def _begin_anew() -> None:
    """Count from 0 in a forked process, whatever its parent was doing at that moment."""
    global _lock
    _lock = threading.Lock()
    _counts.clear()
    _recorded.clear()


os.register_at_fork(after_in_child=_begin_anew)

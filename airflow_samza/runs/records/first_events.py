"""First events of assets on record: of the tasks that are about to send one, each has its turn.

Tasks take turns by them before they send asset events.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count

from airflow_samza.records import durable
from airflow_samza.runs.records.folders import read, write_once
from airflow_samza.systems.filesystems.filesystem import Filesystem

TURN_SECONDS = 20.0
"""Time that a task has from its turn until Airflow knows the asset; then the next one has its turn."""

_POLL_SECONDS = 0.5


@durable("first event of an asset")
@dataclass(frozen=True)
class FirstEvent:
    """The turn of one task to send the first event of the asset ``uri``; ``at`` in seconds since 1970."""

    uri: str
    by: str
    at: float


def take_turn(
    files: Filesystem,
    uri: str,
    by: str,
    is_registered: Callable[[], bool],
    *,
    now: Callable[[], float] = time.time,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Wait until an asset is known, or it is the turn of ``by`` to make it known."""
    folder = f"assets/{hashlib.sha256(uri.encode()).hexdigest()[:32]}"
    numbers = count()
    while not is_registered():
        path = f"{folder}/{next(numbers):020}.json"
        if write_once(files, path, FirstEvent(uri, by, now())):
            return
        turn = read(files, path, FirstEvent)
        while turn is not None and abs(now() - turn.at) < TURN_SECONDS and not is_registered():
            sleep(_POLL_SECONDS)

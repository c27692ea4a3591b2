"""A limit on the memory of processes that holds: whoever takes more is killed, and the block that set the limit fails.

What counts is the proportional share of every process (what forked workers share counts once), several times a second.
The kernel's own
ways do not fit: a limit per process says nothing of a tree of them, and control groups are not given to everybody.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from contextlib import suppress

import psutil

from benchmarks.measuring import memory, tree

_SAMPLE_SECONDS = 0.2


class MemoryLimitExceeded(Exception):
    """More memory was taken than allowed."""


class MemoryLimit:
    """Holds this process, all below it, and the detached ones with all below them, to ``limit`` bytes together.

    Afterwards ``peak`` is the most that was seen, and ``by_process`` what the parts of that were, by the name of the
    program.
    """

    def __init__(self, limit: int, detached: Callable[[], Iterable[int]] = tuple) -> None:
        self.limit = limit
        self.peak = 0
        self.by_process: dict[str, int] = {}
        self.exceeded = False
        self._detached = detached
        self._stop = threading.Event()

    def __enter__(self) -> MemoryLimit:
        self._thread = threading.Thread(target=self._watch, name="memory-limit", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        if self.exceeded:
            raise MemoryLimitExceeded(f"{self.peak:,} bytes were taken, {self.limit:,} are allowed: {self.by_process}")

    def _watch(self) -> None:
        while not self._stop.wait(_SAMPLE_SECONDS):
            own = psutil.Process()
            found = {process.pid: process for root in (own.pid, *self._detached()) for process in tree(root)}
            sizes = {process: memory(process) for process in found.values()}
            total = sum(sizes.values())
            if total > self.peak:
                self.peak, self.by_process = total, _by_name(sizes)
            if total > self.limit:
                self.exceeded = True
                for process in found.values():
                    if process.pid != own.pid:
                        _kill(process)


def _by_name(sizes: dict[psutil.Process, int]) -> dict[str, int]:
    named: dict[str, int] = {}
    for process, size in sizes.items():
        try:
            name = process.name()
        except psutil.NoSuchProcess:
            continue
        named[name] = named.get(name, 0) + size
    return named


def _kill(process: psutil.Process) -> None:
    with suppress(psutil.NoSuchProcess):
        process.kill()

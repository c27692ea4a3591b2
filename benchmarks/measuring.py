"""Wall time, CPU and memory of processes: this one, those below it, and detached ones with all below them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import psutil

_SAMPLE_SECONDS = 0.25


@dataclass(frozen=True)
class Measured:
    """One run: seconds of wall time and of CPU, and the most memory that was seen (bytes, all processes together)."""

    seconds: float
    cpu_seconds: float
    memory: int


class Meter:
    """Measures a block.

    ``detached`` names processes whose trees count, too; ``children``: whether this one's tree does.

    CPU is the change of what the live processes, and the children they waited for, have used; memory is sampled.
    """

    def __init__(self, detached: Callable[[], Iterable[int]] = tuple, *, children: bool = True) -> None:
        self._detached = detached
        self._children = children
        self._stop = threading.Event()
        self._memory = 0

    def __enter__(self) -> Meter:
        self._before = self._cpu()
        self._thread = threading.Thread(target=self._sample, name="memory-samples", daemon=True)
        self._thread.start()
        self._start = time.perf_counter()
        return self

    def __exit__(self, *_: object) -> None:
        seconds = time.perf_counter() - self._start
        cpu = self._cpu() - self._before
        self._stop.set()
        self._thread.join()
        self.result = Measured(seconds, cpu, self._memory)

    def _processes(self) -> list[psutil.Process]:
        own = psutil.Process()
        found = {own.pid: own}
        if self._children:
            found.update((process.pid, process) for process in own.children(recursive=True))
        for pid in self._detached():
            found.update((process.pid, process) for process in tree(pid))
        return list(found.values())

    def _cpu(self) -> float:
        used = 0.0
        for process in self._processes():
            try:
                times = process.cpu_times()
            except psutil.NoSuchProcess:
                continue
            used += times.user + times.system
            if self._children or process.pid != psutil.Process().pid:
                used += times.children_user + times.children_system
        return used

    def _sample(self) -> None:
        while not self._stop.wait(_SAMPLE_SECONDS):
            self._memory = max(self._memory, sum(map(memory, self._processes())))


def tree(pid: int) -> list[psutil.Process]:
    """A process and all below it; empty when it is gone."""
    try:
        root = psutil.Process(pid)
        return [root, *root.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def memory(process: psutil.Process) -> int:
    """The bytes that a process holds.

    What forked workers share is counted once among them, where the system tells (Linux).
    """
    try:
        with open(f"/proc/{process.pid}/smaps_rollup") as lines:
            return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")) * 1024
    except OSError:
        pass
    try:
        return int(process.memory_info().rss)
    except psutil.NoSuchProcess:
        return 0

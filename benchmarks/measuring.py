"""Wall time, CPU and memory of whole process trees: this process, the Spark server it started, JVM and Python workers."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import psutil

_SAMPLE_SECONDS = 0.1


@dataclass(frozen=True)
class Measured:
    """One run: seconds of wall time and of CPU, and the largest resident memory seen (bytes, all processes together)."""

    seconds: float
    cpu_seconds: float
    max_rss: int


class Meter:
    """Measures a block. ``detached`` names the processes whose trees count beside this one's.

    CPU is the change of what the live processes, and the children they waited for, have used; memory is sampled.
    """

    def __init__(self, detached: Callable[[], Iterable[int]] = tuple) -> None:
        self._detached = detached
        self._stop = threading.Event()
        self._max_rss = 0

    def __enter__(self) -> Meter:
        self._before = {process.pid: cpu for process, cpu in self._cpu()}
        self._thread = threading.Thread(target=self._sample, name="memory-samples", daemon=True)
        self._thread.start()
        self._start = time.perf_counter()
        return self

    def __exit__(self, *_: object) -> None:
        seconds = time.perf_counter() - self._start
        after = sum(cpu for _, cpu in self._cpu())
        self._stop.set()
        self._thread.join()
        self.result = Measured(seconds, after - sum(self._before.values()), self._max_rss)

    def _tree(self) -> list[psutil.Process]:
        found: dict[int, psutil.Process] = {}
        for pid in (psutil.Process().pid, *self._detached()):
            try:
                root = psutil.Process(pid)
                found.update((process.pid, process) for process in (root, *root.children(recursive=True)))
            except psutil.NoSuchProcess:
                continue
        return list(found.values())

    def _cpu(self) -> list[tuple[psutil.Process, float]]:
        used = []
        for process in self._tree():
            try:
                times = process.cpu_times()
            except psutil.NoSuchProcess:
                continue
            used.append((process, times.user + times.system + times.children_user + times.children_system))
        return used

    def _sample(self) -> None:
        while not self._stop.wait(_SAMPLE_SECONDS):
            total = 0
            for process in self._tree():
                try:
                    total += process.memory_info().rss
                except psutil.NoSuchProcess:
                    continue
            self._max_rss = max(self._max_rss, total)


def report(peer: str, workload: str, rows: int, runs: list[Measured], **more: Any) -> dict[str, Any]:
    """Prints the best of the runs as one JSON line: the fastest one's wall time and CPU, and the largest memory of all."""
    best = min(runs, key=lambda run: run.seconds)
    line = {
        "peer": peer,
        "workload": workload,
        "rows": rows,
        "seconds": round(best.seconds, 3),
        "cpu_seconds": round(best.cpu_seconds, 2),
        "max_rss_mb": round(max(run.max_rss for run in runs) / 2**20),
        "all_seconds": [round(run.seconds, 3) for run in runs],
        **more,
    }
    print(json.dumps(line), flush=True)
    return line

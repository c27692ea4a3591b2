"""The memory and the cores that a container and its host may use, what of it is free, and the share of a driver's Java.

Beside that Java the container holds the Airflow task, the stage runner's own process and a Python worker per core. Warm
runners and starts of a local Spark are sized by them.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

log = logging.getLogger("airflow_samza.runner")

DRIVER_MEMORY = "spark.driver.memory"

_MIB = 1 << 20
_LEAST_HEAP = 512 * _MIB
"""Spark itself starts with no less than 450 MiB."""
_TIGHT = 1536 * _MIB
_NO_LIMIT = 1 << 60
"""Version 1 of control groups writes a number near 2^63 where there is no limit."""


def heap_in_container(usual: str, limit: int | None = None) -> dict[str, str]:
    """Return the setting of the driver's heap where a container's limit asks for less than the usual mebibytes.

    >>> heap_in_container("1g", 2048 << 20), heap_in_container("1g", 8192 << 20)
    ({'spark.driver.memory': '512m'}, {})
    """
    limit = memory_limit() if limit is None else limit
    if limit is None:
        return {}
    if limit < _TIGHT:
        log.warning(
            "This container may use %d MiB of memory; a stage runner with its Spark needs about %d. Raise the limit, "
            "or use a Spark Connect server or the deploy mode cluster.",
            limit // _MIB,
            _TIGHT // _MIB,
        )
    heap = max(limit // 4, _LEAST_HEAP)
    return {DRIVER_MEMORY: f"{heap // _MIB}m"} if heap < _bytes(usual) else {}


PROC = Path("/proc")
GROUPS = Path("/sys/fs/cgroup")


def memory_limit(proc: Path = PROC / "self" / "cgroup", groups: Path = GROUPS) -> int | None:
    """Return the bytes that the control groups of this process allow; None without a limit, or without such groups."""
    return min((limit for _, _, limit in _limits(proc, groups)), default=None)


@dataclass(frozen=True)
class MemoryRoom:
    """The bytes that ``of`` allows, and those of them that are free; files that the kernel can drop are free.

    ``stalled`` is the share of the last ten seconds, in per cent, in which a process waited for memory; 0 where the
    kernel does not say it.
    """

    of: str
    limit: int
    free: int
    stalled: float = 0.0


def memory_rooms(proc: Path = PROC, groups: Path = GROUPS) -> list[MemoryRoom]:
    """Return the room in each control group of this process that has a limit, and in the host."""
    rooms = []
    for group, files, limit in _limits(proc / "self" / "cgroup", groups):
        with suppress(OSError, ValueError):
            used = int((group / files.used).read_text(encoding="ascii"))
            pairs = dict(line.split() for line in (group / "memory.stat").read_text(encoding="ascii").splitlines())
            free = limit - used + int(pairs.get(files.droppable, 0))
            rooms.append(MemoryRoom(f"the control group {group}", limit, max(free, 0), _stalled(group / _PRESSURE)))
    with suppress(OSError, ValueError, KeyError):  # no Linux
        lines = (line.split() for line in (proc / "meminfo").read_text(encoding="ascii").splitlines())
        kib = {name: int(size) for name, size, *_ in lines}
        host = kib["MemTotal:"] * 1024, kib["MemAvailable:"] * 1024
        rooms.append(MemoryRoom("this host", *host, _stalled(proc / "pressure" / "memory")))
    return rooms


def cores_here(proc: Path = PROC / "self" / "cgroup", groups: Path = GROUPS) -> int:
    """Return the cores that this process may use: those it may run on, or fewer where a control group has a quota.

    Java counts so for ``local[*]``.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quotas = [-(-quota // period) for quota, period in _quotas(proc, groups)]
    return max(min(cores, *quotas) if quotas else cores, 1)


@dataclass(frozen=True)
class _Files:
    """The names of a control group's files, and in ``memory.stat`` of the files that were not read for long."""

    limit: str
    used: str
    droppable: str


_PRESSURE = "memory.pressure"
_VERSION_2 = _Files("memory.max", "memory.current", "inactive_file")
_VERSION_1 = _Files("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")


def _limits(proc: Path, groups: Path) -> Iterator[tuple[Path, _Files, int]]:
    """Yield the groups of this process that have a limit, and those above them; a container sees its own as the top."""
    for group, is_version_1 in _groups("memory", proc, groups):
        files = _VERSION_1 if is_version_1 else _VERSION_2
        with suppress(OSError):
            text = (group / files.limit).read_text(encoding="ascii").strip()
            if text.isdigit() and int(text) < _NO_LIMIT:
                yield group, files, int(text)


def _quotas(proc: Path, groups: Path) -> Iterator[tuple[int, int]]:
    """Yield the microseconds of processor time that groups of this process may use, and in which period."""
    for group, is_version_1 in _groups("cpu", proc, groups):
        with suppress(OSError, ValueError):
            files = ("cpu.cfs_quota_us", "cpu.cfs_period_us") if is_version_1 else ("cpu.max",)
            quota, period = " ".join((group / name).read_text(encoding="ascii") for name in files).split()
            if quota.isdigit() and int(quota):  # "max" or -1: no limit
                yield int(quota), int(period)


def _groups(controller: str, proc: Path, groups: Path) -> Iterator[tuple[Path, bool]]:
    """Yield the groups of this process and those above them, from the top, and whether they are of version 1."""
    lines = []
    with suppress(OSError):
        lines = proc.read_text(encoding="ascii", errors="replace").splitlines()
    for line in lines:
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if controllers and controller not in controllers.split(","):
            continue
        top = groups / controller if controllers else groups
        parts = [part for part in path.split("/") if part and part != ".."]
        for depth in range(len(parts) + 1):
            yield top.joinpath(*parts[:depth]), bool(controllers)


def _stalled(path: Path) -> float:
    """Return ``avg10`` of the line ``some`` of a file of pressure."""
    with suppress(OSError, ValueError):  # a kernel without it, or one in which it is switched off
        for line in path.read_text(encoding="ascii").splitlines():
            kind, *figures = line.split()
            if kind == "some":
                return float(dict(figure.split("=") for figure in figures).get("avg10", 0.0))
    return 0.0


def _bytes(text: str) -> int:
    factors: Mapping[str, int] = {"m": _MIB, "g": 1 << 30}
    return int(text[:-1]) * factors[text[-1]]

"""The memory that a container may use, and the share of it that a driver's Java gets.

Beside that Java the container holds the Airflow task, the stage runner's own process and a Python worker per core.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
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


def memory_limit(proc: Path = Path("/proc/self/cgroup"), groups: Path = Path("/sys/fs/cgroup")) -> int | None:
    """Return the bytes that the control groups of this process allow; None without a limit, or without such groups."""
    try:
        lines = proc.read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return None
    limits = []
    for line in lines:
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if controllers == "":
            limits += _limits(groups, path, "memory.max")
        elif "memory" in controllers.split(","):
            limits += _limits(groups / "memory", path, "memory.limit_in_bytes")
    return min(limits, default=None)


def _limits(group: Path, path: str, name: str) -> list[int]:
    """Return the limits of a group and of all above it; a container sees its own as the top."""
    parts = [part for part in path.split("/") if part and part != ".."]
    limits = []
    for depth in range(len(parts) + 1):
        try:
            text = group.joinpath(*parts[:depth], name).read_text(encoding="ascii").strip()
        except OSError:
            continue
        if text.isdigit() and int(text) < _NO_LIMIT:
            limits.append(int(text))
    return limits


def _bytes(text: str) -> int:
    factors: Mapping[str, int] = {"m": _MIB, "g": 1 << 30}
    return int(text[:-1]) * factors[text[-1]]

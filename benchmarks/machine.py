"""The machine of the figures, in words that say nothing of whose machine it was."""

from __future__ import annotations

import platform
import re
import subprocess
from importlib.metadata import version

import psutil


def describe_machine(cores: int) -> str:
    """Cores, memory and versions."""
    memory = round(psutil.virtual_memory().total / 2**30)
    packages = ", ".join(f"{name} {version(name)}" for name in ("pyspark", "pyarrow", "pandas"))
    return (
        f"{psutil.cpu_count()} {platform.machine()} cores, {memory} GiB, {platform.system()}, Python "
        f"{platform.python_version()}, "
        f"Java {_java()}, {packages}; `local[{cores}]`"
    )


def describe_load(before: float, after: float) -> str:
    """Other work of the machine, by its load averages before and after the runs; empty when that was nothing much."""
    return "" if before < 1 else f", busy with other work (load average {before:.0f} before, {after:.0f} after)"


def _java() -> str:
    try:
        said = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False).stderr
    except OSError:
        return "?"
    found = re.search(r'version "([^"]+)"', said)
    return found.group(1) if found else "?"

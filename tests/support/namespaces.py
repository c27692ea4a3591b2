"""Processes that see another machine than we do: folders of ours are empty to them, by Linux' mount namespaces."""

from __future__ import annotations

import functools
import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import airflow_samza

_ROOT = ["unshare", "--mount"]
_ANYBODY = ["unshare", "--user", "--map-root-user", "--mount"]


@functools.lru_cache(maxsize=1)
def _unshare() -> tuple[str, ...] | None:
    """The beginning of a command in a mount namespace of its own; None where this machine lets nobody have one."""
    for command in ([_ROOT] if os.geteuid() == 0 else []) + [_ANYBODY]:
        try:
            done = subprocess.run([*command, "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True, check=False)
        except FileNotFoundError:
            return None
        if done.returncode == 0:
            return tuple(command)
    return None


def without_folders(folders: Sequence[Path]) -> list[str]:
    """The beginning of a command to which these folders are empty, and cannot be written."""
    command = _unshare()
    if command is None:
        return []
    hide = "; ".join(f"mount -t tmpfs -o ro none {shlex.quote(str(folder))}" for folder in folders)
    return [*command, "sh", "-ec", f'{hide}; exec "$@"', "sh"]


def folders_of_our_package() -> list[Path]:
    """The folders from which Pythons of this machine import this package."""
    program = "import os.path, airflow_samza; print(os.path.dirname(airflow_samza.__file__))"
    plain = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    found = subprocess.run(
        [sys.executable, "-c", program], cwd="/", env=plain, capture_output=True, text=True, check=False
    )
    here = Path(airflow_samza.__file__).parent
    return sorted({here, *(Path(line) for line in found.stdout.split())})

"""Work in a process of its own that dies at a failpoint."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from airflow_samza.runs.failpoints import VARIABLE

_PROGRAM = "import pickle, sys; work, arguments = pickle.load(sys.stdin.buffer); work(*arguments)"


def killed(work: Callable[..., Any], *arguments: Any, place: str, folder: Path) -> None:
    """Call a function with its arguments in a new process, which dies at a failpoint.

    The process is no fork of this one: a fork copies no threads, and the lock of a thread would never be given back.
    """
    environment = {
        **os.environ,
        VARIABLE: f"{place}@{folder / 'struck'}",
        "PYTHONPATH": str(Path(__file__).parents[2]),
    }
    told = pickle.dumps((work, arguments))
    ended = subprocess.run([sys.executable, "-c", _PROGRAM], input=told, env=environment, check=False)
    assert ended.returncode == -9

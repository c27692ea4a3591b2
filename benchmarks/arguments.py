"""Arguments of benchmarks: their types, and those that several have."""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

from benchmarks.machine import describe_load, describe_machine


def made_folder(text: str) -> Path:
    """Return the absolute path of a folder for work or data, which is made if it is missing."""
    path = Path(text).resolve()
    path.mkdir(parents=True, exist_ok=True)
    return path


def measure_rows(description: str | None, measure: Callable[[Path, int, int], None]) -> None:
    """Measure in a folder that is deleted, by ``--work``, ``--rows`` and ``--rounds``, and print machine and load."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--work", type=made_folder)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    before = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(dir=asked.work) as folder:
        measure(Path(folder), asked.rows, asked.rounds)
    print(describe_machine(2) + describe_load(before, os.getloadavg()[0]))

"""Types of the arguments of benchmarks."""

from __future__ import annotations

from pathlib import Path


def made_folder(text: str) -> Path:
    """Return the absolute path of a folder for work or data, which is made if it is missing."""
    path = Path(text).resolve()
    path.mkdir(parents=True, exist_ok=True)
    return path

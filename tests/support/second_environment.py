"""A second Python environment, made in a tenth of a second: another prefix, the same libraries, and a module more."""

from __future__ import annotations

import site
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

HERE = Path(__file__).resolve().parents[2]

MODULE = "only_there"
"""A module that this environment alone has; its ``WORD`` is what the environment was made with."""


def make_environment(folder: Path, word: str = "there", *, package: Path | None = HERE, libraries: bool = True) -> Path:
    """Returns the Python of a new environment; ``package`` is the folder that has airflow_samza (None: it has none)."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    paths = [str(package)] if package is not None else []
    packages = add_paths(folder, [*paths, *(site.getsitepackages() if libraries else [])])
    (packages / f"{MODULE}.py").write_text(f"WORD = {word!r}\n")
    return folder / "bin" / "python"


def add_paths(folder: Path, paths: Sequence[str]) -> Path:
    """Have an environment look into further folders behind its own packages; return the folder of these."""
    (packages,) = folder.glob("lib/python3*/site-packages")
    (packages / "more.pth").write_text("\n".join(paths))
    return packages

"""The command line as a user types it, in a folder with an application, whose runners have no Spark."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.support.runner_without_spark import VARIABLE, Dials

PATIENCE = 120.0


class Typed:
    """A folder with the module of an application, which is edited between commands."""

    def __init__(self, folder: Path, module: str, source: str) -> None:
        self.folder = folder
        self.module = module
        self.dials = Dials(folder / "dials")
        self.source = source
        self.write(source)

    def write(self, source: str) -> None:
        """Write the module anew."""
        (self.folder / f"{self.module}.py").write_text(source)

    def edit(self, before: str, after: str) -> None:
        """Replace a part of the module as it was first."""
        assert before in self.source
        self.write(self.source.replace(before, after))

    @property
    def data(self) -> str:
        """The option that binds the system ``data`` to the folder."""
        return f"--system=data=files:{self.folder}"

    def say(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a command over the root in the folder."""
        path = os.pathsep.join([str(Path(__file__).parents[2]), str(self.folder)])
        return subprocess.run(
            [sys.executable, "-m", "tests.support.command_without_spark", *words, "--root", "root"],
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
            env={**os.environ, "PYTHONPATH": path, VARIABLE: str(self.dials.folder)},
        )

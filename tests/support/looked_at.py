"""A local filesystem that notes at which paths it was looked, to count what a question costs."""

from __future__ import annotations

import os
from collections.abc import Sequence

from airflow_samza.systems.filesystems.local import LocalFilesystem


class LookedAt(LocalFilesystem):
    """``paths`` are those that were read, listed, or looked for, in turn."""

    def __init__(self, root: str | os.PathLike[str]) -> None:
        super().__init__(root)
        self.paths: list[str] = []

    def read(self, path: str) -> bytes:
        """Read a file, and note it."""
        self.paths.append(path)
        return super().read(path)

    def list(self, directory: str) -> list[str]:
        """List a folder, and note it."""
        self.paths.append(directory)
        return super().list(directory)

    def exists(self, path: str) -> bool:
        """Look for a file, and note it."""
        self.paths.append(path)
        return super().exists(path)

    def below(self, folder: str) -> Sequence[str]:
        """Return the paths below a folder, from there, in order."""
        return sorted(path.removeprefix(f"{folder}/") for path in self.paths if path.startswith(f"{folder}/"))

"""A Dag bundle with versions, for tests: each version is a folder, and a file names the current one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from airflow.dag_processing.bundles.base import BaseDagBundle

CURRENT = "current"


class VersionedBundle(BaseDagBundle):
    """The folder of one version, as a clone of a Git repository would be; without one that of the current version."""

    supports_versioning = True

    def __init__(self, *, path: str, **more: Any) -> None:
        super().__init__(**more)
        self._folder = Path(path)

    def get_current_version(self) -> str:
        """Return the version that the file names."""
        return (self._folder / CURRENT).read_text().strip()

    def refresh(self) -> None:
        """Do nothing: a deployment has written the folder and the file."""

    @property
    def path(self) -> Path:
        """The folder of the version."""
        return self._folder / (self.version or self.get_current_version())


def deploy(folder: Path, version: str, files: dict[str, str]) -> None:
    """Make a version of a bundle the current one."""
    (folder / version).mkdir(parents=True)
    for name, text in files.items():
        (folder / version / name).write_text(text)
    (folder / f"{CURRENT}.new").write_text(version)
    (folder / f"{CURRENT}.new").rename(folder / CURRENT)

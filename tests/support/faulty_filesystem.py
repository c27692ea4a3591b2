"""A local filesystem that fails or dies at a chosen operation: what the crash tests of topics and runs run over."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

from airflow_samza.systems.filesystems.local import LocalFilesystem


class FaultyFilesystem(LocalFilesystem):
    """Fault at the n-th change of the disk (create, write, sync, link, unlink, replace, rename, delete).

    ``at`` counts from 1; None only counts. ``fault`` is called with (operation, path) in place of the operation; the
    failure then lasts (``lasting``: a full disk stays full) or passes. Reads count only when ``reads`` is set.
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        at: int | None = None,
        fault: Callable[[str, str], None] | None = None,
        *,
        lasting: bool = False,
        reads: bool = False,
    ) -> None:
        super().__init__(root)
        self.at = at
        self.fault = fault or (lambda operation, path: die())
        self.lasting = lasting
        self.reads = reads
        self.operations: list[str] = []

    def step(self, operation: str, path: str) -> None:
        """Fail or die when its turn has come."""
        if operation == "read" and not self.reads:
            return
        self.operations.append(operation)
        if self.at is not None and (
            len(self.operations) == self.at or (self.lasting and len(self.operations) > self.at)
        ):
            self.fault(operation, path)


class FolderlessFilesystem(FaultyFilesystem):
    """A filesystem like an object store's: no folder is renamed, and one is deleted file by file."""

    renames_folders = False

    def rename(self, source: str, target: str) -> None:
        assert not Path(self.location(source)).is_dir(), f"{source} is a folder, and renamed"
        super().rename(source, target)

    def delete_tree(self, directory: str) -> None:
        for path in sorted(Path(self.location(directory)).rglob("*")):
            if path.is_file():
                self.delete(str(path.relative_to(self.root)))
        shutil.rmtree(self.location(directory), ignore_errors=True)


def die() -> None:
    """End this process at once, as ``kill -9`` does."""
    os.kill(os.getpid(), signal.SIGKILL)


def failing_with(number: int) -> Callable[[str, str], None]:
    """Return a fault that raises the operating system's error of this number (``errno.ENOSPC``, ``errno.EIO``)."""

    def fail(operation: str, path: str) -> None:
        raise OSError(number, os.strerror(number), path)

    return fail

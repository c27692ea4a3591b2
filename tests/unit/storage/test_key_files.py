"""Files of keys: a commit that names one finds it after a power failure, too."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from airflow_samza.storage.key_files import KeyGatherer, repeated
from airflow_samza.systems.filesystems.local import LocalFilesystem


class Watched(LocalFilesystem):
    """A file system that notes its steps."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.steps: list[str] = []

    def step(self, operation: str, path: str) -> None:
        self.steps.append(operation)


def test_keys_are_on_the_disk_before_they_are_named(tmp_path: Path) -> None:
    files, keys = Watched(tmp_path), KeyGatherer(["id"])
    keys.add(pa.record_batch({"id": [1, 2, 1], "x": ["a", "b", "c"]}))
    assert keys.write(files, "keys/one.arrow")
    assert files.steps[-1] == "sync", files.steps
    assert repeated(files, ["keys/one.arrow"], 3) == (1, [(1,)])

"""A remote storage as a filesystem of Arrow: the part that does not depend on the storage."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs


class RemoteHandler(pafs.FileSystemHandler):  # type: ignore[misc]  # Arrow has no types
    """Handler of Arrow's calls of a filesystem, over a client of the storage; one that is unpickled connects anew.

    Files are written whole, and what the root of the storage holds is never emptied.
    """

    kind: str

    def __init__(self, client: Any) -> None:
        self._client = client

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other._client is self._client

    def __ne__(self, other: object) -> bool:
        return not self == other

    def get_type_name(self) -> str:
        return self.kind

    def normalize_path(self, path: str) -> str:
        return path

    def get_file_info(self, paths: list[str]) -> list[pafs.FileInfo]:
        return [self._info(path) for path in paths]

    def _info(self, path: str) -> pafs.FileInfo:
        raise NotImplementedError

    def delete_root_dir_contents(self) -> None:
        """Reject it: emptying a whole storage is never meant."""
        raise NotImplementedError(f"the root of {self.kind} is not emptied")

    def open_input_stream(self, path: str) -> pa.NativeFile:
        return self.open_input_file(path)

    def open_append_stream(self, path: str, metadata: Mapping[str, str] | None) -> pa.NativeFile:
        """Reject it: no file is appended to."""
        raise NotImplementedError(f"files of {self.kind} are written whole")

"""A local filesystem of Arrow that asks before and after each operation that changes something, for tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow.fs as pafs


class FaultyHandler(pafs.FileSystemHandler):  # type: ignore[misc]
    """A local filesystem that asks before each operation that changes something."""

    def __init__(self, before: Callable[[str], None], *, after: Callable[[str], None] = lambda name: None) -> None:
        self.local = pafs.LocalFileSystem()
        self.before = before
        self.after = after

    def _change(self, name: str, *arguments: Any, **options: Any) -> Any:
        self.before(name)
        result = getattr(self.local, name)(*arguments, **options)
        self.after(name)
        return result

    def get_type_name(self) -> str:
        return "faulty"

    def get_file_info(self, paths: list[str]) -> Any:
        return self.local.get_file_info(paths)

    def get_file_info_selector(self, selector: Any) -> Any:
        return self.local.get_file_info(selector)

    def create_dir(self, path: str, recursive: bool) -> None:
        self._change("create_dir", path, recursive=recursive)

    def delete_dir(self, path: str) -> None:
        self._change("delete_dir", path)

    def delete_dir_contents(self, path: str, missing_dir_ok: bool = False) -> None:
        self._change("delete_dir_contents", path, missing_dir_ok=missing_dir_ok)

    def delete_root_dir_contents(self) -> None:
        raise NotImplementedError

    def delete_file(self, path: str) -> None:
        self._change("delete_file", path)

    def move(self, source: str, target: str) -> None:
        self._change("move", source, target)

    def copy_file(self, source: str, target: str) -> None:
        self._change("copy_file", source, target)

    def open_input_stream(self, path: str) -> Any:
        return self.local.open_input_stream(path)

    def open_input_file(self, path: str) -> Any:
        return self.local.open_input_file(path)

    def open_output_stream(self, path: str, metadata: Any) -> Any:
        return self._change("open_output_stream", path)

    def open_append_stream(self, path: str, metadata: Any) -> Any:
        raise NotImplementedError

    def normalize_path(self, path: str) -> str:
        return path

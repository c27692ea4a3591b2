"""The files that a path means: a file, a directory, a glob. Hidden files and unpublished output are left out.

A path is read part by part: ``*``, ``?`` and ``[…]`` match inside one part, ``**`` any number of directories. What a
path names in full is taken as it is, also when it holds such characters.
"""

from __future__ import annotations

import fnmatch
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple
from urllib.parse import unquote

import pyarrow.fs as pafs

from airflow_samza.errors import TopicError
from airflow_samza.systems.files.location import Location
from airflow_samza.systems.files.manifests import published_names

_MAGIC = re.compile(r"[*?\[]")
_NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"


@dataclass(frozen=True)
class FoundFile:
    """File: path in its filesystem, bytes, time of change (ns; None where the storage has none), Hive columns."""

    path: str
    size: int
    mtime: int | None = None
    columns: tuple[tuple[str, str | None], ...] = ()


class Listing(NamedTuple):
    """The files of a path, sorted by path; ``missing`` is the literal path that does not exist, if so."""

    files: tuple[FoundFile, ...]
    missing: Location | None = None


@dataclass
class _Walk:
    root: Location
    listed: dict[str, list[pafs.FileInfo]] = field(default_factory=dict)

    def children(self, directory: str) -> list[pafs.FileInfo]:
        """Return the entries of a directory, sorted; none when it vanished meanwhile."""
        if directory not in self.listed:
            selector = pafs.FileSelector(directory, allow_not_found=True)
            found = [
                info
                for info in self.root.filesystem.get_file_info(selector)
                if _name(info) and not self._leads_back(info, directory)
            ]
            found += self._leading_nowhere(directory, {str(info.path).rstrip("/") for info in found})
            self.listed[directory] = sorted(found, key=lambda info: str(info.path))
        return self.listed[directory]

    def _leading_nowhere(self, directory: str, known: set[str]) -> list[pafs.FileInfo]:
        """Return the links of a local directory that lead nowhere: Arrow leaves them out of a listing."""
        if not isinstance(self.root.filesystem, pafs.LocalFileSystem) or not os.path.isdir(directory):
            return []
        with os.scandir(directory) as entries:
            links = [entry.path for entry in entries if entry.is_symlink() and entry.path not in known]
        return [pafs.FileInfo(path, type=pafs.FileType.NotFound) for path in links if not os.path.exists(path)]

    def _leads_back(self, info: pafs.FileInfo, directory: str) -> bool:
        """Return whether an entry is its own directory, as some object stores list it, or a link to a directory above.

        It would never end.
        """
        path = str(info.path).rstrip("/")
        if path == directory:
            return True
        if not isinstance(self.root.filesystem, pafs.LocalFileSystem) or not os.path.islink(path):
            return False
        target, here = os.path.realpath(path), os.path.realpath(directory)
        return here == target or here.startswith(target.rstrip("/") + "/")

    def files_below(self, info: pafs.FileInfo) -> Iterator[pafs.FileInfo]:
        """Yield the file itself, or all files below the directory that are not hidden."""
        if info.type == pafs.FileType.File:
            yield info
        elif info.type == pafs.FileType.Directory:
            for child in self.children(info.path.rstrip("/")):
                if not is_hidden(_name(child)):
                    yield from self.files_below(child)
        else:
            self._reject_odd(str(info.path))

    def _reject_odd(self, path: str) -> None:
        """Reject a local entry that is neither file nor directory.

        One that has vanished meanwhile is no entry any more.
        """
        if not isinstance(self.root.filesystem, pafs.LocalFileSystem) or not os.path.lexists(path):
            return
        link = os.path.islink(path)
        raise TopicError(
            f"{self.root.at(path)} is a link that leads nowhere (to {os.readlink(path)})."
            if link
            else f"{self.root.at(path)} is neither a file nor a directory.",
            hint="Repair or remove the link; what it stands for would be left out."
            if link
            else "Remove it, or give a path without it.",
            path=path,
        )

    def matches(self, directory: str, parts: list[str]) -> Iterator[pafs.FileInfo]:
        """Yield what the rest of a glob matches below a directory."""
        part, rest = parts[0], parts[1:]
        if part == "**":
            if rest:
                yield from self.matches(directory, rest)
            for child in self.children(directory):
                if is_hidden(_name(child)):
                    continue
                if child.type == pafs.FileType.Directory:
                    yield from self.matches(child.path.rstrip("/"), parts)
                elif not rest:
                    yield child
                elif child.type == pafs.FileType.NotFound:
                    self._reject_odd(str(child.path))  # it may stand for a directory
            return
        pattern = re.compile(fnmatch.translate(part))
        for child in self.children(directory):
            name = _name(child)
            if not pattern.match(name) or (is_hidden(name) and not part.startswith(name[0])):
                continue
            if not rest:
                yield child
            elif child.type == pafs.FileType.Directory:
                yield from self.matches(child.path.rstrip("/"), rest)
            elif child.type != pafs.FileType.File:
                self._reject_odd(str(child.path))


def find_files(root: Location, relative: str) -> Listing:
    """Return the files that a path below a root means."""
    walk = _Walk(root)
    literal = root / relative
    info = root.filesystem.get_file_info(literal.path)
    if info.type != pafs.FileType.NotFound or (
        isinstance(root.filesystem, pafs.LocalFileSystem) and os.path.islink(literal.path)
    ):
        return _listing(walk, root, [info])
    if not has_glob(relative):
        return Listing((), missing=literal)
    parts = [part for part in relative.split("/") if part]
    first = next(place for place, part in enumerate(parts) if _MAGIC.search(part))
    base = root / "/".join(parts[:first])
    if root.filesystem.get_file_info(root.path).type == pafs.FileType.NotFound:
        return Listing((), missing=root)
    return _listing(walk, root, walk.matches(base.path, parts[first:]))


def has_glob(path: str) -> bool:
    """Return whether a path has a part that matches, instead of naming."""
    return _MAGIC.search(path) is not None


def is_hidden(name: str) -> bool:
    """Return whether a file or directory is not data: ``_SUCCESS``, ``.part.crc``, ``_samza``.

    A Hive directory ``_x=1`` is data.
    """
    return name.startswith(".") or (name.startswith("_") and "=" not in name)


def hive_columns(relative: str) -> tuple[tuple[str, str | None], ...]:
    """Return the columns that a path's directories ``name=value`` give, outermost first.

    >>> hive_columns("a/day=2024-01-01/city=The%20Hague/part.parquet")
    (('day', '2024-01-01'), ('city', 'The Hague'))
    """
    columns: dict[str, str | None] = {}
    for part in relative.split("/")[:-1]:
        name, equals, value = part.partition("=")
        if equals and name:
            columns[unquote(name)] = None if value == _NULL_PARTITION else unquote(value)
    return tuple(columns.items())


def _listing(walk: _Walk, root: Location, found: Iterator[pafs.FileInfo] | list[pafs.FileInfo]) -> Listing:
    published = published_names(root)
    files: dict[str, FoundFile] = {}
    for match in found:
        for info in walk.files_below(match):
            path = str(info.path)
            if not published(path):
                continue
            relative = path[len(root.path) :].lstrip("/") if path.startswith(root.path) else path
            mtime = info.mtime_ns
            files[path] = FoundFile(
                path, int(info.size or 0), int(mtime) if mtime is not None else None, hive_columns(relative)
            )
    return Listing(tuple(files[path] for path in sorted(files)))


def _name(info: pafs.FileInfo) -> str:
    return str(info.path).rstrip("/").rpartition("/")[2]

"""The files that a path means: a file, a directory, a glob. Hidden files and unpublished output are left out.

A path is read part by part: ``*``, ``?`` and ``[…]`` match inside one part, ``**`` any number of directories. What a
path names in full is taken as it is, also when it holds such characters. Input ranges of files are made of it; Spark's
tables find by it what lies at a path.
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
from airflow_samza.systems.files.location import Location, has_glob, named_part, object_store_of
from airflow_samza.systems.files.published_files import PublishedFiles

_NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"


@dataclass(frozen=True)
class FileEntry:
    """File: path in its filesystem, bytes, time of change (ns; None where the storage has none), Hive columns.

    ``name`` is its path below the root of its system, ``version`` the storage's own mark of its content (None where it
    has none). ``complete``: its marker is there, or none is asked for. ``replaces``: the producers, by the hashes in
    their files' names, whose output its writer has replaced.
    """

    path: str
    size: int
    mtime: int | None = None
    columns: tuple[tuple[str, str | None], ...] = ()
    name: str = ""
    version: str | None = None
    complete: bool = True
    replaces: frozenset[str] = frozenset()


class Listing(NamedTuple):
    """The files of a path, sorted by path; ``missing`` is the literal path that does not exist, if so."""

    files: tuple[FileEntry, ...]
    missing: Location | None = None


@dataclass
class _Walk:
    """Listings of one look. Where the storage allows, all below the folder ``whole`` was listed at once."""

    root: Location
    listed: dict[str, list[pafs.FileInfo]] = field(default_factory=dict)
    names: dict[str, frozenset[str]] = field(default_factory=dict)
    whole: str | None = None
    versions: dict[str, str | None] = field(default_factory=dict)

    def list_at_once(self, directory: str) -> None:
        """List all below a directory by one request, if the storage allows; an empty one is as if not listed."""
        storage = object_store_of(self.root.filesystem)
        entries = storage.entries(directory, recursive=True) if storage is not None else []
        if not entries:
            return
        self.whole = directory.rstrip("/")
        self.listed[self.whole] = []
        for info, version in sorted(entries, key=lambda entry: str(entry[0].path)):
            path = str(info.path)
            if info.type == pafs.FileType.Directory:
                self.listed.setdefault(path, [])
            self.listed.setdefault(path.rpartition("/")[0], []).append(info)
            self.versions[path] = version

    def info(self, path: str) -> pafs.FileInfo:
        """Return a path as it is in the storage."""
        if self.whole is None or not f"{path}/".startswith(f"{self.whole}/"):
            return self.root.filesystem.get_file_info(path)
        if path in self.listed or path == self.whole:
            return pafs.FileInfo(path, pafs.FileType.Directory)
        siblings = self.listed.get(path.rpartition("/")[0], ())
        return next((info for info in siblings if info.path == path), pafs.FileInfo(path, pafs.FileType.NotFound))

    def children(self, directory: str) -> list[pafs.FileInfo]:
        """Return the entries of a directory, sorted; none when it vanished meanwhile."""
        if directory not in self.listed:
            entries = [
                info for info in self._listed(directory) if _name(info) and not self._leads_back(info, directory)
            ]
            self.listed[directory] = sorted(entries, key=lambda info: str(info.path))
        return self.listed[directory]

    def _listed(self, directory: str) -> list[pafs.FileInfo]:
        storage = object_store_of(self.root.filesystem)
        if isinstance(self.root.filesystem, pafs.LocalFileSystem) and os.path.isdir(directory):
            # By the names: Arrow's own listing leaves out links that lead nowhere.
            paths = [os.path.join(directory, name) for name in os.listdir(directory)]
            return list(self.root.filesystem.get_file_info(paths))
        if storage is None:
            return self.root.at(directory).entries()
        entries = storage.entries(directory, recursive=False)
        self.versions.update((str(info.path), version) for info, version in entries)
        return [info for info, _ in entries]

    def file_names(self, directory: str) -> frozenset[str]:
        """Return the names of the files in a directory, hidden ones, too."""
        if directory not in self.names:
            self.names[directory] = frozenset(_name(info) for info in self.children(directory) if info.is_file)
        return self.names[directory]

    def _leads_back(self, info: pafs.FileInfo, directory: str) -> bool:
        """Return whether an entry leads to its own directory, as some object stores list it, or to one above by a link.

        To follow it would never end.
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
            hint="Repair or remove the link; otherwise the file that it stands for would be left out."
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


def find_missing(root: Location, relative: str) -> Location | None:
    """Return the literal path that does not exist, if so; nothing is listed for that."""
    literal = root / relative
    if root.filesystem.get_file_info(literal.path).type != pafs.FileType.NotFound or (
        isinstance(root.filesystem, pafs.LocalFileSystem) and os.path.islink(literal.path)
    ):
        return None
    if not has_glob(relative):
        return literal
    return root if root.filesystem.get_file_info(root.path).type == pafs.FileType.NotFound else None


def find_files(root: Location, relative: str, marker: str = "") -> Listing:
    """Return the files that a path below a root means.

    With a ``marker`` (:class:`~airflow_samza.systems.files.formats.options.FollowOptions`) each file has whether it
    is complete, and markers are no files.
    """
    walk = _Walk(root)
    literal = root / relative
    parts = [part for part in relative.split("/") if part]
    named = named_part("/".join(parts))
    base = root / named
    pattern = parts[len(named.split("/")) if named else 0 :]
    if not pattern or "**" in parts:
        walk.list_at_once(base.path)
    info = walk.info(literal.path)
    if info.type != pafs.FileType.NotFound or (
        isinstance(root.filesystem, pafs.LocalFileSystem) and os.path.islink(literal.path)
    ):
        top = literal.path if info.type == pafs.FileType.Directory else literal.path.rpartition("/")[0]
        return _listing(walk, root, [info], _Marker(walk, top, marker))
    if not has_glob(relative):
        return Listing((), missing=literal)
    if walk.whole is None and root.filesystem.get_file_info(root.path).type == pafs.FileType.NotFound:
        return Listing((), missing=root)
    return _listing(walk, root, walk.matches(base.path, pattern), _Marker(walk, base.path, marker))


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


@dataclass(frozen=True)
class _Marker:
    """The files that mark others as complete: in their folders or above, up to ``top``, or beside each."""

    walk: _Walk
    top: str
    pattern: str

    def is_one(self, name: str) -> bool:
        """Return whether a file is a marker."""
        before, star, after = self.pattern.partition("*")
        if not star:
            return bool(self.pattern) and name == self.pattern
        return name.startswith(before) and name.endswith(after) and len(name) > len(before) + len(after)

    def is_there(self, path: str) -> bool:
        """Return whether the marker of a file is there."""
        folder, _, name = path.rpartition("/")
        if "*" in self.pattern:
            return self.pattern.replace("*", name) in self.walk.file_names(folder)
        while self.pattern:
            if self.pattern in self.walk.file_names(folder):
                return True
            if len(folder) <= len(self.top.rstrip("/")):
                return False
            folder = folder.rpartition("/")[0]
        return True


def _listing(
    walk: _Walk, root: Location, matches: Iterator[pafs.FileInfo] | list[pafs.FileInfo], marker: _Marker
) -> Listing:
    published = PublishedFiles(root)
    files: dict[str, FileEntry] = {}
    for match in matches:
        for info in walk.files_below(match):
            path = str(info.path)
            replaces = published.replaced_by(path)
            if replaces is None or marker.is_one(_name(info)):
                continue
            relative = path[len(root.path) :].lstrip("/") if path.startswith(root.path) else path
            files[path] = FileEntry(
                path,
                int(info.size or 0),
                info.mtime_ns,
                hive_columns(relative),
                name=relative,
                version=walk.versions.get(path),
                complete=marker.is_there(path),
                replaces=replaces,
            )
    return Listing(tuple(files[path] for path in sorted(files)))


def _name(info: pafs.FileInfo) -> str:
    return str(info.path).rstrip("/").rpartition("/")[2]

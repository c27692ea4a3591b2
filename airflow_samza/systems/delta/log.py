"""The log of a Delta table: its commits and checkpoints by a listing, and which of them make a version.

It is read without a library of Delta (decision 110).
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple

import pyarrow.fs as pafs

from airflow_samza.errors import TopicError
from airflow_samza.systems.files.failures import is_missing, storage_errors
from airflow_samza.systems.files.formats.file_format import InputFile, reading
from airflow_samza.systems.files.location import Location, object_store_of

FOLDER = "_delta_log"
SIDECARS = "_sidecars"
LAST_CHECKPOINT = f"{FOLDER}/_last_checkpoint"

_COMMIT = re.compile(r"(\d{20})\.json")
_CHECKPOINT = re.compile(
    r"(\d{20})\.checkpoint(?:\.(\d{10})\.(\d{10})\.parquet|\.[0-9a-fA-F-]{36}\.(?:json|parquet)|\.parquet)"
)
_FIRST_LINE = 1 << 16
"""Bytes in which the first line of a commit ends, which has what is known of the commit itself."""
_BLOCK = 100
"""Files that are looked at before it is asked whether the next ones are old, too."""

_AHEAD = 4
"""Versions that are looked for at a time: as a rule there is none behind the last one, or a few."""


def commit_path(version: int) -> str:
    """Return the path of a commit below the folder of its table."""
    return f"{FOLDER}/{version:020d}.json"


class LogFile(NamedTuple):
    """File of a log, and when it was written."""

    path: str
    size: int
    written: datetime | None


class Segment(NamedTuple):
    """Files that make a version: the checkpoint with which it begins, and the commits behind it, in order."""

    version: int
    checkpoint: tuple[LogFile, ...]
    commits: tuple[LogFile, ...]


@dataclass(frozen=True)
class DeltaLog:
    """Log of a table: its commits, and the complete checkpoints, by versions."""

    table: Location
    name: str
    stream: str
    commits: Mapping[int, LogFile] = field(default_factory=dict)
    checkpoints: Mapping[int, tuple[LogFile, ...]] = field(default_factory=dict)

    @property
    def newest(self) -> int:
        """The newest version."""
        return max((*self.commits, *self.checkpoints))

    @property
    def oldest(self) -> int:
        """The oldest version that can be read; that of a log without beginning and checkpoint is the newest."""
        return 0 if 0 in self.commits else min(self.checkpoints, default=self.newest)

    def segment(self, version: int) -> Segment | None:
        """Return the files that make a version; None: some of them are not there (any more)."""
        begin = max((one for one in self.checkpoints if one <= version), default=-1)
        needed = range(begin + 1, version + 1)
        if not all(one in self.commits for one in needed):
            return None
        return Segment(version, self.checkpoints.get(begin, ()), tuple(self.commits[one] for one in needed))

    def actions(self, file: LogFile) -> Iterator[dict[str, Any]]:
        """Yield the actions of a commit, or of a checkpoint in JSON."""
        opened = self.opened(file)
        with reading(opened, "a log of Delta"), opened.filesystem.open_input_stream(opened.path) as source:
            for line in source.read().splitlines():
                if line.strip():
                    yield json.loads(line)

    def in_commit_time(self, version: int) -> int | None:
        """Return the milliseconds that a commit has as its time within itself; None: its file's time counts."""
        opened = self.opened(self.commits[version])
        with reading(opened, "a log of Delta"), opened.filesystem.open_input_stream(opened.path) as source:
            line = source.read(_FIRST_LINE).partition(b"\n")[0]
            found = json.loads(line).get("commitInfo", {}).get("inCommitTimestamp") if line.endswith(b"}") else None
        return int(found) if found is not None else None

    def opened(self, file: LogFile) -> InputFile:
        """Return a file of the log, ready to be opened."""
        return InputFile(self.table.filesystem, file.path, file.size, str(self.table.at(file.path)), self.stream)

    @contextmanager
    def understood(self, what: str) -> Iterator[None]:
        """Turn what values raise that are not of the protocol into an error that names their place."""
        try:
            yield
        except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError) as error:
            raise self.damaged(f"{what} cannot be read") from error

    def without_commits(self, version: int) -> TopicError:
        """Return the error of a log of which neither commits nor a checkpoint lead to a version."""
        return self.damaged(f"commits before version {version} are missing")

    def damaged(self, what: str) -> TopicError:
        """Return the error of a log that is not as the protocol of Delta demands."""
        return TopicError(
            f"The log of the table {self.name} (stream {self.stream!r}, in {self.table / FOLDER}) is damaged: {what}.",
            hint="Restore the files of its folder _delta_log, or repair the table with Spark.",
            table=self.name,
            stream=self.stream,
        )


def find_log(table: Location, name: str, stream: str, *, since: int = 0) -> DeltaLog | None:
    """Return the log of the table in a folder; None: there is no table.

    With ``since``, the version of a checkpoint, older files may be left out, if that checkpoint is there.
    """
    log = _log_of(table, name, stream, _listed(table, stream, f"{since:020d}"))
    if since and (log is None or since not in log.checkpoints):
        return find_log(table, name, stream)
    return log


def _log_of(table: Location, name: str, stream: str, infos: Iterable[pafs.FileInfo]) -> DeltaLog | None:
    """Return the log that some files are; None: they are none."""
    commits: dict[int, LogFile] = {}
    single: dict[int, LogFile] = {}
    parts: dict[tuple[int, int], dict[int, LogFile]] = {}
    for info in sorted((one for one in infos if one.type == pafs.FileType.File), key=lambda one: one.path):
        file = LogFile(info.path, int(info.size or 0), info.mtime)
        base = info.path.rpartition("/")[2]
        if commit := _COMMIT.fullmatch(base):
            commits[int(commit[1])] = file
        elif checkpoint := _CHECKPOINT.fullmatch(base):
            if checkpoint[3] is None:
                single[int(checkpoint[1])] = file
            else:
                parts.setdefault((int(checkpoint[1]), int(checkpoint[3])), {})[int(checkpoint[2])] = file
    checkpoints = {
        version: tuple(files[number] for number in sorted(files))
        for (version, count), files in parts.items()
        if set(files) == set(range(1, count + 1))
    }
    checkpoints.update({version: (file,) for version, file in single.items()})
    return DeltaLog(table, name, stream, commits, checkpoints) if commits or checkpoints else None


def log_behind(log: DeltaLog, version: int) -> DeltaLog | None:
    """Return the part of a log as it is now that begins with a version; None: there is nothing (any more).

    On a disk it has of checkpoints only those in one file: commits are looked for one after the other there, since
    listing a folder takes the longer, the more commits the log keeps.
    """
    infos = (_behind_on_disk if _is_disk(log.table) else _listed)(log.table, log.stream, f"{version:020d}")
    return _log_of(log.table, log.name, log.stream, infos)


def _behind_on_disk(table: Location, stream: str, first: str) -> list[pafs.FileInfo]:
    """Return the commits from the one that is named ``first`` to the last that follows, and their checkpoints."""
    folder, infos = table / FOLDER, list[pafs.FileInfo]()
    with storage_errors(path=str(folder), stream=stream, doing="look at"):
        while not infos or infos[-2].type == pafs.FileType.File:
            names = [f"{int(first) + place:020d}" for place in range(len(infos) // 2, len(infos) // 2 + _AHEAD)]
            paths = [(folder / f"{name}{end}").path for name in names for end in (".json", ".checkpoint.parquet")]
            infos += table.filesystem.get_file_info(paths)
    return infos


def last_checkpoint(table: Location) -> int:
    """Return the version of the checkpoint that the log of a table names as its last; 0: nobody knows.

    It may be older than the last one. It is not asked where it saves nothing: where all is listed in any case.
    """
    if not _is_disk(table) and object_store_of(table.filesystem) is None:
        return 0
    try:
        with table.filesystem.open_input_stream((table / LAST_CHECKPOINT).path, compression=None) as source:
            return int(json.loads(source.read())["version"])
    except (OSError, ValueError, TypeError, LookupError):
        return 0


def old_part(log: DeltaLog, at: datetime) -> DeltaLog | None:
    """Return the beginning of a log, with the commits that were written before a time; None: none was."""
    part: DeltaLog | None = log
    if (storage := object_store_of(log.table.filesystem)) is not None:  # older files may have been left out
        folder = (log.table / FOLDER).path
        part = _log_of(log.table, log.name, log.stream, storage.list_in_order(folder, "0", partial(_is_old, at=at)))
    elif _is_disk(log.table):
        names = sorted(name for name in os.listdir((log.table / FOLDER).path) if name[:1].isdigit())
        infos: list[pafs.FileInfo] = []
        for start in range(0, len(names), _BLOCK):
            paths = [(log.table / FOLDER / name).path for name in names[start : start + _BLOCK]]
            infos += log.table.filesystem.get_file_info(paths)
            if infos[-1].mtime is not None and infos[-1].mtime >= at:
                break
        part = _log_of(log.table, log.name, log.stream, infos)
    times = [file.written for file in part.commits.values()] if part is not None else []
    return part if any(time is not None and time < at for time in times) else None


def _is_old(info: pafs.FileInfo, at: datetime) -> bool:
    """Return whether a file of a log is none of a commit that was written after a time."""
    is_commit = info.path.endswith(".json")
    return _is_numbered(info) and not (is_commit and info.mtime is not None and info.mtime >= at)


def _is_numbered(info: pafs.FileInfo) -> bool:
    """Return whether a file of a log is of a version; by name, others come behind all of these."""
    return bool(info.path.rpartition("/")[2][:1].isdigit() and info.path.split("/")[-2] == FOLDER)


def _is_disk(table: Location) -> bool:
    return isinstance(table.filesystem, pafs.LocalFileSystem)


def _listed(table: Location, stream: str, first: str) -> list[pafs.FileInfo]:
    """Return the files of a log whose names do not come before ``first``; of HDFS all of them."""
    folder = table / FOLDER
    with storage_errors(path=str(folder), stream=stream, doing="list"):
        try:
            if _is_disk(table):
                names = [name for name in os.listdir(folder.path) if name >= first]
                return list(table.filesystem.get_file_info([(folder / name).path for name in names]))
            if (storage := object_store_of(table.filesystem)) is not None:
                return storage.list_in_order(folder.path, first, _is_numbered)
            return list(table.filesystem.get_file_info(pafs.FileSelector(folder.path, allow_not_found=True)))
        except OSError as error:
            if is_missing(error):
                return []
            raise

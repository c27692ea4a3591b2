"""The log of a Delta table: its commits and checkpoints by one listing, and which of them make a version.

It is read without a library of Delta (decision 110).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

import pyarrow.fs as pafs

from airflow_samza.errors import TopicError
from airflow_samza.systems.files.failures import is_missing, storage_errors
from airflow_samza.systems.files.formats.file_format import InputFile, reading
from airflow_samza.systems.files.location import Location

FOLDER = "_delta_log"
SIDECARS = "_sidecars"

_COMMIT = re.compile(r"(\d{20})\.json")
_CHECKPOINT = re.compile(
    r"(\d{20})\.checkpoint(?:\.(\d{10})\.(\d{10})\.parquet|\.[0-9a-fA-F-]{36}\.(?:json|parquet)|\.parquet)"
)
_FIRST_LINE = 1 << 16
"""Bytes in which the first line of a commit ends, which has what is known of the commit itself."""


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

    def damaged(self, what: str) -> TopicError:
        """Return the error of a log that is not as the protocol of Delta demands."""
        return TopicError(
            f"The log of the table {self.name} (stream {self.stream!r}, in {self.table / FOLDER}) is damaged: {what}.",
            hint="Restore the files of its folder _delta_log, or repair the table with Spark.",
            table=self.name,
            stream=self.stream,
        )


def find_log(table: Location, name: str, stream: str) -> DeltaLog | None:
    """Return the log of the table in a folder; None: there is no table."""
    folder = table / FOLDER
    with storage_errors(path=str(folder), stream=stream, doing="list"):
        try:
            infos = table.filesystem.get_file_info(pafs.FileSelector(folder.path, allow_not_found=True))
        except OSError as error:
            if is_missing(error):
                return None
            raise
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

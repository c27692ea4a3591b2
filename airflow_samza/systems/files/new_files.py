"""The look for new files: what of a listing is complete and not on record, and what is rejected or warned about.

The record of the files that were read goes from run to run, and is bounded. It holds the last files by name, in the
order of the stream, and for all before them the key of the last one, the *horizon*: what lies at or before it counts as
read (decision 76).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

from airflow_samza.application.rejections import listed
from airflow_samza.errors import StateError, TopicError
from airflow_samza.records import plain
from airflow_samza.systems.files.formats.options import IGNORE, NAME, READ, REJECT, TIME, FollowOptions
from airflow_samza.systems.files.listing import FileEntry, Listing
from airflow_samza.systems.files.output_records import part_of
from airflow_samza.systems.generations import parse_generation
from airflow_samza.systems.system import StreamSpec

_log = logging.getLogger(__name__)

Key = tuple[int, str]
"""The place of a file in the order of its stream: its time (0 in the order of names) and its name."""


@dataclass(frozen=True)
class FilesRead:
    """The files of a stream that were read.

    ``names`` are the last ones, each with size, time of change (ns) and version, as far as the storage has them.
    ``passed`` is how many other files lay at or before the ``horizon`` when they were looked at last, ``late`` how many
    of all that came were found there too late, and left unread. ``files`` and ``bytes`` count all that was ever read.
    """

    order: str = TIME
    names: Mapping[str, tuple[int, int | None, str | None]] = field(default_factory=dict)
    horizon: Key | None = None
    passed: int = 0
    late: int = 0
    files: int = 0
    bytes: int = 0

    def key(self, file: FileEntry) -> Key:
        """Return the place of a file in the order."""
        return (0 if self.order == NAME else file.mtime or 0, file.name)

    def has(self, file: FileEntry) -> bool:
        """Return whether a file is on record as it is now: by its version where the storage has one."""
        size, mtime, version = self.names[file.name]
        if version is not None and file.version is not None:
            return version == file.version
        return size == file.size and (mtime is None or file.mtime is None or mtime == file.mtime)

    @cached_property
    def _newest(self) -> dict[tuple[str, str], tuple[int, ...]]:
        """The newest generation on record of outputs of our own, by folder and producer."""
        newest: dict[tuple[str, str], tuple[int, ...]] = {}
        for name in self.names:
            folder, _, base = name.rpartition("/")
            if (part := part_of(base)) is not None:
                place = (folder, part[0])
                newest[place] = max(newest.get(place, ()), parse_generation(part[1]))
        return newest

    def is_replaced_by(self, file: FileEntry) -> bool:
        """Return whether a file has replaced one that was read: of an older generation, or of another run's."""
        folder, _, base = file.name.rpartition("/")
        part = part_of(base)
        if part is None:
            return False
        if any((folder, producer) in self._newest for producer in file.replaces - {part[0]}):
            return True
        return (folder, part[0]) in self._newest and parse_generation(part[1]) > self._newest[folder, part[0]]

    def after(self, new: NewFiles, remember: int) -> FilesRead:
        """Return the record when new files have been read."""
        names = dict(self.names)
        for file in (*new.files, *new.ignored):
            names[file.name] = (file.size, file.mtime, file.version)
        horizon = self.horizon
        if len(names) > remember:
            keys = sorted((0 if self.order == NAME else mtime or 0, name) for name, (_, mtime, _) in names.items())
            dropped = keys[: len(names) - remember]
            horizon = max(dropped[-1], horizon) if horizon is not None else dropped[-1]
            for _, name in dropped:
                del names[name]
        return FilesRead(
            self.order,
            names,
            horizon,
            new.passed,
            self.late + new.late,
            self.files + len(new.files),
            self.bytes + sum(file.size for file in new.files),
        )


class NewFiles(NamedTuple):
    """The files of a listing that are to be read, in order.

    ``rewritten`` are those on record that were written again and are rejected for it, ``ignored`` those that are not:
    they go on record as they are now, unread. ``waiting`` is how many files are not complete yet, or more than one run
    takes. ``passed`` is how many lie at or before the horizon, ``late`` how many of them have come since the last look.
    """

    files: tuple[FileEntry, ...]
    rewritten: tuple[FileEntry, ...] = ()
    ignored: tuple[FileEntry, ...] = ()
    waiting: int = 0
    passed: int = 0
    late: int = 0


def new_files(
    read: FilesRead, listed: Sequence[FileEntry], options: FollowOptions, is_complete: Callable[[FileEntry], bool]
) -> NewFiles:
    """Return what is new in a listing, by the record of what was read before."""
    ready: list[FileEntry] = []
    rewritten: list[FileEntry] = []
    waiting: list[FileEntry] = []
    passed = 0
    for file in listed:
        if file.name in read.names:
            if read.has(file):
                continue
            if options.on_rewrite != READ:
                rewritten.append(file)
                continue
        elif read.horizon is not None and read.key(file) <= read.horizon:
            passed += 1
            continue
        elif options.on_rewrite != READ and read.is_replaced_by(file):
            rewritten.append(file)
            continue
        (ready if is_complete(file) else waiting).append(file)
    ready.sort(key=read.key)
    if options.max_files is not None:
        ready, left = ready[: options.max_files], ready[options.max_files :]
        waiting += left
    rejected = tuple(rewritten) if options.on_rewrite == REJECT else ()
    ignored = tuple(rewritten) if options.on_rewrite == IGNORE else ()
    new = NewFiles(tuple(ready), rejected, ignored, len(waiting), passed, max(passed - read.passed, 0))
    after = read.after(new, options.remember)
    if after.horizon is None or after.horizon == read.horizon:
        return new
    # The horizon comes over files of this listing: what was read, and what waits, which is then too late.
    others = [file for file in listed if file.name not in after.names and read.key(file) <= after.horizon]
    unread = {file.name for file in waiting}
    return new._replace(passed=len(others), late=new.late + sum(file.name in unread for file in others))


@dataclass(frozen=True)
class Look:
    """Look for new files: those that there are, and the record before it."""

    read: FilesRead
    new: NewFiles
    remember: int

    def record(self, *, unread: bool) -> dict[str, Any]:
        """Return the record when they have been read, or passed over unread, as JSON."""
        after = self.read.after(self.new, self.remember)
        if unread:
            after = replace(after, files=self.read.files, bytes=self.read.bytes)
        return plain(after)

    def noted(self, *, unread: bool) -> dict[str, int]:
        """Return counts for people."""
        return {
            "waiting": self.new.waiting,
            "late": self.new.late,
            "ignored": len(self.new.ignored),
            "unread": len(self.new.files) if unread else 0,
        }


def find_new_files(
    listing: Listing, stream: StreamSpec, options: FollowOptions, read: FilesRead | None, *, all_of_it: bool
) -> Look:
    """Return the files of a listing that are new by the record; warn of what is left unread for good."""
    read = read if read is not None else FilesRead(options.order)
    if read.order != options.order and (read.horizon is not None or read.names):
        raise StateError(
            f"Stream {stream.name!r} has order={options.order!r}, and its files were read in the order of their "
            f"{read.order}s before.",
            hint=f'Set order="{read.order}" again; or forget what was read, and read all '
            "files anew: airflow-samza state reset.",
            stream=stream.name,
        )
    if options.order == TIME or options.min_age:
        _reject_without_times(listing, stream, options)
    until = time.time_ns() - options.min_age * 1_000_000

    def is_complete(file: FileEntry) -> bool:
        return file.complete and (not options.min_age or (file.mtime or 0) <= until)

    new = new_files(read, listing.files, replace(options, max_files=None) if all_of_it else options, is_complete)
    if new.rewritten:
        raise _rewritten(stream, new.rewritten, read)
    if new.ignored:
        _log.warning(
            "Stream %r: %d file(s) were written again after they had been read, and are not read again: %s.",
            stream.name,
            len(new.ignored),
            listed((file.name for file in new.ignored), 3),
        )
    if new.late:
        _log.warning(
            "Stream %r: %d file(s) came too late and stay unread: they lie before the %d last files that are on "
            "record. Raise the stream's option remember.",
            stream.name,
            new.late,
            options.remember,
        )
    return Look(read, new, options.remember)


def _reject_without_times(listing: Listing, stream: StreamSpec, options: FollowOptions) -> None:
    file = next((file for file in listing.files if file.mtime is None), None)
    if file is None:
        return
    what = 'order="time"' if options.order == TIME else "min_age"
    raise TopicError(
        f"File {file.name} of stream {stream.name!r} has no time of change in its storage, which {what} needs.",
        hint=f'Set order="{NAME}" for files whose names sort as they come'
        + (", and a marker in place of min_age." if options.min_age else "."),
        file=file.name,
        stream=stream.name,
    )


def _rewritten(stream: StreamSpec, files: tuple[FileEntry, ...], read: FilesRead) -> StateError:
    file = files[0]
    more = f" (and {len(files) - 1} more)" if len(files) > 1 else ""
    whose = f"File {file.name} of stream {stream.name!r}{more}"
    if file.name not in read.names:
        what = (
            f"{whose} takes the place of what an earlier generation of its writer, or an earlier run for the same "
            "interval, had written, and that was read."
        )
    else:
        size = read.names[file.name][0]
        changed = f"it has {file.size:,} bytes, not {size:,}"
        now = "its content or its time has changed" if file.size == size else changed
        what = f"{whose} was written again after it had been read: {now}."
    return StateError(
        what,
        hint='Clear the run that read it from its plan on; or set the stream\'s option on_rewrite="ignore" to leave '
        'such files, "read" to read them as new ones.',
        file=file.name,
        stream=stream.name,
    )

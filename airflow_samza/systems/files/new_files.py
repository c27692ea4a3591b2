"""The look for new files: what of a listing is complete and not on record, and what is rejected or warned about."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, replace
from typing import Any

from airflow_samza.errors import StateError, TopicError
from airflow_samza.systems.files.files_read import FilesRead, NewFiles, new_files
from airflow_samza.systems.files.following import NAME, TIME, FollowOptions
from airflow_samza.systems.files.listing import FoundFile, Listing
from airflow_samza.systems.system import StreamSpec

_log = logging.getLogger(__name__)

_SHOWN = 3
"""Names of files in a warning."""


@dataclass(frozen=True)
class Found:
    """The new files of a look, and the record before it."""

    read: FilesRead
    new: NewFiles
    remember: int

    def record(self, *, unread: bool) -> dict[str, Any]:
        """Return the record when they have been read, or passed over unread, as JSON."""
        after = self.read.after(self.new, self.remember)
        if unread:
            after = replace(after, files=self.read.files, bytes=self.read.bytes)
        return after.to_json()

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
) -> Found:
    """Return the files of a listing that are new by the record; warn of what is left unread for good."""
    read = read if read is not None else FilesRead(options.order)
    _check_order(stream, options, read)
    if options.order == TIME or options.min_age:
        _reject_without_times(listing, stream, options)
    until = time.time_ns() - options.min_age * 1_000_000

    def is_complete(file: FoundFile) -> bool:
        return file.complete and (not options.min_age or (file.mtime or 0) <= until)

    new = new_files(read, listing.files, replace(options, max_files=None) if all_of_it else options, is_complete)
    if new.rewritten:
        raise _rewritten(stream, new.rewritten, read)
    if new.ignored:
        _log.warning(
            "Stream %r: %d file(s) were written again after they had been read, and are not read again: %s.",
            stream.name,
            len(new.ignored),
            _names(new.ignored),
        )
    if new.late:
        _log.warning(
            "Stream %r: %d file(s) came too late and stay unread: they lie before the %d last files that are on "
            "record. Raise the stream's option remember.",
            stream.name,
            new.late,
            options.remember,
        )
    return Found(read, new, options.remember)


def _check_order(stream: StreamSpec, options: FollowOptions, read: FilesRead) -> None:
    if read.order == options.order or (read.horizon is None and not read.names):
        return
    raise StateError(
        f"Stream {stream.name!r} has order={options.order!r}, and its files were read in the order of their "
        f"{read.order}s before.",
        hint=f'Set order="{read.order}" again; or forget what was read, and read all files anew: airflow-samza state '
        "reset.",
        stream=stream.name,
    )


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


def _rewritten(stream: StreamSpec, files: tuple[FoundFile, ...], read: FilesRead) -> StateError:
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


def _names(files: tuple[FoundFile, ...]) -> str:
    more = f" and {len(files) - _SHOWN} more" if len(files) > _SHOWN else ""
    return ", ".join(file.name for file in files[:_SHOWN]) + more

"""The few things asked of the storage under a root.

Everything that decides something is written by :meth:`Filesystem.put_if_absent`: the first writer wins, whatever dies.
Paths are relative to the root, with ``/``. Used wherever something lies under a root: records, state, and topics of the
log.
"""

from __future__ import annotations

import contextlib
import errno
import json
import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING, BinaryIO, NoReturn, Protocol, runtime_checkable

from airflow_samza.errors import ConfigError, StorageFull, TopicError
from airflow_samza.systems.filesystems.pace import Pace

if TYPE_CHECKING:
    import pyarrow as pa

TEMPORARY_PREFIX = ".tmp-"
"""Files that start so are half written and belong to nobody; ``list`` leaves them out."""


class Filesystem(Protocol):
    """Storage under one root.

    A missing file raises FileNotFoundError; a full disk StorageFull; any other error of the storage TopicError.
    """

    @property
    def root(self) -> str:
        """The root, as messages show it."""

    @property
    def pace(self) -> Pace:
        """Pace of looks: often where they cost nothing, seldom where each one is charged."""

    @property
    def renames_folders(self) -> bool:
        """Return whether a directory is renamed in one step, so that nobody ever sees a half of it."""

    def location(self, path: str) -> str:
        """Return the whole path of a file, as messages show it."""

    def local_path(self, path: str) -> str | None:
        """Return the path of a file for this machine's own calls; None where the storage is none of its filesystems."""

    def put_if_absent(self, path: str, data: bytes, *, durable: bool = True) -> bool:
        """Write a file whole, or not at all; return False when one of this name is there, untouched.

        ``durable=False`` lets a disk write it later: a power failure may then leave it away, or leave it torn.
        """

    def put(self, path: str, data: bytes) -> None:
        """Write a file whole, in place of one that exists (status, heartbeat; never for what decides something)."""

    def read(self, path: str) -> bytes:
        """Return the content of a file."""

    def list(self, directory: str) -> list[str]:
        """Return the sorted names in a directory; none when there is no such directory."""

    def open_output(self, path: str, *, durable: bool = True) -> BinaryIO:
        """Return a new file to write; closing makes it durable, when asked.

        One that exists already is FileExistsError, now or when the file is closed.
        """

    def open_input(self, path: str) -> pa.NativeFile:
        """Return a file to read at any place, memory-mapped where the storage can."""

    def rename(self, source: str, target: str) -> None:
        """Move a file; one at the target is replaced, and appears as a whole.

        A directory is moved in one step where ``renames_folders`` says so; nobody else moves one.
        """

    def delete(self, path: str) -> None:
        """Delete a file; none there is fine."""

    def delete_tree(self, directory: str) -> None:
        """Delete a directory and all in it; none there is fine."""

    def delete_empty(self, directory: str) -> None:
        """Delete a directory in which nothing is; one that holds something, or is not there, stays as it is."""

    def delete_temporary(self, directory: str, before: float) -> None:
        """Delete what writers that died left half written in a directory before a time (seconds since 1970, UTC)."""

    def exists(self, path: str) -> bool:
        """Return whether there is a file; for a directory ask ``list``, since a store may have none without files."""

    def size(self, path: str) -> int:
        """Return the bytes of a file."""

    def modified(self, path: str) -> float:
        """Return the time when a file was last written (seconds since 1970, UTC)."""

    def make_dirs(self, directory: str) -> None:
        """Make a directory and those above it."""


def check_below(filesystem: Filesystem, path: str) -> None:
    """Reject a path that leaves a filesystem's root."""
    if path.startswith("/") or (".." in path and ".." in path.split("/")):
        raise TopicError(
            f"The path {path!r} leaves the root {filesystem.root}.", hint="Use a path below the root.", path=path
        )


@contextlib.contextmanager
def storage_errors(doing: str, location: str) -> Iterator[None]:
    """Turn the operating system's errors into ours, naming what was done to which path."""
    try:
        yield
    except (FileNotFoundError, FileExistsError):
        raise
    except OSError as error:
        raise_storage_error(error, doing, location)


LOOK_WHO = "Look who has put it there, and delete it."
"""The remedy for what nobody of ours has made."""

NOTHING_LOST = "Nothing that was committed is lost; try again"
RETRY_IS_SAFE = "nothing that was committed is lost by trying again"
DELETED_MEANWHILE = "Something deletes under the root while a run writes there; stop it and try again."


def cannot(doing: str, location: str, why: str) -> str:
    """Return the sentence for what the storage rejects for good."""
    return f"The storage cannot {doing} {location}: {why}."


def did_not(doing: str, location: str, why: str) -> str:
    """Return the sentence for what the storage may do later."""
    return f"The storage did not {doing} {location}: {why}."


def raise_storage_error(error: OSError, doing: str, location: str) -> NoReturn:
    """Raise our error for one of the operating system's."""
    reason = error.strerror or str(error)
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        raise StorageFull(
            f"There is no room left to {doing} {location}.",
            hint="Free space under the root (airflow-samza gc), or point the root at a larger disk, then try again.",
            path=location,
        ) from error
    raise TopicError(
        cannot(doing, location, reason),
        hint=f"Check the disk and the permissions of the root; {RETRY_IS_SAFE}.",
        path=location,
        errno=error.errno,
    ) from error


@runtime_checkable
class GivesLinks(Protocol):
    """A filesystem of which programs that know nothing of ours fetch a file: Spark, before anything of ours runs."""

    def link(self, path: str, seconds: float) -> str:
        """Return a URL of a file from which Java reads it, for this long at least.

        It may show that somebody was allowed to read this one file (a signature), and no password or token.
        """


def link_to(files: Filesystem, path: str, seconds: float) -> str:
    """Return a URL of a file; :class:`~airflow_samza.errors.ConfigError` where Java has no way to it."""
    if isinstance(files, GivesLinks):
        return files.link(path, seconds)
    raise ConfigError(
        f"Spark's hosts cannot fetch a driver from the root {files.root}.",
        hint="Use the deploy mode client, or a root on HDFS, on an object store or on a share that all hosts mount.",
        key="deploy_mode",
        value="cluster",
    )


@contextlib.contextmanager
def as_os_errors() -> Iterator[None]:
    """Raise our errors of a storage as those of the operating system, which are turned into ours again further up."""
    try:
        yield
    except TopicError as error:
        number = errno.EIO
        if isinstance(error, StorageFull):
            number = errno.ENOSPC
        elif error.facts.get("denied") or error.facts.get("kind") == "AccessControlException":
            number = errno.EACCES
        raise OSError(number, error.sentence.rstrip(".")) from error


IDENTITY = "identity.json"
"""The file that has the identity of a root."""


def root_identity(files: Filesystem) -> str:
    """Return the identity of a root, which the first who asks makes: other roots may use the same brokers or tables."""
    try:
        content = files.read(IDENTITY)
    except FileNotFoundError:
        files.put_if_absent(IDENTITY, json.dumps({"identity": uuid.uuid4().hex}).encode())
        content = files.read(IDENTITY)
    try:
        identity = json.loads(content)["identity"]
        if not isinstance(identity, str) or not identity:
            raise ValueError(f"it has the identity {identity!r}")
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        place = files.location(IDENTITY)
        raise TopicError(
            f"The identity of the root is damaged ({place}): {error}.",
            hint="Restore the file from a backup. With another identity, runs would take for foreign what they have "
            "written to brokers and tables.",
            path=place,
        ) from error
    return identity

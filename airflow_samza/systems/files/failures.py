"""Storage failures as errors that name the path, the stream and the remedy.

Readers and writers of files and of both lake formats raise by it.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from airflow_samza.errors import StorageFull, StorageUnavailable, TopicError

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
_REJECTED = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
NOTHING_IS_LOST = "then try again; nothing that was committed is lost."
"""End of the hint where there is no room left."""

_IN_THE_WAY = frozenset({errno.ENOTDIR, errno.EISDIR, errno.EEXIST})


def is_missing(error: BaseException) -> bool:
    """Return whether an error says that the path does not exist."""
    return isinstance(error, FileNotFoundError) or getattr(error, "errno", None) == errno.ENOENT


def is_full(error: BaseException) -> bool:
    """Return whether an error says that there is no room left."""
    return getattr(error, "errno", None) in _FULL


def is_of_storage(error: OSError) -> bool:
    """Return whether the storage failed, rather than the content being damaged.

    Arrow reports damage as an OSError without a number.
    """
    return error.errno is not None or type(error) is not OSError


_DOING = {"read": "reading", "write": "writing", "list": "listing"}


def translate(error: OSError, *, path: str, stream: str, doing: str) -> TopicError:
    """Return the error for an operation that the storage rejected: ``doing`` is ``read``, ``write`` or ``list``."""
    facts = {"path": path, "stream": stream}
    number = error.errno
    if is_full(error):
        return StorageFull(
            f"There is no room left to {doing} {path} of stream {stream!r}.",
            hint=f"Free space or raise the quota, {NOTHING_IS_LOST}",
            **facts,
        )
    if number in _REJECTED or isinstance(error, PermissionError):
        return TopicError(
            f"The storage does not allow {_DOING[doing]} {path} of stream {stream!r}: {error}.",
            hint="Give the user that runs the stage the right to it, or bind the system to another root.",
            **facts,
        )
    if number in _IN_THE_WAY or isinstance(error, NotADirectoryError | IsADirectoryError | FileExistsError):
        return TopicError(
            f"Stream {stream!r} cannot {doing} {path}: a file is where a directory should be, or "
            f"the other way round ({error}).",
            hint="Move away what is in its place, or give the stream another path.",
            **facts,
        )
    if is_missing(error) and doing == "write":
        return TopicError(
            f"The storage does not let {path} of stream {stream!r} be made: {error}.",
            hint="Bind the system to another root, or give the stream another path=; directories are made where they "
            "may be.",
            **facts,
        )
    if is_missing(error):
        return TopicError(
            f"The path {path} of stream {stream!r} does not exist.",
            hint="Check the root of the system's connection and the stream's path=.",
            **facts,
        )
    return StorageUnavailable(
        f"The storage failed to {doing} {path} of stream {stream!r}: {error}.",
        hint="Try again; when it stays, check the storage and the connection's credentials.",
        **facts,
    )


@contextmanager
def storage_errors(*, path: str, stream: str, doing: str) -> Iterator[None]:
    """Turn what the storage raises inside the block into the error of :func:`translate`."""
    try:
        yield
    except OSError as error:
        raise translate(error, path=path, stream=stream, doing=doing) from error

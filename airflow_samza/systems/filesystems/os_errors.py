"""Our errors as those of the operating system, for callers between us and ourselves that know no others, as Arrow."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterator

from airflow_samza.errors import StorageFull, StorageUnavailable, TopicError


@contextlib.contextmanager
def as_os_errors() -> Iterator[None]:
    """Raise our errors of a storage as those of the operating system, which are turned into ours again further up."""
    try:
        yield
    except TopicError as error:
        number = errno.EIO
        if isinstance(error, StorageFull):
            number = errno.ENOSPC
        elif isinstance(error, StorageUnavailable):
            number = errno.EIO
        elif error.facts.get("denied") or error.facts.get("kind") == "AccessControlException":
            number = errno.EACCES
        raise OSError(number, error.sentence.rstrip(".")) from error

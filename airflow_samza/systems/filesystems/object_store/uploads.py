"""Upload of new files: a small one in one conditional request, a large one in parts.

S3 takes no condition for parts through this client. A large file is therefore uploaded under a temporary name, which
nobody else knows, and copied within the store to its own name on the condition that nothing is there.
"""

from __future__ import annotations

import os
import uuid
from typing import BinaryIO

from airflow_samza.systems.filesystems.filesystem import TEMPORARY_PREFIX
from airflow_samza.systems.filesystems.object_store.client import PART_BYTES, ObjectClient

ONE_REQUEST = 2 * PART_BYTES
"""A file that is not longer goes in one request."""


def upload_new(client: ObjectClient, key: str, content: BinaryIO) -> None:
    """Write a file that does not exist yet; one that exists is FileExistsError."""
    size = content.seek(0, os.SEEK_END)
    content.seek(0)
    if size <= ONE_REQUEST:
        if not client.create(key, content.read()):
            raise FileExistsError(17, "File exists", client.address.url(key))
        return
    folder, slash, _ = key.rpartition("/")
    temporary = f"{folder}{slash}{TEMPORARY_PREFIX}{uuid.uuid4().hex}"
    client.upload(temporary, content, size)
    try:
        client.copy(temporary, key, overwrite=False)
    except FileExistsError:
        if not _same(client, temporary, key):
            raise
    finally:
        client.delete([temporary])


def _same(client: ObjectClient, one: str, other: str) -> bool:
    """Return whether two objects hold the same bytes: the other is then the copy whose answer was lost."""
    first, second = client.status(one), client.status(other)
    if first is None or second is None or first.size != second.size:
        return False
    return all(
        client.read_range(one, offset, length) == client.read_range(other, offset, length)
        for offset in range(0, first.size, PART_BYTES)
        for length in (min(PART_BYTES, first.size - offset),)
    )

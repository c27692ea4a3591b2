"""A root on an object store: a :class:`~airflow_samza.systems.filesystems.filesystem.Filesystem` over its objects.

Whatever opens a root or a location of files in a bucket gets it.
"""

from __future__ import annotations

from collections.abc import Mapping

from airflow_samza.systems.filesystems.object_store.access import find_access
from airflow_samza.systems.filesystems.object_store.address import parse_address
from airflow_samza.systems.filesystems.object_store.client import (
    PATIENCE_SECONDS,
    TIMEOUT_SECONDS,
    ObjectClient,
    shared_client,
)
from airflow_samza.systems.filesystems.remote import RemoteFilesystem


def open_object_store(
    url: str,
    options: Mapping[str, object] | None = None,
    *,
    patience: float = PATIENCE_SECONDS,
    timeout: float = TIMEOUT_SECONDS,
) -> ObjectStoreFilesystem:
    """Return the filesystem of a root such as ``s3://bucket/samza``, without asking the store anything.

    ``options`` are those of :mod:`airflow_samza.systems.filesystems.object_store.access`; ``patience`` and ``timeout``
    (of one request) are seconds.
    """
    address, prefix = parse_address(url)
    return ObjectStoreFilesystem(shared_client(address, find_access(address, options), patience, timeout), prefix)


class ObjectStoreFilesystem(RemoteFilesystem):
    """A prefix in a bucket of an object store."""

    client: ObjectClient

    def link(self, path: str, seconds: float) -> str:
        """Return a signed URL of this one file."""
        return self.client.link(self.key(path), seconds)

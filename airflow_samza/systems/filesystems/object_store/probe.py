"""Check of a root on an object store, by really doing under a probe name all that a run does.

The plan step runs it, and the Delta system for a bucket that it writes.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING

from airflow_samza.errors import ConfigError, TopicError
from airflow_samza.systems.filesystems.filesystem import TEMPORARY_PREFIX, Filesystem
from airflow_samza.systems.filesystems.object_store.address import NAMES, Store, is_object_store

if TYPE_CHECKING:
    from airflow_samza.systems.filesystems.object_store.filesystem import ObjectStoreFilesystem

PERMISSIONS: dict[Store, dict[str, str]] = {
    "s3": {"create": "s3:PutObject", "read": "s3:GetObject", "list": "s3:ListBucket", "delete": "s3:DeleteObject"},
    "gcs": {
        "create": "storage.objects.create",
        "read": "storage.objects.get",
        "list": "storage.objects.list",
        "delete": "storage.objects.delete",
    },
    "azure": {
        "create": "blobs/write",
        "read": "blobs/read",
        "list": "blobs/read",
        "delete": "blobs/delete",
    },
}
"""Names of the permissions that a root needs, as each store calls them, by what they are for."""


def check_store(filesystem: Filesystem) -> tuple[str, ...]:
    """Create, create again, read, list and delete an object under a root; return warnings, one sentence each.

    Errors name what is not permitted, a bucket that does not exist, and a store without conditional create. A root on
    any other storage passes unchecked.
    """
    if not is_object_store(filesystem.root):
        return ()
    from airflow_samza.systems.filesystems.object_store.filesystem import ObjectStoreFilesystem

    if not isinstance(filesystem, ObjectStoreFilesystem):
        return ()
    client, address = filesystem.client, filesystem.client.address
    path = f"{TEMPORARY_PREFIX}probe-{uuid.uuid4().hex}"
    key = filesystem.key(path)
    denied: dict[str, str] = {}

    def permitted(what: str, operation: Callable[[], object]) -> bool:
        try:
            operation()
        except TopicError as error:
            if error.facts.get("status") == 501:
                raise _without_create(filesystem) from error
            if not error.facts.get("denied"):
                raise
            denied[what] = str(error.facts["kind"])
            return False
        return True

    overwrites: list[bool] = []
    created = permitted("create", lambda: client.create(key, b"probe"))
    try:
        readable = permitted("read", lambda: client.status(key))
        if created and readable:
            permitted("create", lambda: overwrites.append(client.create(key, b"again")))
        permitted("list", lambda: client.list(filesystem.key(".")))
        keeps_versions = bool(created and client.put(key, b"replaced"))
    finally:
        permitted("delete", lambda: client.delete([key]))
    if any(overwrites):
        raise _without_create(filesystem)
    if denied:
        names = dict.fromkeys(PERMISSIONS[address.store][what] for what in denied)
        raise TopicError(
            f"The root {filesystem.root} does not let {client.access.name} {_listed(list(denied))} objects: "
            f"{next(iter(denied.values()))}.",
            hint=f"Grant {_listed(list(names))} on the {address.name}, and on all that is in it.",
            path=filesystem.root,
            denied=",".join(denied),
        )
    if not keeps_versions:
        return ()
    return (
        f"The {address.name} keeps every version of its objects: statuses are replaced all the time, so let a "
        "lifecycle rule delete versions that are not current after a day.",
    )


def _without_create(filesystem: ObjectStoreFilesystem) -> ConfigError:
    address = filesystem.client.address
    endpoint = dict(filesystem.client.access.settings).get("endpoint", NAMES[address.store])
    return ConfigError(
        f"The store {endpoint} of the root {filesystem.root} has no conditional create: a PUT with If-None-Match "
        "replaced an object that was there.",
        hint="Use one that has it, such as Amazon S3, MinIO, Google Cloud Storage or Azure Blob Storage: else two "
        "writers could both believe that they were the first.",
        key="root",
        value=filesystem.root,
    )


def _listed(words: list[str]) -> str:
    """Return words in a sentence.

    >>> _listed(["create", "read", "delete"])
    'create, read and delete'
    """
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"

"""Check of the root before a run: what a bucket does not permit is reported by the plan, before anything runs."""

from __future__ import annotations

from airflow_samza.systems.filesystems.filesystem import Filesystem
from airflow_samza.systems.filesystems.object_store.address import is_object_store

_found: dict[object, tuple[str, ...]] = {}


def check_root(files: Filesystem) -> tuple[str, ...]:
    """Return warnings on the storage of a root, one sentence each; reject one on which no run can work.

    An object store gets about seven requests, once per process, root and identity. Other storages are not asked: they
    report what they reject as it happens.
    """
    if not is_object_store(files.root):
        return ()
    from airflow_samza.systems.filesystems.object_store.filesystem import ObjectStoreFilesystem
    from airflow_samza.systems.filesystems.object_store.probe import check_store

    identity = files.client.access if isinstance(files, ObjectStoreFilesystem) else None
    place = (files.root, identity)
    if place not in _found:
        _found[place] = check_store(files)
    return _found[place]

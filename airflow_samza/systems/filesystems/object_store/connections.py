"""Connections of this process to object stores, through obstore; none of them crosses a fork.

obstore's threads do not exist in a forked process, so that a call there would wait forever. A process whose parent has
used a store gets an error instead; one whose parent has only imported this module may use stores.
"""

from __future__ import annotations

import ctypes
import os
from datetime import timedelta
from typing import Any
from weakref import WeakValueDictionary

from obstore.store import AzureStore, GCSStore, S3Store

from airflow_samza.errors import TopicError
from airflow_samza.systems.filesystems.object_store.access import Access
from airflow_samza.systems.filesystems.object_store.address import Address, Store

_STORES: dict[Store, type[S3Store | GCSStore | AzureStore]] = {"s3": S3Store, "gcs": GCSStore, "azure": AzureStore}

_user = 0
"""The process that has connected, this one or one that it was forked from; 0: none."""

_connections: WeakValueDictionary[int, Any] = WeakValueDictionary()


def connect(address: Address, access: Access, timeout: float, *, retries: bool) -> S3Store | GCSStore | AzureStore:
    """Return a new connection.

    ``timeout`` bounds a request (seconds). ``retries``: obstore itself sends again what failed, which is right only
    for requests whose second try changes nothing.
    """
    global _user
    _user = os.getpid()
    options: dict[str, Any] = {
        "client_options": {
            "timeout": timedelta(seconds=timeout),
            "connect_timeout": timedelta(seconds=min(timeout, 5.0)),
            **dict(access.client),
        },
        "retry_config": {"max_retries": 8, "retry_timeout": timedelta(seconds=60)} if retries else {"max_retries": 0},
        **dict(access.settings),
    }
    if access.provider is not None:
        options["credential_provider"] = access.provider
    if address.store == "s3":
        options["copy_if_not_exists"] = "multipart"
    store = _STORES[address.store](address.bucket, **options)
    _connections[id(store)] = store
    return store


def reject_fork(address: Address) -> None:
    """Reject the use of stores in a process that was forked from one that had used them."""
    if _user not in (0, os.getpid()):
        raise TopicError(
            f"Process {os.getpid()} cannot reach {address.shown}: it was forked from process {_user}, which had used "
            "an object store.",
            hint="Start it with a new interpreter (subprocess, or multiprocessing's spawn), or fork before a store "
            "is used.",
            path=address.shown,
        )


def _keep_forever() -> None:
    """Never destroy, in a forked process, the connections of its parent: that may wait for threads it does not have."""
    for store in list(_connections.values()):
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(store))


os.register_at_fork(after_in_child=_keep_forever)

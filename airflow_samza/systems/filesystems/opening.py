"""Opening of the filesystem that the URL of a root names.

Every process that is given a root opens it here.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib.util import find_spec
from urllib.parse import unquote, urlsplit

from airflow_samza.errors import ConfigError, RuntimeMissing, install
from airflow_samza.systems.filesystems.filesystem import Filesystem
from airflow_samza.systems.filesystems.local import LocalFilesystem
from airflow_samza.systems.filesystems.object_store.address import is_object_store
from airflow_samza.systems.filesystems.root_access import access_of


def check_obstore(what_needs: str, scheme: str) -> None:
    """Reject an object store where the package that opens it is not installed; ``what_needs`` begins the sentence."""
    if find_spec("obstore") is None:
        raise RuntimeMissing(
            f"{what_needs} the package obstore, which is not installed.",
            hint=install({"s3": "s3", "gs": "gcs"}.get(scheme, "azure")),
            scheme=scheme,
        )


def open_filesystem(root_url: str, options: Mapping[str, object] | None = None) -> Filesystem:
    """Return the filesystem of a root.

    A local path or ``file://`` URL, a directory of an HDFS (``webhdfs://``, ``swebhdfs://``, ``hdfs://``), or a prefix
    in a bucket (``s3://``, ``gs://``, ``abfss://``, ``az://``).

    ``options`` are the identity, for HDFS ``user``, ``token`` and ``ssl_verify``, for object stores those of
    :mod:`airflow_samza.systems.filesystems.object_store.access`. What this process was given for the root
    (:mod:`airflow_samza.systems.filesystems.root_access`) stands beside them; for the rest the environment decides, as
    for the storage's own clients. Other schemes are rejected: a root needs an atomic *put if absent*, which each
    storage gives in a way of its own.
    """
    if not root_url:
        raise ConfigError(
            "The root is empty.",
            hint="Give an absolute path on a disk that all hosts of the run share.",
            value=root_url,
        )
    parts = urlsplit(root_url)
    if "://" not in root_url:
        return LocalFilesystem(os.path.expanduser(root_url))
    if parts.scheme == "file" and parts.netloc in ("", "localhost"):
        return LocalFilesystem(unquote(parts.path))
    if is_object_store(root_url):
        check_obstore(f"A root on {parts.scheme}:// needs", parts.scheme)
        from airflow_samza.systems.filesystems.object_store.filesystem import open_object_store

        return open_object_store(root_url, {**access_of(root_url).options, **(options or {})})
    if parts.scheme in ("webhdfs", "swebhdfs", "hdfs"):
        from airflow_samza.systems.filesystems.webhdfs.filesystem import open_webhdfs

        return open_webhdfs(root_url, {**access_of(root_url).options, **(options or {})})
    shown = f"{parts.scheme}://{parts.hostname or ''}{parts.path}"  # never user and password
    raise ConfigError(
        f"The root {shown} is on storage that cannot hold a root.",
        hint="Use a path or a file:// URL that every host of the run can reach, such as a mounted share, "
        "webhdfs://namenode:9870/path, or s3://, gs:// or abfss:// with a bucket and a path.",
        value=shown,
    )

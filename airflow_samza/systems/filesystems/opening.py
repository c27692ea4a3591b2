"""Opening of the filesystem that the URL of a root names."""

from __future__ import annotations

import os
from collections.abc import Mapping
from urllib.parse import unquote, urlsplit

from airflow_samza.errors import ConfigError
from airflow_samza.systems.filesystems.filesystem import Filesystem
from airflow_samza.systems.filesystems.local import LocalFilesystem


def open_filesystem(root_url: str, options: Mapping[str, object] | None = None) -> Filesystem:
    """Return the filesystem of a root.

    A local path or ``file://`` URL, or a directory of an HDFS (``webhdfs://``, ``swebhdfs://``, ``hdfs://``).

    ``options`` are the identity for HDFS (``user``, ``token``, ``ssl_verify``), or the environment does, as for
    Hadoop's own clients (:mod:`airflow_samza.systems.filesystems.webhdfs.access`). Other schemes are rejected: a root
    needs an atomic *put if absent*, which each of them gives in a way of its own.
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
    if parts.scheme in ("webhdfs", "swebhdfs", "hdfs"):
        from airflow_samza.systems.filesystems.webhdfs.filesystem import open_webhdfs

        return open_webhdfs(root_url, options)
    shown = f"{parts.scheme}://{parts.hostname or ''}{parts.path}"  # never user and password
    raise ConfigError(
        f"The root {shown} is neither on a local or mounted filesystem nor on HDFS.",
        hint="Use a path or a file:// URL that every host of the run can reach, such as a mounted share, or "
        "webhdfs://namenode:9870/path.",
        value=shown,
    )

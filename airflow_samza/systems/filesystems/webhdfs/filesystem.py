"""A root on HDFS: a :class:`~airflow_samza.systems.filesystems.filesystem.Filesystem` over WebHDFS.

Whatever opens a root on HDFS gets it.
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote

from airflow_samza.errors import ConfigError
from airflow_samza.systems.filesystems.remote import RemoteFilesystem
from airflow_samza.systems.filesystems.webhdfs.access import find_access
from airflow_samza.systems.filesystems.webhdfs.address import parse_address
from airflow_samza.systems.filesystems.webhdfs.client import PATIENCE_SECONDS, WebHdfsClient, shared_client

_COLON = "%3A"
"""Text that stands for a colon, which HDFS allows in no name.

Names that we percent-encode keep theirs, so the two do not meet.
"""


def open_webhdfs(
    url: str, options: Mapping[str, object] | None = None, *, patience: float = PATIENCE_SECONDS
) -> WebHdfsFilesystem:
    """Return the filesystem of a root such as ``webhdfs://namenode:9870/samza``.

    Options are ``user``, ``token`` and ``ssl_verify``; ``namenodes`` are those of an ``hdfs://`` root (URLs with commas
    between them) where the process has no configuration of the cluster.
    """
    namenodes = str((options or {}).get("namenodes") or "")
    address, path = parse_address(url, fallback=namenodes.split(",") if namenodes else ())
    return WebHdfsFilesystem(shared_client(address, find_access(options), patience), path)


class WebHdfsFilesystem(RemoteFilesystem):
    """A directory of an HDFS."""

    client: WebHdfsClient

    def key(self, path: str) -> str:
        return super().key(path).replace(":", _COLON)

    def list(self, directory: str) -> list[str]:
        return sorted(name.replace(_COLON, ":") for name in super().list(directory))

    def link(self, path: str, seconds: float) -> str:
        """Return the URL for Hadoop's own client in Spark, or for any client of HTTP where the user is but a name."""
        client, target = self.client, quote(self.key(path))
        if client.address.shown.startswith("hdfs://"):
            return client.address.url(target)
        if client.access.token:
            raise ConfigError(
                f"Spark's hosts cannot fetch {self.location(path)}: its URL would show a delegation token.",
                hint="Write the root as hdfs://host:port/path, which Spark reads by itself.",
                key="root",
                value=self.root,
            )
        return f"{client.address.namenodes[0]}/webhdfs/v1/{target}?op=OPEN&user.name={quote(client.access.user)}"

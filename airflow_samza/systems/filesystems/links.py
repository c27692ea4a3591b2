"""Links by which programs that know nothing of our filesystems fetch one file: Spark, before anything of ours runs."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from airflow_samza.errors import ConfigError
from airflow_samza.systems.filesystems.filesystem import Filesystem


@runtime_checkable
class GivesLinks(Protocol):
    """A filesystem that Java reads by URL."""

    def link(self, path: str, seconds: float) -> str:
        """Return a URL of a file from which Java reads it, for this long at least.

        It may show that somebody was allowed to read this one file (a signature), and no password or token.
        """
        ...


def link_to(files: Filesystem, path: str, seconds: float) -> str:
    """Return a URL of a file; :class:`~airflow_samza.errors.ConfigError` where Java has no way to it."""
    if isinstance(files, GivesLinks):
        return files.link(path, seconds)
    raise ConfigError(
        f"Spark's hosts cannot fetch a driver from the root {files.root}.",
        hint="Use the deploy mode client, or a root on HDFS, on an object store or on a share that all hosts mount.",
        key="deploy_mode",
        value="cluster",
    )

"""Locations of files: a filesystem and a path in it, from a local path or a URL.

HDFS is reached over WebHDFS, and object stores by the client of roots (decision 82), with the options of a root. For
the rest pyarrow's own filesystems are taken where the build has them and no storage options are given (their names are
fsspec's); fsspec opens everything else. A path stays below the root of its system, and below its folder where values
came with the run. Streams of files, and both lake formats, open their storage by it.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any
from urllib.parse import unquote

import pyarrow.fs as pafs

from airflow_samza.application.rejections import did_you_mean
from airflow_samza.errors import ConfigError, RuntimeMissing, TopicError
from airflow_samza.secrecy import without
from airflow_samza.systems.filesystems.arrow_handler import ObjectStoreHandler, RemoteHandler
from airflow_samza.systems.filesystems.object_store.address import is_object_store
from airflow_samza.systems.filesystems.opening import check_obstore
from airflow_samza.systems.filesystems.remote import RemoteFilesystem
from airflow_samza.systems.filesystems.webhdfs.address import is_hdfs
from airflow_samza.systems.system import StreamSpec

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]+)://(.*)", re.DOTALL)
_HDFS_OPTIONS = frozenset({"user", "token", "ssl_verify"})
_ARROW_SCHEMES = frozenset({"gcs", "viewfs", "abfs"})
_GLOB_PART = re.compile(r"[*?\[]")


@dataclass(frozen=True)
class Location:
    """A path in a filesystem; ``prefix`` and ``path`` together are what people are shown (never credentials)."""

    filesystem: pafs.FileSystem
    path: str
    prefix: str = ""

    def __str__(self) -> str:
        return f"{self.prefix}{self.path}"

    def __truediv__(self, relative: str) -> Location:
        """Return the location of a path below this one."""
        inner = relative.strip("/")
        return self if not inner else Location(self.filesystem, f"{self.path.rstrip('/')}/{inner}", self.prefix)

    def at(self, path: str) -> Location:
        """Return another path of the same filesystem."""
        return Location(self.filesystem, path, self.prefix)

    def entries(self) -> list[pafs.FileInfo]:
        """Return the files and folders in it; none where there is no such folder."""
        return list(self.filesystem.get_file_info(pafs.FileSelector(self.path, allow_not_found=True)))

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rstrip("/").rpartition("/")[2]

    @property
    def parent(self) -> Location:
        """The directory in which it lies."""
        return self.at(self.path.rpartition("/")[0])


def is_url(path: str) -> bool:
    """Return whether a path names its filesystem itself."""
    return _URL.match(path) is not None


def open_location(
    url: str, options: Mapping[str, Any] | None = None, *, secret: frozenset[str] = frozenset()
) -> Location:
    """Return the location of a local path or a filesystem URL.

    ``options`` are those of the filesystem: on HDFS and on object stores as of a root, elsewhere fsspec's.
    """
    match = _URL.match(url)
    if match is None:
        return Location(pafs.LocalFileSystem(), os.path.abspath(os.path.expanduser(url)))
    scheme, rest = match[1].lower(), match[2]
    if scheme == "file":
        host, slash, path = rest.partition("/")
        if not slash or host not in ("", "localhost"):
            raise ConfigError(
                f"The file URL {url!r} names a host or no path.",
                hint="Write file:///absolute/path, or the path alone.",
                key="root",
                value=url,
            )
        return Location(pafs.LocalFileSystem(), os.path.normpath("/" + unquote(path)))
    if is_hdfs(url):
        return _on_hdfs(url, options)
    if is_object_store(url):
        check_obstore(f"Files on {scheme}:// need", scheme)
        from airflow_samza.systems.filesystems.object_store.filesystem import open_object_store

        return _of_root(ObjectStoreHandler, open_object_store(url, options))
    shown = _without_credentials(rest)
    if not options and scheme in _ARROW_SCHEMES:
        try:
            filesystem, path = pafs.FileSystem.from_uri(url)
        except (OSError, ValueError, NotImplementedError):
            pass  # this build cannot (no libhdfs, no JVM, an option it does not know): fsspec tries next
        else:
            return Location(filesystem, path.rstrip("/"), _prefix(scheme, shown, path))
    return _by_fsspec(url, scheme, options or {}, secret)


def _on_hdfs(url: str, options: Mapping[str, Any] | None) -> Location:
    """Open HDFS over HTTP, which needs no Java; ``options`` are ``user``, ``token`` and ``ssl_verify``."""
    from airflow_samza.systems.filesystems.webhdfs.filesystem import open_webhdfs

    unknown = sorted(set(options or ()) - _HDFS_OPTIONS)
    if unknown:
        raise ConfigError(
            f"HDFS has no storage option {unknown[0]!r}.",
            hint=f"{did_you_mean(unknown[0], _HDFS_OPTIONS)}Its options are user, token "
            "(a delegation token) and ssl_verify.",
            key=unknown[0],
        )
    return _of_root(RemoteHandler, open_webhdfs(url, options))


def _of_root(handler: type[RemoteHandler], files: RemoteFilesystem) -> Location:
    """Return a root's own folder as the formats read and write it, over the root's client."""
    return Location(pafs.PyFileSystem(handler(files.client)), f"/{files.key('.')}", files.client.address.shown)


def _prefix(scheme: str, shown: str, path: str) -> str:
    """Return the beginning of the URL before a filesystem's own path."""
    whole, inner = f"{scheme}://{shown}".rstrip("/"), path.rstrip("/")
    return whole[: len(whole) - len(inner)] if whole.endswith(inner) else f"{scheme}://"


def _by_fsspec(url: str, scheme: str, options: Mapping[str, Any], secret: frozenset[str]) -> Location:
    import fsspec

    shown = f"{scheme}://{_without_credentials(url.partition('://')[2])}"
    try:
        filesystem, path = fsspec.core.url_to_fs(url, **options)
    except ImportError as error:
        raise RuntimeMissing(
            f"The filesystem of {shown} needs a package that is not installed: {error}.",
            hint=f"pip install 'fsspec[{scheme}]'.",
            scheme=scheme,
        ) from error
    except ValueError as error:
        raise ConfigError(
            f"There is no filesystem for {scheme}:// (in {shown}).",
            hint="Use a local path, file://, s3://, gs://, hdfs://, webhdfs://, abfs:// or "
            "another scheme that fsspec knows.",
            key="root",
            value=shown,
        ) from error
    except (OSError, TypeError) as error:
        reason = without(str(error), [options.get(name) for name in secret])
        raise RuntimeMissing(
            f"The filesystem of {shown} does not open: {reason}.",
            hint="Check the connection's storage options.",
            scheme=scheme,
        ) from error
    path = str(path).rstrip("/")
    return Location(
        pafs.PyFileSystem(pafs.FSSpecHandler(filesystem)), path, _prefix(scheme, shown.partition("://")[2], path)
    )


def _without_credentials(rest: str) -> str:
    """Return the part of a URL after ``://`` without user, password and query.

    >>> _without_credentials("key:secret@bucket/a?region=x")
    'bucket/a'
    """
    authority, slash, path = rest.partition("?")[0].partition("/")
    return authority.rpartition("@")[2] + slash + path


def object_store_of(filesystem: pafs.FileSystem) -> ObjectStoreHandler | None:
    """Return the object store behind a filesystem, if it is one: it has versions of files, and lists in order."""
    handler = getattr(filesystem, "handler", None)
    return handler if isinstance(handler, ObjectStoreHandler) else None


def info_and_version(filesystem: pafs.FileSystem, path: str) -> tuple[pafs.FileInfo, str | None]:
    """Return a file as it is in the storage, and its version; a bucket is not asked whether it may be a folder."""
    storage = object_store_of(filesystem)
    return storage.info_and_version(path) if storage is not None else (filesystem.get_file_info(path), None)


def has_glob(path: str) -> bool:
    """Return whether a path has a part that matches, instead of naming."""
    return _GLOB_PART.search(path) is not None


def named_part(path: str) -> str:
    """Return the part of a path before the first that matches.

    >>> named_part("in/day=*/*.json"), named_part("in")
    ('in', 'in')
    """
    parts = path.split("/")
    return "/".join(parts[: next((place for place, part in enumerate(parts) if _GLOB_PART.search(part)), len(parts))])


def check_inside(root: Location, relative: str, stream: StreamSpec, system: str, *, absolute: bool) -> None:
    """Reject a path that leads out of its system's root.

    An ``absolute`` one is a place of its own, as the application's code says it. Where values came with the run
    (``stream.below``), links are resolved as well: what they choose lies under the root, or under the folder that an
    absolute path names before them.
    """
    if not absolute and posixpath.normpath(relative).split("/")[0] == "..":
        raise _outside(root / relative, root, stream, system)
    if stream.below is None or not isinstance(root.filesystem, pafs.LocalFileSystem):
        return
    outer = root.path
    if absolute:
        outer = (
            stream.below
            if "://" not in stream.below
            else (root / stream.below.partition("://")[2].partition("/")[2]).path
        )
    inner = os.path.realpath((root / named_part(relative)).path)
    if not PurePath(inner).is_relative_to(os.path.realpath(outer)):
        raise _outside(root / relative, root.at(outer), stream, system)


def _outside(path: Location, folder: Location, stream: StreamSpec, system: str) -> TopicError:
    return TopicError(
        f"The path {path} of stream {stream.name!r} (system {system!r}) leads out of {folder}.",
        hint="A path must stay below the root of its system, symbolic links included where values of the run choose "
        "it. Code may name another place by an absolute path.",
        path=str(path),
        stream=stream.name,
        system=system,
    )

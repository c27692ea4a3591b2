"""Checks that paths stay below the system's root, and below their folder where values came with the run."""

from __future__ import annotations

import os
import posixpath
import re

import pyarrow.fs as pafs

from airflow_samza.errors import TopicError
from airflow_samza.systems.files.location import Location
from airflow_samza.systems.system import StreamSpec

_GLOB_PART = re.compile(r"[*?\[]")


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
    if not _is_below(_named_in_full(root, relative), outer):
        raise _outside(root / relative, root.at(outer), stream, system)


def _named_in_full(root: Location, relative: str) -> str:
    """Return the path up to the first part with a glob: that one only matches what lies in the folder."""
    parts = relative.split("/")
    literal = next((place for place, part in enumerate(parts) if _GLOB_PART.search(part)), len(parts))
    return (root / "/".join(parts[:literal])).path


def _is_below(path: str, folder: str) -> bool:
    inner, outer = os.path.realpath(path), os.path.realpath(folder)
    return os.path.commonpath([inner, outer]) == outer


def _outside(path: Location, folder: Location, stream: StreamSpec, system: str) -> TopicError:
    return TopicError(
        f"The path {path} of stream {stream.name!r} (system {system!r}) leads out of {folder}.",
        hint="A path must stay below the root of its system, symbolic links included where values of the run choose "
        "it. Code may name another place by an absolute path.",
        path=str(path),
        stream=stream.name,
        system=system,
    )

"""Deletion of files of a table that no version of it has: data files under our own names, and metadata.

Tasks write data files where the table has them, and a stage that was given up leaves them there; so do versions that
are gone those that were replaced. They go when nobody can need them: their names are those that outputs here give, they
are old, no run that is open has written them or reads them, and no version names them, not even as removed. Sweeps of
outputs and publishers of both lake formats do it.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import pyarrow.fs as pafs

from airflow_samza.systems.files.durable_files import delete_file
from airflow_samza.systems.files.failures import storage_errors
from airflow_samza.systems.files.location import Location

ORPHAN_SECONDS = 7 * 86400.0
"""Age from which a data file that no version has is deleted; that of runs of this root that are open stays."""

DATA_FILES = re.compile(r"samza-[0-9a-f]{16}-[0-9a-f]{32}\.parquet")
METADATA_FILES = re.compile(
    r"\d+-[0-9a-f-]{36}\.metadata\.json|snap-\d+-\d+-[0-9a-f-]{36}\.avro|[0-9a-f-]{36}-m\d+\.avro"
)
"""Names of data files that outputs here give; those of pyiceberg of metadata, lists of manifests, and manifests."""


def sweep_files(
    folder: Location,
    names_in_use: Callable[[], set[str] | None],
    stream: str,
    is_held: Callable[[str, float], bool],
    now: float,
    *,
    dry: bool,
    names: re.Pattern[str] = DATA_FILES,
) -> tuple[int, int]:
    """Delete what nobody needs in a folder of a table's files; return how many files and bytes that are.

    Only files with such ``names`` go. ``names_in_use`` looks at the table, after the list: what has been committed
    meanwhile is seen. None: nothing is deleted.
    """
    with storage_errors(path=str(folder), stream=stream, doing="list"):
        listed = folder.filesystem.get_file_info(pafs.FileSelector(folder.path, allow_not_found=True))
    old = {
        info.base_name: info
        for info in listed
        if names.fullmatch(info.base_name)
        and info.mtime_ns
        and info.mtime_ns / 1e9 < now - ORPHAN_SECONDS
        and not is_held(info.base_name, info.mtime_ns / 1e9)
    }
    named = names_in_use() if old else None
    if named is None:
        return 0, 0
    old = {name: info for name, info in old.items() if name not in named}
    for info in old.values() if not dry else ():
        with storage_errors(path=str(folder), stream=stream, doing="delete"):
            delete_file(folder.at(info.path))
    return len(old), sum(int(info.size or 0) for info in old.values())

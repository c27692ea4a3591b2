"""State files that no version names.

Of runs that were superseded or abandoned, or that died while they left what they had.
"""

from __future__ import annotations

from airflow_samza.runs.lineage.lease import Ended
from airflow_samza.runs.lineage.versions import Version
from airflow_samza.runs.records.folders import numbers, read
from airflow_samza.systems.filesystems.filesystem import Filesystem


def orphaned_state(files: Filesystem, lineage: str) -> list[str]:
    """The folders of state files under a lineage's folder that nobody will read.

    Their lease has ended, and no version names them.

    A lease that has ended with a version that is not among the versions yet counts as one; the newest lease's files
    stay in any case.
    """
    folder = f"{lineage}/versions"
    versions = [read(files, f"{folder}/{number:020}.json", Version) for number in numbers(files, folder)]
    needed = {version.files for version in versions if version is not None}
    newest = max((version.number for version in versions if version is not None), default=0)
    fences = numbers(files, f"{lineage}/leases")
    found = []
    for fence in numbers(files, f"{lineage}/files"):
        path = f"{lineage}/files/{fence:020}"
        if path in needed or not fences or fence >= fences[-1]:
            continue
        ended = read(files, f"{lineage}/leases/{fence:020}/ended.json", Ended)
        if ended is not None and ended.version is not None and ended.version["number"] > newest:
            continue
        found.append(path)
    return found

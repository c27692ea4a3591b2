"""State files that no version names.

Of runs that were superseded or abandoned, or that died while they left what they had.
"""

from __future__ import annotations

from airflow_samza.runs.lineage.lease import FINISHED
from airflow_samza.runs.records.folders import numbers, read
from airflow_samza.systems.filesystems.filesystem import Filesystem


def orphaned_state(files: Filesystem, lineage: str) -> list[str]:
    """The folders of state files under a lineage's folder that nobody will read.

    Their lease has ended, and no version names them.

    A lease that has ended with a version that is not among the versions yet counts as one; the newest lease's files
    stay in any case.
    """
    records = [read(files, f"{lineage}/versions/{number:020}.json") for number in numbers(files, f"{lineage}/versions")]
    needed = {record["files"] for record in records if record is not None}
    newest = max((record["number"] for record in records if record is not None), default=0)
    fences = numbers(files, f"{lineage}/leases")
    found = []
    for fence in numbers(files, f"{lineage}/files"):
        path = f"{lineage}/files/{fence:020}"
        if path in needed or not fences or fence >= fences[-1]:
            continue
        ended = read(files, f"{lineage}/leases/{fence:020}/ended.json")
        if ended is not None and ended["how"] == FINISHED and ended["version"]["number"] > newest:
            continue
        found.append(path)
    return found

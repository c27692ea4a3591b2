"""Looks at versions and leases of states, and at versions of pushed tables, and says what is damaged or missing.

It changes nothing. The command ``fsck`` shows it.
"""

from __future__ import annotations

from collections.abc import Iterator

from airflow_samza.errors import SamzaError
from airflow_samza.runs.records.folders import numbers, read
from airflow_samza.runs.state_history.lease import Begun, Ended, Lease
from airflow_samza.runs.state_history.versions import Version, VersionPin
from airflow_samza.runs.tables.compactions import Compaction
from airflow_samza.runs.tables.folder import GIVEN_UP
from airflow_samza.runs.tables.marks import Mark
from airflow_samza.runs.tables.table_version import TableVersion
from airflow_samza.runs.upkeep.run_fsck import checked, state_findings
from airflow_samza.systems.filesystems.filesystem import Filesystem
from airflow_samza.systems.log.fsck import Finding

ROOT = "state"
TABLES = "tables"
_REMEDY = "Restore it, or go back to a version that is whole: airflow-samza state reset."


def fsck_state(files: Filesystem) -> Iterator[tuple[str, list[Finding]]]:
    """The findings on each folder of state under a root."""
    for name in files.list(ROOT):
        yield name, list(_findings(files, f"{ROOT}/{name}"))


def fsck_tables(files: Filesystem) -> Iterator[tuple[str, list[Finding]]]:
    """The findings on the records of each pushed table under a root; its rows lie in a topic."""
    for system in files.list(TABLES):
        for name in files.list(f"{TABLES}/{system}"):
            yield f"{system}.{name}", list(_table_findings(files, f"{TABLES}/{system}/{name}"))


def _table_findings(files: Filesystem, folder: str) -> Iterator[Finding]:
    for name in files.list(f"{folder}/versions"):
        yield from checked(files, f"{folder}/versions/{name}", TableVersion)
    for name in files.list(f"{folder}/compactions"):
        yield from checked(files, f"{folder}/compactions/{name}", Mark if name.endswith(GIVEN_UP) else Compaction)
    for name in files.list(f"{folder}/expired"):
        yield from checked(files, f"{folder}/expired/{name}", Mark)


def _findings(files: Filesystem, folder: str) -> Iterator[Finding]:
    for number in numbers(files, f"{folder}/leases"):
        place = f"{folder}/leases/{number:020}"
        yield from checked(files, f"{place}/taken.json", Lease)
        yield from checked(files, f"{place}/begun.json", Begun)
        yield from checked(files, f"{place}/ended.json", Ended)
    for number in numbers(files, f"{folder}/versions"):
        yield from _version(files, f"{folder}/versions/{number:020}.json")
    for run in files.list(f"{folder}/runs"):
        for number in numbers(files, f"{folder}/runs/{run}"):
            yield from _version(files, f"{folder}/runs/{run}/{number}.json")
    for version in files.list(f"{folder}/pins"):
        for name in files.list(f"{folder}/pins/{version}"):
            yield from checked(files, f"{folder}/pins/{version}/{name}", VersionPin)


def _version(files: Filesystem, path: str) -> Iterator[Finding]:
    try:
        version = read(files, path, Version)
    except SamzaError as error:
        yield Finding(files.location(path), f"is damaged: {error.facts.get('why') or error.sentence}", _REMEDY)
        return
    for tasks in version.stages.values() if version is not None else ():
        for left in tasks.values():
            for finding in state_findings(files, left.get("state")):
                yield Finding(finding.path, finding.what, _REMEDY)

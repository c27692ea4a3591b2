"""Partitions of data files by the partition specs that a table has, or had: by source columns and transforms."""

from __future__ import annotations

from collections.abc import Collection, Hashable
from typing import TYPE_CHECKING

from airflow_samza.systems.tables.commits import comparable
from airflow_samza.systems.tables.leaving_files import repartitioned
from airflow_samza.systems.tables.output_options import MAIN

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile
    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.table import Table


def partitions_by(table: Table, files: Collection[DataFile], spec: int) -> list[Hashable]:
    """Return the partition of each file by a spec; None: that of the file lacks some of its fields."""
    fields = {number: _fields(one) for number, one in table.specs().items()}
    wanted = [field for field in fields.get(spec, ()) if not _is_void(field)]
    found: list[Hashable] = []
    for file in files:
        values = {field: comparable(file.partition[place]) for place, field in enumerate(fields[file.spec_id])}
        is_told = spec in fields and values.keys() >= set(wanted)
        found.append(tuple(values[field] for field in wanted) if is_told else None)
    return found


def reject_untold(table: Table, branch: str, stream: str) -> None:
    """Reject a table that has live files of a spec which does not tell the partitions of the present one."""
    present = {field for field in _fields(table.spec()) if not _is_void(field)}
    untold = {number for number, spec in table.specs().items() if not set(_fields(spec)) >= present}
    snapshot = table.metadata.snapshot_by_name(branch if branch in table.metadata.refs else MAIN)
    for manifest in snapshot.manifests(table.io) if snapshot is not None and untold else ():
        has_files = manifest.has_added_files() or manifest.has_existing_files()
        if manifest.partition_spec_id in untold and has_files:
            raise repartitioned(".".join(table.name()), stream)


def _fields(spec: PartitionSpec) -> list[tuple[int, str]]:
    return [(field.source_id, str(field.transform)) for field in spec.fields]


def _is_void(field: tuple[int, str]) -> bool:
    return field[1] == "void"

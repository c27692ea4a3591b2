"""Data files of a table as its metadata has them: with statistics from their footers, and partitions by any spec."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator
from typing import TYPE_CHECKING

from airflow_samza.systems.files.formats.parquet_output import leaf_fields
from airflow_samza.systems.tables.commits import comparable
from airflow_samza.systems.tables.leaving_files import repartitioned
from airflow_samza.systems.tables.options import MAIN
from airflow_samza.systems.tables.staged_files import StagedFiles
from airflow_samza.systems.tables.transforms import partition_value

if TYPE_CHECKING:
    from pyiceberg.io.pyarrow import StatisticsCollector
    from pyiceberg.manifest import DataFile, ManifestEntry
    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.table import Table


def as_data_files(staged: StagedFiles, table: Table) -> list[DataFile]:
    """Return the files for a commit to a table whose partition spec is that for which they were written."""
    from pyiceberg.io.pyarrow import data_file_statistics_from_parquet_metadata
    from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
    from pyiceberg.typedef import Record

    schema, spec = table.schema(), table.spec()
    plan = _statistics_plan(table)
    words = [str(field.field_type) for field in spec.partition_type(schema).fields]
    orders = {order.order_id for order in table.metadata.sort_orders}
    files = []
    for described, footer in zip(staged.files, staged.footers(), strict=True):
        # By the ids in the file: since it was written, columns may have been renamed, and others have their names.
        leaves = leaf_fields(footer.schema.to_arrow_schema())
        ids = {path: int(field.metadata[b"PARQUET:field_id"]) for path, field in leaves}
        wanted = {number: plan.get(number) or _nothing_of(number) for number in ids.values()}
        statistics = data_file_statistics_from_parquet_metadata(footer, wanted, ids).to_serialized_dict()
        file = DataFile.from_args(
            content=DataFileContent.DATA,
            file_path=str(described["path"]),
            file_format=FileFormat.PARQUET,
            partition=Record(*(partition_value(*pair) for pair in zip(described["partition"], words, strict=True))),
            file_size_in_bytes=int(described["bytes"]),
            sort_order_id=described.get("sort_order") if described.get("sort_order") in orders else None,
            spec_id=spec.spec_id,
            equality_ids=None,
            key_metadata=None,
            **statistics,
        )
        file.spec_id = spec.spec_id
        files.append(file)
    return files


def _statistics_plan(table: Table) -> dict[int, StatisticsCollector]:
    """Return which statistics of a file the table's metadata gets, by field id; floats have none in the files."""
    from pyiceberg.io.pyarrow import compute_statistics_plan
    from pyiceberg.types import DoubleType, FloatType

    plan = compute_statistics_plan(table.schema(), table.properties)
    floats = [number for number, one in plan.items() if isinstance(one.iceberg_type, FloatType | DoubleType)]
    return {**plan, **{number: _nothing_of(number) for number in floats}}


def _nothing_of(number: int) -> StatisticsCollector:
    """Return the plan for a column of which the metadata gets no statistics, such as one that was dropped since."""
    from pyiceberg.io.pyarrow import MetricModeTypes, MetricsMode, StatisticsCollector
    from pyiceberg.types import BooleanType

    return StatisticsCollector(number, BooleanType(), MetricsMode(MetricModeTypes.NONE), "")


def live_entries(table: Table, branch: str) -> Iterator[ManifestEntry]:
    """Yield what manifests say of the data files of the newest snapshot of a branch."""
    from pyiceberg.manifest import DataFileContent, ManifestContent

    snapshot = table.metadata.snapshot_by_name(branch)
    for manifest in () if snapshot is None else snapshot.manifests(table.io):
        if manifest.content == ManifestContent.DATA:
            for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True):
                if entry.data_file.content == DataFileContent.DATA:
                    yield entry


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

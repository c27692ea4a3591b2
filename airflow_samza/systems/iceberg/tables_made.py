"""Tables that an output makes because it says so, with metadata that stays small when commits are many."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from airflow_samza.errors import ConfigError
from airflow_samza.schema import Schema
from airflow_samza.systems.iceberg.catalogs import find_table
from airflow_samza.systems.iceberg.options import Ordered, OutputOptions, identifier_of
from airflow_samza.systems.tables.options import MADE
from airflow_samza.systems.tables.output_target import check_known

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.update.sorting import UpdateSortOrder
    from pyiceberg.table.update.spec import UpdateSpec

BOUNDED = {
    MADE: "true",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "20",
    "commit.manifest-merge.enabled": "true",
    "commit.manifest.min-count-to-merge": "20",
    "commit.manifest.target-size-bytes": str(2**17),
}
"""Properties of such tables, where the output does not say otherwise."""


def make_table(
    catalog: Catalog, options: OutputOptions, columns: Schema, stream: str, note: Callable[[TableMetadata], None]
) -> None:
    """Make a table, unless another process has been quicker; what is being made is noted before."""
    check_columns_of_fields(options, columns, stream)
    identifier = identifier_of(options.table)
    try:
        catalog.create_namespace_if_not_exists(identifier[:-1])
    except Exception:  # of the catalog's database, where another process was quicker
        if not catalog.namespace_exists(identifier[:-1]):
            raise
    try:
        properties = {**BOUNDED, **options.properties}
        with catalog.create_table_transaction(identifier, columns.to_arrow(), properties=properties) as transaction:
            if options.partition_by:
                with transaction.update_spec() as update:
                    for column, transform in options.partition_by:
                        _add_field(update, column, transform, columns, stream)
            if options.sort_by:
                with transaction.update_sort_order() as order:
                    for field in options.sort_by:
                        _add_order(order, field, columns, stream)
            note(transaction.table_metadata)
    except Exception:
        if find_table(catalog, options.table) is None:
            raise


def check_columns_of_fields(options: OutputOptions, columns: Schema, stream: str) -> None:
    """Reject fields of partitions that no table has together, and a field whose column there is not."""
    check_known((column for column, _ in options.partition_by), columns, stream, "partitioned", "partition_by")
    _check_partition_fields(options, columns, stream)
    check_known((field.column for field in options.sort_by), columns, stream, "sorted", "sort_by")


_TIMES = ("year", "month", "day", "hour")
"""Transforms of times, of which a table has one of each column; the finest is the last one."""


def _check_partition_fields(options: OutputOptions, columns: Schema, stream: str) -> None:
    """Reject two fields of which a table has one, and a field whose name is that of a column."""
    seen: dict[tuple[str, str], str] = {}
    for column, transform in options.partition_by:
        kind = "by time" if transform in _TIMES else transform
        former = seen.get((column, kind))
        seen[column, kind] = transform
        name = f"{column}_{transform.replace('truncate', 'trunc').replace('[', '_').rstrip(']')}"
        if former is not None and former != transform:
            coarse, fine = sorted((former, transform), key=_TIMES.index)
            what = f"by {former} and by {transform} of the column {column!r}, of which a table has one field by time"
            hint = f"Write {fine}({column}) alone: conditions on whole {coarse}s leave its partitions out, too."
        elif former is not None:
            what = f"by {transform} of the column {column!r} twice, and a table has a field once"
            hint = "Write it once."
        elif transform != "identity" and name in columns:
            what = f"by {transform} of the column {column!r}, a field that Iceberg names as the column {name!r}"
            hint = f"Give the column {name!r} another name, or leave it out."
        else:
            continue
        raise ConfigError(f"The output {stream!r} is partitioned {what}.", hint=hint, key="partition_by", value=column)


def _add_order(order: UpdateSortOrder, field: Ordered, columns: Schema, stream: str) -> None:
    from pyiceberg.table.sorting import NullOrder
    from pyiceberg.transforms import parse_transform

    kind = order._transaction.table_metadata.schema().find_field(field.column).field_type
    transform: Any = parse_transform(field.transform)
    if not kind.is_primitive or not transform.can_transform(kind):
        by = "" if field.transform == "identity" else f"{field.transform} of "
        raise ConfigError(
            f"The output {stream!r} is sorted by {by}the column {field.column!r}, which is "
            f"{columns[field.column].type.ddl()}, and that has no such order.",
            hint="Years, months, days and hours are of dates and timestamps, and truncate is of texts and numbers.",
            key="sort_by",
            value=field.column,
        )
    nulls = NullOrder.NULLS_FIRST if field.nulls_first else NullOrder.NULLS_LAST
    (order.desc if field.descending else order.asc)(field.column, transform, nulls)


def _add_field(update: UpdateSpec, column: str, transform: str, columns: Schema, stream: str) -> None:
    try:
        update.add_field(column, transform)
    except ValueError as error:
        raise ConfigError(
            f"The output {stream!r} is partitioned by {transform} of the column {column!r}, which is "
            f"{columns[column].type.ddl()}, and that has no such partitions.",
            hint="Years, months, days and hours are of dates and timestamps, and truncate is of texts and numbers.",
            key="partition_by",
            value=column,
        ) from error

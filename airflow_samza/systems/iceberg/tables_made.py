"""Tables that an output makes because it says so, with metadata that stays small when commits are many."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from airflow_samza.application.rejections import did_you_mean, listed
from airflow_samza.errors import ConfigError
from airflow_samza.schema import Schema
from airflow_samza.systems.iceberg.catalogs import find_table
from airflow_samza.systems.iceberg.output_options import OutputOptions

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

MADE = "samza.made"
"""Property of the tables that outputs have made: their old snapshots are expired by whom commits."""

BOUNDED = {
    MADE: "true",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "20",
    "commit.manifest-merge.enabled": "true",
    "commit.manifest.min-count-to-merge": "20",
}
"""Properties of such tables, where the output does not say otherwise."""

KEPT_SNAPSHOTS = 100
"""Snapshots that such a table keeps, and a branch or a tag may keep others."""


def make_table(catalog: Catalog, options: OutputOptions, columns: Schema, stream: str) -> Table:
    """Return a table, which is made unless another process has been quicker."""
    from pyiceberg.exceptions import NamespaceAlreadyExistsError, TableAlreadyExistsError

    check_partition_columns(options, columns, stream)
    with suppress(NamespaceAlreadyExistsError):
        catalog.create_namespace_if_not_exists(options.identifier[:-1])
    with suppress(TableAlreadyExistsError):
        properties = {**BOUNDED, **options.properties}
        with catalog.create_table_transaction(
            options.identifier, columns.to_arrow(), properties=properties
        ) as transaction:
            if options.partition_by:
                with transaction.update_spec() as update:
                    for column, transform in options.partition_by:
                        update.add_field(column, transform)
    table = find_table(catalog, options.identifier)
    assert table is not None
    return table


def check_partition_columns(options: OutputOptions, columns: Schema, stream: str) -> None:
    """Reject a partition field of a column that there is not."""
    for column, _ in options.partition_by:
        if column not in columns:
            raise ConfigError(
                f"The output {stream!r} is partitioned by the column {column!r}, which its messages do not have.",
                hint=f"{did_you_mean(column, columns.names)}Their columns are {listed(columns.names)}.",
                key="partition_by",
                value=column,
            )


def expire_snapshots(table: Table) -> None:
    """Expire the oldest snapshots of a table that an output has made, when there are twice as many as it keeps.

    Their files stay.
    """
    if table.properties.get(MADE) != "true" or len(table.metadata.snapshots) < 2 * KEPT_SNAPSHOTS:
        return
    newest = sorted(table.metadata.snapshots, key=lambda one: one.sequence_number or 0)
    held = {ref.snapshot_id for ref in table.metadata.refs.values()}
    old = [one.snapshot_id for one in newest[:-KEPT_SNAPSHOTS] if one.snapshot_id not in held]
    table.maintenance.expire_snapshots().by_ids(old).commit()

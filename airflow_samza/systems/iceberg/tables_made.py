"""Tables that an output makes because it says so, with metadata that stays small when commits are many."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_samza.application.rejections import did_you_mean, listed
from airflow_samza.errors import ConfigError
from airflow_samza.schema import Schema
from airflow_samza.systems.iceberg.catalogs import find_table
from airflow_samza.systems.iceberg.output_options import OutputOptions

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table
    from pyiceberg.table.update.spec import UpdateSpec

PRODUCER, GENERATION, EPOCH = "samza.producer", "samza.generation", "samza.epoch"
"""Properties of the snapshots that outputs have committed, for people."""

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
"""Snapshots that such a table keeps; a branch or a tag may keep others."""

KEPT_EPOCHS = 10
"""Snapshots that it keeps of the epochs of one generation of a stage."""

_AT_ONCE = 10
"""Snapshots that are expired together: that is a commit, too."""


def make_table(catalog: Catalog, options: OutputOptions, columns: Schema, stream: str) -> Table:
    """Return a table, which is made unless another process has been quicker."""
    check_partition_columns(options, columns, stream)
    namespace = options.identifier[:-1]
    try:
        catalog.create_namespace_if_not_exists(namespace)
    except Exception:  # of the catalog's database, where another process was quicker
        if not catalog.namespace_exists(namespace):
            raise
    try:
        properties = {**BOUNDED, **options.properties}
        with catalog.create_table_transaction(
            options.identifier, columns.to_arrow(), properties=properties
        ) as transaction:
            if options.partition_by:
                with transaction.update_spec() as update:
                    for column, transform in options.partition_by:
                        _add_field(update, column, transform, columns, stream)
    except Exception:
        if find_table(catalog, options.identifier) is None:
            raise
    table = find_table(catalog, options.identifier)
    assert table is not None
    return table


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
    """Expire the oldest snapshots of a table that an output has made, and those of epochs long ago; their files stay.

    The cost of a commit grows with the number of snapshots.
    """
    if table.properties.get(MADE) != "true":
        return
    snapshots = sorted(table.metadata.snapshots, key=lambda one: one.sequence_number or 0)
    epochs: dict[tuple[str, str], list[int]] = {}
    for one in snapshots:
        named = one.summary.additional_properties if one.summary is not None else {}
        if PRODUCER in named:
            epochs.setdefault((named[PRODUCER], named[GENERATION]), []).append(one.snapshot_id)
    old = {one.snapshot_id for one in snapshots[:-KEPT_SNAPSHOTS]}
    old.update(number for numbers in epochs.values() for number in numbers[:-KEPT_EPOCHS])
    old -= {ref.snapshot_id for ref in table.metadata.refs.values()}
    if len(old) >= _AT_ONCE:
        table.maintenance.expire_snapshots().by_ids(sorted(old)).commit()

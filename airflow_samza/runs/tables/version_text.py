"""Versions of pushed tables in words: what a push or a rollback has made."""

from __future__ import annotations

from airflow_samza.runs.tables.table_version import TableVersion

_PARTITIONS = 16
"""Number of partitions whose offsets are shown."""


def describe_version(version: TableVersion) -> str:
    """A version in a sentence, and where its rows lie, a line per partition."""
    deleted = f" and {version.deletes:,} deletes" if version.deletes else ""
    late = "; a newer one stays current" if version.is_late else ""
    said = (
        f"Table {version.table}: version {version.number} ({version.kind}, push {version.push_id}), {version.rows:,} "
        f"rows{deleted}, "
        f"{version.bytes:,} bytes, current from {version.current_from}{late}."
    )
    spans = [
        f"  partition {number}: offsets [{first:,}, {end:,})"
        for number, (first, end) in enumerate(version.offsets[:_PARTITIONS])
    ]
    more = [f"  and {len(version.offsets) - _PARTITIONS} partitions more"] if len(version.offsets) > _PARTITIONS else []
    return "\n".join([said, *spans, *more])


def rollback_text(made: TableVersion, current: TableVersion | None) -> str:
    """Return a rollback in words; it may have been made long ago, under the same id."""
    since = current.number if current is not None and current.number != made.number else None
    told = "and is current" if since is None else f"and version {since} is current since"
    return f"Table {made.table}: version {made.number} reads what version {made.reads} read, {told}."

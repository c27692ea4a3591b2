"""Errors of pushes that cannot become the version they ask for.

The submission of a push and the stage runner raise them.
"""

from __future__ import annotations

from airflow_samza.errors import ConcurrentPush, PushError
from airflow_samza.runs.tables.table_version import FULL, INCREMENTAL, ROLLBACK, TableVersion


def lost(table: str, push_id: str, winner: TableVersion) -> ConcurrentPush:
    """Return the error for a push whose number another has taken."""
    return ConcurrentPush(
        f"The push {push_id!r} of table {table!r} lost version {winner.number} to the push {winner.push_id!r}, which "
        "was faster; nothing of it is visible.",
        hint="Try again: what it has written is kept, and becomes the version after that one if the checks still hold.",
        table=table,
        number=winner.number,
        winner=winner.push_id,
    )


def needs_base(table: str, push_id: str) -> PushError:
    """Return the error for an incremental push of a table without a version."""
    return PushError(
        f"The incremental push {push_id!r} has nothing to change: table {table!r} has no version yet.",
        hint='Push all rows first: mode="full".',
        table=table,
        push_id=push_id,
    )


def taken(version: TableVersion) -> PushError:
    """Return the error for a push whose id a rollback has, or a rollback whose id a push has.

    To find that version would change nothing.
    """
    kinds = {FULL: "a full push", INCREMENTAL: "an incremental push", ROLLBACK: "a rollback"}
    return PushError(
        f"The push id {version.push_id!r} of table {version.table!r} is taken: it made version {version.number}, "
        f"{kinds[version.kind]}.",
        hint="Give pushes and rollbacks ids of their own (push_id=); the default is one.",
        table=version.table,
        push_id=version.push_id,
    )

"""Columns that changes of a table have beside those of the table, and their values.

Delta and Iceberg mark rows by them; pushes and upserts read the marks.
"""

from __future__ import annotations

from airflow_samza.application.descriptors import CHANGE_TYPE
from airflow_samza.schema import Field, parse_type

CHANGE, COMMIT, COMMITTED = CHANGE_TYPE, "_commit_version", "_commit_timestamp"
"""The columns of changes: what became of a row, in which commit, and when; a range for a push has the first alone."""

CHANGE_FIELDS = (
    Field(CHANGE, parse_type("string"), nullable=False),
    Field(COMMIT, parse_type("bigint"), nullable=False),
    Field(COMMITTED, parse_type("timestamp"), nullable=False),
)
"""The columns of changes as an input has them."""

CARRIED, REMOVED, ADDED = "carried", "delete", "insert"
"""Its values, in the order in which the rows of a key are resolved. Carried rows are in both versions."""

BEFORE, AFTER = "update_preimage", "update_postimage"
"""Its values for a row before its update and behind it, in a change data feed."""

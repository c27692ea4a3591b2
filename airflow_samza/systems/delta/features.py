"""Features of Delta tables: what a reader has to know, and which tables are left to Spark."""

from __future__ import annotations

from airflow_samza.errors import TopicError
from airflow_samza.systems.delta.log import DeltaLog
from airflow_samza.systems.delta.state import TableState
from airflow_samza.systems.files.formats.file_format import READ_BY_SPARK

MAPPED = "columnMapping"

READ = frozenset({MAPPED, "deletionVectors", "timestampNtz", "v2Checkpoint", "vacuumProtocolCheck"})
"""Features of readers that are known here: a table with any other one is rejected, as the protocol demands."""

_WITH_FEATURES = 3
"""Version of the protocol of which readers have a list of features; there is no later one."""


def check_features(state: TableState) -> None:
    """Reject a table that could be read wrongly."""
    least = state.protocol["minReaderVersion"]
    if least > _WITH_FEATURES:
        raise _rejected(state.log, newer_protocol(least), str(least))
    unknown = sorted(set(state.protocol.get("readerFeatures") or ()) - READ)
    if least == _WITH_FEATURES and unknown:
        raise _rejected(state.log, f"has the feature {unknown[0]}", unknown[0])
    provider = (state.metadata.get("format") or {}).get("provider") or "parquet"
    if provider != "parquet":
        raise _rejected(state.log, f"has files of {provider}", provider)


def newer_protocol(least: int) -> str:
    """Return what is to be said of a table that needs a version of the protocol that nobody knows yet."""
    return f"needs version {least} of the protocol of Delta"


def _rejected(log: DeltaLog, what: str, feature: str) -> TopicError:
    return TopicError(
        f"The table {log.name} of stream {log.stream!r} {what}, which is not read here.",
        hint=f"{READ_BY_SPARK[0].upper()}{READ_BY_SPARK[1:]}, with format delta.",
        table=log.name,
        stream=log.stream,
        feature=feature,
    )

"""Incremental pushes from tables of lakes: the snapshot since which they take the changes, if that is certain.

The submission of a push asks it, and Spark reads the changes since then.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from airflow_samza.errors import PushError
from airflow_samza.runs.tables import versions
from airflow_samza.runs.tables.lake_source import LakeSource
from airflow_samza.runs.tables.push_request import PushRequest
from airflow_samza.runs.tables.table_version import TableVersion
from airflow_samza.systems.filesystems.filesystem import Filesystem

PUSH_ALL = 'Push all rows once, with mode="full"; the incremental pushes behind it take the changes since then.'
"""The remedy wherever it is not certain what has changed."""


def changed_since(files: Filesystem, request: PushRequest) -> str:
    """Return the snapshot or version whose rows the current version of a pushed table has; "": one without rows."""
    current = versions.newest(files, request.system, request.topic)
    if current is None:
        raise versions.needs_base(request.table, request.push_id)
    source, lake = LakeSource.of(current.source or {}), request.lake
    assert lake is not None
    if source is None or (source.kind, source.table, source.system) != (lake.kind, lake.table, lake.system):
        raise _not_certain(request, current, f"was pushed from {source or 'elsewhere'}")
    if current.table_id != request.table_id:
        raise _not_certain(request, current, "was pushed from a former table of this name, which was made anew since")
    former = _listed(current.columns)
    if former != _listed(request.columns):
        raise _not_certain(request, current, f"was pushed with columns={former!r}, and this push has others")
    if current.deletes_where not in (None, request.deletes or ""):
        said = f"deletes={current.deletes_where!r}" if current.deletes_where else "no deletes="
        raise _not_certain(request, current, f"was pushed with {said}, and this push has {request.deletes!r}")
    return source.version or ""


def _listed(columns: Sequence[str] | Mapping[str, str] | None) -> object:
    return columns if columns is None or isinstance(columns, Mapping) else list(columns)


def _not_certain(request: PushRequest, current: TableVersion, why: str) -> PushError:
    lake = LakeSource.of(request.source)
    return PushError(
        f"The incremental push {request.push_id!r} of table {request.table!r} takes what has changed in the {lake}, "
        f"and version {current.number}, which is current, {why}.",
        hint=PUSH_ALL,
        table=request.table,
        number=current.number,
    )

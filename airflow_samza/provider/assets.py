"""Shared streams as Airflow assets.

A producer's run that has written its section starts the Dags that read it, and names itself.

    with DAG("consumer", schedule=[shared_stream("departures")]): SamzaTaskGroup(…)

The event's ``extra`` names the run, so that the consumer reads just that section of the stream (rule C10).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow.sdk import Asset

from airflow_samza.application.application import ApplicationSpec
from airflow_samza.provider.connections.fields import connection_id
from airflow_samza.runs.tables.table_version import TableVersion

SCHEME = "samza"


def shared_stream(stream_id: str, conn_id: str | None = None, *, samza_conn_id: str | None = None) -> Asset:
    """Return the asset of a shared stream, for ``schedule=`` of the Dags that read it.

    A run that has written its part of the stream is an event; its ``extra`` has ``stream`` and ``run_id``.

    >>> shared_stream("departures").uri
    'samza://samza_default/departures'

    :param stream_id: The stream's id.
    :param conn_id: The connection of the log that holds the stream; the writing Dag must use the same one. Default
        ``samza_default``.
    :param samza_conn_id: Another name of ``conn_id``.
    """
    connection = connection_id(f"The shared stream {stream_id!r}", conn_id, samza_conn_id)
    uri = f"{SCHEME}://{connection}/{stream_id}"
    return Asset(name=uri, uri=uri)


def pushed_table(table: str, conn_id: str | None = None, *, samza_conn_id: str | None = None) -> Asset:
    """Return the asset of a pushed table, for ``schedule=`` of Dags.

    Each push and each rollback is an event; its ``extra`` has the version, rows, interval and more.

    >>> pushed_table("members").uri
    'samza://samza_default/members-push'

    :param table: The table's id.
    :param conn_id: The connection of the log that holds the table. Default ``samza_default``.
    :param samza_conn_id: Another name of ``conn_id``.
    """
    uri = f"{SCHEME}://{connection_id(f'The pushed table {table!r}', conn_id, samza_conn_id)}/{table}-push"
    return Asset(name=uri, uri=uri)


def version_facts(version: TableVersion) -> dict[str, Any]:
    """Return the facts of a version for XCom and for an asset's event."""
    return {
        "table": version.table,
        "version": version.number,
        "push_id": version.push_id,
        "kind": version.kind,
        "reads": version.reads,
        "rows": version.rows,
        "deletes": version.deletes,
        "bytes": version.bytes,
        "interval": list(version.interval) if version.interval is not None else None,
        "current_from": version.current_from,
        "is_current": not version.is_late,
        "source": dict(version.source) if version.source is not None else None,
        "expectations": {each.expectation: each.outcome for each in version.expectations},
    }


def consumed_sections(context: Mapping[str, Any], spec: ApplicationSpec) -> dict[str, list[str]]:
    """Return the runs that the asset events of this Dag run name, by shared stream that the application reads.

    Oldest first.
    """
    shared = {stream_id for stream_id, stream in spec.inputs.items() if stream.shared}
    sections: dict[str, list[str]] = {}
    for events in (context.get("triggering_asset_events") or {}).values() if shared else ():
        for event in events:
            extra = event.extra or {}
            stream_id, run_id = extra.get("stream"), extra.get("run_id")
            if stream_id in shared and run_id and run_id not in sections.setdefault(stream_id, []):
                sections[stream_id].append(str(run_id))
    return sections

"""The tables of a run: versions of pushed ones, and which runs read which."""

from __future__ import annotations

from collections.abc import Callable

from airflow_samza.planner.plan import PlannedTable
from airflow_samza.provider.page.answer import Answer
from airflow_samza.provider.page.opened_run import OpenedRun
from airflow_samza.runs.progress.run_list import origin_of
from airflow_samza.runs.tables.folder import TableFolder
from airflow_samza.runs.tables.retention import readers_of
from airflow_samza.runs.tables.versions import expired_numbers, newest, versions

VERSIONS_SHOWN = 20


class TableReader(Answer):
    """A run that is on and reads a version of a table."""

    application: str
    run: str
    version: int
    dag_id: str
    dag_run_id: str


class TableVersion(Answer):
    """A version of a pushed table."""

    number: int
    kind: str
    rows: int | None
    deletes: int | None
    bytes: int | None
    current_from: str
    push_id: str
    current: bool
    expired: bool
    readers: list[TableReader]


class Table(Answer):
    """A table of the run; only pushed ones have versions."""

    table_id: str
    kind: str
    system: str | None
    topic: str | None
    reads: int | None
    """The version that the run was planned with."""
    current: int | None
    versions: list[TableVersion]
    hidden_readers: int
    """Readers in runs of Dags that the user may not read."""
    note: str | None


class Tables(Answer):
    """The tables of a run."""

    tables: list[Table]


def table_answer(opened: OpenedRun, planned: PlannedTable, may_read: Callable[[str], bool]) -> Table:
    """Return a table; a pushed one with its newest versions and those of their readers that the user may see."""
    pinned = opened.run.tables.get(planned.table_id)
    if pinned is None:
        note = "Nothing was pushed when it was planned." if planned.is_pushed else "Only pushed tables have versions."
        return _table(planned, note=note)
    files, bound = opened.files, opened.run.side_input(str(pinned["stream_id"]))
    folder = TableFolder(bound.system, bound.spec.name)
    current = newest(files, folder.system, folder.topic)
    expired = expired_numbers(files, folder.system, folder.topic)
    shown, hidden = [], 0
    for version in reversed(versions(files, folder.system, folder.topic)[-VERSIONS_SHOWN:]):
        readers = []
        for application, run_id in readers_of(files, folder, version.number) if version.number not in expired else ():
            origin = origin_of(files, application, run_id)
            if not may_read(origin.dag_id):
                hidden += 1
                continue
            readers.append(
                TableReader(
                    application=application,
                    run=run_id,
                    version=version.number,
                    dag_id=origin.dag_id,
                    dag_run_id=origin.run_id,
                )
            )
        shown.append(
            TableVersion(
                number=version.number,
                kind=version.kind,
                rows=version.rows,
                deletes=version.deletes,
                bytes=version.bytes,
                current_from=version.current_from,
                push_id=version.push_id,
                current=version == current,
                expired=version.number in expired,
                readers=readers,
            )
        )
    return _table(planned, folder, int(pinned["number"]), None if current is None else current.number, shown, hidden)


def _table(
    planned: PlannedTable,
    folder: TableFolder | None = None,
    reads: int | None = None,
    current: int | None = None,
    versions: list[TableVersion] | None = None,
    hidden: int = 0,
    note: str | None = None,
) -> Table:
    return Table(
        table_id=planned.table_id,
        kind=planned.word,
        system=folder.system if folder is not None else None,
        topic=folder.topic if folder is not None else None,
        reads=reads,
        current=current,
        versions=versions or [],
        hidden_readers=hidden,
        note=note,
    )

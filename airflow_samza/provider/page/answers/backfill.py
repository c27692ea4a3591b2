"""The preview of a backfill."""

from __future__ import annotations

from airflow_samza.provider.page.answers.answer import Answer


class ReadAmount(Answer):
    """The amount that a run has read of an input; None where its plan does not know."""

    stream_id: str
    files: int | None
    bytes: int | None
    offsets: int | None


class RunThere(Answer):
    """A run of the application over the same interval that is on record."""

    run: str
    """Its id, or that it is of a Dag that the user may not read."""
    state: str
    seconds: float | None
    rows: int


class TableRead(Answer):
    """The version of a pushed table that the run would read if it were planned now; None where there is none."""

    table_id: str
    asked: str
    version: int | None


class BackfillSlice(Answer):
    """A run that a backfill would make."""

    name: str
    start: str | None
    end: str | None
    airflow_run: str | None
    """The state of the Dag's run of the same date, if there is one."""
    there: list[RunThere]
    inputs: list[ReadAmount]
    """The amounts that the newest run over this interval has read; empty where none is on record."""
    tables: list[TableRead]
    estimate_seconds: float | None
    estimate_task_seconds: float | None
    estimate_rows: int | None


class Backfill(Answer):
    """A backfill that was not made; the estimate is by ``former`` runs that are on record."""

    dag_id: str
    slices: list[BackfillSlice]
    former: int
    by: str | None
    """The measure with which the cost was taken to grow: ``bytes``, ``offsets``, or ``run`` (nothing)."""
    seconds: float | None
    """All slices, one after the other."""
    task_seconds: float | None
    rows: int | None
    command: str
    """The command that plans each slice, and so knows sizes of what nobody has read yet."""
    note: str | None

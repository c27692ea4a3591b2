"""Roots, and the runs in a Dag run."""

from __future__ import annotations

from airflow_samza.provider.page.answers.answer import Answer


class Root(Answer):
    """A Samza connection under whose root Dags that the user may read have runs."""

    conn_id: str
    applications: list[str]
    runs: int
    newest: float | None
    """The time at which the newest of its runs was planned."""


class Roots(Answer):
    """The roots, the one that was used last first."""

    roots: list[Root]
    note: str | None


class RunRow(Answer):
    """A run of an application in a list."""

    application: str
    run: str
    """The run's own id, under which the command line knows it."""
    dag_id: str
    dag_run_id: str
    plan_task: str
    map_index: int
    state: str
    """``running``, ``succeeded``, ``failed``; ``gone``: its records are deleted; ``unknown``: they cannot be read."""
    mode: str
    interval: list[str] | None
    """Start and end of the data interval, ISO texts in UTC; None for a run without one."""
    planned_at: float
    generation: int
    note: str | None


class Runs(Answer):
    """Runs under a root, newest first; a page of them."""

    conn_id: str
    place: str | None
    """The root; None where it cannot be opened, with the reason in ``note``."""
    applications: list[str]
    runs: list[RunRow]
    total: int
    note: str | None


class StageTask(Answer):
    """A stage, and the Airflow task that runs it."""

    stage_id: str
    task_id: str
    """The task, or the one that runs all stages (mode ``fused``)."""


class PlannedApplication(Answer):
    """An application that a task of the Dag run has planned; ``plan_task`` and ``map_index`` name it in addresses."""

    application: str
    group: str
    """The task group, empty where the tasks are in none."""
    plan_task: str
    map_index: int
    conn_id: str
    run: str
    generation: int
    mode: str
    state: str
    """As of a run in a list."""
    planned_at: float
    stages: list[StageTask]
    note: str | None


class Selected(Answer):
    """The application, and the stage where there is one, that a task instance belongs to."""

    plan_task: str
    map_index: int
    stage_id: str | None


class Applications(Answer):
    """The applications of a Dag run; ``note`` says why there are none."""

    dag_id: str
    run_id: str
    applications: list[PlannedApplication]
    selected: Selected | None
    samples: bool
    """True where messages and samples are shown at all (``[samza] page_samples``)."""
    note: str | None

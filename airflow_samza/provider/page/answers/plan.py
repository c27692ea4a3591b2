"""The plan of a run as a graph, and two of them compared."""

from __future__ import annotations

from typing import Literal

from airflow_samza.provider.page.answers.answer import Answer


class Detail(Answer):
    """A named text, in the order of the plan."""

    name: str
    text: str


class PlanStream(Answer):
    """A stream; its node is ``stream:<stream_id>``."""

    node: str
    stream_id: str
    role: str
    """``input``, ``output``, ``intermediate`` or ``side_input``."""
    system: str | None
    kind: str | None
    """The kind of its system: ``log``, ``files``, ``kafka`` …"""
    place: str
    """Its name in that system: a path, a topic."""
    partitions: int
    reason: str
    """The reason for this number of partitions."""
    partitioning: str
    bounded: bool
    broadcast: bool
    columns: str | None
    """Its schema, as DDL."""
    slice: list[Detail]
    """The amounts that the run reads of it: files, bytes, messages."""


class PlanOperator(Answer):
    """An operator; its node is ``operator:<op_id>``."""

    node: str
    op_id: str
    name: str
    op: str
    """Its kind: ``map``, ``partition_by``, ``join`` …"""
    title: str
    stage_id: str | None
    stream_id: str | None
    table_id: str | None
    columns: str | None
    engine: str | None
    """``arrow``, ``python``, ``catalyst`` …"""
    why: str | None
    """The reason for that engine."""
    details: list[Detail]


class PlanTable(Answer):
    """A table; its node is ``table:<table_id>``."""

    node: str
    table_id: str
    kind: str
    key: list[str]
    columns: str | None
    side_inputs: list[str]
    version: int | None
    """The pushed version that the run reads; None of other tables."""
    push_id: str | None


class Flow(Answer):
    """The part of a stream that a stage reads or sends: columns that are pruned, filters that are pushed."""

    stream_id: str
    text: str


class PlanStage(Answer):
    """A stage; its node is ``stage:<stage_id>``, and the nodes of its operators lie in it."""

    node: str
    stage_id: str
    title: str
    """The title of the stage: what it does, in a word or two; its id where it has none."""
    stage_name: str
    """The stage as texts name it: its id with its title."""
    task_id: str
    task_count: int
    inputs: list[str]
    outputs: list[str]
    side_inputs: list[str]
    tables: list[str]
    upstream: list[str]
    operators: list[str]
    several_epochs: bool
    engines: list[str]
    """The engines of its operators, without repetition."""
    flows: list[Flow]


class Edge(Answer):
    """An arrow. Those of ``level`` *stage* connect streams, stages and tables; those of *operator* go into stages."""

    source: str
    target: str
    level: Literal["stage", "operator"]
    kind: Literal["stream", "table", "flow"]
    """Along an edge of kind ``stream`` messages go through a stream, of kind ``flow`` from operator to operator."""


class Plan(Answer):
    """The plan of a run."""

    application: str
    app_id: str
    run: str
    generation: int
    fingerprint: str
    mode: str
    interval: list[str] | None
    """Start and end of the data interval, ISO texts in UTC."""
    stages: list[PlanStage]
    operators: list[PlanOperator]
    streams: list[PlanStream]
    tables: list[PlanTable]
    edges: list[Edge]
    join_groups: list[list[str]]
    warnings: list[str]
    text: str
    """The plan as the command line prints it."""


class OtherPlan(Answer):
    """A plan to compare with: of another run of the same Dag and plan task, or another generation of this one."""

    dag_run_id: str
    run: str
    generation: int
    planned_at: float
    fingerprint: str
    """Empty in a list, where it is not known without reading the plan."""


class OtherPlans(Answer):
    """Plans to compare with, newest first."""

    plans: list[OtherPlan]


class Change(Answer):
    """A stage, stream, operator or table that is not what it was; ``former`` is its id there, where that differs."""

    kind: Literal["stage", "stream", "operator", "table"]
    id: str
    node: str
    change: Literal["added", "removed", "changed"]
    former: str | None


class Difference(Answer):
    """The difference of the plan from another one, which came before."""

    fingerprint: str
    other: OtherPlan
    same: bool
    sentences: list[str]
    changes: list[Change]

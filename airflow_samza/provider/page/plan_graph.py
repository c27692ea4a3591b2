"""A run's plan as the page draws it: nodes, and edges between them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal

from airflow_samza.figures import size
from airflow_samza.planner.explain import explain
from airflow_samza.planner.plan import ExecutionPlan
from airflow_samza.planner.titles import stage_names, stage_titles
from airflow_samza.planner.wording import count_text, operator_title, partitioning_text
from airflow_samza.provider.page.answer import Answer, OfStage
from airflow_samza.runs.records.run_plan import BoundStream, RunPlan, slice_facts
from airflow_samza.secrecy import without_passwords


class Detail(Answer):
    """A named text, in the order of the plan."""

    name: str
    text: str


class PlanNode(Answer):
    """A part of a plan that an application declares."""

    node: str
    doc: str | None
    """Its description, or the docstring of its callable."""
    code: str | None
    """The place in the application at which it is declared or called: file and line."""


class PlanStream(PlanNode):
    """A stream; its node is ``stream:<stream_id>``."""

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


class PlanOperator(PlanNode):
    """An operator; its node is ``operator:<op_id>``."""

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


class PlanTable(PlanNode):
    """A table; its node is ``table:<table_id>``."""

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


class PlanStage(OfStage):
    """A stage; its node is ``stage:<stage_id>``, and the nodes of its operators lie in it."""

    node: str
    title: str
    """The title of the stage: what it does, in a word or two; its id where it has none."""
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
    partition_key: str | None
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


def plan_answer(run: RunPlan, tasks: Mapping[str, str], mode: str) -> Plan:
    """Return the plan of a run; ``tasks`` are the tasks of its stages, by stage id."""
    plan = run.plan
    titles, names = stage_titles(plan), stage_names(plan)
    stage_of = {op_id: stage.stage_id for stage in plan.stages for op_id in stage.operators}
    engines = {op_id: engine for by_operator in run.engines.values() for op_id, engine in by_operator.items()}
    return Plan(
        application=run.application,
        app_id=run.app_id,
        run=run.run_id,
        generation=run.generation,
        fingerprint=plan.fingerprint,
        mode=mode,
        interval=list(run.interval) if run.interval is not None else None,
        partition_key=run.partition_key,
        stages=[
            PlanStage(
                node=f"stage:{stage.stage_id}",
                stage_id=stage.stage_id,
                title=titles[stage.stage_id],
                stage_name=names[stage.stage_id],
                task_id=tasks.get(stage.stage_id, ""),
                task_count=stage.task_count,
                inputs=list(stage.inputs),
                outputs=list(stage.outputs),
                side_inputs=list(stage.side_inputs),
                tables=list(stage.tables),
                upstream=list(stage.upstream),
                operators=list(stage.operators),
                several_epochs=stage.several_epochs,
                engines=list(dict.fromkeys(engines[op_id][0] for op_id in stage.operators if op_id in engines)),
                flows=[
                    Flow(stream_id=stream_id, text=text)
                    for stream_id, text in run.notes.get(stage.stage_id, {}).items()
                ],
            )
            for stage in plan.stages
        ],
        operators=[
            PlanOperator(
                node=f"operator:{operator.op_id}",
                op_id=operator.op_id,
                name=operator.name,
                op=operator.op,
                title=operator_title(operator),
                stage_id=stage_of.get(operator.op_id),
                stream_id=operator.stream,
                table_id=operator.table,
                columns=operator.schema,
                engine=engines.get(operator.op_id, (None, None))[0],
                why=engines.get(operator.op_id, (None, None))[1] or None,
                details=[Detail(name=name, text=without_passwords(text)) for name, text in operator.details],
                **_notes(run, f"operator:{operator.op_id}"),
            )
            for operator in plan.operators
        ],
        streams=[_stream(run, stream_id) for stream_id in (stream.stream_id for stream in plan.streams)],
        tables=[
            PlanTable(
                node=f"table:{table.table_id}",
                table_id=table.table_id,
                kind=table.word,
                key=list(table.key),
                columns=table.schema,
                side_inputs=list(table.side_inputs),
                version=run.tables.get(table.table_id, {}).get("number"),
                push_id=run.tables.get(table.table_id, {}).get("push_id"),
                **_notes(run, f"table:{table.table_id}"),
            )
            for table in plan.tables
        ],
        edges=[*stage_edges(plan), *operator_edges(plan)],
        join_groups=[list(group.streams) for group in plan.join_groups],
        warnings=list(plan.warnings),
        text=without_passwords(explain(plan, run.engine_texts, run.notes)),
    )


def _stream(run: RunPlan, stream_id: str) -> PlanStream:
    stream, bound = run.plan.stream(stream_id), run.streams.get(stream_id)
    return PlanStream(
        node=f"stream:{stream_id}",
        stream_id=stream_id,
        role=stream.role,
        system=bound.system if bound is not None else stream.system,
        kind=run.systems.get(bound.system, {}).get("kind") if bound is not None else None,
        place=without_passwords((bound.spec.path or bound.spec.name) if bound is not None else stream_id),
        partitions=stream.partitions,
        reason=stream.reason,
        partitioning=partitioning_text(stream.partitioning),
        bounded=stream.bounded,
        broadcast=stream.broadcast,
        columns=run.schemas.get(stream_id) or stream.schema,
        slice=list(_slice(bound)) if bound is not None else [],
        **_notes(run, f"stream:{stream_id}"),
    )


def _notes(run: RunPlan, node: str) -> dict[str, str | None]:
    noted = run.nodes.get(node, {})
    doc = noted.get("doc")
    return {"doc": None if doc is None else without_passwords(doc), "code": noted.get("place")}


def _slice(bound: BoundStream) -> Iterator[Detail]:
    """Yield the size of the range that a run reads, without lists of files and offsets."""
    facts = slice_facts(bound.slice or {})
    for name in ("table", "snapshot", "version"):
        if name in facts:
            yield Detail(name=name, text=str(facts[name]))
    if "commits" in facts:
        yield Detail(name="changes", text=f"of {count_text(facts['commits'], 'commit')}")
    for name in ("files", "rows"):
        if isinstance(facts.get(name), int):
            yield Detail(name=name, text=f"{facts[name]:,}")
    if isinstance(facts.get("bytes"), int):
        yield Detail(name="bytes", text=size(facts["bytes"]))
    if "offsets" in facts:
        yield Detail(name="offsets", text=f"{sum(int(end) - int(begin) for begin, end in facts['offsets']):,}")


def stage_edges(plan: ExecutionPlan) -> Iterator[Edge]:
    """Yield the arrows between streams, stages and tables."""
    for stage in plan.stages:
        node = f"stage:{stage.stage_id}"
        yield from (_edge(f"stream:{name}", node, "stage", "stream") for name in stage.inputs)
        yield from (_edge(node, f"stream:{name}", "stage", "stream") for name in stage.outputs)
        yield from (_edge(f"table:{name}", node, "stage", "table") for name in stage.tables)
    for table in plan.tables:
        yield from (_edge(f"stream:{name}", f"table:{table.table_id}", "stage", "table") for name in table.side_inputs)


def operator_edges(plan: ExecutionPlan) -> Iterator[Edge]:
    """Yield the arrows between operators, and between them and streams and tables."""
    stage_of = {op_id: stage.stage_id for stage in plan.stages for op_id in stage.operators}
    for stream in plan.streams:
        node = f"stream:{stream.stream_id}"
        yield from (_edge(f"operator:{op_id}", node, "operator", "stream") for op_id in stream.writers)
        yield from (_edge(node, f"operator:{op_id}", "operator", "stream") for op_id in stream.readers)
    for operator in plan.operators:
        for op_id in operator.inputs:
            if stage_of.get(op_id) == stage_of.get(operator.op_id):  # else a stream is between them
                yield _edge(f"operator:{op_id}", f"operator:{operator.op_id}", "operator", "flow")
    for table in plan.tables:
        node = f"table:{table.table_id}"
        yield from (_edge(f"operator:{op_id}", node, "operator", "table") for op_id in table.writers)
        yield from (_edge(node, f"operator:{op_id}", "operator", "table") for op_id in table.readers)
        yield from (_edge(f"stream:{name}", node, "operator", "table") for name in table.side_inputs)


def _edge(
    source: str, target: str, level: Literal["stage", "operator"], kind: Literal["stream", "table", "flow"]
) -> Edge:
    return Edge(source=source, target=target, level=level, kind=kind)

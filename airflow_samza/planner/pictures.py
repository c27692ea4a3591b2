"""The plan as a picture: text of Mermaid and Graphviz, which lay it out. Stages are boxes, topics pills with counts.

The command ``plan`` prints it.
"""

from __future__ import annotations

from airflow_samza.planner.plan import ExecutionPlan, PlannedStream, Stage
from airflow_samza.planner.wording import count_text, operator_title, stage_operators

_MOST_STEPS = 8


def mermaid(plan: ExecutionPlan) -> str:
    """A Mermaid flowchart, for Markdown."""
    streams, stages, tables = _numbers(plan)
    lines = ["flowchart LR"]
    for stage in plan.stages:
        text = "<br/>".join([f"<b>{_mermaid_text(stage.stage_id)}</b>", *map(_mermaid_text, _stage_lines(plan, stage))])
        lines.append(f'  {stages[stage.stage_id]}["{text}"]:::stage')
    lines += [
        f'  {streams[stream.stream_id]}(["{_mermaid_text(_stream_label(plan, stream))}"]):::{stream.role}'
        for stream in plan.streams
        if stream.stream_id in streams
    ]
    lines += [f'  {node}[("{_mermaid_text(table_id)}")]:::table' for table_id, node in tables.items()]
    lines += [f"  {one} {'-.->' if dashed else '-->'} {other}" for one, other, dashed in _arrows(plan)]
    lines += [
        "  classDef stage fill:#eef2ff,stroke:#4f46e5,color:#1e1b4b,text-align:left",
        "  classDef input fill:#ecfdf5,stroke:#059669,color:#064e3b",
        "  classDef output fill:#fff7ed,stroke:#ea580c,color:#7c2d12",
        "  classDef intermediate fill:#f8fafc,stroke:#64748b,color:#0f172a",
        "  classDef side_input fill:#f0f9ff,stroke:#0284c7,color:#0c4a6e",
        "  classDef table fill:#fefce8,stroke:#ca8a04,color:#713f12",
    ]
    return "\n".join(lines) + "\n"


def dot(plan: ExecutionPlan) -> str:
    """A Graphviz digraph."""
    streams, stages, tables = _numbers(plan)
    lines = [
        f"digraph {_dot_text(plan.application)} {{",
        "  rankdir=LR;",
        '  node [fontname="Helvetica", fontsize=11, style="filled,rounded", fillcolor="#f8fafc", color="#64748b"];',
        '  edge [color="#64748b", arrowsize=0.7];',
    ]
    for stage in plan.stages:
        label = "".join(f"{_dot_line(line)}\\l" for line in [stage.stage_id, *_stage_lines(plan, stage)])
        lines.append(f'  {stages[stage.stage_id]} [shape=box, fillcolor="#eef2ff", color="#4f46e5", label="{label}"];')
    lines += [
        f"  {streams[stream.stream_id]} [shape=oval, label={_dot_text(_stream_label(plan, stream))}, "
        f"tooltip={_dot_text(stream.reason or stream.role)}];"
        for stream in plan.streams
        if stream.stream_id in streams
    ]
    lines += [
        f'  {node} [shape=cylinder, fillcolor="#fefce8", label={_dot_text(table_id)}];'
        for table_id, node in tables.items()
    ]
    lines += [f"  {one} -> {other}{' [style=dashed]' if dashed else ''};" for one, other, dashed in _arrows(plan)]
    return "\n".join([*lines, "}"]) + "\n"


def _numbers(plan: ExecutionPlan) -> tuple[dict[str, str], dict[str, str], dict[str, str]]:
    """Plain node names, as ids may hold characters that the two languages reject.

    Streams and tables that no stage uses are left out.
    """
    used = {name for stage in plan.stages for name in (*stage.inputs, *stage.outputs, *stage.side_inputs)}
    drawn = {table_id for stage in plan.stages for table_id in stage.tables}
    fed = [table for table in plan.tables if table.table_id in drawn]
    return (
        {stream.stream_id: f"t{number}" for number, stream in enumerate(plan.streams) if stream.stream_id in used},
        {stage.stage_id: f"s{number}" for number, stage in enumerate(plan.stages)},
        {table.table_id: f"b{number}" for number, table in enumerate(fed)},
    )


def _arrows(plan: ExecutionPlan) -> list[tuple[str, str, bool]]:
    streams, stages, tables = _numbers(plan)
    arrows: list[tuple[str, str, bool]] = []
    for stage in plan.stages:
        me = stages[stage.stage_id]
        arrows += [(streams[name], me, plan.stream(name).broadcast) for name in stage.inputs]
        arrows += [(me, streams[name], False) for name in stage.outputs]
        arrows += [(tables[table_id], me, True) for table_id in stage.tables]
    for table in plan.tables:
        if table.table_id in tables:
            arrows += [(streams[name], tables[table.table_id], True) for name in table.side_inputs if name in streams]
    return sorted(set(arrows))


def _stage_lines(plan: ExecutionPlan, stage: Stage) -> list[str]:
    steps = [operator_title(operator) for operator in stage_operators(plan, stage)]
    if len(steps) > _MOST_STEPS:
        steps = [*steps[: _MOST_STEPS - 1], f"… {len(steps) - _MOST_STEPS + 1} more"]
    counts = [] if plan.shape_only else [count_text(stage.task_count, "task")]
    return [*counts, *(["reads what it writes"] if stage.several_epochs else []), *steps]


def _stream_label(plan: ExecutionPlan, stream: PlannedStream) -> str:
    return stream.stream_id if plan.shape_only else f"{stream.stream_id} · {stream.partitions}"


def _mermaid_text(text: str) -> str:
    return text.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;").replace(">", "&gt;")


def _dot_line(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")


def _dot_text(text: str) -> str:
    return f'"{_dot_line(text)}"'

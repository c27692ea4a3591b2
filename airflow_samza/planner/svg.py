"""The plan as one self-contained SVG.

Stages as boxes with their operators, topics as pills with their counts, tables as drums.
"""

from __future__ import annotations

from html import escape

from airflow_samza.planner.layers import Box, Layout, lay_out
from airflow_samza.planner.plan import ExecutionPlan, PlannedStream, Stage
from airflow_samza.planner.wording import count_text, operator_text, operator_title, partitioning_text, stage_operators

_LETTER = 6.9  # px of a letter at 12 px; wide enough for every usual sans serif
_LINE = 17
_MARGIN = 24
_TITLE = 46
_MOST_STEPS = 10
_LONGEST = 48

_COLOURS = {
    "input": ("#ecfdf5", "#059669"),
    "output": ("#fff7ed", "#ea580c"),
    "intermediate": ("#f8fafc", "#64748b"),
    "side_input": ("#f0f9ff", "#0284c7"),
    "stage": ("#eef2ff", "#4f46e5"),
    "table": ("#fefce8", "#ca8a04"),
}

_STYLE = (
    "text{font-family:system-ui,-apple-system,'Segoe UI','Helvetica "
    "Neue',Helvetica,Arial,sans-serif;font-size:12px;fill:#0f172a}"
    ".title{font-size:16px;font-weight:600}.name{font-weight:600}.quiet{fill:#64748b;font-size:11px}.count{fill:#fff;font-weight:600;font-size:11px}"
)


def svg(plan: ExecutionPlan) -> str:
    """The picture; hovering a pill shows the reason for its partition count."""
    nodes = _nodes(plan)
    edges, back = _edges(plan)
    layout = lay_out({name: size for name, (size, _) in nodes.items()}, edges)
    width = max(layout.width, 360) + 2 * _MARGIN
    height = layout.height + _TITLE + 2 * _MARGIN + (28 if back else 0)
    texts = [count_text(len(plan.stages), "stage"), "shape only" if plan.shape_only else f"plan {plan.fingerprint}"]
    body = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} '
        f'{height:.0f}" '
        f'role="img" aria-label="{escape(f"Plan of {plan.application}")}">',
        f"<style>{_STYLE}</style>",
        '<defs><marker id="arrow" viewBox="0 0 8 8" refX="7.5" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0.5 8 4 0 7.5z" fill="#64748b"/></marker></defs>',
        f'<rect width="{width:.0f}" height="{height:.0f}" rx="10" fill="#ffffff"/>',
        f'<text class="title" x="{_MARGIN}" y="{_MARGIN + 10}">{escape(plan.application)}'
        f'<tspan class="quiet" dx="10">{escape(", ".join(texts))}</tspan></text>',
        f'<g transform="translate({_MARGIN} {_MARGIN + _TITLE - 16})">',
    ]
    dashed = {
        edge
        for edge in edges
        if edge[0].startswith("table ") or edge[1].startswith("table ") or _is_broadcast(plan, edge[0])
    }
    body += [_edge(points, dashed=edge in dashed) for edge, points in layout.routes.items()]
    body += [_back_edge(layout, one, other) for one, other in back]
    for name, (_, parts) in nodes.items():
        body.append(_drawn(plan, name, layout.boxes[name], parts))
    return "\n".join([*body, "</g>", "</svg>"]) + "\n"


_Node = tuple[tuple[float, float], list[str]]


def _nodes(plan: ExecutionPlan) -> dict[str, _Node]:
    nodes: dict[str, _Node] = {}
    for stage in plan.stages:
        lines = _stage_lines(plan, stage)
        header = len(stage.stage_id) + 4 + len(_tasks(plan, stage))
        width = max(header * _LETTER, *(len(line) * _LETTER for line in lines), 120) + 24
        nodes[f"stage {stage.stage_id}"] = ((width, 30 + _LINE * len(lines) + 8), lines)
    used = {name for stage in plan.stages for name in (*stage.inputs, *stage.outputs, *stage.side_inputs)}
    for stream in plan.streams:
        if stream.stream_id in used:
            label = _shortened(stream.stream_id)
            count = "" if plan.shape_only else str(stream.partitions)
            nodes[f"stream {stream.stream_id}"] = ((len(label) * _LETTER + len(count) * 8 + 46, 28), [label, count])
    for table in plan.tables:
        if any(table.table_id in stage.tables for stage in plan.stages):
            label = _shortened(table.table_id)
            nodes[f"table {table.table_id}"] = ((len(label) * _LETTER + 30, 40), [label])
    return nodes


def _edges(plan: ExecutionPlan) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """The edges forward, and those by which a stage reads what it writes."""
    forward: list[tuple[str, str]] = []
    back: list[tuple[str, str]] = []
    for stage in plan.stages:
        me = f"stage {stage.stage_id}"
        for name in stage.inputs:
            (back if name in stage.outputs else forward).append((f"stream {name}", me))
        forward += [(me, f"stream {name}") for name in stage.outputs]
        forward += [(f"table {name}", me) for name in stage.tables]
    drawn = {name for one, other in forward for name in (one, other)}
    for table in plan.tables:
        if f"table {table.table_id}" in drawn:
            forward += [(f"stream {name}", f"table {table.table_id}") for name in table.side_inputs]
    return forward, back


def _is_broadcast(plan: ExecutionPlan, node: str) -> bool:
    return node.startswith("stream ") and plan.stream(node.removeprefix("stream ")).broadcast


def _tasks(plan: ExecutionPlan, stage: Stage) -> str:
    return "" if plan.shape_only else count_text(stage.task_count, "task")


def _stage_lines(plan: ExecutionPlan, stage: Stage) -> list[str]:
    lines = []
    operators = stage_operators(plan, stage)
    shown = operators if len(operators) <= _MOST_STEPS else operators[: _MOST_STEPS - 1]
    for operator in shown:
        text = operator_text(operator)
        lines.append(_shortened(f"{operator_title(operator)}  {text}" if text else operator_title(operator)))
    if len(shown) < len(operators):
        lines.append(f"… {len(operators) - len(shown)} more")
    return lines


def _drawn(plan: ExecutionPlan, name: str, box: Box, parts: list[str]) -> str:
    kind, _, identity = name.partition(" ")
    if kind == "stage":
        return _stage_box(plan, plan.stage(identity), box, parts)
    if kind == "table":
        return _drum(plan, identity, box, parts[0])
    return _pill(plan.stream(identity), box, parts[0], parts[1])


def _stage_box(plan: ExecutionPlan, stage: Stage, box: Box, lines: list[str]) -> str:
    fill, stroke = _COLOURS["stage"]
    x, y = box.x, box.y
    note = " (reads what it writes, in several epochs)" if stage.several_epochs else ""
    parts = [
        f"<g><title>{escape(f'stage {stage.stage_id}{note}')}</title>",
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{box.width:.1f}" height="{box.height:.1f}" rx="8" fill="{fill}" '
        f'stroke="{stroke}"'
        f'{" stroke-dasharray=" + chr(34) + "6 3" + chr(34) if stage.several_epochs else ""} stroke-width="1.2"/>',
        f'<text class="name" x="{x + 12:.1f}" y="{y + 20:.1f}">{escape(stage.stage_id)}</text>',
        (
            f'<text class="quiet" x="{x + box.width - 12:.1f}" y="{y + 20:.1f}" '
            f'text-anchor="end">{escape(_tasks(plan, stage))}</text>'
        ),
        f'<path d="M{x:.1f} {y + 28:.1f}h{box.width:.1f}" stroke="{stroke}" stroke-opacity="0.25"/>',
    ]
    for number, line in enumerate(lines):
        title, _, text = line.partition("  ")
        quiet = f'<tspan class="quiet" dx="6">{escape(text)}</tspan>' if text else ""
        parts.append(f'<text x="{x + 12:.1f}" y="{y + 45 + _LINE * number:.1f}">{escape(title)}{quiet}</text>')
    return "".join([*parts, "</g>"])


def _pill(stream: PlannedStream, box: Box, label: str, count: str) -> str:
    fill, stroke = _COLOURS.get(stream.role, _COLOURS["intermediate"])
    texts = f"{stream.role.replace('_', ' ')} {stream.stream_id}: {partitioning_text(stream.partitioning)}"
    texts += f"; {count_text(stream.partitions, 'partition')}, {stream.reason}" if count else ""
    badge = ""
    if count:
        wide = len(count) * 8 + 12
        badge = (
            f'<rect x="{box.x + box.width - wide - 5:.1f}" y="{box.y + 5:.1f}" width="{wide}" height="18" rx="9" '
            f'fill="{stroke}"/>'
            f'<text class="count" x="{box.x + box.width - wide / 2 - 5:.1f}" y="{box.y + 18:.1f}" '
            f'text-anchor="middle">{count}</text>'
        )
    return (
        f"<g><title>{escape(texts)}</title>"
        f'<rect x="{box.x:.1f}" y="{box.y:.1f}" width="{box.width:.1f}" height="{box.height:.1f}" rx="14" '
        f'fill="{fill}" stroke="{stroke}"'
        f"{' stroke-dasharray=' + chr(34) + '4 3' + chr(34) if stream.broadcast else ''}/>"
        f'<text x="{box.x + 14:.1f}" y="{box.y + 18:.1f}">{escape(label)}</text>{badge}</g>'
    )


def _drum(plan: ExecutionPlan, table_id: str, box: Box, label: str) -> str:
    fill, stroke = _COLOURS["table"]
    x, y, w, h, r = box.x, box.y, box.width, box.height, 6
    texts = f"{plan.table(table_id).kind} table {table_id}, by {', '.join(plan.table(table_id).key)}"
    return (
        f"<g><title>{escape(texts)}</title>"
        f'<path d="M{x:.1f} {y + r:.1f}v{h - 2 * r:.1f}a{w / 2:.1f} {r} 0 0 0 {w:.1f} 0v-{h - 2 * r:.1f}" '
        f'fill="{fill}" stroke="{stroke}"/>'
        f'<ellipse cx="{x + w / 2:.1f}" cy="{y + r:.1f}" rx="{w / 2:.1f}" ry="{r}" fill="{fill}" stroke="{stroke}"/>'
        f'<text x="{x + w / 2:.1f}" y="{y + h / 2 + 8:.1f}" text-anchor="middle">{escape(label)}</text></g>'
    )


def _edge(points: tuple[tuple[float, float], ...], *, dashed: bool) -> str:
    (x, y), *rest = points
    path = [f"M{x:.1f} {y:.1f}"]
    for to_x, to_y in rest:
        bend = (to_x - x) / 2
        path.append(f"C{x + bend:.1f} {y:.1f} {to_x - bend:.1f} {to_y:.1f} {to_x:.1f} {to_y:.1f}")
        x, y = to_x, to_y
    dash = ' stroke-dasharray="5 4"' if dashed else ""
    return f'<path d="{"".join(path)}" fill="none" stroke="#64748b" stroke-width="1.3"{dash} marker-end="url(#arrow)"/>'


def _back_edge(layout: Layout, stream: str, stage: str) -> str:
    """Draw the edge from a topic back under the stage that wrote it."""
    one, other = layout.boxes[stream], layout.boxes[stage]
    bottom, foot = one.y + one.height, other.y + other.height
    low = max(bottom, foot) + 22
    start, end = one.x + one.width / 2, other.x + other.width / 2
    return (
        f'<path d="M{start:.1f} {bottom:.1f}C{start:.1f} {low:.1f} {end:.1f} {low:.1f} {end:.1f} {foot + 1:.1f}" '
        'fill="none" stroke="#64748b" stroke-width="1.3" marker-end="url(#arrow)"/>'
    )


def _shortened(text: str) -> str:
    plain = " ".join(text.split()) if "  " not in text else text
    return plain if len(plain) <= _LONGEST else plain[: _LONGEST - 1] + "…"

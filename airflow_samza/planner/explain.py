"""The plan as text for people.

The same in the command line, the log of the ``plan`` task and notebooks.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence

from airflow_samza.columns import aligned
from airflow_samza.planner.plan import ExecutionPlan, PlannedOperator, PlannedStream, Stage
from airflow_samza.planner.titles import stage_names
from airflow_samza.planner.wording import (
    count_text,
    operator_text,
    operator_title,
    partitioning_text,
    stage_operators,
    stream_kind,
)

_MARGIN = "   "

_LINE = 140
"""Characters of a line of prose."""

_WIDEST = 72
"""Characters of one cell; a longer expression ends in an ellipsis, the JSON has it whole."""


def explain(
    plan: ExecutionPlan,
    engines: Mapping[str, str] | None = None,
    notes: Mapping[str, Mapping[str, str]] | None = None,
    reuse: Mapping[str, str] | None = None,
    width: int | None = None,
) -> str:
    """The plan as text.

    Stages with what they read, do and write, every partition count with its reason, tables, warnings.

    ``engines`` maps operator ids to where each runs and why (``"arrow"``, ``"catalyst: uses regexp_replace"``), which
    the run-time layer knows; it becomes a last column. ``notes`` are, per stage and stream, what less than the whole is
    read or sent; they stand below the stream's line. ``reuse`` says of each stage whether it keeps a former result.
    ``width`` is that of a terminal, on whose lines nothing is cut but continues below.
    """
    operators = [operator for operator in plan.operators if operator.op != "input"]
    numbers = [count_text(len(plan.stages), "stage"), count_text(len(operators), "operator")]
    numbers.append("shape only, counts come with the plan" if plan.shape_only else f"plan {plan.fingerprint}")
    blocks = [f"{plan.application} (id {plan.app_id}): {', '.join(numbers)}"]
    names = stage_names(plan)
    for number, stage in enumerate(plan.stages, 1):
        name, less = names[stage.stage_id], (notes or {}).get(stage.stage_id, {})
        decided = (reuse or {}).get(stage.stage_id, "")
        blocks.append(_stage_block(plan, stage, number, name, engines or {}, less, decided, width))
    if plan.tables:
        blocks.append(_tables_block(plan, width))
    if plan.warnings:
        lines = [
            textwrap.fill(warning, width or _LINE, initial_indent="  ! ", subsequent_indent="    ")
            for warning in plan.warnings
        ]
        blocks.append("\n".join(["Warnings", *lines]))
    return "\n\n".join(blocks) + "\n"


def _stage_block(
    plan: ExecutionPlan,
    stage: Stage,
    number: int,
    name: str,
    engines: Mapping[str, str],
    notes: Mapping[str, str],
    decided: str,
    width: int | None,
) -> str:
    facts = [] if plan.shape_only else [count_text(stage.task_count, "task")]
    if stage.upstream:
        facts.append("after " + ", ".join(stage.upstream))
    if stage.several_epochs:
        facts.append("reads what it writes, in several epochs")
    heading = f"{number}. {name}" + (f"   [{'; '.join(facts)}]" if facts else "")
    heading += f"\n   {decided}" if decided else ""
    side_inputs = [name for name in stage.side_inputs if name not in stage.inputs]
    streams = [("reads", plan.stream(name)) for name in stage.inputs] + [
        ("side input", plan.stream(name)) for name in side_inputs
    ]
    written = [("writes", plan.stream(name)) for name in stage.outputs]
    steps = list(_step_rows(plan, stage, engines))
    stream_rows = [_stream_cells(word, stream, plan.shape_only) for word, stream in (*streams, *written)]
    lines = _aligned(stream_rows, width)
    lines = [line + _note(notes.get(row[1]), width) for line, row in zip(lines, stream_rows, strict=True)]
    reads, writes = lines[: len(streams)], lines[len(streams) :]
    return "\n".join([heading, *reads, *_aligned(steps, width), *writes])


def _note(text: str | None, width: int | None) -> str:
    """A note below a stream's line, under the stream's name."""
    if text is None:
        return ""
    margin = " " * (len("   side input") + 4)
    # A name with hyphens stays whole, to be copied.
    return "\n" + textwrap.fill(
        text, width or _LINE, initial_indent=margin, subsequent_indent=margin, break_on_hyphens=False
    )


def _stream_cells(word: str, stream: PlannedStream, shape_only: bool) -> list[str]:
    cells = [word, stream.stream_id]
    if not shape_only:
        cells += [count_text(stream.partitions, "partition"), stream.reason]
    lies = (
        "as its tasks write it"
        if (stream.role, stream.partitioning.kind) == ("output", "unknown")
        else partitioning_text(stream.partitioning)
    )
    cells += [lies, stream_kind(stream) + ("" if stream.bounded else ", unbounded")]
    return cells


def _step_rows(plan: ExecutionPlan, stage: Stage, engines: Mapping[str, str]) -> Iterator[list[str]]:
    former = ""
    operators = stage_operators(plan, stage)
    several = len(stage.inputs) > 1
    for operator in operators:
        text = operator_text(operator)
        source = _source_text(plan, operator, former, several)
        yield ["does", operator_title(operator), _shortened(text), source, engines.get(operator.op_id, "")]
        former = operator.op_id


def _source_text(plan: ExecutionPlan, operator: PlannedOperator, former: str, several: bool) -> str:
    """Return the operators from which messages come, or "" when that is the line above."""
    if operator.inputs == (former,):
        return ""
    sources = [plan.operator(source) for source in operator.inputs]
    if len(sources) == 1 and sources[0].op == "input" and not former and not several:
        return ""
    names = [source.stream or source.op_id if source.op == "input" else operator_title(source) for source in sources]
    return "← " + " and ".join(names)


def _tables_block(plan: ExecutionPlan, width: int | None) -> str:
    rows = []
    for table in plan.tables:
        fed = [f"fed by {', '.join(table.side_inputs)}"] if table.side_inputs else []
        fed += (
            [f"written by {', '.join(operator_title(plan.operator(op)) for op in table.writers)}"]
            if table.writers
            else []
        )
        used = ", ".join(operator_title(plan.operator(op)) for op in table.readers)
        rows.append(
            [
                table.table_id,
                table.word,
                f"by {', '.join(table.key)}",
                "; ".join(fed),
                f"looked up by {used}" if used else "not used",
            ]
        )
    return "\n".join(["Tables", *aligned(rows, width, margin=_MARGIN)])


def _aligned(rows: Sequence[Sequence[str]], width: int | None) -> list[str]:
    """Return rows as lines; the first cell is left out where it is that of the row above."""
    words = [row[0] for row in rows]
    shown = [["" if place and words[place - 1] == row[0] else row[0], *row[1:]] for place, row in enumerate(rows)]
    below = " " * (len("side input") + 4)
    return aligned(shown, width, margin=_MARGIN, further=below, least=(len("side input"),))


def _shortened(text: str) -> str:
    """Return a text in one line, as long as a column may be."""
    plain = " ".join(text.split())
    return plain if len(plain) <= _WIDEST else plain[: _WIDEST - 1] + "…"

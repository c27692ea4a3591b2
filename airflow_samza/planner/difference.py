"""Two plans of one application compared, as sentences.

What changed and why, for ``plan --diff`` and for people on call.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

from airflow_samza.planner.plan import ExecutionPlan, PlannedOperator, PlannedStream, PlannedTable, Stage
from airflow_samza.planner.wording import count_text, operator_title, partitioning_text, shown_apart

T = TypeVar("T")

Kind = Literal["stage", "stream", "operator", "table"]


def difference(old: ExecutionPlan, new: ExecutionPlan) -> tuple[str, ...]:
    """Return what differs in ``new``, one sentence each: stages, streams, operators, tables, warnings.

    The result is empty when nothing differs. An operator or stream with ``renamed_from=`` is compared with the one of
    its former id.
    """
    if (old.application, old.app_id) != (new.application, new.app_id):
        first = [f"The application was {old.application}-{old.app_id} and is {new.application}-{new.app_id}."]
    else:
        first = []
    renamed = _renamed_operators(old, new)
    return (
        *first,
        *_stages(old, new, renamed),
        *_streams(old, new, renamed),
        *_operators(old, new, renamed),
        *_tables(old, new),
        *(f"New warning: {warning}" for warning in new.warnings if warning not in old.warnings),
        *(f"No longer warned: {warning}" for warning in old.warnings if warning not in new.warnings),
    )


@dataclass(frozen=True)
class Change:
    """A stage, stream, operator or table (``kind``) that was ``added``, ``removed`` or ``changed``.

    ``former`` is the id that it had, where it has another one now.
    """

    kind: Kind
    item_id: str
    change: Literal["added", "removed", "changed"]
    former: str | None = None


def changes(old: ExecutionPlan, new: ExecutionPlan) -> tuple[Change, ...]:
    """Return the items of the two plans that differ, in the order of :func:`difference`; what is removed comes last."""
    renamed = _renamed_operators(old, new)
    names = _renamed_streams(old, new, renamed)
    now_of = {was: now for now, was in renamed.items()}
    changes = [
        _change("stage", stage.stage_id, was.stage_id if was else None, bool(was and _stage_changes(was, stage, names)))
        for was, stage in _matched_stages(old, new, renamed)
    ]
    streams = {stream.stream_id: stream for stream in old.streams}
    for stream in new.streams:
        former = streams.get(names.get(stream.stream_id, stream.stream_id))
        differs = bool(former and _stream_changes(former, stream))
        changes.append(_change("stream", stream.stream_id, former.stream_id if former else None, differs))
    operators = {operator.op_id: operator for operator in old.operators}
    for operator in new.operators:
        was_op = operators.get(renamed.get(operator.op_id, operator.op_id))
        differs = bool(was_op and _operator_changes(was_op, operator, operator_title(operator), now_of))
        changes.append(_change("operator", operator.op_id, was_op.op_id if was_op else None, differs))
    tables = {table.table_id: table for table in old.tables}
    for table in new.tables:
        was_table = tables.get(table.table_id)
        differs = bool(was_table and _table_changes(was_table, table))
        changes.append(_change("table", table.table_id, was_table.table_id if was_table else None, differs))
    kept = {(change.kind, change.former or change.item_id) for change, _ in changes if change.change != "added"}
    ids: list[tuple[Kind, str]] = [("stage", stage.stage_id) for stage in old.stages] + [
        ("stream", name) for name in streams
    ]
    ids += [("operator", name) for name in operators] + [("table", name) for name in tables]
    removed = [Change(kind, item_id, "removed") for kind, item_id in ids if (kind, item_id) not in kept]
    differing = (change for change, differs in changes if differs)
    return (*differing, *removed)


def _change(kind: Kind, item_id: str, former: str | None, differs: bool) -> tuple[Change, bool]:
    """Return the change of an item of the new plan, and whether there is one."""
    if former is None:
        return Change(kind, item_id, "added"), True
    renamed = former != item_id
    return Change(kind, item_id, "changed", former if renamed else None), differs or renamed


def _renamed_operators(old: ExecutionPlan, new: ExecutionPlan) -> dict[str, str]:
    """New operator id → former operator id."""
    former = {(operator.op, operator.name): operator.op_id for operator in old.operators}
    kept = {operator.op_id for operator in new.operators}
    former_ids = {}
    for operator in new.operators:
        name = dict(operator.details).get("renamed_from")
        op_id = former.get((operator.op, name)) if name else None
        if op_id is not None and op_id not in kept:
            former_ids[operator.op_id] = op_id
    # The operator by which a renamed intermediate stream enters the graph goes with it.
    streams = {new.operator(op).stream: old.operator(was).stream for op, was in former_ids.items()}
    for operator in new.operators:
        if operator.op == "input" and streams.get(operator.stream) is not None:
            op_id = former.get(("input", streams[operator.stream] or ""))
            if op_id is not None:
                former_ids[operator.op_id] = op_id
    return former_ids


def _renamed_streams(old: ExecutionPlan, new: ExecutionPlan, renamed: Mapping[str, str]) -> dict[str, str]:
    pairs = ((new.operator(op).stream, old.operator(was).stream) for op, was in renamed.items())
    return {now: was for now, was in pairs if now and was and now != was}


def _stages(old: ExecutionPlan, new: ExecutionPlan, renamed: Mapping[str, str]) -> list[str]:
    streams = _renamed_streams(old, new, renamed)
    sentences: list[str] = []
    seen: set[str] = set()
    for was, stage in _matched_stages(old, new, renamed):
        if was is None:
            sentences.append(f"Stage {stage.stage_id!r} is new; it reads {_listed(stage.inputs)}.")
            continue
        if was.stage_id != stage.stage_id:
            sentences.append(f"Stage {was.stage_id!r} is now {stage.stage_id!r}.")
        seen.add(was.stage_id)
        sentences.extend(_stage_changes(was, stage, streams))
    sentences.extend(f"Stage {stage.stage_id!r} is gone." for stage in old.stages if stage.stage_id not in seen)
    return sentences


def _matched_stages(
    old: ExecutionPlan, new: ExecutionPlan, renamed: Mapping[str, str]
) -> Iterator[tuple[Stage | None, Stage]]:
    """Yield each stage with what it was: the stage of its id, else the one that read the same and is gone."""
    streams = _renamed_streams(old, new, renamed)
    former = {stage.stage_id: stage for stage in old.stages}
    by_inputs = {stage.inputs: stage for stage in old.stages}
    ids = {stage.stage_id for stage in new.stages}
    for stage in new.stages:
        was = former.get(stage.stage_id)
        if was is None:
            was = by_inputs.get(tuple(sorted(streams.get(name, name) for name in stage.inputs)))
            was = None if was is None or was.stage_id in ids else was
        yield was, stage


def _stage_changes(was: Stage, stage: Stage, streams: Mapping[str, str]) -> list[str]:
    name = f"Stage {stage.stage_id!r}"
    sentences = []
    if was.task_count != stage.task_count:
        sentences.append(f"{name} had {count_text(was.task_count, 'task')} and has {stage.task_count}.")
    if was.several_epochs != stage.several_epochs:
        sentences.append(
            f"{name} {'reads what it writes now' if stage.several_epochs else 'no longer reads what it writes'}."
        )
    for word, before, after in (
        ("reads", was.inputs, stage.inputs),
        ("writes", was.outputs, stage.outputs),
        ("uses table", was.tables, stage.tables),
    ):
        former_items = tuple(streams.get(item, item) for item in after)
        added = [item for item, former in zip(after, former_items, strict=True) if former not in before]
        removed = [item for item in before if item not in former_items]
        if added:
            sentences.append(f"{name} also {word} {_listed(added)}.")
        if removed:
            sentences.append(f"{name} no longer {word} {_listed(removed)}.")
    return sentences


def _streams(old: ExecutionPlan, new: ExecutionPlan, renamed: Mapping[str, str]) -> list[str]:
    names = _renamed_streams(old, new, renamed)
    former = {stream.stream_id: stream for stream in old.streams}
    sentences: list[str] = []
    for stream in new.streams:
        was = former.pop(names.get(stream.stream_id, stream.stream_id), None)
        kind = stream.role.replace("_", " ").capitalize()
        if was is None:
            sentences.append(f"{kind} stream {stream.stream_id!r} is new{_with_count(stream)}.")
            continue
        if was.stream_id != stream.stream_id:
            sentences.append(f"{kind} stream {was.stream_id!r} was renamed to {stream.stream_id!r}.")
        sentences.extend(_stream_changes(was, stream))
    sentences.extend(
        f"{s.role.replace('_', ' ').capitalize()} stream {s.stream_id!r} is gone." for s in former.values()
    )
    return sentences


def _stream_changes(was: PlannedStream, now: PlannedStream) -> list[str]:
    name = f"Stream {now.stream_id!r}"
    sentences = []
    if was.partitions != now.partitions:
        sentences.append(
            f"{name} had {count_text(was.partitions, 'partition')} ({was.reason}) and has {now.partitions} "
            f"({now.reason})."
        )
    elif was.reason != now.reason:
        sentences.append(
            f"{name} keeps {count_text(now.partitions, 'partition')}, for another reason: {now.reason} (was: "
            f"{was.reason})."
        )
    if was.partitioning != now.partitioning:
        before, after = partitioning_text(was.partitioning), partitioning_text(now.partitioning)
        sentences.append(f"{name} was partitioned differently: {before}; now {after}.")
    for word, one, other in (
        ("role", was.role, now.role),
        ("system", was.system, now.system),
        ("schema", was.schema, now.schema),
        ("boundedness", _bounded(was), _bounded(now)),
    ):
        if one != other:
            sentences.append(
                f"{name} changed its {word}: it was {one or 'not declared'} and is {other or 'not declared'}."
            )
    return sentences


def _operators(old: ExecutionPlan, new: ExecutionPlan, renamed: Mapping[str, str]) -> list[str]:
    former = {operator.op_id: operator for operator in old.operators}
    now_of = {was: now for now, was in renamed.items()}
    sentences: list[str] = []
    for operator in new.operators:
        was = former.pop(renamed.get(operator.op_id, operator.op_id), None)
        title = operator_title(operator)
        if operator.op == "input":
            continue  # reported as a stream
        if was is None:
            sentences.append(f"Operator {title} is new.")
            continue
        if was.op_id != operator.op_id:
            sentences.append(f"Operator {operator_title(was)} was renamed to {title}.")
        sentences.extend(_operator_changes(was, operator, title, now_of))
    sentences.extend(
        f"Operator {operator_title(operator)} is gone." for operator in former.values() if operator.op != "input"
    )
    return sentences


def _operator_changes(was: PlannedOperator, now: PlannedOperator, title: str, now_of: Mapping[str, str]) -> list[str]:
    sentences = []
    before, after = dict(was.details), dict(now.details)
    for name in sorted({*before, *after} - {"renamed_from"}):
        if before.get(name) != after.get(name):
            word = name.replace("_", " ")
            one, other = shown_apart(before.get(name, "none"), after.get(name, "none"))
            sentences.append(f"Operator {title} changed its {word}: it was {one} and is {other}.")
    if tuple(now_of.get(op, op) for op in was.inputs) != now.inputs:
        sentences.append(
            f"Operator {title} takes its messages from {_listed(now.inputs)}, no longer from {_listed(was.inputs)}."
        )
    if was.table != now.table:
        sentences.append(f"Operator {title} uses table {now.table!r}, no longer {was.table!r}.")
    if was.schema != now.schema:
        sentences.append(
            f"Operator {title} emits other columns: they were {was.schema or 'not declared'} and are "
            f"{now.schema or 'not declared'}."
        )
    return sentences


def _tables(old: ExecutionPlan, new: ExecutionPlan) -> list[str]:
    former = {table.table_id: table for table in old.tables}
    sentences: list[str] = []
    for table in new.tables:
        was: PlannedTable | None = former.pop(table.table_id, None)
        if was is None:
            sentences.append(f"Table {table.table_id!r} ({table.word}) is new.")
            continue
        sentences.extend(_table_changes(was, table))
    sentences.extend(f"Table {table_id!r} is gone." for table_id in former)
    return sentences


def _table_changes(was: PlannedTable, table: PlannedTable) -> list[str]:
    return [
        f"Table {table.table_id!r} changed its {word}: it was {one or 'none'} and is {other or 'none'}."
        for word, one, other in (
            ("kind", was.word, table.word),
            ("key", ", ".join(was.key), ", ".join(table.key)),
            ("schema", was.schema, table.schema),
            ("side inputs", ", ".join(was.side_inputs), ", ".join(table.side_inputs)),
        )
        if one != other
    ]


def _bounded(stream: PlannedStream) -> str:
    return "bounded" if stream.bounded else "unbounded"


def _with_count(stream: PlannedStream) -> str:
    return f" ({count_text(stream.partitions, 'partition')}: {stream.reason})" if stream.partitions else ""


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names)) or "nothing"

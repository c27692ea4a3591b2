"""Two plans of one application compared, as sentences.

What changed and why, for ``plan --diff`` and for people on call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import attrgetter
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
    told = []
    if (old.application, old.app_id) != (new.application, new.app_id):
        told.append(f"The application was {old.application}-{old.app_id} and is {new.application}-{new.app_id}.")
    inputs = {("operator", op.op_id) for plan in (old, new) for op in plan.operators if op.op == "input"}
    for change, said in _compared(old, new):
        if (change.kind, change.item_id) not in inputs:
            told += said
        elif change.change == "changed":  # what else changes of an input is told of its stream
            told += _detail_changes(old.operator(change.former or change.item_id), new.operator(change.item_id))
    return (
        *told,
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
    differing = [change for change, said in _compared(old, new) if said]
    return tuple(sorted(differing, key=lambda change: change.change == "removed"))


def _compared(old: ExecutionPlan, new: ExecutionPlan) -> Iterator[tuple[Change, list[str]]]:
    """Yield all items of both plans, each with the sentences about its change; none where nothing differs."""
    renamed = _renamed_operators(old, new)
    now_of = {was: now for now, was in renamed.items()}
    pairs = ((new.operator(op).stream, old.operator(was).stream) for op, was in renamed.items())
    streams = {now: was for now, was in pairs if now and was and now != was}
    stages = _renamed_stages(old, new, streams)
    of_stage = partial(_stage_changes, streams=streams)
    of_operator = partial(_operator_changes, now_of=now_of)
    yield from _items("stage", old.stages, new.stages, stages, _stage_name, _new_stage, of_stage)
    yield from _items("stream", old.streams, new.streams, streams, _stream_name, _new_stream, _stream_changes)
    yield from _items("operator", old.operators, new.operators, renamed, _operator_name, _new_operator, of_operator)
    yield from _items("table", old.tables, new.tables, {}, _table_name, _new_table, _table_changes)


def _items(
    kind: Kind,
    old: Sequence[T],
    new: Sequence[T],
    renamed: Mapping[str, str],
    name: Callable[[T], str],
    added: Callable[[T], str],
    changed: Callable[[T, T], Iterable[str]],
) -> Iterator[tuple[Change, list[str]]]:
    """Compare the items of one kind; ``renamed`` are former ids by the present ones."""
    id_of = attrgetter("op_id" if kind == "operator" else f"{kind}_id")
    former = {id_of(item): item for item in old}
    for item in new:
        item_id = id_of(item)
        former_id = renamed.get(item_id, item_id)
        was = former.pop(former_id, None)
        if was is None:
            yield Change(kind, item_id, "added"), [added(item)]
        else:
            yield (
                Change(kind, item_id, "changed", former_id if former_id != item_id else None),
                list(changed(was, item)),
            )
    for item_id, item in former.items():
        yield Change(kind, item_id, "removed"), [f"{name(item)} is gone."]


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


def _renamed_stages(old: ExecutionPlan, new: ExecutionPlan, streams: Mapping[str, str]) -> dict[str, str]:
    """New stage id → the id of the stage that read the same and is gone."""
    by_inputs = {stage.inputs: stage.stage_id for stage in old.stages}
    kept, former = ({stage.stage_id for stage in plan.stages} for plan in (new, old))
    renamed = {}
    for stage in new.stages:
        was = by_inputs.get(tuple(sorted(streams.get(name, name) for name in stage.inputs)))
        if was is not None and was not in kept and stage.stage_id not in former:
            renamed[stage.stage_id] = was
    return renamed


def _stage_name(stage: Stage) -> str:
    return f"Stage {stage.stage_id!r}"


def _new_stage(stage: Stage) -> str:
    return f"{_stage_name(stage)} is new; it reads {_listed(stage.inputs)}."


def _stage_changes(was: Stage, stage: Stage, streams: Mapping[str, str]) -> Iterator[str]:
    name = _stage_name(stage)
    if was.stage_id != stage.stage_id:
        yield f"{_stage_name(was)} is now {stage.stage_id!r}."
    if was.task_count != stage.task_count:
        yield f"{name} had {count_text(was.task_count, 'task')} and has {stage.task_count}."
    if was.several_epochs != stage.several_epochs:
        yield f"{name} {'reads what it writes now' if stage.several_epochs else 'no longer reads what it writes'}."
    for word, before, after in (
        ("reads", was.inputs, stage.inputs),
        ("writes", was.outputs, stage.outputs),
        ("uses table", was.tables, stage.tables),
    ):
        former_items = tuple(streams.get(item, item) for item in after)
        added = [item for item, former in zip(after, former_items, strict=True) if former not in before]
        removed = [item for item in before if item not in former_items]
        if added:
            yield f"{name} also {word} {_listed(added)}."
        if removed:
            yield f"{name} no longer {word} {_listed(removed)}."


def _stream_name(stream: PlannedStream) -> str:
    return f"{stream.role.replace('_', ' ').capitalize()} stream {stream.stream_id!r}"


def _new_stream(stream: PlannedStream) -> str:
    counted = f" ({count_text(stream.partitions, 'partition')}: {stream.reason})" if stream.partitions else ""
    return f"{_stream_name(stream)} is new{counted}."


def _stream_changes(was: PlannedStream, now: PlannedStream) -> Iterator[str]:
    name = f"Stream {now.stream_id!r}"
    if was.stream_id != now.stream_id:
        yield f"{_stream_name(replace(now, stream_id=was.stream_id))} was renamed to {now.stream_id!r}."
    if was.partitions != now.partitions:
        yield (
            f"{name} had {count_text(was.partitions, 'partition')} ({was.reason}) and has {now.partitions} "
            f"({now.reason})."
        )
    elif was.reason != now.reason:
        yield (
            f"{name} keeps {count_text(now.partitions, 'partition')}, for another reason: {now.reason} (was: "
            f"{was.reason})."
        )
    if was.partitioning != now.partitioning:
        before, after = partitioning_text(was.partitioning), partitioning_text(now.partitioning)
        yield f"{name} was partitioned differently: {before}; now {after}."
    for word, one, other in (
        ("role", was.role, now.role),
        ("system", was.system, now.system),
        ("schema", was.schema, now.schema),
        ("boundedness", _bounded(was), _bounded(now)),
    ):
        if one != other:
            yield f"{name} changed its {word}: it was {one or 'not declared'} and is {other or 'not declared'}."


def _operator_name(operator: PlannedOperator) -> str:
    return f"Operator {operator_title(operator)}"


def _new_operator(operator: PlannedOperator) -> str:
    return f"{_operator_name(operator)} is new."


def _detail_changes(was: PlannedOperator, now: PlannedOperator) -> Iterator[str]:
    before, after = dict(was.details), dict(now.details)
    for key in sorted({*before, *after} - {"renamed_from"}):
        if before.get(key) != after.get(key):
            word = key.replace("_", " ")
            one, other = shown_apart(before.get(key, "none"), after.get(key, "none"))
            yield f"{_operator_name(now)} changed its {word}: it was {one} and is {other}."


def _operator_changes(was: PlannedOperator, now: PlannedOperator, now_of: Mapping[str, str]) -> Iterator[str]:
    name = _operator_name(now)
    if was.op_id != now.op_id:
        yield f"{_operator_name(was)} was renamed to {operator_title(now)}."
    yield from _detail_changes(was, now)
    if tuple(now_of.get(op, op) for op in was.inputs) != now.inputs:
        yield f"{name} takes its messages from {_listed(now.inputs)}, no longer from {_listed(was.inputs)}."
    if was.table != now.table:
        yield f"{name} uses table {now.table!r}, no longer {was.table!r}."
    if was.schema != now.schema:
        yield (
            f"{name} emits other columns: they were {was.schema or 'not declared'} and are "
            f"{now.schema or 'not declared'}."
        )


def _table_name(table: PlannedTable) -> str:
    return f"Table {table.table_id!r}"


def _new_table(table: PlannedTable) -> str:
    return f"{_table_name(table)} ({table.word}) is new."


def _table_changes(was: PlannedTable, table: PlannedTable) -> list[str]:
    return [
        f"{_table_name(table)} changed its {word}: it was {one or 'none'} and is {other or 'none'}."
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


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names)) or "nothing"

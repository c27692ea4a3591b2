"""The words for operators, streams and counts in texts and pictures.

One place, so that text, pictures and errors use the same words. The planner and the plan step write by it, and so does
what warns while a stage runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from airflow_samza.application.operator_spec import OperatorSpec
from airflow_samza.application.times import duration_text
from airflow_samza.planner.plan import ExecutionPlan, Partitioning, PlannedOperator, PlannedStream, Stage


def operator_title(operator: PlannedOperator | OperatorSpec) -> str:
    """An operator as people know it, by its kind and its name: ``join with-profile``, ``where-0``."""
    return f"{operator.op}-{operator.name}" if operator.name.isdigit() else f"{operator.op} {operator.name}"


def operator_text(operator: PlannedOperator) -> str:
    """Return in a few words what an operator does: all its details, by name those that have no words of their own."""
    details = {name: text for name, text in operator.details if text}

    def told(name: str, say: Callable[[str], str] = str) -> list[str]:
        return [say(details.pop(name))] if name in details else []

    within = "".join(told("within", " within {}".format))
    ttl = told("ttl_ms", lambda text: f"within {duration_text(int(text))}")
    how = told("how")
    words = [
        *([f"with table {operator.table}"] if operator.table and operator.op == "join" else []),
        *ttl,
        *told("window"),
        *told("key", "by {}".format),
        *told("keep", f"the {{}}{within}".format),
        *(how if how != ["inner"] else []),
        *(text for name in ("condition", "expressions", "aggregations") for text in told(name)),
        *(text for name in ("task", "fold", "function") for text in told(name, lambda text: text.rpartition(".")[2])),
        *told("calls"),
        *told("stores", lambda text: f"{'stores' if ',' in text else 'store'} {text}"),
        *told("assume_partitioned_by", "assumed partitioned by {}".format),
        *told("timestamp", "event time {}".format),
        *told("delivery"),
        *told("checked", "partitioning by {} checked while it runs".format),
        *told("broadcast_handled_by", lambda _: "broadcast messages in task 0"),
    ]
    outputs = told("outputs", "→ {}".format)
    if operator.op in ("send_to", "partition_by", "broadcast") and operator.stream:
        words.append(f"→ {operator.stream}")
    if operator.op == "send_to_table":
        words.append(f"→ table {operator.table}")
    words += [*outputs, *(f"{name} {text}" for name, text in details.items())]
    return (
        ", ".join(words[:1])
        + ("" if len(words) < 2 else " " if words[0].startswith("by ") and words[1].startswith("→") else ", ")
        + ", ".join(words[1:])
    )


def columns_text(key: Sequence[str]) -> str:
    """Return columns as they are written in a call: a text, or a list of several.

    >>> columns_text(["a"]), columns_text(["a", "b"])
    ("'a'", "['a', 'b']")
    """
    return repr(key[0]) if len(key) == 1 else repr(list(key))


def partition_before(key: Sequence[str]) -> str:
    """Return what brings the messages of a key together before an operator."""
    return f"Put .partition_by({columns_text(key)}, id=…) before it"


def partitioning_text(partitioning: Partitioning) -> str:
    """Return a partitioning in words: ``by member_id bigint``, ``not keyed``, ``to every task``."""
    if partitioning.kind == "keyed":
        columns = (
            f"{name} {kind}" if kind else name for name, kind in zip(partitioning.key, partitioning.types, strict=True)
        )
        return "by " + ", ".join(columns)
    return {"unkeyed": "not keyed", "broadcast": "to every task"}.get(partitioning.kind, "partitioning unknown")


def stream_kind(stream: PlannedStream) -> str:
    """``input``, ``side input`` …, with the system where one is named."""
    kind = stream.role.replace("_", " ")
    return f"{kind} ({stream.system})" if stream.system else kind


def count_text(number: int, word: str) -> str:
    """``1 partition``, ``16 partitions``.

    >>> count_text(1, "stage"), count_text(2, "task")
    ('1 stage', '2 tasks')
    """
    return f"{number} {word}{'' if number == 1 else 's'}"


_SHOWN = 160
"""Characters of a text that is compared with another; what is longer is shown near the first difference."""


def shown_apart(before: str, after: str) -> tuple[str, str]:
    """Two different texts for people: whole, or of long ones the part where they begin to differ.

    >>> shown_apart("i = 1", "i = 2")
    ('i = 1', 'i = 2')
    """
    if max(len(before), len(after)) <= _SHOWN:
        return before, after
    pairs = enumerate(zip(before, after, strict=False))
    differ = next((place for place, (one, other) in pairs if one != other), min(len(before), len(after)))
    start = max(0, differ - _SHOWN // 4)
    one, other = (
        f"{'…' if start else ''}{text[start : start + _SHOWN]}{'…' if len(text) > start + _SHOWN else ''}"
        for text in (before, after)
    )
    return one, other


def stage_operators(plan: ExecutionPlan, stage: Stage) -> list[PlannedOperator]:
    """The operators of a stage in the order of the flow, without those by which streams enter it."""
    return [operator for operator in map(plan.operator, stage.operators) if operator.op != "input"]

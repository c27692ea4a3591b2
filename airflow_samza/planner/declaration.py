"""The declaration of an application: what its code says about operators, streams, tables and configuration, as texts.

A plan keeps it, so that whoever runs a stage later can tell whether the application still is what was planned.
Callables are in it by their names alone: a body may be corrected. Options that hold secrets are left out. The plan step
keeps it in a plan, and compares by it.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Any

from airflow_samza.application.application import ApplicationSpec
from airflow_samza.application.callables import callable_name
from airflow_samza.application.descriptors import StoreDescriptor, StreamDescriptor, SystemDescriptor, TableDescriptor
from airflow_samza.application.operator_spec import OperatorSpec
from airflow_samza.application.windows import Aggregation, WindowSpec
from airflow_samza.config import is_for_operation
from airflow_samza.planner.plan import ExecutionPlan
from airflow_samza.planner.wording import count_text, shown_apart
from airflow_samza.schema import Schema
from airflow_samza.secrecy import holds_secret

Declaration = Mapping[str, Mapping[str, str]]
"""Texts by what they are of (``operator <id>``, ``stream <id>``, ``table <id>``, ``system <name>``, or
``configuration``), and by name.
"""

_OF_THE_PLACE = frozenset({"location", "renamed_from", "op_id", "name", "doc"})
"""Fields that say where something stands, what it is called (the id is the key already), or what people call it."""

_CONFIGURATION = "configuration"


def declaration(spec: ApplicationSpec) -> dict[str, dict[str, str]]:
    """Return the declaration of an application; equal declarations make equal plans from equal streams."""
    items_by_kind: dict[str, Mapping[str, Any]] = {
        "operator": {operator.op_id: operator for operator in spec.operators},
        "stream": {**spec.side_inputs, **spec.inputs, **spec.outputs, **spec.intermediates},
        "table": spec.tables,
        "system": spec.systems,
    }
    texts_by_item = {
        f"{kind} {name}": _texts(item) for kind, items in items_by_kind.items() for name, item in items.items()
    }
    settings = {
        key: value for key, value in spec.config.items() if not is_for_operation(key) and not holds_secret(key, value)
    }
    if spec.default_system is not None:
        settings["default_system"] = spec.default_system
    return {
        key: texts
        for key, texts in {**texts_by_item, _CONFIGURATION: settings}.items()
        if texts or key != _CONFIGURATION
    }


def declared_differences(planned: Declaration, now: Declaration, plan: ExecutionPlan) -> tuple[str, ...]:
    """Return what an application declares otherwise than when it was planned, in order of the plan's stages."""
    stages = _stages_by_item(plan)
    behind = len(plan.stages), ""
    placed = [(stages.get(key, behind), key) for key in dict.fromkeys((*planned, *now))]
    return tuple(
        f"stage {stage}: {sentence}" if stage else sentence
        for (_, stage), key in sorted(placed, key=lambda item: item[0][0])
        for sentence in _item_differences(key, planned.get(key), now.get(key))
    )


def first_of(differences: tuple[str, ...]) -> str:
    """Return the first differences in a sentence, and how many more there are."""
    shown = "; ".join(differences[:3])
    return shown if len(differences) <= 3 else f"{shown}; and {count_text(len(differences) - 3, 'difference')} more"


def _stages_by_item(plan: ExecutionPlan) -> dict[str, tuple[int, str]]:
    stages: dict[str, tuple[int, str]] = {}
    for number, stage in enumerate(plan.stages):
        keys = [f"operator {op_id}" for op_id in stage.operators]
        keys += [f"stream {stream_id}" for stream_id in (*stage.outputs, *stage.inputs, *stage.side_inputs)]
        keys += [f"table {table_id}" for table_id in stage.tables]
        for key in keys:
            stages.setdefault(key, (number, stage.stage_id))
    return stages


def _item_differences(key: str, planned: Mapping[str, str] | None, now: Mapping[str, str] | None) -> Iterator[str]:
    if planned is None and now is not None and key != _CONFIGURATION:
        yield f"{key} is new"
    elif now is None and planned is not None and key != _CONFIGURATION:
        yield f"{key} is gone"
    else:
        before, after = planned or {}, now or {}
        for name in dict.fromkeys((*before, *after)):
            if before.get(name) != after.get(name):
                one, other = shown_apart(before.get(name, "not set"), after.get(name, "not set"))
                what = name if key == _CONFIGURATION else f"{name.replace('_', ' ')} of {key}"
                yield f"{what} was {one} and is {other}"


def _texts(value: Any) -> dict[str, str]:
    """Return the fields of a declared value that are set, as texts."""
    texts = {}
    for each in dataclasses.fields(value):
        if each.name in _OF_THE_PLACE:
            continue
        content = getattr(value, each.name)
        if each.name == "options":
            content = tuple(option for option in content if not holds_secret(*map(str, option)))
        if content is None or content == () or content is False or content == "":
            continue
        texts[each.name] = _text(content)
    return texts


_NAMED_BY: Mapping[type, str] = {
    OperatorSpec: "op_id",
    StreamDescriptor: "stream_id",
    TableDescriptor: "table_id",
    SystemDescriptor: "name",
    Enum: "value",
}
"""The attributes by which declared things are named where others refer to them."""


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    for kind, named_by in _NAMED_BY.items():
        if isinstance(value, kind):
            return str(getattr(value, named_by))
    if isinstance(value, Schema):
        return value.ddl()
    if isinstance(value, Aggregation):
        more = "" if value.rsd is None else f", rsd={value.rsd}"
        return f"{value.name}={value.function}({value.column or ''}{more})"
    if isinstance(value, WindowSpec):
        beside = ("zone", "early_every", "early_after_ms", "accumulating", "time")
        usual = {name: getattr(WindowSpec, name) for name in beside}
        said = [f"{name}={getattr(value, name)}" for name in beside if getattr(value, name) != usual[name]]
        return ", ".join([value.text, *said])
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = ", ".join(f"{name}={text}" for name, text in _texts(value).items()) or type(value).__name__
        return f"{value.name}: {fields}" if isinstance(value, StoreDescriptor) else fields
    if isinstance(value, tuple | list):
        return ", ".join(map(_text, value))
    if isinstance(value, set | frozenset):
        return ", ".join(sorted(map(_text, value)))
    if isinstance(value, Mapping):
        return ", ".join(f"{_text(name)}={_text(content)}" for name, content in value.items())
    if isinstance(value, int | float):
        return str(value)
    named = callable_name(value) if callable(value) else None
    if named is not None:
        return without_modules(named)
    text = repr(value)
    return type(value).__qualname__ if " at 0x" in text else text


_MODULES = re.compile(r"(?:\b[A-Za-z_]\w*\.)+(?=[A-Za-z_<])")
"""The places of a function before its own name: ``pipelines.views.`` of ``pipelines.views.clean``."""


def are_alike(plan: ExecutionPlan, other: ExecutionPlan) -> bool:
    """Return True if two plans are equal in all that the code of an application says.

    Partition counts, and the modules and bodies of functions, play no part; so one of them may be a shape
    (:func:`~airflow_samza.planner.planner.plan_shape`).
    """
    return plan.shape_fingerprint == other.shape_fingerprint and _said(plan) == _said(other)


def _said(plan: ExecutionPlan) -> tuple[Any, ...]:
    operators = [(op.op_id, op.op, op.inputs, op.stream, op.table, op.schema, _details(op)) for op in plan.operators]
    streams = [(stream.stream_id, stream.role, stream.system, stream.schema) for stream in plan.streams]
    return operators, streams, plan.tables


def _details(operator: Any) -> dict[str, str]:
    return {name: without_modules(text) for name, text in operator.details if name != "broadcast_handled_by"}


def without_modules(text: str) -> str:
    """Return names of functions without the modules in which they stand: an application may move to another.

    >>> without_modules("pipelines.views.clean")
    'clean'
    """
    return _MODULES.sub("", text)

"""The digests of the code that each stage runs: of the user's callables in its operators, streams and tables."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from typing import Any

from airflow_samza.application.application import ApplicationSpec
from airflow_samza.application.code_digest import callable_digest, module_digest
from airflow_samza.application.operator_spec import OperatorSpec
from airflow_samza.planner.plan import ExecutionPlan, Stage

_PLACE = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
"""The place of a class or function, as a value of the configuration."""

_NO_CODE = ("inputs", "location", "schema", "fold_schema", "options", "key", "aggregations")


def stage_digests(spec: ApplicationSpec, plan: ExecutionPlan, data: str = "") -> dict[str, str]:
    """Return the digest of the callables of each stage, by stage id; "" where they cannot be compared.

    ``data`` is the digest of the files that travel with the code: a callable may read them.
    """
    named = [value for value in spec.config.values() if _PLACE.fullmatch(value)]
    modules = {value: module_digest(value.partition(":")[0]) for value in named}
    return {stage.stage_id: _stage_digest(spec, stage, data, modules) for stage in plan.stages}


def _stage_digest(spec: ApplicationSpec, stage: Stage, data: str, modules: dict[str, str | None]) -> str:
    values = [value for op in spec.operators_of(stage.operators) for value in _code_of(op)]
    values += [value for name in stage.tables if name in spec.tables for value in _code_of(spec.tables[name])]
    for name in (*stage.inputs, *stage.side_inputs):
        stream = spec.inputs.get(name) or spec.side_inputs.get(name)
        values += _code_of(stream) if stream is not None else ()
    return callable_digest(*values, data if values else "", sorted(modules.items())) or ""


def _code_of(value: Any) -> Iterator[Any]:
    """Yield the callables, and objects that hold some, among the fields of a declared value."""
    for each in dataclasses.fields(value):
        if each.name in _NO_CODE:
            continue
        content = getattr(value, each.name)
        for part in content if isinstance(content, tuple) else (content,):
            if isinstance(part, OperatorSpec) or part is None or isinstance(part, bool | int | float | str):
                continue
            if callable(part) or each.name == "initial":
                yield part
            elif dataclasses.is_dataclass(part) and not isinstance(part, type):
                yield from _code_of(part)

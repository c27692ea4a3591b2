"""The digests of the code that each stage runs: of the user's callables in its operators, streams and tables.

The plan step and the submission compare by them what has changed, and a run keeps results by them.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from airflow_samza.application.application import ApplicationSpec
from airflow_samza.application.code_digest import CodeDigests, Place
from airflow_samza.application.declarations.serdes import AVRO, REGISTRY
from airflow_samza.planner.plan import ExecutionPlan, Stage

_PLACE = re.compile(r"([A-Za-z_][\w.]*):([A-Za-z_][\w.]*)")
"""The place of a class or function: a serde, a factory, or a value of the configuration."""

_DOTTED = re.compile(r"([A-Za-z_][\w.]*)\.([A-Za-z_]\w*)")

_NO_CODE = ("inputs", "location", "schema", "fold_schema", "options", "key", "aggregations")


_UNCOMPARED = "~"


class ShippedDigests(NamedTuple):
    """Digests of what travels with an application: of the files that are none of its modules, and of all of it."""

    data: str = ""
    whole: str = ""


NOTHING_SHIPPED = ShippedDigests()


def is_comparable(digest: str) -> bool:
    """Return whether stages with this digest, in whatever process it was made, run the same callables."""
    return digest != "" and not digest.startswith(_UNCOMPARED)


def stage_digests(
    reference: str, spec: ApplicationSpec, plan: ExecutionPlan, shipped: ShippedDigests
) -> dict[str, str]:
    """Return the digest of the callables of each stage, by stage id.

    Where they cannot be compared it is that of all code, which still tells one attempt from another; "" without that.
    ``reference`` names the application. A callable may read the files that travel with it, and calls methods of
    messages.
    """
    whole = f"{_UNCOMPARED}{shipped.whole}" if shipped.whole else ""
    digests = CodeDigests(reference.partition(":")[0])
    named = [place for value in spec.config.values() for place in _places(value)]
    found = {}
    for stage in plan.stages:
        values = [*_values(spec, stage), *named]
        beside = (*_message_classes(spec, stage), shipped.data) if values else ("",)
        found[stage.stage_id] = digests.of(*values, *beside) or whole
    return found


def _values(spec: ApplicationSpec, stage: Stage) -> Iterator[Any]:
    for operator in spec.operators_of(stage.operators):
        yield from _code_of(operator)
    for name in stage.tables:
        if name in spec.tables:
            yield from _code_of(spec.tables[name])
    for name in (*stage.inputs, *stage.side_inputs):
        stream = spec.inputs.get(name) or spec.side_inputs.get(name)
        if stream is not None:
            yield from _code_of(stream)


def _message_classes(spec: ApplicationSpec, stage: Stage) -> dict[type, None]:
    """Return the dataclasses of which callables get messages and rows: they may call methods that they do not name."""
    holders = [
        *spec.operators_of(stage.operators),
        *(spec.tables[name] for name in stage.tables if name in spec.tables),
        *(spec.side_inputs[name] for name in stage.side_inputs if name in spec.side_inputs),
    ]
    schemas = [getattr(each, name, None) for each in holders for name in ("schema", "fold_schema")]
    classes = (schema.python_class for schema in schemas if schema is not None)
    return dict.fromkeys(each for each in classes if each is not None)


def _code_of(value: Any) -> Iterator[Any]:
    """Yield the callables, the places of some, and objects that hold some, among the fields of a declared value."""
    for each in dataclasses.fields(value):
        if each.name in _NO_CODE:
            continue
        content = getattr(value, each.name)
        if each.name == "initial":
            yield content
            continue
        for part in content if isinstance(content, tuple) else (content,):
            if isinstance(part, str):
                yield from _places(part) if each.name in ("serde", "processor") else ()
            elif callable(part):
                yield part
            elif dataclasses.is_dataclass(part) and not isinstance(part, type):
                yield from _code_of(part)


def _places(text: str) -> Iterator[Place]:
    """Yield the place that a text names; it may have a dot for the colon, as the factory of a processor."""
    found = _PLACE.fullmatch(text) or _DOTTED.fullmatch(text)
    if found is not None and not text.startswith((AVRO, REGISTRY)):
        yield Place(found[1], found[2])

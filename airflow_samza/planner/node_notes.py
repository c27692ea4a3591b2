"""Notes for people on operators, streams and tables: a description, and the line of code.

They stand beside a plan, and never in it: a line that moves, or a sentence that is corrected, changes no fingerprint.
The plan step keeps them, and the page shows them.
"""

from __future__ import annotations

import dataclasses
import inspect
import os
import sys
from types import FunctionType
from typing import TYPE_CHECKING, Any

from airflow_samza.application.callables import innermost
from airflow_samza.application.operator_spec import OperatorSpec
from airflow_samza.application.source_location import SourceLocation

if TYPE_CHECKING:
    from airflow_samza.application.application import ApplicationSpec

MOST = 400
"""Characters of a description that are kept."""


def node_notes(spec: ApplicationSpec) -> dict[str, dict[str, str]]:
    """Return ``doc`` and ``place`` by node (``operator:<id>``, ``stream:<id>``, ``table:<id>``), as far as known."""
    roots = sorted((os.path.join(root, "") for root in sys.path if root), key=len, reverse=True)
    notes = {}
    streams = {**spec.side_inputs, **spec.inputs, **spec.outputs, **spec.intermediates}
    for node, doc, location in (
        *((f"operator:{op.op_id}", _doc(spec, op), op.location) for op in spec.operators),
        *((f"stream:{name}", stream.doc, stream.location) for name, stream in streams.items()),
        *((f"table:{name}", table.doc, table.location) for name, table in spec.tables.items()),
    ):
        place = "" if location is None else shown_place(location, roots)
        noted = {name: text for name, text in (("doc", _shortened(doc)), ("place", place)) if text}
        if noted:
            notes[node] = noted
    return notes


def shown_place(location: SourceLocation, roots: list[str]) -> str:
    """Return a place as people know it: within the folder from which it is imported, never where that lies.

    >>> shown_place(SourceLocation("/opt/airflow/dags/jobs/views.py", 12), ["/opt/airflow/dags/", "/opt/"])
    'jobs/views.py:12'
    """
    root = next((root for root in roots if location.file.startswith(root)), None)
    file = os.path.basename(location.file) if root is None else location.file[len(root) :].replace(os.sep, "/")
    return f"{file}:{location.line}"


def _doc(spec: ApplicationSpec, op: OperatorSpec) -> str:
    """Return the description of an operator: its own, that of its input, or the first paragraph of a docstring."""
    stream = getattr(op, "stream", None)
    return spec.docs.get(op.op_id) or getattr(stream, "doc", "") or _docstring(op)


def _docstring(op: OperatorSpec) -> str:
    """Return the first paragraph of what the operator's callable says of itself, or of its class."""
    for field in dataclasses.fields(op):
        called = getattr(op, field.name)
        if field.name not in ("schema", "inputs") and callable(called):
            function = innermost(called)
            is_method = getattr(function, "__name__", "") == "__call__"
            return _first_paragraph(function) or (_first_paragraph(type(called)) if is_method else "")
    return ""


def _first_paragraph(whose: Any) -> str:
    if not isinstance(whose, FunctionType | type) or whose.__module__ in ("builtins", "functools"):
        return ""
    text = inspect.cleandoc(vars(whose).get("__doc__", whose.__doc__) or "").partition("\n\n")[0]
    return "" if text.startswith(f"{whose.__name__}(") else " ".join(text.split())  # a dataclass makes itself one


def _shortened(text: str) -> str:
    """Return a text, as long as a note may be."""
    return text if len(text) <= MOST else f"{text[: MOST - 1].rstrip()}…"

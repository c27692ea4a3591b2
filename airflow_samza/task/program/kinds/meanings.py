"""Texts of which the meaning of a state is made: keys, functions, windows, types and kept columns.

Kinds of operators and the meaning of whole applications are put together of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from airflow_samza.application.times import duration_text
from airflow_samza.application.windows import Aggregation, WindowSpec
from airflow_samza.errors import SamzaError
from airflow_samza.schema import Schema
from airflow_samza.task.program.kinds.operator_kind import Inputs


def window_text(window: WindowSpec) -> str:
    """Return the kind, the lengths and the time of windows."""
    lengths = [window.duration_ms, window.hop_ms, window.gap_ms]
    lasting = " / ".join(duration_text(length) for length in lengths if length is not None)
    return f"{window.kind} {lasting}, {window.time} time, {window.zone}"


def functions_text(messages: Schema | None, aggregations: Sequence[Aggregation]) -> str | None:
    """Return the aggregations with the types of their columns; None when these are not known."""
    if messages is None and any(a.column is not None for a in aggregations):
        return None
    return ", ".join(
        f"{a.name}={a.function}({typed(messages, a.column) if a.column is not None else ''}"
        f"{f', rsd {a.rsd:g}' if a.rsd is not None else ''})"
        for a in aggregations
    )


def columns_text(schema: Schema | None, names: Sequence[str]) -> str | None:
    """Return columns with their types; None when these are not known."""
    if schema is None:
        return None
    return ", ".join(typed(schema, name) for name in names) or "none"


def typed(schema: Schema | None, name: str) -> str:
    """Return a column with its type."""
    assert schema is not None
    try:
        return f"{name} {schema[name].type.ddl()}"
    except SamzaError:  # a field of a struct, or a name in other letters
        return name


def kept_columns(sides: Sequence[str], kept: Inputs) -> dict[str, dict[str, str]]:
    """Return the types of the columns that are kept of messages, by side."""
    return {
        side: {field.name: field.type.ddl() for field in schema.fields}
        for side, schema in zip(sides, kept, strict=False)
        if schema is not None
    }


def without_unknown(facets: Mapping[str, str | None]) -> dict[str, str]:
    """Return the facets without those that are not known yet."""
    return {name: text for name, text in facets.items() if text is not None}

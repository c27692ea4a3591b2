"""Checks that several operators share: ids, SQL texts, and whether what they are given is of the same application."""

from __future__ import annotations

from typing import Any

from airflow_samza.application.callables import name_of
from airflow_samza.application.graph_builder import GraphBuilder
from airflow_samza.application.identifiers import checked_id, is_blank
from airflow_samza.application.rejections import reject
from airflow_samza.errors import BadId, InvalidApplication

_ID_REASON = "Its topic or state is kept under this name, which must stay the same when other operators are added"


def named(op: str, id: object) -> str:
    """Return an operator as errors name it: its kind and, when it has one, its id."""
    return op if is_blank(id) else f"{op} {id!r}"


def required_id(id: str | None, op: str) -> str:
    """Return the id of an operator on which a topic or state hangs (rule P8)."""
    if is_blank(id):
        reject(f"{op} needs id=. {_ID_REASON}", hint=f'Name it: {op}(…, id="by-member").', kind=BadId, operator=op)
    return checked_id(id, op)


def former_id(renamed_from: str | None, name: str, op: str, fact: str = "operator") -> str | None:
    """Return the former id of an operator, an input or a table (``op``) that was renamed; errors call it ``fact``."""
    if renamed_from is None:
        return None
    if renamed_from == name:
        reject(
            f"{op} {name!r} says that it was renamed from itself",
            hint="Leave renamed_from= out, or name the former id.",
            kind=InvalidApplication,
            **{fact: op if fact == "operator" else name},
        )
    return checked_id(renamed_from, f"former {op}")


def checked_doc(doc: object, where: str) -> str:
    """Return a description for people in one line, "" for none; reject what is no text."""
    if doc is None:
        return ""
    if not isinstance(doc, str) or not doc.strip():
        reject(f"{where} has doc={doc!r}", hint="Write a sentence or two as a text, or leave doc out.")
    return " ".join(doc.split())


def check_sql(text: object, op: str, hint: str) -> None:
    """Reject what is no SQL text."""
    if not isinstance(text, str) or not text.strip():
        shown = "an empty text" if isinstance(text, str) else name_of(text) if callable(text) else repr(text)
        reject(f"{op} got {shown} instead of SQL", hint=hint, operator=op)


DECLARE_HERE = "Declare it inside this application; applications share streams by app.shared_stream(…)."


def check_same_application(graph: GraphBuilder, other: Any, name: str, where: str) -> None:
    """Reject a stream, table or side input that another application (or another description of this one) declared."""
    if other._graph is not graph:
        mine, theirs = graph.application, other._graph.application
        reject(
            f"{where} got {name!r} of another application ({theirs!r}, not {mine!r})"
            if mine != theirs
            else f"{where} got {name!r} of another description of application {mine!r}",
            hint=DECLARE_HERE,
            operator=where,
        )

"""Checks that several operators share: ids, SQL texts, keys, who may write what."""

from __future__ import annotations

from typing import Any

from airflow_samza.application.callables import name_of
from airflow_samza.application.descriptors import TableDescriptor, TableKind
from airflow_samza.application.graph_builder import GraphBuilder
from airflow_samza.application.identifiers import checked_id, is_blank
from airflow_samza.application.output_schemas import unwritable
from airflow_samza.application.refusals import listed, refuse
from airflow_samza.errors import BadId
from airflow_samza.schema import Schema

_ID_REASON = "Its topic or state hangs on the id, and must not be renamed when another operator is added"


def named(op: str, id: object) -> str:
    """An operator as errors name it: its kind and, when it has one, its id."""
    return op if is_blank(id) else f"{op} {id!r}"


def required_id(id: str | None, op: str) -> str:
    """The id of an operator on which a topic or state hangs (SEMANTICS P8)."""
    if is_blank(id):
        refuse(f"{op} needs id=. {_ID_REASON}", hint=f'Name it: {op}(…, id="by-member").', kind=BadId, operator=op)
    return checked_id(id, op)


def former_id(renamed_from: str | None, name: str, op: str) -> str | None:
    """The former id of an operator that was renamed."""
    if renamed_from is None:
        return None
    if renamed_from == name:
        refuse(f"{op} {name!r} says that it was renamed from itself", hint="Leave renamed_from= out, or name the former id.", operator=op)
    return checked_id(renamed_from, f"former {op}")


def check_sql(text: object, op: str, hint: str) -> None:
    """Refuse what is no SQL text."""
    if not isinstance(text, str) or not text.strip():
        shown = "an empty text" if isinstance(text, str) else name_of(text) if callable(text) else repr(text)
        refuse(f"{op} got {shown} instead of SQL", hint=hint, operator=op)


def check_how(how: object, known: tuple[str, ...], where: str) -> None:
    """Refuse a kind of join that is not known here."""
    if how not in known:
        refuse(f"{where} has how={how!r}", hint=f"It is one of {listed(known)}.", operator=where, value=repr(how))


def check_key_count(left: tuple[str, ...], right: tuple[str, ...], other: str, where: str) -> None:
    """Refuse keys of different numbers of columns."""
    if len(left) != len(right):
        refuse(
            f"{where} matches the key {listed(left)} with {listed(right)} of {other}: {len(left)} columns with {len(right)}",
            hint="Name as many key columns on both sides, in the same order.",
            operator=where,
        )


def check_table_writable(table: TableDescriptor) -> None:
    """Refuse to write a table that the application may not write."""
    if table.kind is TableKind.PUSHED:  # SEMANTICS S6
        refuse(
            f"Table {table.table_id!r} is filled by its side inputs and read-only for the application",
            hint="Write to app.local_table(…), or send the messages to an output stream.",
            table=table.table_id,
        )
    if table.kind is TableKind.REMOTE and table.writer is None:
        refuse(
            f"The remote table {table.table_id!r} has no writer",
            hint="Give app.remote_table(…, writer=…), a callable that takes key and row.",
            table=table.table_id,
        )


def check_send_on_error(target: object, on_error: object) -> None:
    """Refuse ``on_error=`` where nothing of sending fails message by message."""
    table = getattr(target, "descriptor", None)
    if on_error != "fail" and not (isinstance(table, TableDescriptor) and table.kind is TableKind.REMOTE):
        refuse(
            "send_to has on_error=, which is for remote tables: streams and local tables take every message",
            hint="Leave it out; messages that do not fit are found by the operators before.",
            operator="send_to",
        )


def check_same_application(graph: GraphBuilder, other: Any, name: str, where: str) -> None:
    """Refuse a stream, table or side input that another application (or another description of this one) declared."""
    if other._graph is not graph:
        mine, theirs = graph.application, other._graph.application
        refuse(
            f"{where} got {name!r} of another application ({theirs!r}, not {mine!r})"
            if mine != theirs
            else f"{where} got {name!r} of another description of application {mine!r}",
            hint="Declare it inside this application; applications share streams by app.shared_stream(…).",
            operator=where,
        )


def check_writable(declared: Schema | None, actual: Schema | None, target: str) -> None:
    """Refuse messages that do not fit the declared schema of what they are sent to, where both are known."""
    if declared is None or actual is None:
        return
    problem = unwritable(declared, actual)
    if problem:
        refuse(
            f"Messages cannot be written to {target} as it is declared: {problem}",
            hint="Bring them to the declared columns with select or map, or declare the schema that they have.",
            target=target,
        )

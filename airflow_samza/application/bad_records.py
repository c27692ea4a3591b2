"""The treatment of messages that cannot be read, or on which an operator fails: ``on_error=``.

Operators that take ``on_error=`` check it here; tasks and column lineage follow it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from airflow_samza.application.descriptors import ErrorPolicy
from airflow_samza.application.graph_builder import GraphBuilder
from airflow_samza.application.output_schemas import unwritable
from airflow_samza.application.rejections import checked_call, reject
from airflow_samza.application.stream import OutputStream
from airflow_samza.schema import DataType, Field, Schema

DEAD_LETTERS = Schema(
    (
        Field("stream", DataType("string")),
        Field("partition", DataType("int")),
        Field("offset", DataType("bigint")),
        Field("operator", DataType("string"), nullable=False),
        Field("error", DataType("string"), nullable=False),
        Field("message", DataType("string")),
        Field("at", DataType("timestamp"), nullable=False),
        Field("headers", DataType("string")),
    )
)
"""The columns of a dead letter.

They say where the message came from as far as that is known, which operator failed and how, and when that was. The
message is JSON; of an input that could not be read, it is as it lies there. Of such an input there are also the
message's headers where its system has such (JSON: a list of names and values, in their order).
"""

_HINT = 'Write "fail" (the default), "drop", or dead_letter(app.output_stream("bad")).'


@dataclass(frozen=True)
class DeadLetter:
    """The result of :func:`dead_letter`, for ``on_error=``."""

    stream: OutputStream


@checked_call
def dead_letter(stream: OutputStream) -> DeadLetter:
    """Return a policy that sends messages that fail to a stream, with the error; for ``on_error=``.

    All other messages are processed. The stream gets the columns of :data:`DEAD_LETTERS`. Several inputs and operators
    may share one.

    ```python
    bad = dead_letter(app.output_stream("bad"))
    checked = views.map(lambda view: {"ms": int(view.page)}, schema="ms bigint", on_error=bad)
    ```

    :param stream: The output stream, declared without a schema.
    """
    if not isinstance(stream, OutputStream):
        reject(f"dead_letter got {stream!r}", hint='Give it an output stream: dead_letter(app.output_stream("bad")).')
    return DeadLetter(stream)


def on_error_fields(on_error: object, graph: GraphBuilder, where: str) -> dict[str, Any]:
    """Return the fields ``on_error`` and ``side_outputs`` of an OperatorSpec; none where a failure fails the stage."""
    policy = error_policy(on_error, graph, where)
    return {} if policy is None else {"on_error": policy, "side_outputs": policy.side_outputs}


def error_policy(on_error: object, graph: GraphBuilder, where: str) -> ErrorPolicy | None:
    """Return the checked policy of ``on_error=`` of ``where``; None: a failure fails the stage."""
    if on_error == "fail":
        return None
    if on_error == "drop":
        return ErrorPolicy()
    if not isinstance(on_error, DeadLetter):
        reject(
            f"{where} has on_error={on_error!r}, which is not known", hint=_HINT, operator=where, value=repr(on_error)
        )
    stream = on_error.stream.descriptor
    graph.check_same_application(on_error.stream, stream.stream_id, where)
    problem = unwritable(stream.schema, DEAD_LETTERS) if stream.schema is not None else ""
    if problem:
        reject(
            f"{where} sends dead letters to output stream {stream.stream_id!r}, which is declared with other columns: "
            f"{problem}",
            hint=f"Leave schema= out: a dead letter has the columns {DEAD_LETTERS.ddl()}.",
            operator=where,
        )
    lacking = [
        column
        for column in (*stream.key, *([stream.timestamp] if stream.timestamp else []))
        if column not in DEAD_LETTERS
    ]
    if lacking:
        reject(
            f"{where} sends dead letters to output stream {stream.stream_id!r}, which names the column {lacking[0]!r}",
            hint=f"A dead letter has the columns {', '.join(DEAD_LETTERS.names)}.",
            column=lacking[0],
        )
    return ErrorPolicy(stream)

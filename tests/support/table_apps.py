"""Applications that read a table by what is appended to it, for tests."""

from __future__ import annotations

from typing import Any

from airflow_samza import stream_application

INPUT: dict[str, Any] = {}
"""Parameters of the input, which a test sets over the usual ones."""


@stream_application("following")
def following(app: Any) -> None:
    """Copy what was appended to the table since the run before."""
    told = {"table": "web.views", "slice": "checkpoint", **INPUT}
    rows = app.input_stream("views", system="tables", **told)
    rows.send_to(app.output_stream("copy", system="log", schema="n bigint", partitions=1))


@stream_application("changed")
def changed(app: Any) -> None:
    """Say by key what was changed in the table since the run before: with SQL, and with a function per message."""
    say_changes(app, **INPUT)


@stream_application("changed-by-catalyst")
def changed_by_catalyst(app: Any) -> None:
    """Say what was changed, where an expression that only Catalyst has is about the kind of change."""
    say_changes(app, where="soundex(_change_type) IN ('D430', 'I526', 'U133')")


def say_changes(app: Any, **more: Any) -> None:
    """Describe an application that says what was changed."""
    told = {"table": "web.views", "slice": "checkpoint", "changes": True, **more}
    rows = app.input_stream("views", **{"system": "tables", **told})
    signed = rows.where("n < 100").select(
        "n",
        "text",
        "CASE WHEN _change_type IN ('delete', 'update_preimage') THEN -1 ELSE 1 END AS sign",
        "_change_type",
        "_commit_version",
        "_commit_timestamp",
    )
    keyed = signed.partition_by("n", id="by-n")
    said = keyed.map(lambda row: {**row, "said": f"{row._change_type} {row.n}"}, schema=SAID)
    said.send_to(app.output_stream("said", system="log"))


SAID = (
    "n bigint, text string, sign int, _change_type string, _commit_version bigint, _commit_timestamp timestamp, "
    "said string"
)

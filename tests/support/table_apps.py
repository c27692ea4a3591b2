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

"""An application whose outputs to one place a test chooses, from plan to plan of a run."""

from __future__ import annotations

from typing import Any

from airflow_samza import stream_application

OUTPUTS: list[tuple[str, str, dict[str, Any]]] = []
"""The outputs: the id of each, the rows that it gets (a condition), and its parameters."""


@stream_application("owning")
def owning(app: Any) -> None:
    """Copy the rows of a day to the outputs."""
    rows = app.input_stream("rows", system="lake", schema="id bigint, part string", path="in/{ds}.jsonl", partitions=1)
    for name, where, parameters in OUTPUTS:
        rows.where(where, id=f"for-{name}").send_to(app.output_stream(name, **parameters))

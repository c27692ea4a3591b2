"""The application of a group that chooses its mode."""

from __future__ import annotations

from typing import Any

from airflow_samza import stream_application


@stream_application("planes-by-tail")
def planes_by_tail(app: Any) -> None:
    """Two stages over little data."""
    columns = "tailnum string, manufacturer string"
    planes = app.input_stream("planes", system="data", schema=columns, path="planes", partitions=1)
    planes.partition_by("tailnum", id="by-tail").send_to(
        app.output_stream("out", system="warehouse", path="planes-by-tail/{run_id}")
    )

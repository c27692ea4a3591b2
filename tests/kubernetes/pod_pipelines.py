"""An application of the tests on Kubernetes whose code fills the temporary folder of its pod."""

from __future__ import annotations

import tempfile
import time
from typing import Any

from pipelines.flights import Flight

from airflow_samza import stream_application


def kept(flight: Flight) -> Flight:
    """Keep 1 KiB in a temporary file for each flight; a hundred of them take a minute."""
    with tempfile.NamedTemporaryFile("w", delete=False) as file:
        file.write("x" * 1024)
    time.sleep(0.6)
    return flight


@stream_application("flights-on-disk")
def flights_on_disk(app: Any) -> None:
    """The flights of a day, each with a temporary file: minutes, in which the kubelet looks at the volumes."""
    flights = app.input_stream("flights", system="data", schema=Flight, path="flights/2013-01-01.parquet", partitions=1)
    flights.map(kept, id="kept").send_to(app.output_stream("kept", system="warehouse", path="kept/{run_id}"))

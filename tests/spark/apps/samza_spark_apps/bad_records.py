"""Two stages that go on without the messages that fail; both send them to one stream."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from airflow_samza import dead_letter, stream_application


@dataclass(frozen=True)
class Reading:
    sensor: int
    value: int


def inverse(reading: Reading) -> Reading:
    return Reading(reading.sensor, 100 // reading.value)


def below_fifty(reading: Reading) -> bool:
    if reading.value == 50:
        raise ValueError("fifty is neither")
    return reading.value < 50


@stream_application("spark-bad-records")
def readings(app: Any) -> None:
    bad = dead_letter(app.output_stream("bad", system="lake", path="out/bad", format="json"))
    found = app.input_stream(
        "readings", system="lake", schema=Reading, partitions=2, path="readings", format="json", on_error=bad
    )
    inverted = found.map(inverse, on_error=bad, id="inverse").partition_by("sensor", id="by-sensor")
    inverted.filter(below_fifty, on_error=bad, id="below-fifty").send_to(
        app.output_stream("small", system="lake", path="out/small", format="parquet")
    )

"""Planning of 100, 1,000 and 10,000 operators.

``python -m benchmarks.planning [--repeat K] [SIZE …]`` prints JSON lines.

The application is a row of pipelines, each with an input, SQL and Python operators, a re-partition, a table join,
another re-partition, an aggregation and an output; ``shape`` selects one long chain or many streams in one chain of
joins instead.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from typing import Any

from airflow_samza.application.application import ApplicationSpec, StreamApplication
from airflow_samza.application.windows import count
from airflow_samza.planner.planner import ExecutionPlanner, plan_shape

ROW = "member_id bigint, country string, dwell_ms int"
PIPELINE = 10
"""Operators of one pipeline, its three inputs into the graph among them."""

SHAPES = ("pipelines", "chain", "joins")


class Generated(StreamApplication):
    """An application of about ``size`` operators."""

    name = "generated"

    def __init__(self, size: int, shape: str = "pipelines") -> None:
        self.size = size
        self.shape = shape

    def describe(self, app: Any) -> None:
        """Says the operators of the chosen shape."""
        if self.shape == "chain":
            stream = app.input_stream("start", schema=ROW, key="member_id", partitions=16)
            for _ in range(self.size - 2):
                stream = stream.map(_same)
            stream.send_to(app.output_stream("end", partitions=16))
        elif self.shape == "joins":
            stream = app.input_stream("start", schema=ROW, key="member_id", partitions=16)
            for number in range(self.size // 10):
                for _ in range(8):
                    stream = stream.where("dwell_ms > 0")
                table = app.pushed_table(
                    f"table-{number}", key="member_id", schema="member_id bigint, tier string", partitions=16
                )
                stream = stream.join(table, _left, schema=ROW, id=f"join-{number}")
            stream.send_to(app.output_stream("end", partitions=16))
        else:
            for number in range(max(1, self.size // PIPELINE)):
                self._pipeline(app, number)

    def _pipeline(self, app: Any, number: int) -> None:
        views = app.input_stream(f"views-{number}", schema=ROW, path="views", partitions=16)
        profiles = app.pushed_table(
            f"profiles-{number}", key="member_id", schema="member_id bigint, tier string", partitions=16
        )
        (
            views.where("dwell_ms > 1000")
            .map(_same)
            .partition_by("member_id", id=f"by-member-{number}")
            .join(profiles, _left, schema=ROW, id=f"with-profile-{number}")
            .partition_by("country", id=f"by-country-{number}")
            .aggregate("country", id=f"per-country-{number}", views=count())
            .send_to(app.output_stream(f"counts-{number}", partitions=8))
        )


def _same(message: Any) -> Any:
    return message


def _left(message: Any, _: Any) -> Any:
    return message


def measure(size: int, shape: str, repeat: int) -> dict[str, object]:
    """The best of ``repeat`` times, in seconds: describing the application, its shape, its plan, the plan's JSON."""
    best: dict[str, float] = {}
    spec: ApplicationSpec | None = None
    for _ in range(repeat):
        times = {}
        start = time.perf_counter()
        spec = Generated(size, shape).spec()
        times["describe"] = time.perf_counter() - start
        start = time.perf_counter()
        plan_shape(spec)
        times["shape"] = time.perf_counter() - start
        start = time.perf_counter()
        plan = ExecutionPlanner().plan(spec)
        times["plan"] = time.perf_counter() - start
        start = time.perf_counter()
        text = plan.to_json()
        times["json"] = time.perf_counter() - start
        best = {name: min(seconds, best.get(name, seconds)) for name, seconds in times.items()}
    assert spec is not None
    facts = {
        "benchmark": "planning",
        "shape": shape,
        "operators": len(spec.operators),
        "stages": len(plan.stages),
        "bytes": len(text),
    }
    return {**facts, **{f"{name}_seconds": round(seconds, 4) for name, seconds in best.items()}}


def main(arguments: Sequence[str] | None = None) -> None:
    """Print one JSON line per size and shape."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sizes", nargs="*", type=int, default=[100, 1_000, 10_000], metavar="SIZE")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--shape", choices=SHAPES, action="append")
    chosen = parser.parse_args(arguments)
    for shape in chosen.shape or SHAPES:
        for size in chosen.sizes:
            print(json.dumps(measure(size, shape, chosen.repeat)), flush=True)


if __name__ == "__main__":
    main()

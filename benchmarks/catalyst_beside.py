"""Processor time of streams that wait beside Catalyst: ``python -m benchmarks.catalyst_beside [ROWS] [ROUNDS]``.

The same rows go through one branch and through two, in turn, in one Spark. Each branch keeps one row of a hundred, so
that writing counts for little.
"""

from __future__ import annotations

import importlib
import statistics
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa

from airflow_samza import stream_application
from airflow_samza.schema import Schema
from airflow_samza.systems.log.system import LogSystem
from airflow_samza.systems.system import SystemBinding
from tests.support.one_session import Runs, open_session

ROWS = "k bigint, name string, price double"
IN_CATALYST = {"a": "name RLIKE '1.7$'", "b": "name RLIKE '2.8$'"}
ON_ARROW = {"a": "name LIKE '%1_7'", "b": "name LIKE '%2_8'"}


def _application(name: str, conditions: dict[str, str]) -> Any:
    def describe(app: Any) -> None:
        rows = app.input_stream("rows", system="log", schema=ROWS, partitions=2)
        for branch, condition in conditions.items():
            kept = rows.where(condition, id=f"where-{branch}")
            kept.send_to(app.output_stream(f"out-{branch}", system="log"), id=f"to-{branch}")

    return stream_application(f"beside-{name}")(describe)


arrow_one = _application("arrow-one", {"a": ON_ARROW["a"]})
arrow_two = _application("arrow-two", ON_ARROW)
one = _application("one", {"a": IN_CATALYST["a"]})
one_beside = _application("one-beside", {"a": IN_CATALYST["a"], "b": ON_ARROW["b"]})
both = _application("both", IN_CATALYST)

NAMES = ("arrow_one", "arrow_two", "one", "one_beside", "both")


def _processor_seconds() -> float:
    """Return the time that this process and all below it have taken, those that have ended, too."""
    seconds = 0.0
    for process in (psutil.Process(), *psutil.Process().children(recursive=True)):
        times = process.cpu_times()
        seconds += sum(times[:4])  # user, system, and those of children that have ended
    return seconds


def _measured(run: Callable[[], None]) -> float:
    before = _processor_seconds()
    run()
    return _processor_seconds() - before


def measure(module: str, names: Sequence[str], rows: int, rounds: int) -> None:
    """Print the processor time of a module's applications over the same rows in ns a row, the median of the rounds."""
    with tempfile.TemporaryDirectory() as folder:
        importlib.import_module(module)  # by its name, under which workers find it
        session = open_session(Path(folder, "session"), module)
        root = Path(folder, "root")
        runs = Runs(session, root)
        runs.make("rows", Schema.of(ROWS), 2)
        log = LogSystem("log", SystemBinding("log", {"root": str(root)}))
        for start in range(0, rows, 250_000):
            keys = range(start, min(start + 250_000, rows))
            columns = {"k": list(keys), "name": [f"name {key}" for key in keys], "price": [key / 2 for key in keys]}
            log.append("rows", pa.Table.from_pydict(columns, schema=Schema.of(ROWS).to_arrow()), key=("k",))
        seconds: dict[str, list[float]] = {name: [] for name in names}
        for number in range(rounds + 1):
            for name in names:
                run = runs.prepare(f"{module}:{name}", f"run-{number}")
                taken = _measured(lambda run=run: runs.one_by_one(run))  # type: ignore[misc]
                if number:  # the first round warms Java up
                    seconds[name].append(taken)
        for name, found in seconds.items():
            print(f"{name:20} {statistics.median(found) / rows * 1e9:8.0f} ns a row")
        session.stop()


if __name__ == "__main__":
    measure(
        "benchmarks.catalyst_beside",
        NAMES,
        *[int(text) for text in (*sys.argv[1:], *("2000000", "3")[len(sys.argv) - 1 :])],
    )

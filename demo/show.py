"""Output of the demo: steps, the run's progress, tables."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import httpx
from rich.console import Console
from rich.text import Text

from airflow_samza.cli.terminal import columns
from airflow_samza.systems.filesystems.root_access import RootAccess
from demo.airflow_api import AirflowApi, AirflowAway

ROWS = 8
STAGE_LINES = 14
STATES = {"success": "green", "failed": "bold red", "upstream_failed": "red", "running": "cyan", "deferred": "magenta"}
"""Colours of Airflow's states, where the output is a terminal."""


def step(title: str, style: str = "bold cyan") -> None:
    """A heading."""
    _print(Text(f"\n== {title}", style))


def fact(text: str, style: str = "") -> None:
    """A line below a heading."""
    _print(Text(f"   {text}", style))


def indented(text: str) -> None:
    """Several lines below a heading, of which the names of states have their colours."""
    for line in text.splitlines():
        _print(_with_states(f"   {line}"))


def next_steps(steps: Mapping[str, Sequence[str]]) -> None:
    """A numbered list of things to try, each with its commands."""
    for number, (title, commands) in enumerate(steps.items(), start=1):
        fact(f"{number}. {title}")
        for command in commands:
            fact(f"   {command}", "bold")


def follow(airflow: AirflowApi, dag_id: str, run_id: str, seconds: float) -> str:
    """Print every change of a task's state until the run has ended, then a table of them; return the run's state.

    An API server that does not answer is asked again; a run that is deleted meanwhile, a process of Airflow that ends,
    and a run that takes longer than ``seconds`` are an ``AirflowProblem``.
    """
    start = time.monotonic()
    told: dict[tuple[str, int], tuple[str, int]] = {}

    def ended() -> str | None:
        # The run first: what its tasks have become is then at least as new as its end.
        state = str(airflow.run(dag_id, run_id)["state"])
        for task in airflow.tasks(dag_id, run_id):
            place, now = (task["task_id"], task["map_index"]), (task["state"] or "", task["try_number"])
            if now[0] in ("", "scheduled") or told.get(place) == now:
                continue
            told[place] = now
            indented(f"{time.monotonic() - start:6.1f} s  {_name(task):<36} {now[0]}")
        return state if state in ("success", "failed") else None

    state = airflow.wait_until(
        ended,
        seconds,
        f"the end of the Dag run {run_id}",
        lambda: str(airflow.task_states(dag_id, run_id)),
        away=(AirflowAway, httpx.TransportError),
    )
    rows = [
        [_name(task), task["state"] or "not run", task["try_number"], _duration(task)]
        for task in airflow.tasks(dag_id, run_id)
    ]
    _print(Text())
    indented(columns(["TASK", "STATE", "TRY", "SECONDS"], rows))
    fact(f"The Dag run: {state}, {_duration(airflow.run(dag_id, run_id))} s")
    return state


def failures(airflow: AirflowApi, dag_id: str, run_id: str) -> None:
    """The end of the log of each task that failed."""
    for task in airflow.tasks(dag_id, run_id):
        if task["state"] == "failed":
            step(f"The end of the log of {task['task_id']}")
            indented(
                "\n".join(airflow.log(dag_id, run_id, task["task_id"], task["try_number"]).splitlines()[-STAGE_LINES:])
            )


def stage_lines(log: str) -> None:
    """Print the lines of a stage in its task's log."""
    lines = [line for line in log.splitlines() if line.startswith(("Stage ", "  "))]
    indented("\n".join(lines[-STAGE_LINES:]))


def first_rows(folder: str, access: RootAccess) -> None:
    """Print the makers and hours with the longest delays of those with 100 flights or more, and the number of rows."""
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    from airflow_samza.systems.files.location import open_location

    place = open_location(folder, access.options)
    table = pq.read_table(
        place.path,
        filesystem=place.filesystem,
        columns=["manufacturer", "hour", "flights", "departure_delay", "arrival_delay"],
    )
    often = table.filter(pc.greater_equal(table["flights"], 100)).sort_by([("departure_delay", "descending")])
    rows = [
        [
            row["manufacturer"],
            row["hour"],
            row["flights"],
            f"{row['departure_delay']:.1f}",
            f"{row['arrival_delay']:.1f}",
        ]
        for row in often.slice(0, ROWS).to_pylist()
    ]
    indented(columns(["MANUFACTURER", "HOUR", "FLIGHTS", "MINUTES LATE AT DEPARTURE", "AT ARRIVAL"], rows))
    flights = pc.sum(table["flights"]).as_py()
    fact(
        f"{table.num_rows:,} rows in all, of {flights:,} flights; above are the latest of those with 100 flights "
        "or "
        "more."
    )


def bucket(folders: Sequence[Sequence[object]]) -> None:
    """A table of the folders of a bucket."""
    indented(columns(["FOLDER", "OBJECTS", "BYTES"], folders))


def requests(cost: Mapping[str, int]) -> None:
    """A table of requests by kind."""
    indented(columns(["REQUEST", "NUMBER"], sorted(cost.items())))
    fact(f"{sum(cost.values()):,} requests in all, of Airflow's tasks, the stage runner and Spark's workers.")


def places(found: Mapping[str, object]) -> None:
    """A table of paths."""
    width = max(len(name) for name in found)
    for name, path in found.items():
        fact(f"{name:<{width}}  {path}")


def _print(text: Text) -> None:
    """Print one line as it is, however wide the terminal; colours only to a terminal (and never with ``NO_COLOR``)."""
    Console(highlight=False, soft_wrap=True).print(text)


def _with_states(line: str) -> Text:
    text = Text(line)
    for state, style in STATES.items():
        text.highlight_regex(rf"(?<= ){state}(?= |$)", style)
    return text


def _name(task: Mapping[str, Any]) -> str:
    """Return a task's id, with the index of a mapped one."""
    return f"{task['task_id']}[{task['map_index']}]" if task["map_index"] >= 0 else str(task["task_id"])


def _duration(item: Mapping[str, Any]) -> str:
    start, end = item.get("start_date"), item.get("end_date")
    if not start or not end:
        return ""
    return f"{(_moment(end) - _moment(start)).total_seconds():.1f}"


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("Z", "+00:00"))

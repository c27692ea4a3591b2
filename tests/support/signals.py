"""Signals by which a test holds up the applications of ``dags/`` and lets them go."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def let_go(flights: Any, name: str) -> None:
    (flights.signals / f"{name}.go").touch()


def started(flights: Any, name: str) -> tuple[int, ...]:
    """The processes of the Spark workers that hold a message."""
    return tuple(int(path.suffix[1:]) for path in flights.signals.glob(f"{name}.started.*"))


def wait_for_start(flights: Any, name: str) -> int:
    """The process of the Spark worker that holds the first message."""
    return int(flights.airflow.wait_until(lambda: started(flights, name), 600, f"{name} to start")[0])


def is_gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2] == "Z"
    except FileNotFoundError:
        return True

"""Applications that the tests can hold up and let go, and one that fails.

Signals are files in the folder SAMZA_TEST_SIGNALS.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from airflow_samza import stream_application

LONGEST_WAIT = 240.0


def hold(name: str) -> None:
    """Says that it has started, then waits until it is let go; never longer than a test may take."""
    signals = Path(os.environ["SAMZA_TEST_SIGNALS"])
    (signals / f"{name}.started.{os.getpid()}").touch()
    until = time.monotonic() + LONGEST_WAIT
    while not (signals / f"{name}.go").exists():
        if time.monotonic() > until:
            raise TimeoutError(name)
        time.sleep(0.05)


def held_left(message: Any) -> bool:
    """Keeps every message, after the wait."""
    hold("left")
    return True


def held_right(message: Any) -> bool:
    """Keeps every message, after the wait."""
    hold("right")
    return True


def held_alone(message: Any) -> bool:
    """Keeps every message, after the wait."""
    hold("alone")
    return True


def held_chain(message: Any) -> bool:
    """Keeps every message, after the wait."""
    hold("chain")
    return True


def held_deferred(message: Any) -> bool:
    """Keeps every message, after the wait."""
    hold("deferred")
    return True


def of_the_fifth(plane: Any) -> Any:
    """Fails on one plane."""
    if plane.tailnum == "N103US":
        raise ValueError("no such plane")
    return plane


PLANE = "tailnum string, manufacturer string"


@stream_application("two-sides")
def two_sides(app: Any) -> None:
    """Two stages that do not depend on each other."""
    for side, function in (("left", held_left), ("right", held_right)):
        planes = app.input_stream(f"{side}-planes", system="data", schema=PLANE, path="planes", partitions=1)
        planes.filter(function, id=f"hold-{side}").partition_by("tailnum", id=side).send_to(
            app.output_stream(f"{side}-out", system="warehouse", path=f"{side}/{{run_id}}")
        )


@stream_application("held")
def held(app: Any) -> None:
    """One stage that can be held up."""
    planes = app.input_stream("planes", system="data", schema=PLANE, path="planes", partitions=1)
    planes.filter(held_alone, id="hold").send_to(app.output_stream("out", system="warehouse", path="held/{run_id}"))


@stream_application("faulty")
def faulty(app: Any) -> None:
    """One stage whose callable fails on one message."""
    planes = app.input_stream("planes", system="data", schema=PLANE, path="planes", partitions=1)
    planes.map(of_the_fifth, id="check").send_to(app.output_stream("out", system="warehouse", path="faulty/{run_id}"))


@stream_application("chain")
def chain(app: Any) -> None:
    """Two stages, of which the first can be held up."""
    planes = app.input_stream("planes", system="data", schema=PLANE, path="planes", partitions=1)
    planes.filter(held_chain, id="hold").partition_by("tailnum", id="by-tail").send_to(
        app.output_stream("out", system="warehouse", path="chain/{run_id}")
    )


@stream_application("deferred")
def deferred(app: Any) -> None:
    """One stage that can be held up, for a task that defers."""
    planes = app.input_stream("planes", system="data", schema=PLANE, path="planes", partitions=1)
    planes.filter(held_deferred, id="hold").send_to(
        app.output_stream("out", system="warehouse", path="deferred/{run_id}")
    )


@stream_application("broken-chain")
def broken_chain(app: Any) -> None:
    """Two stages, of which the first fails on one message."""
    planes = app.input_stream("planes", system="data", schema=PLANE, path="planes", partitions=1)
    planes.map(of_the_fifth, id="check").partition_by("tailnum", id="by-tail").send_to(
        app.output_stream("out", system="warehouse", path="broken-chain/{run_id}")
    )

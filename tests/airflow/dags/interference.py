"""Applications that the tests can hold up and let go, and one that fails.

Signals are files in the folder SAMZA_TEST_SIGNALS.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from airflow_samza import count, stream_application

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


@dataclass(frozen=True)
class Flight:
    """The columns of a message that count here."""

    carrier: str
    tailnum: str | None
    dep_delay: int | None


def held_arrivals(message: Any) -> bool:
    """Keeps every message; waits first where the tests say so."""
    if (Path(os.environ["SAMZA_TEST_SIGNALS"]) / "arrivals.hold").exists():
        hold("arrivals")
    return True


def held_between(message: Any) -> bool:
    """Keeps every message, after the wait."""
    hold("between")
    return True


@stream_application("arrivals-held")
def arrivals_held(app: Any) -> None:
    """The messages that came since the run before, which can be held up."""
    flights = app.input_stream("flights", system="events", schema=Flight, slice="checkpoint")
    flights.filter(held_arrivals, id="hold").send_to(
        app.output_stream("out", system="warehouse", path="arrivals-held/{run_id}")
    )


@stream_application("between", default_system="events")
def between(app: Any) -> None:
    """Run three stages with topics of Kafka between them; a signal holds the middle stage up."""
    flights = app.input_stream("flights", schema=Flight).where("dep_delay IS NOT NULL", id="that-left")
    planes = flights.partition_by("tailnum", id="by-plane").filter(held_between, id="hold")
    planes.partition_by("carrier", id="by-carrier").aggregate("carrier", flights=count(), id="per-carrier").send_to(
        app.output_stream("out", system="warehouse", path="between/{run_id}")
    )

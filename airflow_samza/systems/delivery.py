"""Delivery of outputs: how often readers get a message where a process dies and its work is done again.

Each system tells that of its outputs from facts; plans, and the hints of errors after which work goes on, take it from
here. Systems say theirs by it; plans, and hints after a failure, repeat it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from airflow_samza.systems.system import StreamSpec, System


@dataclass(frozen=True)
class Delivery:
    """Delivery of an output: whether readers get each message exactly once where a process dies, or at least once.

    ``how`` says by what (exactly once), or when a message comes again (at least once).
    """

    exactly_once: bool
    how: str

    def __str__(self) -> str:
        return f"{'exactly' if self.exactly_once else 'at least'} once: {self.how}"


@runtime_checkable
class TellsDelivery(Protocol):
    """A system some of whose outputs may get a message again, although ``publish`` was called for the same epoch."""

    def delivery(self, stream: StreamSpec) -> Delivery:
        """Return the delivery of an output, from what is known of it without asking."""


PUBLISHED_ONCE = Delivery(True, "publishing again changes nothing")
"""The delivery that every system owes whose publications carry their names with them (``System.publish``)."""


def delivery_of(system: System, stream: StreamSpec) -> Delivery:
    """Return the delivery of an output of a system."""
    return system.delivery(stream) if isinstance(system, TellsDelivery) else PUBLISHED_ONCE


def after_a_retry(deliveries: Mapping[str, Delivery]) -> str:
    """Return what a next try keeps, and what may come twice of it, as the end of a sentence.

    ``deliveries`` are those of all that the work reaches, by the words for it (``the output 'views'``).
    """
    repeated = [f"{what} ({delivery.how})" for what, delivery in deliveries.items() if not delivery.exactly_once]
    if not repeated:
        return "what is staged is kept, and nothing is doubled"
    return f"what is staged is kept, and only what is delivered at least once may come twice: {', '.join(repeated)}"

"""Delivery of outputs: how often readers get a message where a process dies and its work is done again.

Each system tells that of its outputs from facts; plans, and the hints of errors after which work goes on, take it from
here.
"""

from __future__ import annotations

from collections.abc import Mapping

from airflow_samza.systems.capabilities import Delivery, TellsDelivery
from airflow_samza.systems.system import StreamSpec, System

PUBLISHED_ONCE = Delivery(True, "publishing again changes nothing")
"""The delivery that every system owes whose publications carry their names with them (``System.publish``)."""


def delivery_of(system: System, stream: StreamSpec) -> Delivery:
    """Return the delivery of an output of a system."""
    return system.delivery(stream) if isinstance(system, TellsDelivery) else PUBLISHED_ONCE


def after_a_retry(deliveries: Mapping[str, Delivery]) -> str:
    """Return what a next try keeps, and what may come twice of it, as the end of a sentence.

    ``deliveries`` are those of all that the work reaches, by the words for it (``the output 'views'``).
    """
    again = [f"{what} ({delivery.how})" for what, delivery in deliveries.items() if not delivery.exactly_once]
    if not again:
        return "what is staged is kept, and nothing is doubled"
    return f"what is staged is kept, and only what is delivered at least once may come twice: {', '.join(again)}"

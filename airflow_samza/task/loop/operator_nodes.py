"""An operator within a task: its edges, and how far it has come."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from airflow_samza.control.operator_watermark import OperatorWatermark
from airflow_samza.task.loop.checks import EventTimes, KeyPlaces, delay_of, later_by
from airflow_samza.task.loop.held_back import HeldBack
from airflow_samza.task.operators.operator import Operator

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass
class Node:
    """An operator with the edges behind it. ``open`` counts the inputs that have not ended."""

    op_id: str
    operator: Operator[Any]
    open: int
    marks: OperatorWatermark
    final: bool = True
    ended: bool = False
    next: list[Edge] = field(default_factory=list)
    held: dict[str, HeldBack] = field(default_factory=dict)
    """Edges to a later phase (by operator id), and the batches that wait on them."""
    held_end: dict[str, bool] = field(default_factory=dict)
    places: dict[int, KeyPlaces] = field(default_factory=dict)
    """Checks of the messages that arrive, by the number of the input."""
    times: EventTimes | None = None
    """The check of the event times of what it makes."""


class Edge(NamedTuple):
    """The way to an operator, and the number of the input at which it arrives.

    Over one that is not ``open`` come times and ends only.
    """

    node: Node
    side: int
    open: bool = True


class Work(NamedTuple):
    """Batches before an operator, or (``side`` None) behind it."""

    node: Node
    batches: Iterator[pa.RecordBatch]
    side: int | None


def before(node: Node, batch: pa.RecordBatch, side: int = 0) -> Work:
    """A batch that arrives at an operator."""
    return Work(node, iter((batch,)), side)


def output_watermark(operator: Operator[Any]) -> Callable[[int], int | None] | None:
    """Return what sets an operator's output watermark; None when it passes on its input's."""
    delay = delay_of(operator.spec)
    if type(operator).output_watermark is Operator.output_watermark:
        return functools.partial(later_by, delay) if delay else None
    if not delay:
        return operator.output_watermark
    return lambda timestamp: later_by(delay, operator.output_watermark(timestamp))


def hands_time_on(operator: Operator[Any]) -> bool:
    """Return whether an operator only hands event time on.

    Behind the end of its input range, too: an input that is left out follows those that it meets (rules C8, C9).
    """
    return type(operator).on_watermark is Operator.on_watermark and output_watermark(operator) is None

"""The values in which operators state facts (:mod:`airflow_samza.application.operator_spec`)."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

Names = tuple[str | None, ...]
"""Columns that an operator names; a None among them names none."""

Shown = tuple[str | tuple[str, str], ...]
"""Attributes that plans show, in this order; a pair is the name in the plan and that of the attribute."""


class Emits(Enum):
    """The time and the number of an operator's results."""

    ONE_FOR_ONE = "one message for each, at once: its offset in the input stays known"
    AT_ONCE = "any number, before it gets the next batch: its stream and partition stay known"
    LATER = "at any time"
    NOTHING = "nothing: the walk from an input stops here"


ARROW, PYTHON, CATALYST = "arrow", "python", "catalyst"
"""The engines: on whole batches in the task; a user's callable per message, in the task; Spark's engine."""


class Engine(NamedTuple):
    """The engine that runs an operator, and the reason as plans show it."""

    name: str
    reason: str


BATCHES = Engine(ARROW, "works on whole batches")
CALLABLE_ON_BATCHES = Engine(ARROW, "a callable takes whole batches")
SQL = Engine(ARROW, "SQL on whole batches")
READS = Engine(ARROW, "batches are read as they come")
PER_MESSAGE = Engine(PYTHON, "a Python callable is called per message")
DATAFRAME = Engine(CATALYST, "transform takes a DataFrame")

"""The request for a run: one value that goes from each face (Airflow, the command line, tests) to the plan step.

A new option of runs is a field here, a parameter of the face that takes it, and the rule that uses it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from airflow_samza.runs.records.data_interval import DataInterval

PREVIOUS = "previous"
"""A run continues from the state that the run before it left."""

PREVIOUS_ALIAS = "lineage"
"""Another name of :data:`PREVIOUS`."""

FRESH = "fresh"
"""A run has a state of its own that starts from nothing."""


def _option(flag: str, *, whole: bool = False) -> dict[str, Any]:
    """Return the metadata of a field that a user sets by ``flag``.

    ``whole``: a mapping that is always given completely, so that a missing key is a difference, too.
    """
    return {"flag": flag, "whole": whole}


@dataclass(frozen=True)
class RunRequest:
    """A run as it is asked for, before it is planned.

    ``application`` is ``module:attribute``. ``generation`` counts the plans of the run from 1: the same generation
    again returns the stored plan, and is rejected where the application or the options have changed since, unless
    ``plans_anew``: then the run is planned anew, as the next generation. ``reuse``: a run that is planned anew keeps
    the results of stages that have not changed. ``config`` are keys over those of the application.

    ``mode``: ``staged`` (a stage is submitted when its producers have finished; the default), or ``pipelined`` or
    ``continuous``: all stages are submitted at once, in any order, and each waits until its producers have started.

    ``state_from``, for an application that carries state from run to run: ``previous`` (or ``lineage``) continues from
    the run before, and waits for it up to ``wait_seconds`` (None: as configured); ``fresh``, or the id of a run to
    start from, gives the run a state of its own.

    ``sections`` names, by shared stream, the run of the other application whose section is read; of any other shared
    stream all new sections are. ``tables`` names, by pushed table, the version to read: ``current`` (the default),
    ``as_of_interval`` (the one that was current when the data interval began), or the id of a push. ``input_versions``
    names, by input that is a table of a lake, the snapshot or version up to which it is read: ``current`` (the
    default), an id, or several with commas between them, of which the newest counts.

    ``partition_key`` is that of a partitioned Dag run: with the interval it says of which data the run's outputs are
    (rule O1). Without an interval, a key that is a date gives the one that it names, in UTC.

    ``compares`` names another run (``<application>/<run>``) with which this one is compared: it reads the same ranges,
    starts from the same state, and keeps all outputs back.

    ``bundle`` is the version of the Dag bundle from which the application is loaded, where there is one: its ``name``
    and ``version``.
    """

    application: str
    run_id: str
    generation: int = 1
    plans_anew: bool = False
    reuse: bool = True
    wait_seconds: float | None = None
    config: Mapping[str, str] = field(default_factory=dict, metadata=_option("--config", whole=True))
    partition_key: str | None = field(default=None, metadata=_option("--partition-key"))
    interval: DataInterval | None = field(default=None, metadata=_option("--interval"))
    mode: str | None = field(default=None, metadata=_option("--mode"))
    state_from: str = field(default=PREVIOUS, metadata=_option("--state-from"))
    sections: Mapping[str, str] = field(default_factory=dict, metadata=_option("--section"))
    tables: Mapping[str, str] = field(default_factory=dict, metadata=_option("--table"))
    input_versions: Mapping[str, str] = field(default_factory=dict, metadata=_option("--input-version"))
    compares: str | None = field(default=None, metadata=_option("--as-of"))
    bundle: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Replace the alias of a choice of state by its name, and take the interval of a key that names one."""
        if self.interval is None and self.partition_key is not None:
            object.__setattr__(self, "interval", DataInterval.of_key(self.partition_key))
        if self.state_from == PREVIOUS_ALIAS:
            object.__setattr__(self, "state_from", PREVIOUS)

    def options(self) -> dict[str, Any]:
        """Return what a user can set, by field name, as texts and mappings of texts, for ``RunPlan.options``."""
        return {option.name: _plain(getattr(self, option.name)) for option in option_fields()}


def option_fields() -> list[dataclasses.Field[Any]]:
    """Return the fields of a request that a user sets; their metadata has ``flag`` and ``whole``."""
    return [option for option in dataclasses.fields(RunRequest) if "flag" in option.metadata]


def _plain(value: object) -> Any:
    if isinstance(value, DataInterval):
        return "/".join(value.iso())
    return dict(value) if isinstance(value, Mapping) else value

"""The part of a run's plan about the state that the run starts from and will leave."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

LINEAGE = "lineage"
"""The run carries the application's state on: it holds the lease, and leaves the next version."""

OWN = "own"
"""The run has a state of its own (a backfill): fresh, or starting from what another run left. It touches no lineage."""


@dataclass(frozen=True)
class RunState:
    """The origin and destination of a run's state. ``version`` is the one that it starts from; 0: nothing yet.

    ``source`` is the run that left that version, where the run was told to start from one. ``fence`` is the number of
    the lease. ``starts`` are paths of records, by stage: what each of its tasks goes on from; a stage without one
    starts empty. ``keep``: how many versions are kept when this run leaves one.
    """

    kind: str = LINEAGE
    version: int = 0
    source: str | None = None
    fence: int | None = None
    starts: Mapping[str, str] = field(default_factory=dict)
    keep: int = 5

"""The number of runs that are kept, as an environment says it; apart, because every command reads one."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Keep:
    """The number of runs of an application that are kept, and for how many days; one that is beyond either may go."""

    runs: int = 100
    days: float = 30.0

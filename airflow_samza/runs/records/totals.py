"""Sums of what a stage has read and written in all its epochs so far, in every commit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

Counts = Mapping[str, int]

SAMPLES = 10
"""Samples that are kept of all tasks and epochs."""

GAUGES = "gauges"
"""The name of the fact that holds the gauges: by name, the last value of each task that has set it."""


@dataclass(frozen=True)
class Totals:
    """Sums over epochs. ``read`` and ``written`` hold ``messages``, ``control`` and ``bytes`` by stream id.

    ``began_at`` is when the first epoch was decided (seconds since 1970), ``task_seconds`` the work of all tasks;
    ``facts`` are further counts of the tasks, summed where they are numbers; of lists (samples) the first few are kept,
    of :data:`GAUGES` each task's last values.
    """

    began_at: float
    epochs: int = 0
    read: Mapping[str, Counts] = field(default_factory=dict)
    written: Mapping[str, Counts] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)
    task_seconds: float = 0.0

    def plus(
        self, read: Mapping[str, Counts], written: Mapping[str, Counts], facts: Mapping[str, Any], seconds: float
    ) -> Totals:
        """With what one task did in one epoch."""
        return replace(
            self,
            read=_plus(self.read, read),
            written=_plus(self.written, written),
            facts=_summed(self.facts, facts),
            task_seconds=round(self.task_seconds + seconds, 6),
        )

    def plus_epoch(self) -> Totals:
        """With one epoch more."""
        return replace(self, epochs=self.epochs + 1)

    @property
    def messages(self) -> int:
        """User messages read of all inputs."""
        return sum(counts.get("messages", 0) for counts in self.read.values())


def gauges(facts: Mapping[str, Any]) -> dict[str, float]:
    """One figure of each gauge: the greatest of the tasks' last values."""
    return {name: max(by_task.values()) for name, by_task in facts.get(GAUGES, {}).items() if by_task}


def counters(facts: Mapping[str, Any]) -> dict[str, float]:
    """Return the counts of tasks, added up over tasks and epochs."""
    return {
        name: value for name, value in facts.items() if isinstance(value, int | float) and not isinstance(value, bool)
    }


def _plus(sums: Mapping[str, Counts], more: Mapping[str, Counts]) -> dict[str, Counts]:
    found = dict(sums)
    for name, counts in more.items():
        found[name] = _summed(found.get(name, {}), counts)
    return found


def _summed(sums: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    found = dict(sums)
    for name, value in more.items():
        if name == GAUGES:
            last = found.get(GAUGES, {})
            found[GAUGES] = {**last, **{gauge: {**last.get(gauge, {}), **by_task} for gauge, by_task in value.items()}}
            continue
        known = found.get(name, 0)
        if isinstance(value, list):
            found[name] = [*(known or []), *value][:SAMPLES]
            continue
        adds = isinstance(value, int | float) and not isinstance(value, bool) and isinstance(known, int | float)
        found[name] = known + value if adds else value
    return found

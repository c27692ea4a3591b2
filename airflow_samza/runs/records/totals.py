"""Sums of what a stage has read and written in all its epochs so far, in every commit.

Tasks and the finish of an epoch add to them, and progress shows them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from airflow_samza.figures import exact

Counts = Mapping[str, int]
Did = tuple[Mapping[str, Counts], Mapping[str, Counts], Mapping[str, Any], float]

SAMPLES = 10
"""Samples that are kept of all tasks and epochs."""

GAUGES = "gauges"
"""The name of the fact that holds the gauges: by name, the last value of each task that has set it."""


WITHOUT_KEY = "messages_without_key."
"""The counter of messages whose key is null at a ``partition_by`` or a join, by operator and side."""

KEYED = "keyed_messages."
"""The counter of all messages there, with which it is compared and which nobody is shown."""


@dataclass(frozen=True)
class Totals:
    """Sums over epochs. ``read`` and ``written`` hold ``messages``, ``control`` and ``bytes`` by stream id.

    ``began_at`` is when the first epoch was decided (seconds since 1970), ``task_seconds`` the work of all tasks,
    ``seconds`` the time for which attempts have run the stage up to this commit (None: a former release has made it);
    ``facts`` are further counts of the tasks, summed where they are numbers; of lists (samples) the first few are kept,
    of :data:`GAUGES` each task's last values.
    """

    began_at: float
    epochs: int = 0
    read: Mapping[str, Counts] = field(default_factory=dict)
    written: Mapping[str, Counts] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)
    task_seconds: float = 0.0
    seconds: float | None = None

    def plus(self, tasks: Iterable[Did]) -> Totals:
        """With what several tasks did: their read and written counts, facts and seconds."""
        read, written = _copied(self.read), _copied(self.written)
        all_facts, task_seconds = dict(self.facts), self.task_seconds
        for more_read, more_written, facts, seconds in tasks:
            for sums, more in ((read, more_read), (written, more_written)):
                for name, counts in more.items():
                    _add(sums.setdefault(name, {}), counts)
            _add(all_facts, facts)
            task_seconds = round(task_seconds + seconds, 6)
        return replace(self, read=read, written=written, facts=all_facts, task_seconds=task_seconds)

    def plus_epoch(self, seconds: float | None = None) -> Totals:
        """With one epoch more, and the time for which attempts have run the stage by now."""
        return replace(self, epochs=self.epochs + 1, seconds=seconds)

    @property
    def messages(self) -> int:
        """User messages read of all inputs."""
        return summed(self.read, "messages")

    @property
    def sent(self) -> int:
        """User messages sent to all outputs."""
        return summed(self.written, "messages")


def summed(counts: Mapping[str, Counts], what: str) -> int:
    """Return the ``messages``, ``control`` or ``bytes`` of all streams together."""
    return sum(by_what.get(what, 0) for by_what in counts.values())


def gauges(facts: Mapping[str, Any]) -> dict[str, float]:
    """One figure of each gauge: the greatest of the tasks' last values."""
    return {name: max(by_task.values()) for name, by_task in facts.get(GAUGES, {}).items() if by_task}


def counters(facts: Mapping[str, Any]) -> dict[str, float]:
    """Return the counts of tasks that people are shown, added up over tasks and epochs."""
    return {
        name: value
        for name, value in facts.items()
        if isinstance(value, int | float) and not isinstance(value, bool) and not name.startswith(KEYED)
    }


def _copied(sums: Mapping[str, Counts]) -> dict[str, dict[str, int]]:
    return {name: dict(counts) for name, counts in sums.items()}


def _add(totals: dict[str, Any], more: Mapping[str, Any]) -> None:
    """Add to sums, in place."""
    for name, value in more.items():
        if name == GAUGES:
            last = totals.get(GAUGES, {})
            totals[GAUGES] = {**last, **{gauge: {**last.get(gauge, {}), **by_task} for gauge, by_task in value.items()}}
            continue
        former = totals.get(name, 0)
        if isinstance(value, list):
            totals[name] = [*(former or []), *value][:SAMPLES]
            continue
        if isinstance(value, int | float) and not isinstance(value, bool) and isinstance(former, int | float):
            total = former + value
            totals[name] = exact(total) if isinstance(total, float) else total
        else:
            totals[name] = value

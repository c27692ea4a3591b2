"""Which runs the next epoch may admit: what the chooser would not choose yet waits for a later one.

Source: SEMANTICS M7.
"""

from __future__ import annotations

from dataclasses import dataclass

from airflow_samza.chooser.message_chooser import E, Partition
from airflow_samza.chooser.runs import RunChooser


@dataclass(frozen=True)
class OffsetRun:
    """A run of messages that is known by its offsets only: enough to plan an epoch before anything is read."""

    ssp: Partition
    offset: int
    messages: int

    def slice(self, first: int, count: int) -> OffsetRun:
        """``count`` messages of it, from message ``first`` on."""
        return OffsetRun(self.ssp, self.offset + first, count)


def admitted(chooser: RunChooser[E], limit: int) -> list[E]:
    """The runs that an epoch of up to ``limit`` messages may admit, in the order of choosing.

    ``chooser`` has been given what is at hand, and keeps what is not admitted for the next epoch: a partition that it still holds gets no
    further run. When it waits, nothing more is admitted. The limit is overstepped by less than a grain of the chooser, so that a chooser
    of whole runs may exceed it by a run. Admitted runs count as read: their offsets open the head gate.
    """
    runs: list[E] = []
    left = limit
    while left > 0:
        run = chooser.choose(at_most=left)
        if run is None:
            break
        runs.append(run)
        left -= run.messages
    return runs

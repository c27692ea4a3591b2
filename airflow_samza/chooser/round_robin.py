"""The chooser that takes envelopes in the order in which they came."""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import Any, Generic

from airflow_samza.chooser.message_chooser import E, Partition


class RoundRobinChooser(Generic[E]):
    """First come, first chosen: with one outstanding envelope per partition this goes round the partitions that have something."""

    def __init__(self) -> None:
        self._arrived = 0
        self._queue: OrderedDict[int, E] = OrderedDict()
        self._places: dict[Partition, deque[int]] = {}

    def start(self) -> None:
        """Nothing to start."""

    def stop(self) -> None:
        """Nothing to stop."""

    def register(self, ssp: Partition, offset: Any) -> None:
        """Every partition is alike."""

    def update(self, envelope: E) -> None:
        """An envelope is at hand."""
        self._arrived += 1
        self._queue[self._arrived] = envelope
        self._places.setdefault(envelope.ssp, deque()).append(self._arrived)

    def choose(self) -> E | None:
        """The next envelope, or None."""
        ssp = self.peek()
        return None if ssp is None else self.take(ssp)

    def peek(self) -> Partition | None:
        """The partition that :meth:`choose` would choose from now."""
        return next(iter(self._queue.values())).ssp if self._queue else None

    def has(self, ssp: Partition) -> bool:
        """Whether an envelope of a partition is at hand."""
        return bool(self._places.get(ssp))

    def take(self, ssp: Partition) -> E | None:
        """The oldest envelope at hand of one partition, out of turn."""
        places = self._places.get(ssp)
        return self._queue.pop(places.popleft()) if places else None

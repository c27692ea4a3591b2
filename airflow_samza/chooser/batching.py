"""The chooser that keeps to a partition for a while, which makes fewer changes between partitions.

Source: message-chooser, "batching"; SEMANTICS M4.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic

from airflow_samza.chooser.message_chooser import E, OrderedChooser, Partition
from airflow_samza.errors import ConfigError


class BatchingChooser(Generic[E]):
    """Takes up to ``batch_size`` messages of one partition in a row, as long as it has some; then its chooser decides anew.

    Among equal priorities only: what has a higher one (``priority_of``) interrupts the batch, which is over then. The first message counts.
    """

    def __init__(self, chooser: OrderedChooser[E], batch_size: int, priority_of: Callable[[Partition], int] = lambda ssp: 0) -> None:
        if batch_size < 1:
            raise ConfigError(f"A batch of {batch_size} messages is none.", hint="It is a whole number from 1.", value=batch_size)
        self._chooser = chooser
        self._size = batch_size
        self._priority_of = priority_of
        self._last: Partition | None = None
        self._count = 0

    def start(self) -> None:
        """Starts what it chooses from."""
        self._chooser.start()

    def stop(self) -> None:
        """Stops what it chooses from."""
        self._chooser.stop()

    def register(self, ssp: Partition, offset: Any) -> None:
        """A partition will be read from ``offset`` on."""
        self._chooser.register(ssp, offset)

    def update(self, envelope: E) -> None:
        """An envelope is at hand."""
        self._chooser.update(envelope)

    def choose(self) -> E | None:
        """The next envelope, or None."""
        ssp = self.peek()
        if ssp is None:
            self._last = None
            return None
        if not self._goes_on():
            self._last, self._count = ssp, 0
        envelope = self._chooser.take(ssp) if self._count else self._chooser.choose()
        if envelope is not None:
            self._count += envelope.messages
        return envelope

    def peek(self) -> Partition | None:
        """The partition that :meth:`choose` would choose from now."""
        return self._last if self._goes_on() else self._chooser.peek()

    def has(self, ssp: Partition) -> bool:
        """Whether an envelope of a partition is at hand."""
        return self._chooser.has(ssp)

    def take(self, ssp: Partition) -> E | None:
        """The oldest envelope at hand of one partition, out of turn."""
        return self._chooser.take(ssp)

    def _goes_on(self) -> bool:
        """Whether the next message is of the batch: it is not full, its partition has something, and nothing of a higher priority waits."""
        if self._last is None or self._count >= self._size or not self._chooser.has(self._last):
            return False
        ahead = self._chooser.peek()
        return ahead is not None and self._priority_of(ahead) <= self._priority_of(self._last)

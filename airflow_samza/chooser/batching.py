"""The chooser that keeps to a partition for a while, which makes fewer changes between partitions.

Source: message-chooser, "batching"; rule M4. In both forms what is kept of a batch from epoch to epoch is its
partition and how many messages it has taken.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic

from airflow_samza.chooser.message_chooser import (
    E,
    MessageChooser,
    OrderedChooser,
    Partition,
    restore_chooser,
    snapshot_of,
)
from airflow_samza.chooser.tiered_priority import PriorityTiers
from airflow_samza.errors import ConfigError


class Batches(Generic[E]):
    """The batch that is being taken: its partition and how many messages of it were."""

    def __init__(self, chooser: MessageChooser[E], batch_size: int) -> None:
        if batch_size < 1:
            raise ConfigError(
                f"A batch of {batch_size} messages is none.", hint="It is a whole number from 1.", value=batch_size
            )
        self._inner = chooser
        self._size = batch_size
        self._partitions: dict[str, Partition] = {}
        self._last: Partition | None = None
        self._count = 0

    def start(self) -> None:
        """Start the choosers behind this one."""
        self._inner.start()

    def stop(self) -> None:
        """Stop the choosers behind this one."""
        self._inner.stop()

    def register(self, ssp: Partition, offset: Any) -> None:
        """Register a partition that will be read from ``offset`` on."""
        self._partitions[str(ssp)] = ssp
        self._inner.register(ssp, offset)

    def give_back(self, messages: int) -> None:
        """Take back so many of the messages that were chosen last: the task did not process them."""
        self._count = max(self._count - messages, 0)

    def snapshot(self) -> Any:
        """Return the batch, and the state of the choosers behind it."""
        return {
            "last": None if self._last is None else str(self._last),
            "count": self._count,
            "inner": snapshot_of(self._inner),
        }

    def restore(self, state: Any) -> None:
        """Restore a snapshot."""
        self._last = self._partitions.get(state["last"])
        self._count = state["count"] if self._last is not None else 0
        restore_chooser(self._inner, state["inner"])


class BatchingChooser(Batches[E]):
    """Chooses up to ``batch_size`` messages of one partition in a row, as long as it has some.

    Then its chooser decides anew.

    Among equal priorities only: what has a higher one (``priority_of``) interrupts the batch, which is over then. The
    first message counts.
    """

    def __init__(
        self, chooser: OrderedChooser[E], batch_size: int, priority_of: Callable[[Partition], int] = lambda ssp: 0
    ) -> None:
        super().__init__(chooser, batch_size)
        self._chooser = chooser
        self._priority_of = priority_of

    def update(self, envelope: E) -> None:
        """Receive an envelope that may be chosen from now on."""
        self._chooser.update(envelope)

    def choose(self) -> E | None:
        """Return the next envelope, or None."""
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
        """Return the partition that :meth:`choose` would choose from now."""
        return self._last if self._goes_on() else self._chooser.peek()

    def has(self, ssp: Partition) -> bool:
        """Return whether an envelope of a partition is waiting."""
        return self._chooser.has(ssp)

    def take(self, ssp: Partition) -> E | None:
        """Return the oldest waiting envelope of one partition, out of turn."""
        return self._chooser.take(ssp)

    def _goes_on(self) -> bool:
        """Return whether the next message is of the batch.

        It is not full, its partition has something, and nothing of a higher priority waits.
        """
        if self._last is None or self._count >= self._size or not self._chooser.has(self._last):
            return False
        ahead = self._chooser.peek()
        return ahead is not None and self._priority_of(ahead) <= self._priority_of(self._last)


class HeldBatches(Batches[E]):
    """Batches over tiers of choosers that cannot be asked for an envelope out of turn.

    While a batch lasts, what comes of its partition is held back from them, and taken next unless a higher tier chooses
    something.
    """

    def __init__(self, tiers: PriorityTiers[E], batch_size: int) -> None:
        super().__init__(tiers, batch_size)
        self._tiers = tiers
        self._held: E | None = None

    def update(self, envelope: E) -> None:
        """Receive an envelope that may be chosen from now on."""
        if self._held is None and envelope.ssp == self._last and self._count < self._size:
            self._held = envelope
        else:
            self._tiers.update(envelope)

    def choose(self) -> E | None:
        """Return the next envelope, or None."""
        held = self._held
        if held is None:
            return self._begun(self._tiers.choose())
        above = self._tiers.choose_above(held.ssp)
        self._held = None
        if above is None:
            self._count += held.messages
            return held
        self._tiers.update(held)
        return self._begun(above)

    def _begun(self, envelope: E | None) -> E | None:
        """Return the first envelope of a batch."""
        self._last, self._count = (None, 0) if envelope is None else (envelope.ssp, envelope.messages)
        return envelope

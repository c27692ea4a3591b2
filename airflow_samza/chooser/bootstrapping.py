"""The head gate: nothing is chosen while a stream that has to reach its head first has no message to choose.

Source: message-chooser, "To support bootstrapping"; rule M3.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Generic

from airflow_samza.chooser.batching import Batches
from airflow_samza.chooser.message_chooser import (
    E,
    MessageChooser,
    OrderedChooser,
    Partition,
    PartitionHead,
    is_known,
    last_offset,
    restore_chooser,
    snapshot_of,
    stream_name,
    unknown_head,
    whole_number,
)


class HeadGate(Generic[E]):
    """Gate before any chooser, open while every lagging stream has an envelope waiting, of a partition that lags.

    ``is_gated`` decides which partitions have to reach their heads; ``heads`` are those at start. A partition does not
    gate when it is registered at (or beyond) its head, holds nothing, or is not registered here. A gated partition
    without a known head is a :class:`~airflow_samza.errors.TopicError` at start. The gate alone does not make a
    bootstrap stream go first: its priority does.
    """

    def __init__(
        self,
        chooser: MessageChooser[E],
        heads: Mapping[Any, PartitionHead],
        is_gated: Callable[[Partition], bool] | None = None,
    ) -> None:
        self._chooser = chooser
        self._heads = dict(heads)
        self._is_gated = is_gated or self._heads.__contains__
        self._starts: dict[Partition, Any] = {}
        self._lagging: dict[str, set[Partition]] = {}
        self._at_hand: dict[Partition, int] = {}

    def start(self) -> None:
        """Start the choosers behind this one."""
        for ssp, offset in self._starts.items():
            head = self._heads.get(ssp)
            if head is None:
                raise unknown_head(ssp)
            if head.is_empty:
                continue
            # The offset of registration is the first one to be read: the newest message itself is still to come then.
            if not is_known(offset) or whole_number(offset) <= whole_number(head.newest):
                self._lagging.setdefault(stream_name(ssp), set()).add(ssp)
        self._chooser.start()

    def stop(self) -> None:
        """Stop the choosers behind this one."""
        self._chooser.stop()

    def register(self, ssp: Partition, offset: Any) -> None:
        """Register a partition; of several registrations the lowest offset counts, and an unknown one is ignored."""
        self._chooser.register(ssp, offset)
        if not self._is_gated(ssp):
            return
        former = self._starts.setdefault(ssp, offset)
        if is_known(offset) and (not is_known(former) or whole_number(offset) < whole_number(former)):
            self._starts[ssp] = offset

    @property
    def lagging(self) -> frozenset[Partition]:
        """Return the partitions that have not reached their heads yet."""
        return frozenset(ssp for partitions in self._lagging.values() for ssp in partitions)

    def reached(self, ssp: Partition, offset: Any) -> None:
        """Note that reading has passed ``offset``, where no message stands, or one that was left out."""
        stream = stream_name(ssp)
        lagging = self._lagging.get(stream, set())
        if ssp not in lagging or not is_known(offset):
            return
        if whole_number(offset) < whole_number(self._heads[ssp].newest):
            return
        lagging.remove(ssp)
        if not lagging:
            del self._lagging[stream]

    def update(self, envelope: E) -> None:
        """Receive an envelope that may be chosen from now on."""
        self._chooser.update(envelope)
        if self._lagging:  # once all have reached their heads nobody asks any more
            self._at_hand[envelope.ssp] = self._at_hand.get(envelope.ssp, 0) + 1

    def choose(self) -> E | None:
        """Return the next envelope, or None."""
        return None if self._is_closed() else self._chosen(self._chooser.choose())

    def give_back(self, messages: int) -> None:
        """Take back so many of the messages that were chosen last; nothing is chosen after this."""
        if isinstance(self._chooser, Batches):
            self._chooser.give_back(messages)

    def snapshot(self) -> Any:
        """Return its chooser's state; the gate itself follows from the registered offsets and the heads."""
        return snapshot_of(self._chooser)

    def restore(self, state: Any) -> None:
        """Restore a snapshot."""
        restore_chooser(self._chooser, state)

    def _chosen(self, envelope: E | None) -> E | None:
        if envelope is not None and self._lagging:
            self._at_hand[envelope.ssp] -= 1
            self.reached(envelope.ssp, last_offset(envelope))
        return envelope

    def _is_closed(self) -> bool:
        """Return whether a stream has partitions that lag, and none of these has an envelope."""
        return any(not any(map(self._at_hand.get, lagging)) for lagging in self._lagging.values())


class BootstrappingChooser(HeadGate[E]):
    """The head gate around an :class:`OrderedChooser`, and an ordered chooser itself."""

    def __init__(
        self,
        chooser: OrderedChooser[E],
        heads: Mapping[Any, PartitionHead],
        is_gated: Callable[[Partition], bool] | None = None,
    ) -> None:
        super().__init__(chooser, heads, is_gated)
        self._ordered = chooser

    def peek(self) -> Partition | None:
        """Return the partition that :meth:`choose` would choose from now."""
        return None if self._is_closed() else self._ordered.peek()

    def has(self, ssp: Partition) -> bool:
        """Return whether an envelope of a partition is waiting."""
        return not self._is_closed() and self._ordered.has(ssp)

    def take(self, ssp: Partition) -> E | None:
        """Return the oldest waiting envelope of one partition, out of turn."""
        return None if self._is_closed() else self._chosen(self._ordered.take(ssp))

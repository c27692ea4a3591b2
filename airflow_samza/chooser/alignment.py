"""The choosers that keep streams in step: by time, by offset, or by how far they are behind their heads.

Source: message-chooser, "Time alignment" to "Maintain starting alignment"; rules M2, M5.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any, Generic

from airflow_samza.chooser.message_chooser import E, Envelope, Partition, PartitionHead, is_known, whole_number
from airflow_samza.errors import TopicError

Rank = Callable[[E], Any]
"""The rank of an envelope: the least goes first.

None (not known) goes before all others: nothing says that it may wait.
"""


class AlignmentChooser(Generic[E]):
    """Chooses the envelope of the least rank, computed when it arrives; among equal ranks, the one that came first."""

    def __init__(self, rank: Rank[E]) -> None:
        self._rank = rank
        self._arrived = 0
        self._heap: list[tuple[bool, Any, int]] = []
        self._waiting: dict[int, E] = {}
        self._places: dict[Partition, deque[int]] = {}

    def start(self) -> None:
        """Do nothing: there is nothing to start."""

    def stop(self) -> None:
        """Do nothing: there is nothing to stop."""

    def register(self, ssp: Partition, offset: Any) -> None:
        """Do nothing: every partition is treated alike."""

    def update(self, envelope: E) -> None:
        """Receive an envelope that may be chosen from now on."""
        self._arrived += 1
        rank = self._rank(envelope)
        heapq.heappush(self._heap, (rank is not None, 0 if rank is None else rank, self._arrived))
        self._waiting[self._arrived] = envelope
        self._places.setdefault(envelope.ssp, deque()).append(self._arrived)

    def choose(self) -> E | None:
        """Return the next envelope, or None."""
        if not self._first():
            return None
        place = heapq.heappop(self._heap)[2]
        envelope = self._waiting.pop(place)
        self._places[envelope.ssp].remove(place)
        return envelope

    def peek(self) -> Partition | None:
        """Return the partition that :meth:`choose` would choose from now."""
        return self._waiting[self._heap[0][2]].ssp if self._first() else None

    def has(self, ssp: Partition) -> bool:
        """Return whether an envelope of a partition is waiting."""
        return bool(self._places.get(ssp))

    def take(self, ssp: Partition) -> E | None:
        """Return the oldest waiting envelope of one partition, out of turn."""
        places = self._places.get(ssp)
        return self._waiting.pop(places.popleft()) if places else None

    def _first(self) -> bool:
        """Return whether an envelope is waiting; those that were taken out of turn leave the heap here."""
        while self._heap and self._heap[0][2] not in self._waiting:
            heapq.heappop(self._heap)
        return bool(self._heap)


def offset_aligned() -> AlignmentChooser[Any]:
    """Make a chooser of the lowest offset."""
    return AlignmentChooser(lambda envelope: whole_number(envelope.offset) if is_known(envelope.offset) else None)


def messages_behind_head(behind: Callable[[E], int]) -> AlignmentChooser[E]:
    """Make a chooser of the message that is farthest from the head of its partition, in messages."""
    return AlignmentChooser(lambda envelope: -behind(envelope))


def percent_behind_head(behind: Callable[[E], int], size: Callable[[E], int]) -> AlignmentChooser[E]:
    """Make a chooser of the message farthest from the head, as a share of its partition's messages (``size``)."""

    def rank(envelope: E) -> Fraction:
        held = size(envelope)
        return -Fraction(behind(envelope), held) if held > 0 else Fraction(0)

    return AlignmentChooser(rank)


class StartingAlignmentChooser(AlignmentChooser[E]):
    """Chooser that keeps the distances from the heads at start: the stream that fell farthest behind goes first.

    When all are ahead of theirs, the one that is ahead least. ``at_start`` tells the distance at start of a partition
    by where reading is registered, else its first envelope does. The distances are its state, so that they are those
    of the start in later epochs, too.
    """

    def __init__(
        self,
        behind: Callable[[E], int],
        at_start: Callable[[Partition, Any], int | None] = lambda ssp, offset: None,
    ) -> None:
        super().__init__(self._distance)
        self._behind = behind
        self._at_start = at_start
        self._starts: dict[str, int] = {}

    def register(self, ssp: Partition, offset: Any) -> None:
        """Register a partition with the offset of its first message, from which its distance at start follows."""
        distance = self._at_start(ssp, offset)
        if distance is not None:
            self._starts[str(ssp)] = distance

    def snapshot(self) -> Any:
        """Return the distances at start, by partition."""
        return dict(self._starts)

    def restore(self, state: Any) -> None:
        """Restore the distances at start from a snapshot."""
        self._starts.update(state)

    def _distance(self, envelope: E) -> int:
        now = self._behind(envelope)
        return self._starts.setdefault(str(envelope.ssp), now) - now


def behind_heads(heads: Mapping[Any, PartitionHead]) -> Callable[[Envelope], int]:
    """Make a function that counts the messages behind an envelope's first one, up to the heads (offsets are numbers).

    What stands beyond a head is ahead of it, by a negative number, so that order among such messages stays.
    """

    def behind(envelope: Envelope) -> int:
        return int(_newest(heads, envelope.ssp)) - int(envelope.offset)

    return behind


def behind_at_start(heads: Mapping[Any, PartitionHead]) -> Callable[[Partition, Any], int | None]:
    """Make the same function for the first message that is read, by its offset: -1 when the partition is read up.

    None: not known.
    """

    def behind(ssp: Partition, offset: Any) -> int | None:
        return int(_newest(heads, ssp)) - int(offset) if is_known(offset) and ssp in heads else None

    return behind


def sizes(heads: Mapping[Any, PartitionHead]) -> Callable[[Envelope], int]:
    """Make a function that counts the messages in the partition of an envelope.

    Offsets are whole numbers, from 0 where the oldest one is not known.
    """

    def size(envelope: Envelope) -> int:
        oldest = heads[envelope.ssp].oldest if envelope.ssp in heads else None
        return int(_newest(heads, envelope.ssp)) + 1 - int(oldest or 0)

    return size


def _newest(heads: Mapping[Any, PartitionHead], ssp: Partition) -> Any:
    head = heads.get(ssp)
    if head is None:
        raise TopicError(
            f"The head of {ssp} is not known, and streams are aligned by it.",
            hint="Check that the stream exists and its system answers.",
            system=ssp.system,
            stream=ssp.stream,
            partition=ssp.partition,
        )
    # Nothing stands before the first one of an empty partition.
    return -1 if head.is_empty else head.newest


class RoundRobinChooser(AlignmentChooser[E]):
    """First come, first chosen.

    With one outstanding envelope per partition this goes round the partitions that have something.
    """

    def __init__(self) -> None:
        super().__init__(lambda envelope: None)  # all rank alike

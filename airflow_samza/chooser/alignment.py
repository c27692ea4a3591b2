"""The choosers that keep streams in step: by time, by offset, or by how far they are behind their heads.

Source: message-chooser, "Time alignment" to "Maintain starting alignment"; rules M2, M5.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any, Generic

from airflow_samza.chooser.message_chooser import E, Envelope, Partition, stream_name
from airflow_samza.chooser.offsets import OffsetOrder, OffsetOrders, PartitionHead, is_known
from airflow_samza.errors import ConfigError, TopicError

Rank = Callable[[E], Any]
"""What an envelope is ordered by; the least goes first.

None (not known) goes before all others: nothing says that it may wait.
"""


class AlignmentChooser(Generic[E]):
    """Chooses the envelope of the least rank, taken when it arrives; among equal ranks the one that came first."""

    def __init__(self, rank: Rank[E]) -> None:
        self._rank = rank
        self._arrived = 0
        self._heap: list[tuple[bool, Any, int]] = []
        self._waiting: dict[int, E] = {}
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
        rank = self._rank(envelope)
        heapq.heappush(self._heap, (rank is not None, 0 if rank is None else rank, self._arrived))
        self._waiting[self._arrived] = envelope
        self._places.setdefault(envelope.ssp, deque()).append(self._arrived)

    def choose(self) -> E | None:
        """The next envelope, or None."""
        if not self._first():
            return None
        place = heapq.heappop(self._heap)[2]
        envelope = self._waiting.pop(place)
        self._places[envelope.ssp].remove(place)
        return envelope

    def peek(self) -> Partition | None:
        """The partition that :meth:`choose` would choose from now."""
        return self._waiting[self._heap[0][2]].ssp if self._first() else None

    def has(self, ssp: Partition) -> bool:
        """Return whether an envelope of a partition is at hand."""
        return bool(self._places.get(ssp))

    def take(self, ssp: Partition) -> E | None:
        """The oldest envelope at hand of one partition, out of turn."""
        places = self._places.get(ssp)
        return self._waiting.pop(places.popleft()) if places else None

    def _first(self) -> bool:
        """Return whether anything waits; what was taken out of turn leaves the heap here."""
        while self._heap and self._heap[0][2] not in self._waiting:
            heapq.heappop(self._heap)
        return bool(self._heap)


def time_aligned(time_of: Callable[[E], int | None]) -> AlignmentChooser[E]:
    """The earliest message first: ``time_of`` gives a message's time in ms, or None when it has none."""
    return AlignmentChooser(time_of)


def offset_aligned(orders: OffsetOrders | None = None) -> AlignmentChooser[Any]:
    """The lowest offset first. Offsets of systems with different orders cannot be compared: a ConfigError."""
    known = orders or OffsetOrders()
    seen: OrderedDict[str, OffsetOrder] = OrderedDict()

    def rank(envelope: Envelope) -> Any:
        system = envelope.ssp.system
        if system not in seen:
            seen[system] = known.of(system)
            first = next(iter(seen))
            if seen[first] is not seen[system]:
                raise ConfigError(
                    f"The offsets of systems {first!r} and {system!r} have different orders: streams cannot be "
                    "aligned by them.",
                    hint="Align by time, or read the two systems in two applications.",
                    systems=[first, system],
                )
        return known.key(envelope.ssp, envelope.offset) if is_known(envelope.offset) else None

    return AlignmentChooser(rank)


def messages_behind_head(behind: Callable[[E], int]) -> AlignmentChooser[E]:
    """The message first that is farthest from the head of its partition, in messages."""
    return AlignmentChooser(lambda envelope: -behind(envelope))


def percent_behind_head(behind: Callable[[E], int], size: Callable[[E], int]) -> AlignmentChooser[E]:
    """The message first that is farthest from the head of its partition, as a share of the messages that the partition holds (``size``)."""

    def rank(envelope: E) -> Fraction:
        held = size(envelope)
        return -Fraction(behind(envelope), held) if held > 0 else Fraction(0)

    return AlignmentChooser(rank)


class StartingAlignmentChooser(AlignmentChooser[E]):
    """Keeps the distances from the heads that the partitions started with; see :func:`starting_alignment`.

    The distances are its state, so that they are those of the start in later epochs, too.
    """

    def __init__(
        self,
        behind: Callable[[E], int],
        start_behind: Mapping[str | Partition, int] | None = None,
        at_start: Callable[[Partition, Any], int | None] | None = None,
    ) -> None:
        super().__init__(self._distance)
        self._behind = behind
        self._given = dict(start_behind or {})
        self._at_start = at_start
        self._starts: dict[str, int] = {}

    def register(self, ssp: Partition, offset: Any) -> None:
        """A partition will be read from ``offset`` on, which says how far it is behind its head at start."""
        if self._at_start is not None and ssp not in self._given and stream_name(ssp) not in self._given:
            distance = self._at_start(ssp, offset)
            if distance is not None:
                self._starts[str(ssp)] = distance

    def snapshot(self) -> Any:
        """The distances at start, by partition."""
        return dict(self._starts)

    def restore(self, state: Any) -> None:
        """Takes the distances at start from a snapshot."""
        self._starts.update(state)

    def _distance(self, envelope: E) -> int:
        now, ssp = self._behind(envelope), envelope.ssp
        if ssp in self._given:
            return self._given[ssp] - now
        stream = stream_name(ssp)
        if stream in self._given:
            return self._given[stream] - now
        return self._starts.setdefault(str(ssp), now) - now


def starting_alignment(
    behind: Callable[[E], int],
    start_behind: Mapping[str | Partition, int] | None = None,
    at_start: Callable[[Partition, Any], int | None] | None = None,
) -> StartingAlignmentChooser[E]:
    """Keeps the distances from the heads that the streams started with: what fell farthest behind its own goes first.

    When all are ahead of theirs, the one that is ahead least. ``start_behind`` gives the distances at start, by
    ``system.stream`` or by partition; of a partition that it leaves out ``at_start`` tells it by where reading is
    registered, else its first envelope.
    """
    return StartingAlignmentChooser(behind, start_behind, at_start)


def behind_heads(heads: Mapping[Any, PartitionHead]) -> Callable[[Envelope], int]:
    """Return how many messages stand behind an envelope's first one, up to the heads; offsets are whole numbers.

    What stands beyond a head is ahead of it, by a negative number, so that order among such messages stays.
    """

    def behind(envelope: Envelope) -> int:
        return int(_newest(heads, envelope.ssp)) - int(envelope.offset)

    return behind


def behind_at_start(heads: Mapping[Any, PartitionHead]) -> Callable[[Partition, Any], int | None]:
    """The same of the message that is read first, by the offset of registration: -1 when the partition is read up.

    None: not known.
    """

    def behind(ssp: Partition, offset: Any) -> int | None:
        return int(_newest(heads, ssp)) - int(offset) if is_known(offset) and ssp in heads else None

    return behind


def sizes(heads: Mapping[Any, PartitionHead]) -> Callable[[Envelope], int]:
    """Return how many messages the partition of an envelope holds.

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
            hint="Look whether the stream exists and its system answers.",
            system=ssp.system,
            stream=ssp.stream,
            partition=ssp.partition,
        )
    # Nothing stands before the first one of an empty partition.
    return -1 if head.is_empty else head.newest

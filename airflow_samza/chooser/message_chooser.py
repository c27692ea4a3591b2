"""The protocol of choosers, and what they need to know of envelopes, offsets and the heads of partitions.

Offsets are whole numbers, in each of our systems.
Source: message-chooser, "MessageChooser interface", "Sorting strings that contains longs"; rules M1, M3, M5–M7.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, runtime_checkable

from airflow_samza.errors import TopicError

S = TypeVar("S")


class Partition(Protocol):
    """A partition of a stream of a system: hashable, written ``system.stream/partition``.

    Two that are equal are the same one.
    """

    @property
    def system(self) -> str:
        """The system's name."""

    @property
    def stream(self) -> str:
        """The stream's name in its system."""

    @property
    def partition(self) -> int:
        """The number of the partition."""

    def __hash__(self) -> int: ...


class Envelope(Protocol):
    """Consecutive messages of one partition, at least one: a single message, or a run of them (rule M6).

    ``offset`` is that of the first message; a run of several has whole numbers as offsets, one after the other. An
    unknown offset is None or an empty text.
    """

    @property
    def ssp(self) -> Partition:
        """The partition of all its messages."""

    @property
    def offset(self) -> Any:
        """The offset of the first message."""

    @property
    def messages(self) -> int:
        """The number of its messages."""

    def slice(self: S, first: int, count: int) -> S:
        """Return ``count`` messages of it, from message ``first`` on."""


E = TypeVar("E", bound=Envelope)


@runtime_checkable
class MessageChooser(Protocol[E]):
    """Decides which of the waiting envelopes is processed next.

    All partitions are registered, then it is started. It has at most one outstanding envelope per partition: the next
    one of a partition is given when the former one has been chosen. Every envelope given is chosen exactly once.
    """

    def start(self) -> None:
        """Called once, after all registrations and before anything else."""

    def stop(self) -> None:
        """Called once, at the end."""

    def register(self, ssp: Partition, offset: Any) -> None:
        """Register a partition, to be read from ``offset`` on (the first one; None or empty when not known)."""

    def update(self, envelope: E) -> None:
        """Receive an envelope that may be chosen from now on."""

    def choose(self) -> E | None:
        """Return the next envelope to process; None when there is none, or none that may be processed yet."""


@runtime_checkable
class OrderedChooser(MessageChooser[E], Protocol[E]):
    """A chooser that can be asked which envelope is next, and for another one; choosers around it need both."""

    def peek(self) -> Partition | None:
        """Return the partition whose envelope :meth:`choose` would return now."""

    def has(self, ssp: Partition) -> bool:
        """Return whether an envelope of a partition is waiting."""

    def take(self, ssp: Partition) -> E | None:
        """Return the oldest waiting envelope of one partition, out of turn; None when there is none."""


@runtime_checkable
class StatefulChooser(Protocol):
    """A chooser whose state goes on from epoch to epoch.

    Each epoch makes a new chooser, and hands it what the one before left. The order in which envelopes wait needs no
    state: those that waited at the end of an epoch are given first in the next one, in the order in which they had
    come.
    """

    def snapshot(self) -> Any:
        """Return the state as a JSON value; called before :meth:`~MessageChooser.stop`. None when there is none."""

    def restore(self, state: Any) -> None:
        """Goes on from a snapshot.

        Called after all registrations and before :meth:`~MessageChooser.start`, unless it was None.
        """


def snapshot_of(chooser: object) -> Any:
    """Return the state of a chooser; None when it has none."""
    return chooser.snapshot() if isinstance(chooser, StatefulChooser) else None


def restore_chooser(chooser: object, state: Any) -> None:
    """Restore the state of a chooser, if there is any."""
    if state is not None and isinstance(chooser, StatefulChooser):
        chooser.restore(state)


def stream_name(ssp: Partition) -> str:
    """Return ``system.stream``, the name of a partition's stream in configuration."""
    return f"{ssp.system}.{ssp.stream}"


def last_offset(envelope: Envelope) -> Any:
    """Return the offset of an envelope's last message."""
    return envelope.offset if envelope.messages == 1 else envelope.offset + envelope.messages - 1


def whole_number(offset: Any) -> int:
    """Return an offset as a whole number, also when it is written as text.

    >>> whole_number("2") < whole_number("100")
    True
    """
    try:
        return int(offset)
    except (TypeError, ValueError):
        raise TopicError(
            f"The offset {offset!r} is not a whole number.",
            hint="Correct the offset.",
            offset=offset,
        ) from None


def is_known(offset: Any) -> bool:
    """Return whether an offset is known: None and the empty text are not."""
    return offset is not None and offset != ""


@dataclass(frozen=True)
class PartitionHead:
    """The end of a partition, taken at start: the offset of its ``newest`` message, None when it holds none.

    ``oldest`` is that of its first message, where the system knows it.
    """

    newest: Any
    oldest: Any = None

    @classmethod
    def between(cls, oldest: int, upcoming: int) -> PartitionHead:
        """Return the head of a partition with the offsets ``oldest`` to ``upcoming`` (the next one to be written)."""
        return cls(upcoming - 1, oldest) if upcoming > oldest else cls(None)

    @property
    def is_empty(self) -> bool:
        """Return whether the partition holds no message."""
        return not is_known(self.newest)


def unknown_head(ssp: Partition) -> TopicError:
    """Make the error for a partition that has to be read to its head when its head is not known."""
    return TopicError(
        f"The head of {ssp} is not known, and it has to be read to its head first.",
        hint="Check that the stream exists and its system answers, or take its bootstrap "
        "(task.chooser.wait.for.head) away.",
        system=ssp.system,
        stream=ssp.stream,
        partition=ssp.partition,
    )

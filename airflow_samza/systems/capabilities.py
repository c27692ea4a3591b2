"""Capabilities that some systems have beside those of every :class:`~airflow_samza.systems.system.System`.

A system has one by having its methods; callers ask with ``isinstance`` and do without it, or reject the stream, where
the system lacks it. They stand by role: reading, writing, versions of tables, topics, delivery.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeGuard, TypeVar, runtime_checkable

from airflow_samza.errors import TopicError
from airflow_samza.schema import Schema
from airflow_samza.systems.output_slots import OutputSlot, SlotWriter
from airflow_samza.systems.sections import Section
from airflow_samza.systems.system import (
    ColumnBound,
    Envelope,
    StreamSpec,
    System,
    SystemProducer,
    SystemStreamPartition,
)

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")

_known: dict[tuple[type, type], bool] = {}


def has(value: object, capability: type[T]) -> TypeGuard[T]:
    """Return whether a system, or a part of one, has a capability, as ``isinstance`` does.

    That costs 50 µs for a protocol (before Python 3.12), which is too much for each task: here a class is asked once.
    """
    key = type(value), capability
    if key not in _known:
        _known[key] = isinstance(value, capability)
    return _known[key]


# Reading


@runtime_checkable
class ReportsNews(Protocol):
    """A system that knows at little cost whether a stream has grown; others are asked for the whole slice."""

    def has_news(self, stream: StreamSpec, slice: Mapping[str, Any]) -> bool:
        """Return whether anything was committed after what a slice covers; reject a topic that was made anew."""


@runtime_checkable
class TakesArrivals(Protocol):
    """A system whose streams grow by whole objects, such as files, and which finds those that are new by a record."""

    def arrived(
        self,
        stream: StreamSpec,
        intake: Mapping[str, Any] | None,
        *,
        first_chunk: int = 0,
        all_of_it: bool = False,
        unread: bool = False,
        bounds: Sequence[ColumnBound] = (),
    ) -> dict[str, Any]:
        """Return the input range of what is new by the record ``intake`` (None: nothing was read yet).

        It has ``files`` (what is new), ``first_chunk`` and ``chunks`` (what is read one after the other, numbered from
        the given one), ``offsets`` over these, ``known`` (the record when it has been read) and ``noted`` (counts for
        people: ``waiting``, ``late``, ``ignored``, ``unread``). ``all_of_it`` lifts the stream's bound of one range,
        ``unread`` puts what is there on record without reading it. Files without a row that fulfils all ``bounds``
        may be left out.
        """

    def look_seconds(self, stream: StreamSpec) -> float:
        """Return how long a continuous run waits between two looks."""


@runtime_checkable
class SlicesIntervals(Protocol):
    """A system in which the messages of each data interval lie in a place of their own."""

    def slice_intervals(self, streams: Sequence[StreamSpec]) -> dict[str, Any]:
        """Return the input range of all intervals of a stream, which is given once for each, with the path of that one.

        It has ``intervals``: for each, how many of the ``splits`` of every partition are of it, in order.
        """


@runtime_checkable
class TellsWhatIsGone(Protocol):
    """A system that knows at little cost whether an input range of a run before can still be read."""

    def gone(self, stream: StreamSpec, slice: Mapping[str, Any]) -> str | None:
        """Return what of a range is not there any more, as a part of a sentence; None: as far as it tells all is."""


@runtime_checkable
class ExpiresMessages(Protocol):
    """A system that deletes messages after a time, whether or not anybody has read them."""

    def unexpired(self, stream: StreamSpec, slice: Mapping[str, Any]) -> dict[str, Any]:
        """Return an input range without what is gone; reject it, unless the stream goes on behind such gaps."""


@runtime_checkable
class WaitsForServers(Protocol):
    """A system whose servers may be away, and which waits for them."""

    def wait_at_most(self, seconds: float) -> None:
        """Give up servers that do not answer a question for so long."""


@runtime_checkable
class TellsWhatIsRead(Protocol):
    """A system that shows people, in a place of its own, how far runs have read streams. Runs never look there."""

    def describe_reading(self, stream: StreamSpec) -> str | None:
        """Return where that is, for the plan, None where nowhere; reject a place that may not be written."""

    def tell_read(self, stream: StreamSpec, offsets: Mapping[int, int]) -> None:
        """Show the offsets that a run would read next, by partition; a failure is a warning in the log."""


@runtime_checkable
class ShowsTopics(Protocol):
    """A system whose topics people may look at, those that a run writes, too."""

    def browsed(self, stream: StreamSpec) -> StreamSpec:
        """Return a stream of a run as an input with all its messages, also those that cannot be read."""


# Writing


@runtime_checkable
class SendsBytes(Protocol):
    """A system whose messages are bytes, with columns beside these or with options that serdes use."""

    def value_serde(self, stream: StreamSpec) -> object:
        """Return the serde of a stream's values, for the columns that are inside of them; of none where none are known.

        :func:`~airflow_samza.systems.serdes.binding.bind_serde` makes it, with the system's options.
        """


@runtime_checkable
class FixesOutputs(Protocol):
    """A system of tables that it has to ask for: what tasks need of the table of an output is part of the plan."""

    def fix_output(self, stream: StreamSpec, columns: Schema | None, run: str = "") -> dict[str, Any]:
        """Return what tasks need, as JSON; reject a table or ``columns`` (of the messages; None: unknown) that misfit.

        ``run`` names the run. Of a table that is yet to be made there is no more than its name.
        """

    def producer(self, stream: StreamSpec, writer: str, fixed: Mapping[str, Any] | None = None) -> SystemProducer:
        """Return a producer that goes by what the plan has fixed."""


@runtime_checkable
class WritesByKey(Protocol):
    """A producer that puts rows into the partitions of their keys by itself: the fast path."""

    def write_keyed(self, batch: pa.RecordBatch, key_columns: Sequence[str]) -> None:
        """Append user messages, each to the partition of its key (``partitioner``)."""


@runtime_checkable
class TakesDictionaries(Protocol):
    """A producer that may take dictionary-encoded columns."""

    @property
    def takes_dictionaries(self) -> bool:
        """True where it takes them."""


@runtime_checkable
class Durable(Protocol):
    """A system that says whether its output survives a power failure."""

    @property
    def durable(self) -> bool:
        """True where producers wait for the disk."""


@runtime_checkable
class DiscardsStaged(Protocol):
    """A system in which output that was staged, and will never be published, can be deleted at once."""

    def discard(self, stream: StreamSpec, staged: Mapping[str, Any]) -> None:
        """Delete what a producer's description names."""


@runtime_checkable
class LocatesStreams(Protocol):
    """A system that knows the places of its streams."""

    def location(self, stream: StreamSpec) -> str:
        """Return the place of a stream: the same text for all names under which its system is bound."""


@runtime_checkable
class RemembersWriters(Protocol):
    """A system that remembers the producers of a stream, also when the records of that run are gone."""

    def standing(self, stream: StreamSpec, producer: str) -> str | None:
        """Return the newest generation of a producer that has published to a stream; None when it never has."""

    def lost(self, stream: StreamSpec, producer: str, generation: str) -> str | None:
        """Return what is there no more of what a generation has published, as a half sentence; None: all is there.

        It is a look at records and one at a list of what is there, not one at each file.
        """


@runtime_checkable
class ReplacesSlots(Protocol):
    """A system in which a run replaces what an earlier one has written of the same slot (rule O1).

    Runs of several roots may write there: what is published names the identity of its root.
    """

    def slot_writers(self, stream: StreamSpec, slot: OutputSlot) -> list[SlotWriter]:
        """Return who has written the slots that meet one (``SlotCode.meets``), of what readers see."""

    def outside_slots(self, stream: StreamSpec, producers: Iterable[str]) -> list[str]:
        """Return those of some producers whose rows readers see, and who wrote them as no slot.

        ``producers`` are not looked at where nothing lies outside of slots.
        """

    def successor(self, stream: StreamSpec, producer: str) -> str | None:
        """Return the producer of the run that has replaced what a producer wrote.

        None: that stands, or it never wrote.
        """

    def reject_namesake(self, stream: StreamSpec, producer: str, root: str) -> None:
        """Reject a producer if one of its name, under another root than that of this identity, has published."""


class Written(NamedTuple):
    """The rows that one task has written of an output in one epoch, and the names by which they are published.

    ``fixed`` is what the plan has fixed of the output, None where its system fixes nothing.
    """

    described: Mapping[str, Any]
    producer: str
    generation: str
    epoch: int
    task: int
    fixed: Mapping[str, Any] | None = None


def rows_missing(stream: str, place: str) -> TopicError:
    """Return the error of rows that a run has written, and that are not there any more."""
    return TopicError(
        f"Rows that were written to the output {stream!r} are gone: {place} is not there any more.",
        hint="A later run has replaced them, or they were deleted. Compare with a run whose output still stands.",
        stream=stream,
        path=place,
        gone=True,
    )


@runtime_checkable
class ReadsWritten(Protocol):
    """A system in which what a task has written can be read by its description, before it is published and after."""

    def written_rows(self, stream: StreamSpec, written: Written) -> Iterator[pa.RecordBatch]:
        """Yield the rows; that they are gone is a ``TopicError`` with the fact ``gone``."""


@dataclass(frozen=True)
class OutputClaim:
    """A run's wish to publish to an output: who it is, and what for.

    ``producer`` is ``<application>/<run>/<stage>``; ``interval`` the data interval and partition key that the output
    is of, None where runs of one interval do not publish the same.
    """

    producer: str
    generation: str
    interval: tuple[str, ...] | None = None

    @property
    def stage(self) -> str:
        """The stage that publishes."""
        return self.producer.rpartition("/")[2]


@runtime_checkable
class PublishesForGood(Protocol):
    """A system in which nothing that is published can be taken back, so that a rerun adds to it.

    Messages are published behind the commit, out of what tasks have staged under the root.
    """

    def describe_output(self, stream: StreamSpec, claim: OutputClaim) -> str:
        """Return what readers of an output will see, for the plan; reject a rerun that is not permitted."""

    def claim(self, stream: StreamSpec, claim: OutputClaim) -> None:
        """Begin a generation of an output before its tasks run: from now on no lower one publishes.

        Reject a rerun that is not permitted. A generation that has begun may be claimed again.
        """

    def waiting(self, stream: StreamSpec, staged: Iterable[Mapping[str, Any]]) -> int:
        """Return how many messages of the tasks of an epoch are staged still: some of them, or all, are unpublished."""

    def has_begun(self, stream: StreamSpec) -> bool:
        """Return whether a generation has begun its output, so that no lower one publishes."""


@runtime_checkable
class SweepsOutputs(LocatesStreams, Protocol):
    """A system of tables in whose folders tasks write data files before these are committed, or given up."""

    def sweep_output(
        self, stream: StreamSpec, is_held: Callable[[str, float], bool], now: float, *, dry: bool = False
    ) -> tuple[int, int]:
        """Delete data files that outputs here have written, and that no version of the table has: files and bytes.

        Those of which ``is_held`` says so by name and the time when they were written stay, and young ones.
        ``dry`` only counts.
        """


# Versions of tables


@runtime_checkable
class HasTableVersions(Protocol):
    """A system of tables, which have versions that can be chosen, compared and read in part."""

    def slice_within(self, stream: StreamSpec, bounds: Sequence[ColumnBound]) -> dict[str, Any]:
        """Return the input range, perhaps without messages that do not fulfil all ``bounds``."""

    def first_commit(self, stream: StreamSpec, at: datetime) -> tuple[str, datetime] | None:
        """Return version and time of a table's first commit at or after a time; None: there is none, or no table."""

    def changes(self, stream: StreamSpec, since: str, remedy: str, *, carried: bool = False) -> dict[str, Any]:
        """Return the range of the rows that are in one only of two versions of a table: ``since``, and the stream's.

        "": all rows are new. With ``carried``, those that are in both. ``remedy`` says what to do about a version, or
        files of it, that are not there any more.
        """


@runtime_checkable
class HoldsVersions(Protocol):
    """A system of tables that can keep the version from expiry up to which somebody has read."""

    def hold(self, stream: StreamSpec, reader: str, version: str) -> str | None:
        """Keep a version, beside the two before it of this reader; return why it cannot be kept, None: it is.

        Reading needs no right to write, so a tag that may not be written is no error.
        """


class OutputCommit(NamedTuple):
    """Commits of a stage to an output, by the name of its producer, of the stream, and the generation."""

    producer: str
    stream: str
    generation: str


@runtime_checkable
class PublishesBranches(Protocol):
    """A system of tables with branches, to which runs commit until somebody publishes them."""

    def branch(self, stream: StreamSpec) -> str | None:
        """Return the branch to which an output commits; None: readers see at once what it commits."""

    def check_branch(self, stream: StreamSpec, run: str) -> None:
        """Reject a branch that exists, and is not of the run ``<application>/<run>``."""

    def publish_branch(self, stream: StreamSpec, run: str, committed: Collection[OutputCommit]) -> str | None:
        """Publish the branch of a run; return the version that readers see now, None: there is nothing to publish.

        A branch that lacks something of what the run has ``committed`` to it is rejected.
        """

    def published_version(self, stream: StreamSpec, committed: Collection[OutputCommit]) -> str | None:
        """Return the version by which readers see what was ``committed`` to a branch; None: they do not."""

    def drop_branch(self, stream: StreamSpec, run: str) -> bool:
        """Drop the branch of a run; return False where there is none, or it is published meanwhile."""


# Topics


@dataclass(frozen=True)
class Superseded:
    """Output of ``generation`` of a producer that a reader had read, and that has been replaced since.

    ``by`` and ``newer`` are the producer and the generation that have replaced it: the same producer, or one of a run
    that has taken its slot. ``partition`` and ``offset`` are a place of the first of its messages that was read.
    """

    producer: str
    generation: str
    newer: str
    partition: int
    offset: int
    by: str


@runtime_checkable
class HasSections(LocatesStreams, Protocol):
    """A system whose topics applications share under a root: it knows which run wrote what, and when."""

    def sections(self, stream: StreamSpec, slice: Mapping[str, Any] | None = None) -> list[Section]:
        """Return what each run has written of a stream, as of a slice or now, oldest first."""

    def superseded(
        self, stream: StreamSpec, slice: Mapping[str, Any], first: Sequence[int], read: Sequence[int]
    ) -> list[Superseded]:
        """Return what was read from ``first`` up to the offsets ``read``, as of a slice, and was superseded since."""

    def creation_time(self, name: str) -> int | None:
        """Return when the topic was made (ms since 1970); None when there is none."""

    def written_ends(self, stream: StreamSpec) -> Mapping[str, tuple[int, ...]]:
        """Return by producer where its last rows end in each partition, of rows that readers still see."""


@runtime_checkable
class ReadsBySection(Protocol):
    """A consumer that tells the envelopes of several sections from each other."""

    def read_by_section(self, ssp: SystemStreamPartition) -> Iterator[tuple[tuple[str, str], Envelope]]:
        """Yield the envelopes of its slice of sections in offset order, each behind producer and generation."""


@runtime_checkable
class IdentifiesTopics(Protocol):
    """A system whose topics have identities, other than topics that had their names before."""

    def identity(self, stream: StreamSpec) -> str | None:
        """Return the identity of a stream's topic.

        None when there is none, empty when it was made before there were identities.
        """


@dataclass(frozen=True)
class Compaction:
    """Compaction of a topic: of the messages of one key, all but the last may be deleted.

    That happens to a message ``keeps_ms`` after a later one of its key has come, at the earliest; a message that
    deletes its key stays for ``deletes_ms`` at least.
    """

    keeps_ms: int
    deletes_ms: int


@runtime_checkable
class CompactsTopics(Protocol):
    """A system that may delete, of the messages of one key, all but the last."""

    def compaction(self, stream: StreamSpec) -> Compaction | None:
        """Return how the topic of a stream is compacted; None: it is not."""


class ExpiringTopic(Protocol):
    """A topic that can be marked to expire, and be deleted."""

    @property
    def expires_at(self) -> int | None:
        """The time (ms since 1970) after which it may be deleted; None: it has no mark."""

    def expire(self, at: int | None) -> None:
        """Mark it to be deleted after a time (ms since 1970); None takes the mark away."""

    def delete(self, is_held: Callable[[], bool] = ...) -> bool:
        """Delete it; return False when it is held, and given back, or another process was quicker."""


@runtime_checkable
class ExpiresTopics(Protocol):
    """A system that leaves it to us when the topics of a run are deleted."""

    def expiring(self, name: str) -> ExpiringTopic | None:
        """Return the topic of this name, or None."""


# Delivery of outputs


@dataclass(frozen=True)
class Delivery:
    """Delivery of an output: whether readers get each message exactly once where a process dies, or at least once.

    ``how`` says by what (exactly once), or when a message comes again (at least once).
    """

    exactly_once: bool
    how: str

    def __str__(self) -> str:
        return f"{'exactly' if self.exactly_once else 'at least'} once: {self.how}"


@runtime_checkable
class TellsDelivery(Protocol):
    """A system some of whose outputs may get a message again, although ``publish`` was called for the same epoch."""

    def delivery(self, stream: StreamSpec) -> Delivery:
        """Return the delivery of an output, from what is known of it without asking."""


PUBLISHED_ONCE = Delivery(True, "publishing again changes nothing")
"""The delivery that every system owes whose publications carry their names with them (``System.publish``)."""


def delivery_of(system: System, stream: StreamSpec) -> Delivery:
    """Return the delivery of an output of a system."""
    return system.delivery(stream) if isinstance(system, TellsDelivery) else PUBLISHED_ONCE


def after_a_retry(deliveries: Mapping[str, Delivery]) -> str:
    """Return what a next try keeps, and what may come twice of it, as the end of a sentence.

    ``deliveries`` are those of all that the work reaches, by the words for it (``the output 'views'``).
    """
    repeated = [f"{what} ({delivery.how})" for what, delivery in deliveries.items() if not delivery.exactly_once]
    if not repeated:
        return "what is staged is kept, and nothing is doubled"
    return f"what is staged is kept, and only what is delivered at least once may come twice: {', '.join(repeated)}"

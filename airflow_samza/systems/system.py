"""Protocols of systems, consumers and producers, and the values that name places in a stream.

A partition is an ordered sequence of offsets (0, 1, 2, …). Intermediate streams carry user messages and control
messages
in band, in one order and one offset space: a run of user messages is one :class:`MessageRun`, a control message one
:class:`ControlEnvelope`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

from airflow_samza.control.messages import ControlMessage, ProducerEnds
from airflow_samza.secrecy import secret_names, shown
from airflow_samza.systems.output_slots import OutputSlot

if TYPE_CHECKING:
    import pyarrow as pa


class SystemStreamPartition(NamedTuple):
    """A partition of a stream of a system. ``stream`` is the physical name in the system."""

    system: str
    stream: str
    partition: int

    def __str__(self) -> str:
        return f"{self.system}.{self.stream}/{self.partition}"


class OffsetRange(NamedTuple):
    """A slice of one partition: offsets from ``start`` up to and without ``end``."""

    start: int
    end: int


_SHOWN = 100
"""Characters of a bound's value that are shown."""


class ColumnBound(NamedTuple):
    """Bound of a column that a reader asks for.

    ``=``, ``<``, ``<=``, ``>``, ``>=``, ``in`` (a tuple), ``is null`` or ``is not null``.

    Values are int, str or datetime.date. Null fulfils nothing but ``is null``; texts are compared by their UTF-8 bytes.
    """

    column: str
    op: str
    value: Any = None

    def __str__(self) -> str:
        if self.op.startswith("is"):
            return f"{self.column} {self.op}"
        text = str(self.value)
        if len(text) > _SHOWN:
            many = f" ({len(self.value)} values)" if isinstance(self.value, tuple) else ""
            text = f"{text[:_SHOWN]}…{many}"
        return f"{self.column} {self.op} {text}"


@dataclass(frozen=True)
class MessageRun:
    """Run of user messages of one partition: ``batch`` row i has offset ``offset + i``."""

    ssp: SystemStreamPartition
    offset: int
    batch: pa.RecordBatch

    @property
    def messages(self) -> int:
        """Return how many messages it holds."""
        return int(self.batch.num_rows)

    def slice(self, first: int, count: int | None = None) -> MessageRun:
        """Return ``count`` messages of it (None: all), from message ``first`` on; nothing is copied."""
        return type(self)(self.ssp, self.offset + first, self.batch.slice(first, count))


@dataclass(frozen=True)
class UnreadableRun(MessageRun):
    """Run of messages that a system could not read, at their offsets.

    ``batch`` holds them as they lie there (``text``), why (``error``), and their ``headers`` where a system has such. A
    reader gets them if it asks for them (``StreamSpec.tolerant``); else the first one is an error.
    """

    @classmethod
    def of(
        cls,
        ssp: SystemStreamPartition,
        offset: int,
        texts: Sequence[str],
        errors: Sequence[str],
        headers: Sequence[str | None] | None = None,
    ) -> UnreadableRun:
        """Return the run of these messages."""
        return cls(ssp, offset, unreadable_batch(texts, errors, headers))

    @property
    def texts(self) -> list[str]:
        """The messages as they lie in the system."""
        return self.batch.column("text").to_pylist()  # type: ignore[no-any-return]  # Arrow has no types

    @property
    def errors(self) -> list[str]:
        """The error of each."""
        return self.batch.column("error").to_pylist()  # type: ignore[no-any-return]  # Arrow has no types

    @property
    def headers(self) -> list[str | None]:
        """The headers of each, as JSON."""
        return self.batch.column("headers").to_pylist()  # type: ignore[no-any-return]  # Arrow has no types


_MARK = {b"airflow_samza": b"unreadable"}


def unreadable_batch(
    texts: Sequence[str], errors: Sequence[str], headers: Sequence[str | None] | None = None
) -> pa.RecordBatch:
    """Return a batch of messages that cannot be read, and why; :func:`run_of` recognizes it."""
    import pyarrow as pa

    columns = {"text": texts, "error": errors, "headers": headers if headers is not None else [None] * len(texts)}
    schema = pa.schema([(name, pa.string()) for name in columns], metadata=_MARK)
    return pa.RecordBatch.from_arrays([pa.array(column, pa.string()) for column in columns.values()], schema=schema)


def is_unreadable(batch: pa.RecordBatch) -> bool:
    """Return whether it is one of :func:`unreadable_batch`."""
    return bool(batch.schema.metadata == _MARK)


def run_of(ssp: SystemStreamPartition, offset: int, batch: pa.RecordBatch) -> MessageRun:
    """Return the messages of a batch as a run."""
    return UnreadableRun(ssp, offset, batch) if is_unreadable(batch) else MessageRun(ssp, offset, batch)


@dataclass(frozen=True)
class ControlEnvelope:
    """Control message at its offset.

    At the end of a bounded source the system makes one without a task name (rule C2). ``ends``: the message and those
    behind it, where several came together, the k-th at ``offset + k``. Only who reads with ``dictionaries`` gets such.
    """

    ssp: SystemStreamPartition
    offset: int
    message: ControlMessage
    ends: ProducerEnds | None = None

    @property
    def messages(self) -> int:
        """One, as a single message stands at its offset, or the number of ends that came together."""
        return 1 if self.ends is None else len(self.ends.messages)

    def slice(self, first: int, count: int) -> ControlEnvelope:
        """Return ``count`` of the ends, from end ``first`` on; a single message cannot be cut."""
        if self.ends is None:
            return self
        ends = self.ends.messages[first : first + count]
        return ControlEnvelope(self.ssp, self.offset + first, ends[0], ProducerEnds(ends))


Envelope = MessageRun | ControlEnvelope


@dataclass(frozen=True)
class SystemBinding:
    """Binding of a system's name in one environment: its kind, its options, and which options are secret.

    ``secret`` names those that the environment keeps as secrets; what is secret by the list
    (:mod:`airflow_samza.secrecy`) is added.

    ``kind`` is ``memory``, ``log``, ``files``, … ; options of ``log`` and ``files``: ``root`` (a path or filesystem
    URL).
    """

    kind: str
    options: Mapping[str, Any] = field(default_factory=dict)
    secret: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        object.__setattr__(self, "secret", self.secret | secret_names(self.options))

    def __repr__(self) -> str:
        return f"SystemBinding(kind={self.kind!r}, options={shown(self.options, self.secret)!r})"


@dataclass(frozen=True)
class StreamSpec:
    """A stream as a system sees it: its physical name, and what the application declared that the system needs.

    ``path``: the rendered path template of an input; ``interval``: (from, to) in UTC microseconds of ``timestamp`` when
    the slice is by a column. ``written``: the application writes the stream, it does not read it. ``tolerant``:
    messages that cannot be read come as :class:`UnreadableRun` instead of being an error. ``through``: the run's own
    topic through which messages go on their way from or to a place that tasks cannot reach (kind ``spark``). ``owner``:
    whose own topic it is (application, id, stream and run), which its record names; () for streams that anybody may
    write. ``below``: the folder that the path's template names before values that came with the run; these may not lead
    out of it, nor out of the system's root. None: the path holds no such values. ``serde``: how its messages are bytes,
    as :func:`~airflow_samza.systems.serdes.binding.bind_serde` takes it. ``deletes``: messages that delete their key,
    where the system has such, come with their key columns and a column ``_deleted`` that is true. ``up_to``: snapshots
    or versions of a table, of which the newest is the latest that is read; (): what is there now. ``changes``: what is
    read are the changes of a table since it was read last, with columns that say so.
    """

    name: str
    partitions: int | None = None
    schema: str | None = None
    key: tuple[str, ...] = ()
    format: str | None = None
    path: str | None = None
    timestamp: str | None = None
    interval: tuple[int, int] | None = None
    broadcast: bool = False
    options: tuple[tuple[str, str], ...] = ()
    written: bool = False
    tolerant: bool = False
    through: str | None = None
    serde: str | None = None
    owner: tuple[str, ...] = ()
    below: str | None = None
    deletes: bool = False
    up_to: tuple[str, ...] = ()
    changes: bool = False


@dataclass(frozen=True)
class StreamMetadata:
    """Metadata of a stream: partition count, and oldest offset and head (next offset to be written) per partition."""

    partitions: int
    oldest: tuple[int, ...] = ()
    head: tuple[int, ...] = ()
    schema: str | None = None


class SystemConsumer(Protocol):
    """Consumer of input ranges of one task's partitions."""

    def read(
        self,
        ssp: SystemStreamPartition,
        offsets: OffsetRange | None,
        columns: Sequence[str] | None = None,
        bounds: Sequence[ColumnBound] = (),
        *,
        dictionaries: bool = False,
    ) -> Iterator[Envelope]:
        """Return the envelopes of a slice in offset order, as a stream that holds one batch in memory at a time.

        ``offsets`` None reads the whole partition of a bounded source and ends with its end-of-stream. Messages that do
        not fulfil all ``bounds`` may be left out where that saves work; none has to be. With ``dictionaries`` columns
        of texts may come dictionary-encoded, and the ends of many producer tasks in one envelope.
        """

    def close(self) -> None:
        """Give back what it holds."""


class SystemProducer(Protocol):
    """Producer of what one try at a task writes to one stream; it is visible when the stage's commit is published.

    ``write`` may be called for any partition in any order; ``finish`` closes and describes what was staged as JSON for
    the manifest.
    """

    def write(self, partition: int, batch: pa.RecordBatch) -> None:
        """Append user messages to a partition."""

    def finish(self) -> dict[str, Any]:
        """Close the staged output and return its description (files, batches, rows, bytes) for the task's manifest."""

    def abort(self) -> None:
        """Throw the staged output of this try away."""


class Publication(NamedTuple):
    """Publication of one stage epoch's output to one stream.

    ``producer`` is ``<application>/<run>/<stage>``; (producer, generation, epoch) identifies it, so publishing twice
    changes nothing, and a generation lower than one that the stream has seen from this producer is rejected. ``staged``
    are the producers' descriptions by task, ``control`` the commit-level control entries, which every partition shows
    after its user messages (rule C2). With a ``slot`` it replaces what another run of the application has written of
    that (rule O1); without one it adds to what is there. ``root`` is the identity of the run's root ("": not
    known): runs under other roots may have the same name. ``continues`` tells that earlier epochs of the generation
    have had messages: an epoch that adds nothing is not published. ``former`` are the outputs of former plans of the
    run, as pairs of a producer and a stream, that wrote to the same place and write no more: a table replaces what
    they wrote with the commit that begins the generation.
    """

    producer: str
    generation: str
    epoch: int
    staged: Mapping[int, Mapping[str, Any]]
    control: tuple[ControlMessage, ...] = ()
    final: bool = True
    slot: OutputSlot | None = None
    root: str = ""
    continues: bool = False
    former: tuple[tuple[str, str], ...] = ()


@runtime_checkable
class System(Protocol):
    """System that is bound: it describes and makes streams, makes consumers and producers, and publishes staged output.

    Questions about streams take many at once.
    """

    def metadata(self, streams: Sequence[StreamSpec]) -> dict[str, StreamMetadata]:
        """Return the metadata of those streams that exist, by name; a stream that is missing is left out."""

    def create(self, streams: Sequence[StreamSpec]) -> None:
        """Make the streams that are missing; one that exists with another partition count is an error."""

    def slice(self, stream: StreamSpec) -> dict[str, Any]:
        """Fix the input range of a run, as JSON: the plan asks once, the run's record keeps it, every consumer gets it.

        So a retry, or another worker, reads the same even when the stream has grown meanwhile. Every system fills
        ``kind`` (the system's kind), ``partitions`` (the count) and ``offsets``: a list of [from, to) per partition, or
        None where offsets are counted only while reading (files). Other keys are the system's own. A stream that is
        missing is a ``TopicError``.
        """

    def consumer(self, stream: StreamSpec, slice: Mapping[str, Any] | None = None) -> SystemConsumer:
        """Return a consumer of one stream.

        With a ``slice``, ``read(ssp, None)`` reads exactly that, without one the stream as it is now.
        """

    def producer(self, stream: StreamSpec, writer: str) -> SystemProducer:
        """Return a producer of one try at a task; ``writer`` is its name, unique over all tries of all runs."""

    def check_writable(self, stream: StreamSpec) -> None:
        """Reject early, with a ``TopicError``, a stream that cannot be written (no permission, a file in its place)."""

    def publish(self, stream: StreamSpec, publication: Publication) -> dict[str, Any]:
        """Make a committed epoch's output visible, idempotently.

        Returns facts for the stage result (rows, bytes, offsets, paths).
        """


def option_text(value: Any) -> str:
    """Return the value of an option as Spark reads it: ``true`` and ``false``, not Python's words."""
    return str(value).lower() if isinstance(value, bool) else str(value)

"""Reading of a task's inputs in the order of the chooser, until the epoch ends.

The run loop reads by it; the stage runner's tasks read side inputs likewise.
Source: message-chooser; rules M1–M7.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from airflow_samza.application.application import ApplicationSpec
from airflow_samza.application.operator_specs import TaskSpec
from airflow_samza.chooser.default import ChooserContext, make_chooser
from airflow_samza.chooser.message_chooser import PartitionHead
from airflow_samza.chooser.runs import RunChooser, taken
from airflow_samza.chooser.settings import ChooserSettings, InputChoice
from airflow_samza.config import Config
from airflow_samza.schema import Schema
from airflow_samza.system_kinds import EMBEDDED
from airflow_samza.systems.dictionaries import decoded
from airflow_samza.systems.system import Envelope, MessageRun, SystemStreamPartition, UnreadableRun
from airflow_samza.task.messages.bad_records import halved
from airflow_samza.task.messages.change_events import ChangeReader
from airflow_samza.task.messages.conform import SchemaConformer
from airflow_samza.task.messages.event_times import micros_or_null
from airflow_samza.task.messages.messages import CHUNK, MessageReader
from airflow_samza.task.program.stage_program import StageProgram


class InputEnvelope:
    """An envelope of the stream ``stream_id`` under the name by which configuration knows its partition."""

    __slots__ = ("_conformer", "_first", "_messages", "envelope", "messages", "offset", "source", "ssp")

    def __init__(self, ssp: SystemStreamPartition, source: Any, envelope: Envelope, conformer: SchemaConformer) -> None:
        self.ssp = ssp
        self.source = source
        self.envelope = envelope
        self.offset = envelope.offset
        self.messages = envelope.messages
        self._conformer = conformer
        self._first = 0
        self._messages: list[Any] = []

    @property
    def schema(self) -> Schema | None:
        """The columns of its messages; None for a control message."""
        return self._conformer.schema if isinstance(self.envelope, MessageRun) else None

    def message_at(self, place: int) -> Any:
        """One of its messages.

        None for a control message, and for one that cannot be read: it is rejected when its turn comes.
        """
        if not isinstance(self.envelope, MessageRun) or isinstance(self.envelope, UnreadableRun):
            return None
        if not self._first <= place < self._first + len(self._messages):
            self._first = place - place % CHUNK
            self._messages = _readable(self.envelope.batch.slice(self._first, CHUNK), self._conformer)
        return self._messages[place - self._first]

    def slice(self, first: int, count: int) -> InputEnvelope:
        """``count`` messages of it, from message ``first`` on."""
        return InputEnvelope(self.ssp, self.source, self.envelope.slice(first, count), self._conformer)


def _readable(batch: pa.RecordBatch, conformer: SchemaConformer) -> list[Any]:
    """The messages of a batch, None for each that does not fit."""
    messages: list[Any] = [None] * batch.num_rows

    def read(part: pa.RecordBatch, first: int) -> list[Any]:
        return MessageReader(conformer.schema).read(decoded(conformer.conform(part)))

    # also an error of the user's own class: reading the message for good raises it again
    for first, some in halved(batch, read, Exception, lambda row, place, error: None):
        messages[first : first + len(some)] = some
    return messages


_UNKNOWN_HEAD = 2**62
"""The latest offset of a source whose offsets are known only while it is read: reached when it ends."""


_ALL = 2**62
"""More messages than any input has."""


@dataclass(frozen=True)
class TaskInput:
    """One partition of an input (or side input) of a task: its envelopes in offset order, read once, from front to end.

    ``start`` is the offset from which they are read, ``head`` the next offset that will be written, as known when the
    epoch began (None: not known before it is read). ``system`` is the name of the system in which the stream lies
    (None: as the application declares).
    """

    stream_id: str
    partition: int
    envelopes: Iterable[Envelope] = field(compare=False)
    start: int = 0
    head: int | None = None
    system: str | None = None


class InputReading:
    """The envelopes of some partitions of a task in the order in which it takes them.

    :meth:`envelopes` gives them until all are read or ``limit`` messages are. What a chooser would not choose yet is
    left: then :attr:`waits` names the partitions (rule M7: a later epoch reads them). ``heads`` are those of the
    partitions when the run began. ``state`` is the former state of the chooser (None: there is no epoch behind this
    one); :attr:`state` is what the next epoch gets, None when nothing had to be chosen.
    """

    def __init__(
        self,
        program: StageProgram,
        sources: Sequence[TaskInput],
        conformers: Mapping[str, SchemaConformer],
        heads: Mapping[str, Mapping[int, int | None]],
        state: Mapping[str, Any] | None = None,
    ) -> None:
        self._program = program
        self._conformers = conformers
        sources = [_read(program.spec, source) for source in sources]
        self._settings, self._names = chooser_settings(
            program.spec, {source.stream_id: source.system for source in sources}
        )
        self._sources = {self._place(source): source for source in sources}
        self._heads = {
            ssp: _head(source, heads[source.stream_id][source.partition]) for ssp, source in self._sources.items()
        }
        self._before = state
        self._left = 0
        self.state: Mapping[str, Any] | None = None
        self.waits: list[str] = []
        self.read_up: list[TaskInput] = []
        """The inputs of which all that was available has been read."""

    def _place(self, source: TaskInput) -> SystemStreamPartition:
        system, _, stream = self._names[source.stream_id].partition(".")
        return SystemStreamPartition(system, stream, source.partition)

    def leave(self, messages: int) -> None:
        """Count back so many of the last messages: the next epoch reads them again."""
        self._left = messages

    def envelopes(
        self, limit: int | None = None, piece: int | None = None
    ) -> Generator[tuple[TaskInput, Envelope], None, None]:
        """Each envelope with its input, up to ``limit`` messages, about ``piece`` at a time.

        Who stops before the end closes it.
        """
        if limit is not None and limit <= 0:
            return
        alone = len(self._sources) == 1 and self._settings.factory is None
        yield from self._alone(limit, piece) if alone else self._chosen(limit, piece)

    def _alone(self, limit: int | None, piece: int | None) -> Generator[tuple[TaskInput, Envelope], None, None]:
        (source,) = self._sources.values()
        left = _ALL if limit is None else limit
        for envelope in source.envelopes:
            if not isinstance(envelope, MessageRun):
                yield source, envelope
                continue
            if left <= 0 and envelope.messages:
                return
            most = min(envelope.messages, left)
            step = most if piece is None else piece
            for first in range(0, most, max(step, 1)):
                yield source, envelope.slice(first, min(step, most - first))
            left -= most
            if most < envelope.messages:
                return
        self.read_up.append(source)

    def _chosen(self, limit: int | None, piece: int | None) -> Generator[tuple[TaskInput, Envelope], None, None]:
        has_time = any(self._time_column(source.stream_id) is not None for source in self._sources.values())
        config = Config(self._program.spec.config)
        newest = {ssp: _head(source, source.head) for ssp, source in self._sources.items()}
        inner = make_chooser(
            ChooserContext(
                self._settings, config, self._heads, time_of=self._time_of if has_time else None, newest=newest
            )
        )
        coarse = min((most for most in (limit, piece) if most is not None), default=None)
        chooser: RunChooser[InputEnvelope] = RunChooser(inner, grain=1 if self._order_shows else coarse)
        for ssp, source in self._sources.items():
            chooser.register(ssp, source.start)
        if self._before:
            chooser.restore(self._before)
        chooser.start()
        sources = {ssp: self._arrivals(ssp, source) for ssp, source in self._sources.items()}

        def read_up(ssp: SystemStreamPartition) -> None:
            self.read_up.append(self._sources[ssp])
            inner.reached(ssp, self._heads[ssp].newest)

        try:
            for chosen in taken(chooser, sources, limit=limit, piece=piece, read_up=read_up):
                yield chosen.source, chosen.envelope
            self.waits = sorted(str(ssp) for ssp in self._sources if chooser.holds(ssp))
            self._keep(chooser)
        except GeneratorExit:  # the epoch is over before all was taken
            inner.give_back(self._left)
            self._keep(chooser)
            raise
        finally:
            chooser.stop()

    def _keep(self, chooser: RunChooser[InputEnvelope]) -> None:
        if self._before is not None:
            self.state = chooser.snapshot()

    def _arrivals(self, ssp: SystemStreamPartition, source: TaskInput) -> Iterator[InputEnvelope]:
        return (
            InputEnvelope(ssp, source, envelope, self._conformers[source.stream_id]) for envelope in source.envelopes
        )

    @property
    def _order_shows(self) -> bool:
        """Return whether the order between partitions can be observed message by message (rule M6, decision 22).

        A low-level task sees it, a join with a table that is being written, and an application that sets a batch size
        or a chooser of its own. Stream joins, windows and aggregations give the same for any order, up to what
        ``first``, ``last`` and ``collect`` take.
        """
        program = self._program
        tasks = any(isinstance(compiled.spec, TaskSpec) for compiled in program.operators.values())
        return (
            tasks
            or program.phases.interleaved
            or self._settings.batch_size is not None
            or self._settings.factory is not None
        )

    def _time_column(self, stream_id: str) -> str | None:
        name = self._program.spec.stream(stream_id).timestamp
        return name if name is not None and name in self._conformers[stream_id].schema else None

    def _time_of(self, piece: Any) -> int | None:
        """The event time in ms of a piece's first message."""
        envelope: InputEnvelope = piece.run
        stream_id = envelope.source.stream_id
        name = self._time_column(stream_id)
        if name is None or not isinstance(envelope.envelope, MessageRun):
            return None
        batch, schema = envelope.envelope.batch, self._conformers[stream_id].schema
        if name not in batch.schema.names:
            return None
        column = batch.column(name).slice(piece.first, 1)
        time = micros_or_null(column, schema.fields[schema.names.index(name)].type, f"input {stream_id!r}")[0].as_py()
        return None if time is None else int(time // 1000)


def chooser_settings(
    spec: ApplicationSpec, systems: Mapping[str, str | None]
) -> tuple[ChooserSettings, dict[str, str]]:
    """Return the settings of choosing among streams, and the name (``system.stream``) of each in configuration.

    ``systems`` maps stream ids to the systems that hold them here, which make their names; the system that the
    application declares makes another name. None: only the application declares one.

    - ``samza.system``: the system in the name ``system.stream`` by which keys of choosers address the input; it moves
    no stream. Default: that of the application
    """
    config = Config(spec.config)
    names: dict[str, str] = {}
    inputs: dict[str, InputChoice] = {}
    for stream_id, bound in systems.items():
        stream = spec.stream(stream_id)
        system = config.text(f"streams.{stream_id}.samza.system") or stream.system
        system = system or config.text("job.default.system") or spec.default_system or bound or EMBEDDED
        physical = stream.physical_name(config)
        name = f"{bound or system}.{physical}"
        if name in names.values():  # configuration gives two inputs one name: each is read all the same
            name = f"{name}@{stream_id}"
        names[stream_id] = name
        inputs[name] = InputChoice(stream_id, f"{system}.{physical}", stream.priority, stream.bootstrap)
    return ChooserSettings.of(config, inputs), names


def _read(spec: ApplicationSpec, source: TaskInput) -> TaskInput:
    stream = spec.stream(source.stream_id)
    if stream.events is None:
        return source
    reader = ChangeReader(stream, f"input {stream.stream_id!r}, partition {source.partition}")
    return replace(source, envelopes=reader.envelopes(iter(source.envelopes)))


def _head(source: TaskInput, head: int | None) -> PartitionHead:
    return PartitionHead(_UNKNOWN_HEAD, source.start) if head is None else PartitionHead.between(0, head)

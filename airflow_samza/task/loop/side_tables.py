"""The tables of a task that side inputs feed, and how far those have been read (rules S1–S3).

Without a processor each message is a row, and whole batches are taken over; a column ``_deleted`` that the table does
not have marks the rows that delete their key. A processor makes entries of the messages, one after the other; one that
deletes its key is None. Tries at tasks fill them, hosts keep them, and the test driver does both.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_samza.application.application import ApplicationSpec
from airflow_samza.application.callables import name_of
from airflow_samza.application.declarations.side_inputs import SideInputsProcessor
from airflow_samza.application.descriptors import TableDescriptor
from airflow_samza.application.rejections import USER_ERRORS
from airflow_samza.application.task_api import IncomingMessageEnvelope
from airflow_samza.config import Config
from airflow_samza.errors import MessageError, SamzaError
from airflow_samza.grouping import grouped
from airflow_samza.quoting import MOST, error_text, one_line, plainly, quoted, show_messages
from airflow_samza.runs.tables.push_checks import check_keys
from airflow_samza.runs.tables.table_version import DELETED
from airflow_samza.schema import Schema
from airflow_samza.storage.columnar import ColumnarTable, with_keys
from airflow_samza.storage.key_hashes import Numbers
from airflow_samza.storage.key_index import as_rows
from airflow_samza.storage.offsets_file import Place
from airflow_samza.systems.system import MessageRun, UnreadableRun
from airflow_samza.task.loop.reading import TaskInput, chooser_settings
from airflow_samza.task.loop.side_messages import DroppedMessages, SideMessages, without_marks
from airflow_samza.task.loop.task_tables import Filled, as_of_tables, empty_store, section_tables
from airflow_samza.task.messages.change_events import ChangeReader
from airflow_samza.task.messages.conform import SchemaConformer
from airflow_samza.task.messages.event_times import micros
from airflow_samza.task.messages.user_errors import file_and_line, located, user_location
from airflow_samza.task.operators.low_level.context import Metrics
from airflow_samza.task.program.stage_program import StageProgram
from airflow_samza.task.report import InputReport, added
from airflow_samza.task.tables.lazy_store import LazyTableStore
from airflow_samza.task.tables.parts import empty
from airflow_samza.task.tables.side_inputs import MessageStore, apply_entries, make_processor
from airflow_samza.task.tables.timed_store import HistoryStore, SequencedStore, TimedStore

SIDE_INPUT_SECONDS = "side_input_seconds"
"""The metric of the seconds that a side input took whose messages a processor turns into rows.

Its name is this, a dot, and the stream's id.
"""

WITHOUT_TIME = "table_rows_ignored_without_event_time"
"""The metric of the rows of side inputs that have no event time, in tables that are joined as of event times."""

WITHOUT_SEQUENCE = "table_rows_ignored_without_sequence"
"""The metric of the rows of side inputs that have none of the numbers by which their table orders changes."""

_SHOWN = 3

_ORDERED = (pa.types.is_integer, pa.types.is_string, pa.types.is_date32)
"""Kinds of keys that Spark sorts as Python does."""


class SideTable:
    """One table.

    ``reached`` are the next offsets of the places that feed it; ``schemas`` the columns of its streams, by stream id.
    """

    def __init__(
        self, spec: ApplicationSpec, table: TableDescriptor, store: LazyTableStore, schemas: Mapping[str, Schema]
    ) -> None:
        self.table = table
        self.store = store
        self.reached: dict[Place, int] = {}
        self.saved_rows = 0
        """Number of rows in the host's copy, when that was written or taken over.

        ``unsaved`` messages came since.
        """
        self.unsaved = 0
        self.unsaved_seconds = 0.0
        self._spec = spec
        self._schemas = schemas
        self._conformers: dict[tuple[str, bool], SchemaConformer] = {}
        self._metrics = Metrics()
        self._side_store: MessageStore | None = None
        self._processor: SideInputsProcessor | None = None
        self._readers: dict[str, SideMessages] = {}
        self._changes: dict[Place, ChangeReader] = {}
        self._without_key = 0
        checked = table.from_table is not None and table.processor is None
        self._taken: list[pa.RecordBatch] | None = [] if checked else None
        self._dropped = DroppedMessages(table.table_id, self._metrics)

    def take(self, place: Place, run: MessageRun) -> None:
        """Take messages of one place; those that were taken before are left out."""
        skipped = max(self.reached.get(place, 0) - run.offset, 0)
        if skipped >= run.messages:
            return
        part = run.slice(skipped)
        for one in self._messages_of(place, part):
            self._take(place, one)
        self.unsaved += part.messages
        self.reached[place] = part.offset + part.messages

    def _messages_of(self, place: Place, run: MessageRun) -> Iterator[MessageRun]:
        """Yield the messages of a run, which may be change events; those that change nothing are left out."""
        stream = self._spec.side_inputs[place[0]]
        if stream.events is None or isinstance(run, UnreadableRun):
            yield run
            return
        if place not in self._changes:
            self._changes[place] = ChangeReader(stream, f"side input {stream.stream_id!r}, partition {place[1]}")
        for one in self._changes[place].runs(run):
            if isinstance(one, UnreadableRun) or not one.batch.column(DELETED).null_count:
                yield one
            elif (kept := one.batch.filter(one.batch.column(DELETED).is_valid())).num_rows:
                yield MessageRun(one.ssp, one.offset, kept)

    def _take(self, place: Place, part: MessageRun) -> None:
        if isinstance(part, UnreadableRun):
            self._dropped.unreadable(place, part)
        elif self.table.processor is None:
            self._take_rows(place, part)
        else:
            began = time.perf_counter()
            self._process(place, part)
            self.unsaved_seconds += time.perf_counter() - began

    def take_over(self, base: ColumnarTable, reached: Mapping[Place, int]) -> None:
        """Continue from what another process has read, in place of all that the table holds."""
        self.store.start_from(base)
        self.reached = dict(reached)
        self._side_store = self._processor = None  # a processor knows of the rows by its store alone
        self.saved(len(base))

    def saved(self, rows: int) -> None:
        """Note that the host keeps what the table holds."""
        self.saved_rows, self.unsaved, self.unsaved_seconds = rows, 0, 0.0

    def forget_offsets(self, stream_id: str) -> None:
        """Forget the offsets of a stream, which may be read from an earlier one next; the rows stay."""
        self.reached = {place: offset for place, offset in self.reached.items() if place[0] != stream_id}

    def pass_by(self, place: Place, offset: int) -> None:
        """Note that all before an offset has been read: control messages, or what is not for this table."""
        self.reached[place] = max(self.reached.get(place, 0), offset)

    @property
    def is_as_pushed(self) -> bool:
        """Return whether the rows are those of a pushed table, by keys that are in the same order everywhere."""
        table = self.table
        if not table.is_pushed or table.from_table or table.processor or table.ttl_ms or len(table.side_inputs) != 1:
            return False
        kinds = [self.store.schema[name].type.to_arrow() for name in self.store.key]
        return all(any(is_kind(kind) for is_kind in _ORDERED) for kind in kinds)

    def conformed(self, place: Place, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return rows of a full push in the columns of the table."""
        return self._conformer(place[0]).conform(without_marks(batch, self.store.schema)[0])

    def changes_in(self, place: Place, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, Numbers]:
        """Return what a section of a push changes, in the columns of the table and in order; True: the key is deleted.

        Rows with a null in their key are left out, and counted.
        """
        rows, is_deleted, _ = self._changed(place, self._with_keys(batch), None)
        return rows, is_deleted

    def finish(self, filled: Filled) -> None:
        """Finish what was taken, and return what came of it: the rows are in the table then."""
        before = self.store.ignored
        if self._side_store is not None:
            self._flush(self._side_store)
        self._dropped.report(filled)
        self.store.take_in()
        counted, self._without_key = self._without_key + self.store.ignored - before, 0
        if self._taken is not None and (self._taken or counted):
            _check_keys(self.table, self._taken, self.store.count, counted)
        if counted:
            filled.ignored[self.table.table_id] = filled.ignored.get(self.table.table_id, 0) + counted
        filled.metrics = added(filled.metrics, self._metrics.counters)
        filled.gauges.update(self._metrics.gauges)
        self._metrics.counters.clear()
        self._metrics.gauges.clear()

    def lacking(self, stream_id: str, run: MessageRun) -> int:
        """Return how many messages have keys of which the table has no row."""
        if isinstance(run, UnreadableRun):
            return 0
        lacking = 0
        for one in self._messages_of((stream_id, run.ssp.partition), run):
            if not isinstance(one, UnreadableRun):
                names = [name for name in self.store.key if name in one.batch.schema.names]
                present, _ = with_keys(one.batch.select(names), names)
                keys = self._conformer(stream_id, key_alone=True).conform(present)
                lacking += int((self.store.find(keys.columns) < 0).sum())
        return lacking

    # -- each message a row --------------------------------------------------------------------------------------------

    def _take_rows(self, place: Place, run: MessageRun) -> None:
        batch = self._with_keys(run.batch)
        times = self._times(place[0], batch)
        if times is not None and times.null_count:
            name = WITHOUT_SEQUENCE if isinstance(self.store, SequencedStore) else WITHOUT_TIME
            self._metrics.count(name, times.null_count)
            batch, times = batch.filter(times.is_valid()), times.drop_null()
        offset = run.offset if batch.num_rows == run.messages else None
        rows, is_deleted, places = self._changed(place, batch, offset)
        if isinstance(self.store, TimedStore):
            assert times is not None
            self.store.put(rows, times.to_numpy(zero_copy_only=False).astype(np.int64)[places], is_deleted)
        else:
            self.store.write(rows, None, is_deleted)
        if self._taken is not None:
            self._taken.append(rows.select(list(self.store.key)))

    def _times(self, stream_id: str, batch: pa.RecordBatch) -> pa.Array | None:
        """Return from when on rows count (µs), or the numbers that order them; None in a table of the newest rows."""
        if isinstance(self.store, SequencedStore):
            return _numbers(batch.column(str(self.table.sequence_by)))
        if not isinstance(self.store, TimedStore):
            return None
        column = self._spec.side_inputs[stream_id].timestamp
        assert column is not None
        return micros(batch.column(column), self._schemas[stream_id][column].type, self._where(stream_id))

    def _changed(
        self, place: Place, batch: pa.RecordBatch, offset: int | None
    ) -> tuple[pa.RecordBatch, Numbers, Numbers]:
        """Return what rows change: the rows in the columns of the table, which of them delete their key, their places.

        Rows that do not fit are shown with offsets that count from ``offset``; None: these are not known.
        """
        batch, marks = without_marks(batch, self.store.schema)
        is_deleted = np.zeros(batch.num_rows, bool) if marks is None else marks.to_numpy(zero_copy_only=False)
        writing, deleting = np.flatnonzero(~is_deleted), np.flatnonzero(is_deleted)
        parts: list[pa.RecordBatch] = []
        places: list[Numbers] = []
        if len(deleting):
            keys = self._conformer(place[0], key_alone=True).conform(batch.take(as_rows(deleting)))
            parts.append(self.store.with_all_columns(keys))
            places.append(deleting)
            batch = batch.take(as_rows(writing))
            offset = None
        for first, rows in self._fitting(place, batch, offset, self._conformer(place[0])):
            parts.append(rows)
            places.append(writing[first : first + rows.num_rows])
        if len(parts) == 1:
            return parts[0], is_deleted[places[0]], places[0]
        together = pa.concat_batches([empty(self.store.schema.to_arrow()), *parts])
        found = np.concatenate([deleting[:0], *places])
        order = np.argsort(found)
        return together.take(as_rows(order)), is_deleted[found[order]], found[order]

    def _fitting(
        self, place: Place, batch: pa.RecordBatch, offset: int | None, conformer: SchemaConformer
    ) -> Iterable[tuple[int, pa.RecordBatch]]:
        """The rows of a batch in the columns that are wanted, in pieces with the place of each."""
        if self._spec.side_inputs[place[0]].on_error is None:
            return [(0, conformer.conform(batch, offset))]
        return self._dropped.fitting(place, batch, conformer, offset)

    def _with_keys(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows whose key has no null; the others are counted (rule S2)."""
        kept, without = with_keys(batch, [name for name in self.store.key if name in batch.schema.names])
        self._without_key += without
        return kept

    def _conformer(self, stream_id: str, *, key_alone: bool = False) -> SchemaConformer:
        if (stream_id, key_alone) not in self._conformers:
            schema = self.store.key_schema if key_alone else self.store.schema
            self._conformers[stream_id, key_alone] = SchemaConformer(schema, self._where(stream_id))
        return self._conformers[stream_id, key_alone]

    def _where(self, stream_id: str) -> str:
        return f"side input {stream_id!r} (table {self.table.table_id!r})"

    # -- a processor ---------------------------------------------------------------------------------------------------

    def _process(self, place: Place, run: MessageRun) -> None:
        stream = self._spec.side_inputs[place[0]]
        processor, store = self._begun()
        if stream.stream_id not in self._readers:
            conformer = SchemaConformer(self._schemas[stream.stream_id], self._where(stream.stream_id))
            self._readers[stream.stream_id] = SideMessages(
                stream, conformer.schema, partial(self._fitting, conformer=conformer)
            )
        for offset, keys, messages, times in self._readers[stream.stream_id].read(place, run):
            if stream.key == self.table.key:
                store.prefetch(keys)
            for at, (key, message, time_) in enumerate(zip(keys, messages, times, strict=True), offset):
                envelope = IncomingMessageEnvelope(stream.stream_id, place[1], at, key, message, stream.system, time_)
                try:
                    self._without_key += apply_entries(store, processor.process(envelope, store))
                except USER_ERRORS as error:
                    raise self._failed(processor, error, envelope) from error

    def _begun(self) -> tuple[SideInputsProcessor, MessageStore]:
        if self._processor is None or self._side_store is None:
            self._side_store = MessageStore(self.store)
            self._processor = make_processor(self.table, self._spec.config, self._metrics)
        return self._processor, self._side_store

    def _failed(
        self, processor: SideInputsProcessor, error: BaseException, envelope: IncomingMessageEnvelope
    ) -> SamzaError:
        if isinstance(error, SamzaError):
            return error
        location = user_location(processor.process, error.__traceback__)
        what = error_text(error, MOST)
        return MessageError(
            f"{name_of(processor.process)}, the processor of the table {self.table.table_id!r}, failed with "
            f"{one_line(what)}, on the message {quoted(envelope.message)} of {envelope.stream!r}, partition "
            f"{envelope.partition}, offset {envelope.offset}{located(location)}.",
            hint="Return (key, row) pairs; a row None deletes. For a message that changes nothing, return no pairs.",
            store=self.table.table_id,
            stream=envelope.stream,
            partition=envelope.partition,
            offset=envelope.offset,
            **file_and_line(location),
            exception=type(error).__name__,
        )

    def _flush(self, store: MessageStore) -> None:
        """Hand what a processor gave to the table; which message it came of is not known by then."""
        try:
            store.flush()
        except SamzaError:
            raise
        except Exception as error:
            raise MessageError(
                f"The processor of the table {self.table.table_id!r} has given what is no row of it: {error}.",
                hint=f"Its rows have the columns {self.store.schema.ddl()}, by {', '.join(self.store.key)}.",
                store=self.table.table_id,
            ) from error


def _numbers(column: pa.Array) -> pa.Array:
    """Return the values that order changes as whole numbers; of times their order is all that counts."""
    if pa.types.is_date32(column.type):
        column = column.cast(pa.int32())
    return column.cast(pa.int64())


class SideTables:
    """The tables of one section of a task that side inputs feed, kept from epoch to epoch: only what is new is read."""

    def __init__(self, program: StageProgram, section: int) -> None:
        self._program = program
        self.sources: dict[str, Mapping[str, Any]] = {}
        """The input range of each stream that was read last."""
        self.filled_at = time.monotonic()  # all of it had been read then
        fed = [table_id for table_id in section_tables(program, section) if program.spec.table(table_id).side_inputs]
        self._tables = {table_id: self._empty(table_id) for table_id in fed}

    def _empty(self, table_id: str) -> SideTable:
        program = self._program
        kind: type[LazyTableStore] = LazyTableStore
        if table_id in as_of_tables(program):
            kind = HistoryStore if program.spec.table(table_id).is_pushed else TimedStore
        elif program.spec.table(table_id).sequence_by is not None:
            kind = SequencedStore
        store = empty_store(program, table_id, kind)
        return SideTable(program.spec, program.spec.table(table_id), store, program.streams)

    def forget(self, stream_id: str) -> None:
        """Empty the tables that a stream feeds: they must be read from the beginning."""
        for table_id, table in self._tables.items():
            if stream_id in table.table.side_inputs:
                self._tables[table_id] = self._empty(table_id)
        self.sources.pop(stream_id, None)

    @property
    def stores(self) -> dict[str, LazyTableStore]:
        """The tables' rows, by table."""
        return {table_id: table.store for table_id, table in self._tables.items()}

    @property
    def tables(self) -> list[SideTable]:
        """The tables."""
        return list(self._tables.values())

    @property
    def streams(self) -> list[str]:
        """The streams that feed them, each once."""
        return sorted({stream_id for table in self._tables.values() for stream_id in table.table.side_inputs})

    def start(self, stream_id: str, partition: int, oldest: int) -> int:
        """The first offset of a place that one of the tables has not read."""
        place = (stream_id, partition)
        return min(
            (
                table.reached.get(place, oldest)
                for table in self._tables.values()
                if stream_id in table.table.side_inputs
            ),
            default=oldest,
        )

    def fill(self, sources: Sequence[TaskInput]) -> Filled:
        """Reads side inputs to their ends (decision 52); each topic once, whatever tables it feeds."""
        show_messages(Config(self._program.spec.config).messages_shown)
        filled = Filled()
        by_stream = grouped((source.stream_id, source) for source in sources)
        systems = {stream_id: inputs[0].system for stream_id, inputs in by_stream.items()}
        settings, names = chooser_settings(self._program.spec, systems)
        # those of higher priority first
        for stream_id in sorted(systems, key=lambda stream_id: (-settings.priority(names[stream_id]), stream_id)):
            readers = [table for table in self._tables.values() if stream_id in table.table.side_inputs]
            began, report = time.perf_counter(), InputReport()
            for source in by_stream[stream_id]:
                _read(readers, source, filled.inputs.setdefault(stream_id, report))
            if report.messages and any(table.table.processor is not None for table in readers):
                filled.metrics[f"{SIDE_INPUT_SECONDS}.{stream_id}"] = round(time.perf_counter() - began, 6)
        for table in self._tables.values():
            table.finish(filled)
        self.filled_at = time.monotonic()
        return filled


def _read(readers: Sequence[SideTable], source: TaskInput, report: InputReport) -> None:
    place = (source.stream_id, source.partition)
    report.next_offsets[source.partition] = source.start
    for envelope in source.envelopes:
        report.next_offsets[source.partition] = envelope.offset + envelope.messages
        if isinstance(envelope, MessageRun):
            report.messages += envelope.messages
            report.bytes += envelope.batch.nbytes
            for table in readers:
                table.take(place, envelope)
        else:
            report.control_messages += envelope.messages
    if source.head is not None:  # the last offsets may hold nothing for this table
        report.next_offsets[source.partition] = max(report.next_offsets[source.partition], source.head)
    for table in readers:
        table.pass_by(place, report.next_offsets[source.partition])


def _check_keys(table: TableDescriptor, taken: Sequence[pa.RecordBatch], rows: int, nulls: int) -> None:
    """Reject keys of a lake's table as those of a push are: no order says which of two rows counts (decision 114)."""
    examples: list[Any] = []
    duplicates = sum(keys.num_rows for keys in taken) - rows
    if duplicates > 0:
        keyed = pa.Table.from_batches(taken).group_by(list(table.key), use_threads=False)  # the first keys first
        counts = keyed.aggregate([([], "count_all")])
        for key in counts.filter(pc.field("count_all") > 1).drop_columns("count_all").slice(0, _SHOWN).to_pylist():
            values = tuple(key.values())
            examples.append(plainly(values[0] if len(values) == 1 else values))
    hint = "or push it (leave from_table= out), and say what becomes of such rows."
    name = f"The table {table.from_table}, which fills the table {table.table_id!r},"
    check_keys(name, table.table_id, table.key, nulls, duplicates, examples, otherwise=(hint, hint))

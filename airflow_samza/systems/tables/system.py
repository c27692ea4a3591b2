"""Systems whose streams are tables: what is alike for all formats of tables, whatever keeps the records of commits.

The systems of Delta and Iceberg derive from it.
"""

from __future__ import annotations

import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from airflow_samza.schema import Schema
from airflow_samza.systems.capabilities import Written, rows_missing
from airflow_samza.systems.files.durable_files import write_probe
from airflow_samza.systems.files.failures import storage_errors
from airflow_samza.systems.files.formats.file_format import BATCH_ROWS
from airflow_samza.systems.files.formats.options import partition_count
from airflow_samza.systems.files.location import Location
from airflow_samza.systems.output_slots import OutputSlot, SlotWriter
from airflow_samza.systems.system import ColumnBound, StreamMetadata, StreamSpec, SystemBinding
from airflow_samza.systems.tables.commits import Committed, TableView, heading, output_digest
from airflow_samza.systems.tables.file_columns import constant
from airflow_samza.systems.tables.folded_records import Heading
from airflow_samza.systems.tables.inputs.arrivals import (
    LOOK_SECONDS,
    ArrivalsRequest,
    TableHistory,
    arrived_range,
    changes_range,
    reject_one_version,
    reject_other_table,
)
from airflow_samza.systems.tables.inputs.changes import changed_range
from airflow_samza.systems.tables.inputs.table_version import TableVersion
from airflow_samza.systems.tables.options import MAIN
from airflow_samza.systems.tables.output import TableProducer, file_name
from airflow_samza.systems.tables.output_target import (
    OutputTarget,
    check_messages,
    columns_unknown,
    fix_run_column,
    with_run_column,
)
from airflow_samza.systems.tables.staged_files import reading_staged
from airflow_samza.systems.tables.upserts import ChangeProducer, check_options, fix_key, made_columns


class Tables(Protocol):
    """The tables of a system, while its catalog is open."""

    def find(self, stream: StreamSpec) -> TableVersion | None:
        """Return the version of a table that a stream means; None: there is no table."""

    def load(self, stream: StreamSpec, intake: Mapping[str, Any] | None = None) -> TableHistory:
        """Return the version of a table that is there, for a stream that was read up to the record ``intake``."""


class TableSystem(ABC):
    """System of tables, as inputs and as outputs, but for what each format does in its own way.

    ``planned`` has the tables of outputs as :meth:`fix_output` has loaded them: a plan loads each once. ``root`` is
    that of the runs, if there is one.
    """

    kind: str
    versions: tuple[str, ...]
    """The options that choose one version for ever."""

    options_of: Callable[[StreamSpec], Any]
    """The format's options of an output, which are :class:`TableOutputOptions`."""

    def __init__(self, name: str, binding: SystemBinding, root: str | None) -> None:
        self.name = name
        self.binding = binding
        self.root = root
        self.planned: dict[str, Any] = {}

    @abstractmethod
    def tables(self) -> AbstractContextManager[Tables]:
        """Open the catalog."""

    def metadata(self, streams: Sequence[StreamSpec]) -> dict[str, StreamMetadata]:
        """Return the declared partition counts of streams whose table exists, and its columns where none are declared.

        The count never follows from the files, which change from version to version.
        """
        read = [stream for stream in streams if not stream.written]
        if not read:
            return {}
        with self.tables() as tables:
            found = [version for stream in read if (version := tables.find(stream)) is not None]
            return {
                one.stream.name: StreamMetadata(self.partitions(one.stream), schema=one.schema().ddl()) for one in found
            }

    def slice(self, stream: StreamSpec) -> dict[str, Any]:
        """Return the files of the version that a stream means, and which partition reads what of them."""
        return self.slice_within(stream, ())

    def slice_within(self, stream: StreamSpec, bounds: Sequence[ColumnBound]) -> dict[str, Any]:
        """Return the input range without files that cannot have a row that fulfils all bounds."""
        with self.tables() as tables:
            return tables.load(stream).input_range(self.partitions(stream), bounds)

    def changes(self, stream: StreamSpec, since: str, remedy: str, *, carried: bool = False) -> dict[str, Any]:
        """Return the range of the rows that are in one only of two versions; with ``carried``, in both."""
        with self.tables() as tables:
            return changed_range(tables.load(stream), self.partitions(stream), since, remedy, carried=carried)

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
        """Return the range of what was appended, or changed, since the record ``intake``; None: of all rows there are.

        Files without a row that fulfils all ``bounds`` are left out; of changes none, as rows may cancel out.
        """
        reject_one_version(stream, self.versions)
        with self.tables() as tables:
            version = tables.load(stream, intake)
            if intake is not None:
                reject_other_table(version, intake)
            request = ArrivalsRequest(version, intake, self.partitions(stream), first_chunk, unread)
            return changes_range(request) if stream.changes else arrived_range(request, bounds)

    def look_seconds(self, stream: StreamSpec) -> float:
        """Return how long a continuous run waits between two looks at the table."""
        return LOOK_SECONDS

    def partitions(self, stream: StreamSpec) -> int:
        """Return the partition count of an input."""
        return partition_count(stream, self.name, self.binding)

    @abstractmethod
    def target(self, stream: StreamSpec, run: str) -> dict[str, Any] | None:
        """Load the table of an output for a plan; return what tasks need to write to it, None: it is to be made."""

    @abstractmethod
    def check_made(self, stream: StreamSpec, columns: Schema) -> None:
        """Reject columns with which a table cannot be made."""

    @abstractmethod
    def make_missing(self, stream: StreamSpec, options: Any, schema: Schema) -> None:
        """Make the table of an output for messages with some columns, if it is not there."""

    @abstractmethod
    def folder(self, stream: StreamSpec, data: str) -> Location:
        """Return the folder of a table's data files, as what the plan has fixed of an output names it."""

    @abstractmethod
    def view(self, stream: StreamSpec, sought: Heading | None = None, *, planned: bool = False) -> TableView:
        """Return the records of the commits to the table of an output; none of one that is not there yet.

        With ``sought`` those are enough that have it, and with ``planned`` those of the table as a plan has loaded it.
        """

    @abstractmethod
    def whole_files(self, stream: StreamSpec) -> tuple[str, Iterable[str]]:
        """Return the version of the table of an output, and the names of its data files of which no row is deleted."""

    def branch(self, stream: StreamSpec) -> str | None:
        """Return the branch to which an output commits; None: readers see at once what it commits."""
        branch = self.options_of(stream).branch
        return None if branch == MAIN else branch

    def fix_output(self, stream: StreamSpec, columns: Schema | None, run: str = "") -> dict[str, Any]:
        """Return what tasks need to write to the table of an output; messages that do not fit it are rejected.

        Of a table that is yet to be made it is its name alone.
        """
        options = self.options_of(stream)
        check_options(options, stream)
        fixed = self.target(stream, run)
        if fixed is None:
            if columns is None:
                raise columns_unknown(options, stream.name)
            self.check_made(stream, self.columns_to_make(stream, columns))
            return {"kind": self.kind, "table": options.table, "made": True}
        fixed = fix_run_column(fix_key(fixed, options, stream), options, stream.name)
        if columns is not None:
            check_messages(OutputTarget.of(fixed), columns, stream.name)
        return fixed

    def columns_to_make(self, stream: StreamSpec, messages: Schema) -> Schema:
        """Return the columns of a table that is made for the messages of an output."""
        options = self.options_of(stream)
        return with_run_column(made_columns(messages, options), options, stream.name)

    def create(self, streams: Sequence[StreamSpec]) -> None:
        """Make the missing tables of outputs that say so; their columns must be known."""
        for stream in streams:
            options = self.options_of(stream)
            if options.create and stream.schema is not None:
                self.make_missing(stream, options, Schema.of(stream.schema))

    def check_writable(self, stream: StreamSpec, fixed: Mapping[str, Any] | None = None) -> None:
        """Reject a table that does not exist, or cannot be written here, and a folder that may not be written.

        What a plan has fixed of the output was checked then.
        """
        if fixed is None:
            fixed = self.fix_output(stream, Schema.of(stream.schema) if stream.schema is not None else None)
        if "data" in fixed:
            probe = self.folder(stream, fixed["data"]) / f"samza-probe-{uuid.uuid4().hex}"
            with storage_errors(path=str(probe), stream=stream.name, doing="write"):
                write_probe(probe)

    def producer(self, stream: StreamSpec, writer: str, fixed: Mapping[str, Any] | None = None) -> TableProducer:
        """Return a producer of one try at a task; without what the plan has fixed, to the table as it is now."""
        if fixed is None:
            fixed = self.fix_output(stream, None)
        target = OutputTarget.of(fixed)
        kind = ChangeProducer if target.key else TableProducer
        return kind(self.folder(stream, target.data), stream, writer, target)

    def written_rows(self, stream: StreamSpec, written: Written) -> Iterator[pa.RecordBatch]:
        """Yield the rows of data files that a task has staged, and that may be committed since.

        Columns have their names in the table. That which tells runs apart is left out: it differs in all rows.
        """
        target = OutputTarget.of(written.fixed or {})
        for file in written.described["files"]:
            place = self.folder(stream, target.data) / file_name(str(file["path"]))
            with (
                reading_staged(place, stream.name, rows_missing(stream.name, str(place))),
                pq.ParquetFile(place.filesystem.open_input_file(place.path)) as opened,
            ):
                for batch in opened.iter_batches(BATCH_ROWS):
                    yield _as_of_table(batch, target, file)

    def standing(self, stream: StreamSpec, producer: str) -> str | None:
        """Return the newest generation of a producer that has committed to a table; None when it never has."""
        view = self.view(stream, _of_producer(stream, producer), planned=True)
        newest = view.owners.newest.get(output_digest(producer, stream.name))
        return None if newest is None else ".".join(map(str, newest))

    def lost(self, stream: StreamSpec, producer: str, generation: str) -> str | None:
        """Return what of the rows of a generation is not in a table any more; None: all are.

        Of rows that have replaced others by their keys nobody can tell when others have committed since.
        """
        mine, table = (output_digest(producer, stream.name), generation), self.options_of(stream).table
        view = self.view(stream, _of_producer(stream, producer), planned=True)
        if not view.owners.stands(*mine):
            return f"the table {table} has no commit of it"
        committed = view.by_owner[mine]
        version, files = self.whole_files(stream)
        if version == committed.snapshot:
            return None
        if not committed.files:
            return f"the table {table} has commits behind it, which may have replaced its rows"
        left = sum(name.startswith(committed.prefixes) for name in files)
        if left == committed.files:
            return None
        return f"of its {committed.files} data files the table {table} has {left} as they were"

    def reject_namesake(self, stream: StreamSpec, producer: str, root: str) -> None:
        """Reject a producer if one of its name, under another root, has committed to the table."""
        mine = Committed(producer, stream.name, "", turn=0, epoch=0, root=root)
        view = self.view(stream, _of_producer(stream, producer), planned=True)
        view.reject_namesake(mine, self.options_of(stream).table)

    def slot_writers(self, stream: StreamSpec, slot: OutputSlot) -> list[SlotWriter]:
        """Return who has written the slots that meet one, of what readers see."""
        return self.view(stream, heading(slot), planned=True).writers(slot.code)

    def outside_slots(self, stream: StreamSpec, producers: Iterable[str]) -> list[str]:
        """Return those of some producers whose rows readers see, and who wrote them as no slot."""
        outside = self.view(stream, planned=True).outside()
        return [producer for producer in producers if producer in outside] if outside else []

    def successor(self, stream: StreamSpec, producer: str) -> str | None:
        """Return the producer of the run that has replaced what a producer wrote; None: it stands, or never wrote."""
        return self.view(stream, _of_producer(stream, producer)).successor(producer, stream.name)


def _of_producer(stream: StreamSpec, producer: str) -> Heading:
    return heading(None, output_digest(producer, stream.name))


def _as_of_table(batch: pa.RecordBatch, target: OutputTarget, file: Mapping[str, Any]) -> pa.RecordBatch:
    found = dict(zip((column.id for column in target.columns_of_files), batch.columns, strict=True))
    if not target.in_files:
        for (_, column), value in zip(target.partition_columns, file["partition"], strict=True):
            found[column.id] = constant(column, value, batch.num_rows)
    shown = [column for column in target.columns if column.name != target.run_column]
    return pa.RecordBatch.from_arrays([found[column.id] for column in shown], [column.name for column in shown])

"""Protocols of file formats, the five formats that there are, and the errors of files that cannot be read.

Streams of files choose a format by it, and both lake formats open their data files.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pkgutil import resolve_name
from typing import IO, TYPE_CHECKING, NamedTuple, Protocol

import pyarrow as pa
import pyarrow.fs as pafs

from airflow_samza.application.rejections import did_you_mean
from airflow_samza.errors import ConfigError, TopicError
from airflow_samza.quoting import are_shown, one_line
from airflow_samza.systems.files.failures import is_missing, is_of_storage, translate
from airflow_samza.systems.files.formats.options import CODECS, FORMATS, FileOptions, compression_of
from airflow_samza.systems.files.location import object_store_of
from airflow_samza.systems.files.packing import Unit
from airflow_samza.systems.filesystems.contents import WrittenAgain
from airflow_samza.systems.system import ColumnBound

if TYPE_CHECKING:
    from airflow_samza.systems.files.formats.times import Times

WHILE_READ = "it was written again while it was read"

BATCH_ROWS = 65_536
"""Rows of one batch read: large enough to amortise a call, small enough for a task's memory."""


DECLARE_FORMAT = "declare format= on the stream"
LEAVE_FILE_OUT = "leave it out (by a path= that does not match it, or a name that begins with _)"
LEAVE_RECORDS_OUT = 'leave such records out (on_error="drop" on the input, or dead_letter(stream), which keeps them)'
READ_BY_SPARK = "have Spark read the stream (a system of kind spark)"
"""Ways out, without a full stop: leaving a file out helps against no single record, and the other way round."""


class TimeRange(NamedTuple):
    """A slice by a column: [start, end) in UTC microseconds."""

    column: str
    start: int
    end: int

    @property
    def of_statistics(self) -> int:
        """The least highest time in statistics of rows in the slice: writers cut times off there, to a minute at most.

        Of a slice that begins with a minute it is the start.
        """
        return self.start - self.start % 60_000_000


@dataclass(frozen=True)
class InputFile:
    """A file to be read; ``shown`` is its path for people. Rows that do not fulfil all ``bounds`` need not be read.

    With ``dictionaries`` texts that repeat may come dictionary-encoded. Of a ``tolerant`` one records that cannot be
    read come as :class:`Unreadable`. With a ``version`` of its storage no bytes of another one are read.
    """

    filesystem: pafs.FileSystem
    path: str
    size: int
    shown: str
    stream: str
    bounds: tuple[ColumnBound, ...] = ()
    dictionaries: bool = False
    tolerant: bool = False
    version: str | None = None

    def random_access(self) -> pa.NativeFile:
        """Return the file, seekable."""
        storage = object_store_of(self.filesystem) if self.version is not None else None
        if storage is not None:
            return storage.open_version(self.path, str(self.version))
        return self.filesystem.open_input_file(self.path)

    def sequential(self) -> pa.NativeFile:
        """Return the file from its start, decompressed when its extension says so, in any letter case.

        One that is not compressed is seekable.
        """
        codec = CODECS.get(compression_of(self.path) or "")
        opened = self.random_access()
        return opened if codec is None else pa.CompressedInputStream(opened, codec)


_BEGINNING = 1000
"""Bytes of a record of which an error has the beginning; what is shown of it is one line."""

_LONGEST = 1 << 20
"""Bytes of a record that are kept: a quote that is never closed makes the rest of a file one record."""


class Unreadable(NamedTuple):
    """Record that cannot be read: its text, and the reason."""

    text: str
    error: str


def as_text(data: bytes) -> str:
    """Return a record's bytes as text without its line end, cut when it is long; other bytes than UTF-8 are escaped."""
    return data[:_LONGEST].rstrip(b"\r\n").decode(errors="backslashreplace")


class Sample(NamedTuple):
    """The fields that lines at the beginning of a file have, in the order in which they come, and how many lines."""

    fields: tuple[str, ...]
    lines: int


class OpenFile(Protocol):
    """A file that was opened: its schema, and its batches as the file has them (text: as they were asked for)."""

    schema: pa.Schema

    def batches(
        self, start: int, end: int | None, names: Sequence[str], within: TimeRange | None
    ) -> Iterator[pa.RecordBatch] | Iterator[pa.RecordBatch | Unreadable]:
        """Return the rows of a part of the file, with these columns.

        Rows outside of ``within`` may be left out, never others.
        """

    def sample(self) -> Sample:
        """Return the fields of the lines at the beginning of a file whose lines have fields of their own."""
        return Sample((), 0)

    def close(self) -> None:
        """Give the file back, if it is held."""
        return


class FileWriter(Protocol):
    """Writer of batches of one schema to a file."""

    def write(self, batch: pa.RecordBatch) -> None:
        """Append rows."""

    def close(self) -> None:
        """Write what is still held back, and the file's end; the sink stays open."""
        return


class FileFormat(Protocol):
    """Format of files: reading, cutting into units, writing. ``codecs``: what ``compression`` may be of an output.

    ``times`` are those that are read back as they were written, None when all are.
    """

    codecs: tuple[str, ...] = ()
    times: Times | None = None

    def open(self, file: InputFile, schema: pa.Schema | None, options: FileOptions) -> OpenFile:
        """Open a file; without a ``schema`` it is found out, else text is read as these columns."""

    def units(self, number: int, file: InputFile, within: TimeRange | None, options: FileOptions) -> list[Unit]:
        """Return the units into which the file may be cut, or the whole; ``number`` is its place in the listing."""
        return [Unit(number, 0, None, file.size)]

    def check(self, schema: pa.Schema, stream: str, options: FileOptions) -> None:
        """Reject, with a ``SchemaError``, columns that a file with these options cannot hold; most hold all."""

    def writer(self, sink: IO[bytes] | pa.NativeFile, schema: pa.Schema, options: FileOptions) -> FileWriter:
        """Return a writer to an open sink."""


def open_format(name: str) -> FileFormat:
    """Return the format of this name (one of ``options.FORMATS``); loads what it needs."""
    opened: FileFormat = resolve_name(f"airflow_samza.systems.files.formats.{FORMATS[name].made_by}")()
    return opened


def check_codec(kind: FileFormat, format_name: str, options: FileOptions, stream: str) -> None:
    """Reject, with a ``ConfigError``, a codec that files of a format are not written with."""
    if options.compression and options.compression not in kind.codecs:
        codecs = f"Files of {format_name} are written with {', '.join(kind.codecs)}." if kind.codecs else ""
        raise ConfigError(
            f"Option 'compression' of stream {stream!r} is {options.compression!r}, and no file of {format_name} is "
            "written so.",
            hint=f"{did_you_mean(options.compression, kind.codecs)}{codecs or 'Leave it out, or write Parquet.'}",
            key="compression",
            value=options.compression,
        )


def pieces_of(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a batch in pieces of at most :data:`BATCH_ROWS`."""
    for row in range(0, batch.num_rows, BATCH_ROWS):
        yield batch.slice(row, BATCH_ROWS)


def rows_without_columns(count: int) -> pa.RecordBatch:
    """Return so many rows, of which nothing but their number is of interest."""
    return pa.RecordBatch.from_arrays([pa.nulls(count)], ["_"]).select([])


def concatenated(texts: pa.LargeStringArray) -> bytes:
    """Return the texts one after the other: the value buffer of an array without nulls, as it is."""
    offsets, data = texts.buffers()[1:]
    bounds = memoryview(offsets).cast("q")
    return bytes(memoryview(data)[bounds[texts.offset] : bounds[texts.offset + len(texts)]])


@contextmanager
def reading(file: InputFile, format_name: str) -> Iterator[None]:
    """Turn what reading raises into the error that says whether the file is missing, out of reach or damaged."""
    try:
        yield
    except WrittenAgain as error:
        raise changed(file.shown, file.stream, WHILE_READ) from error
    except OSError as error:
        if is_missing(error):
            raise changed(file.shown, file.stream, "it is gone") from error
        if is_of_storage(error):
            raise translate(error, path=file.shown, stream=file.stream, doing="read") from error
        raise damaged(file, format_name, error) from error
    except MemoryError as error:
        raise TopicError(
            f"File {file.shown} of stream {file.stream!r} takes more memory to be read than its task may have"
            f"{f': {error}' if str(error) else ''}.",
            hint=f"Declare only columns that are needed, {LEAVE_FILE_OUT}, {READ_BY_SPARK}, or "
            "give the workers more (spark.executor.pyspark.memory).",
            file=file.shown,
            stream=file.stream,
        ) from error
    except (pa.ArrowException, EOFError, ValueError, UnicodeDecodeError) as error:
        raise damaged(file, format_name, error) from error


def damaged(file: InputFile, format_name: str, reason: object, ways_out: str = "", **facts: object) -> TopicError:
    """Return the error of a file whose content is not what its format demands.

    ``ways_out``: what to do about it, where that is not what helps against any such file. ``facts`` are more of the
    error's.
    """
    text = " ".join(str(reason).split())[:300] or type(reason).__name__
    return TopicError(
        f"File {file.shown} of stream {file.stream!r} cannot be read as {format_name}: {text.rstrip('.')}.",
        hint=ways_out
        or f"If it has another format, {DECLARE_FORMAT}, or {READ_BY_SPARK}. Otherwise {LEAVE_FILE_OUT}, "
        "or replace it.",
        file=file.shown,
        stream=file.stream,
        reason=text,
        **facts,
    )


def bad_record(file: InputFile, format_name: str, reason: object, line: int | None, record: bytes) -> TopicError:
    """Return the error of a record that cannot be read, in a file that is not read on without it."""
    return damaged(
        file,
        format_name,
        reason,
        f"{LEAVE_RECORDS_OUT[0].upper()}{LEAVE_RECORDS_OUT[1:]}, or correct the file; if all of it has another format, "
        f"{DECLARE_FORMAT}, or {READ_BY_SPARK}.",
        line=line,
        record=beginning_of(record),
    )


def beginning_of(record: bytes) -> str | None:
    """Return how a record begins, for the facts of an error; None where messages are not shown."""
    return one_line(as_text(record[:_BEGINNING])) if are_shown() else None


def changed(shown: str, stream: str, what: str) -> TopicError:
    """Return the error of a file that is not the one the plan saw."""
    return TopicError(
        f"File {shown} of stream {stream!r} changed since the plan: {what}.",
        hint="Clear the plan task, so that a new plan takes the files as they are now; do not change files while a "
        "run reads them.",
        file=shown,
        stream=stream,
    )

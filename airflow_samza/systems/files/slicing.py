"""Input range of a stream of files, fixed once: its files, packed into the declared partitions, as JSON.

The system of files fixes ranges by it; tables of lakes take its thresholds.
"""

from __future__ import annotations

import dataclasses
import logging
import zlib
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Any

import pyarrow as pa

from airflow_samza.application.rejections import did_you_mean
from airflow_samza.errors import SchemaError, TopicError
from airflow_samza.schema import DataType, Field, Schema, type_from_arrow
from airflow_samza.systems.files.formats.casts import Conformer, shown
from airflow_samza.systems.files.formats.file_format import (
    InputFile,
    Sample,
    TimeRange,
    open_format,
    reading,
)
from airflow_samza.systems.files.formats.options import FileOptions, format_of_path
from airflow_samza.systems.files.formats.plain_types import plain_type
from airflow_samza.systems.files.listing import FileEntry, Listing
from airflow_samza.systems.files.location import Location
from airflow_samza.systems.files.packing import Unit, pack, pack_chunks
from airflow_samza.systems.system import StreamSpec

_SMALL_SHARE = 8
"""A file below 1/8 of a partition's share is not cut.

Packing stays within an eighth of even, and few footers are read.
"""

CHUNK_OFFSETS = 2**36
"""The offsets of a chunk in a partition: more than a chunk has rows, and few enough for 67 million chunks of a run."""

CHUNK_BYTES = 2**25
"""The bytes of a chunk, per partition: seconds of work, so that to read a part of it again costs little."""

_LONELY_BYTES = 2**30
"""From here on a stream without a declared partition count is worth a warning: one task reads all of it."""

_log = logging.getLogger(__name__)


def split_threshold(total: int, partitions: int) -> int:
    """Return the bytes above which a file is cut, where so many bytes are packed into partitions."""
    return total // (_SMALL_SHARE * partitions) if partitions > 1 else total


def warn_of_few_tasks(stream: StreamSpec, partitions: int, total: int) -> None:
    """Warn of a large input whose partition count nobody has declared."""
    if stream.partitions is None and total >= _LONELY_BYTES:
        _log.warning(
            "Stream %r declares no partition count, so %d task(s) read its %d MiB; declare partitions= on the stream.",
            stream.name,
            partitions,
            total // 2**20,
        )


def input_file(root: Location, listed: FileEntry, stream: str) -> InputFile:
    """Return the file of a listing, ready to be opened."""
    return InputFile(root.filesystem, listed.path, listed.size, str(root.at(listed.path)), stream)


def fix_slice(
    root: Location, listing: Listing, stream: StreamSpec, format_name: str, partitions: int, options: FileOptions
) -> dict[str, Any]:
    """Return the slice: files with size and time of change, splits per partition, a schema where none is declared."""
    files = listing.files
    total = sum(file.size for file in files)
    warn_of_few_tasks(stream, partitions, total)
    range_ = _range(root, files, stream, format_name, partitions, options, set())
    units = _units(root, files, stream, format_name, options, split_threshold(total, partitions))
    return {
        **range_,
        "splits": [[list(split) for split in splits] for splits in pack(units, partitions)],
    }


def fix_intervals(
    root: Location,
    listings: Sequence[Listing],
    streams: Sequence[StreamSpec],
    format_name: str,
    partitions: int,
    options: FileOptions,
) -> dict[str, Any]:
    """Return the range of the files of several data intervals, by a listing of each.

    How the files of an interval are cut and packed follows from them alone, so that it is the same in every run that
    reads them. Their paths turn the partitions: one small file for each interval is not always for the same one.
    """
    files = [file for listing in listings for file in listing.files]
    stream = streams[0]
    _reject_twice(root, listings, streams)
    warn_of_few_tasks(stream, partitions, sum(file.size for file in files))
    range_ = _range(root, files, stream, format_name, partitions, options, set())
    splits: list[list[list[int | None]]] = [[] for _ in range(partitions)]
    intervals = []
    first = 0
    for listing, of_interval in zip(listings, streams, strict=True):
        threshold = split_threshold(sum(file.size for file in listing.files), partitions)
        packed = pack(_units(root, listing.files, stream, format_name, options, threshold), partitions)
        turned = zlib.crc32((of_interval.path or "").encode()) % partitions
        packed = packed[-turned:] + packed[:-turned] if turned else packed
        for partition, its_splits in enumerate(packed):
            splits[partition] += [[split.file + first, split.start, split.end] for split in its_splits]
        intervals.append({"path": of_interval.path, "splits": [len(its_splits) for its_splits in packed]})
        first += len(listing.files)
    return {**range_, "splits": splits, "intervals": intervals}


def _reject_twice(root: Location, listings: Sequence[Listing], streams: Sequence[StreamSpec]) -> None:
    """Reject a file that two data intervals have: it would be read twice."""
    seen: dict[str, StreamSpec] = {}
    for listing, stream in zip(listings, streams, strict=True):
        for file in listing.files:
            if file.path in seen:
                raise TopicError(
                    f"The file {root.at(file.path)} of stream {stream.name!r} is in the paths of two data intervals: "
                    f"{seen[file.path].path} and {stream.path}.",
                    hint="Write a path= that has other files for each interval, at least as fine as these are long.",
                    path=str(root.at(file.path)),
                    stream=stream.name,
                )
            seen[file.path] = stream


def fix_chunks(
    root: Location,
    files: Sequence[FileEntry],
    stream: StreamSpec,
    format_name: str,
    partitions: int,
    options: FileOptions,
    first: int,
    turn: int,
    warned: set[tuple[str, str]],
) -> dict[str, Any]:
    """Return the range of new files, the part of each partition cut into chunks, of which the first has this number.

    The rows of a chunk have the offsets from its number times :data:`CHUNK_OFFSETS` on. So the range has its end before
    the rows are counted, and a task that stops within a chunk reads no more than that chunk again (decision 76).
    ``turn`` turns the partitions: one small file after the other is not always for the same one. ``warned`` are the
    fields, by stream, of which was warned at an earlier arrival.
    """
    range_ = _range(root, files, stream, format_name, partitions, options, warned)
    threshold = min(split_threshold(range_["bytes"], partitions), CHUNK_BYTES)
    units = _units(root, files, stream, format_name, options, threshold)
    turned = turn % partitions
    chunks = [chunk[-turned:] + chunk[:-turned] for chunk in pack_chunks(units, partitions, CHUNK_BYTES)]
    return {
        **range_,
        "offsets": [[first * CHUNK_OFFSETS, (first + len(chunks)) * CHUNK_OFFSETS] for _ in range(partitions)],
        "files": [{**_described(file), "name": file.name, "version": file.version} for file in files],
        "first_chunk": first,
        "chunks": [[[list(split) for split in splits] for splits in chunk] for chunk in chunks],
    }


def _range(
    root: Location,
    files: Sequence[FileEntry],
    stream: StreamSpec,
    format_name: str,
    partitions: int,
    options: FileOptions,
    warned: set[tuple[str, str]],
) -> dict[str, Any]:
    """Return what every range of files has; a declared schema that the first file does not have is rejected."""
    if files and stream.schema is not None:
        _check_first(root, files[0], stream, format_name, options, warned)
    return {
        "kind": "files",
        "partitions": partitions,
        "offsets": None,
        "format": format_name,
        "bytes": sum(file.size for file in files),
        "schema": None if stream.schema is not None else schema_of_files(root, files, stream, format_name, options),
        "files": [_described(file) for file in files],
    }


def _described(file: FileEntry) -> dict[str, Any]:
    version = {} if file.version is None else {"version": file.version}
    return {"path": file.path, "size": file.size, "mtime": file.mtime, "columns": dict(file.columns), **version}


def _units(
    root: Location,
    files: Sequence[FileEntry],
    stream: StreamSpec,
    format_name: str,
    options: FileOptions,
    threshold: int,
) -> list[Unit]:
    """Return the units of files; those of more bytes than the threshold are opened, and cut if they can be."""
    kind = open_format(format_name) if files else None
    units: list[Unit] = []
    for number, listed in enumerate(files):
        if kind is not None and listed.size > threshold:
            file = input_file(root, listed, stream.name)
            with reading(file, format_name):
                within = time_range(stream)
                of_folder = within is not None and within.column in dict(listed.columns)  # not the file's column
                units.extend(kind.units(number, file, None if of_folder else within, options))
        else:
            units.append(Unit(number, 0, None, listed.size))
    return units


def _check_first(
    root: Location,
    listed: FileEntry,
    stream: StreamSpec,
    format_name: str,
    options: FileOptions,
    warned: set[tuple[str, str]],
) -> None:
    """Reject a declared schema that the first file does not have.

    A run with the wrong schema need not start a Spark to find out.
    """
    file = input_file(root, listed, stream.name)
    declared = Schema.of(stream.schema).to_arrow()
    inside = pa.schema([field for field in declared if field.name not in dict(listed.columns)])
    with reading(file, format_name), closing(open_format(format_name).open(file, inside, options)) as opened:
        Conformer.check(opened.schema, inside, file=file.shown, stream=stream.name, options=options)
        _check_fields(opened.sample(), inside, file, stream, warned)


def _check_fields(
    sample: Sample, schema: pa.Schema, file: InputFile, stream: StreamSpec, warned: set[tuple[str, str]]
) -> None:
    """Reject a column that must not be null and whose field no line has; warn of another one, once.

    A line that lacks a field has a null there, so the first one would fail the stage.
    """
    others = [name for name in sample.fields if name not in schema.names]
    for field in schema:
        if not sample.lines or field.name in sample.fields:
            continue
        lines = f"None of the first {sample.lines:,} lines" if sample.lines > 1 else "Not even the first line"
        lack = f"{lines} of the file {file.shown} of stream {stream.name!r} has the field {field.name!r}"
        near = did_you_mean(field.name, others)
        fields = f"there are {', '.join(sample.fields) or 'no fields'}"
        if not field.nullable and not stream.tolerant:
            raise SchemaError(
                f"{lack}, and the column is declared not null; {fields}.",
                hint=f"{near}Correct the schema; or, if lines may lack the field, declare the column nullable (in a "
                "dataclass: `| None`).",
                file=file.shown,
                stream=stream.name,
                column=field.name,
            )
        if (stream.name, field.name) in warned:
            continue
        warned.add((stream.name, field.name))
        effect = "the column is null there" if field.nullable else "these lines are bad"
        _log.warning(
            "%s, so %s; %s. %s",
            lack,
            effect,
            fields,
            near.rstrip() or "Correct the schema, if it has another name.",
        )


def time_range(stream: StreamSpec) -> TimeRange | None:
    """Return the slice by a column, if the stream has one."""
    if stream.interval is None or stream.timestamp is None:
        return None
    return TimeRange(stream.timestamp, *stream.interval)


def files_of(data: Mapping[str, Any]) -> list[FileEntry]:
    """Return the files of a slice."""
    return [
        FileEntry(
            f["path"],
            int(f["size"]),
            f["mtime"],
            tuple(f["columns"].items()),
            name=f.get("name", ""),
            version=f.get("version"),
        )
        for f in data["files"]
    ]


def schema_of_files(
    root: Location, files: Sequence[FileEntry], stream: StreamSpec, format_name: str, options: FileOptions
) -> str | None:
    """Return the DDL of the first file's columns and of the Hive columns; None when there is no file."""
    if not files:
        return None
    kind = open_format(format_name)
    file = dataclasses.replace(input_file(root, files[0], stream.name), tolerant=stream.tolerant)
    with reading(file, format_name), closing(kind.open(file, None, options)) as opened:
        columns = opened.schema
    hive = {name: _hive_type([dict(f.columns).get(name) for f in files]) for name, _ in files[0].columns}
    fields = [
        Field(name, _column_type(kind_, name, file), True)
        for name, kind_ in zip(columns.names, columns.types, strict=True)
        if name not in hive
    ]
    fields += [Field(name, DataType(kind_)) for name, kind_ in hive.items()]
    return Schema(tuple(fields)).ddl() if fields else None


def _column_type(kind: Any, name: str, file: InputFile) -> DataType:
    try:
        return type_from_arrow(plain_type(kind))
    except SchemaError as error:
        raise SchemaError(
            f"File {file.shown} of stream {file.stream!r} has column {name!r} as {shown(kind)}, which has no column "
            "type here.",
            hint="Declare schema= with the columns that are needed, and leave this one out.",
            file=file.shown,
            stream=file.stream,
            column=name,
        ) from error


def _hive_type(values: Sequence[str | None]) -> str:
    texts = [value for value in values if value is not None]
    if texts and all(
        text.removeprefix("-").isdecimal() and str(int(text)) == text and len(text) < 19 for text in texts
    ):
        return "bigint"
    return "string"


def detect_format(files: Sequence[FileEntry], stream: str) -> str:
    """Return the one format that the files' extensions name; Parquet when they name none."""
    names = {name for name in (format_of_path(file.path) for file in files) if name is not None}
    if len(names) > 1:
        raise TopicError(
            f"The files of stream {stream!r} have several formats: {', '.join(sorted(names))}.",
            hint="Declare the stream's format=, and a path that matches only its files, "
            'for example "views/*.parquet".',
            stream=stream,
        )
    return names.pop() if names else "parquet"

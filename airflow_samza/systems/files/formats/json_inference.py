"""The columns of JSON lines for which no schema is declared: those of the first block of lines."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import pyarrow as pa
import pyarrow.json as pajson
from pyarrow import types

from airflow_samza.errors import SchemaError
from airflow_samza.systems.files.formats.file_format import InputFile, Sample, bad_record
from airflow_samza.systems.files.formats.json_blocks import count_objects
from airflow_samza.systems.files.formats.json_values import BadValue, parsed_line
from airflow_samza.systems.files.formats.lines import Block, place_of


def inferred_schema(file: InputFile, blocks: Iterator[Block], ending: bytes) -> pa.Schema:
    """Return the columns and types that Arrow finds; of a tolerant file lines that cannot be read play no part.

    ``ending`` ends the lines of the file; those of the blocks end with LF.
    """
    for block in blocks:
        data = b"" if block.truncated else block.data
        if count_objects(data) is None:
            data = _objects(file, Block(block.offset, data), ending)
        if not data.strip():
            continue
        try:
            schema = _arrow_schema(data)
        except pa.ArrowInvalid as error:
            if not file.tolerant:
                raise _untold(file, error) from error
            try:
                schema = _arrow_schema(b"\n".join(line for line in data.split(b"\n") if _is_readable(line)))
            except pa.ArrowInvalid as left:
                raise _untold(file, left) from left
        return pa.schema([field.with_type(pa.string()) if types.is_null(field.type) else field for field in schema])
    return pa.schema([])


def sampled_fields(beginning: bytes, ending: bytes) -> Sample:
    r"""Return the fields of the whole lines with which a file begins; a line that is cut off has none.

    >>> sampled_fields(b'{"a": 1}\n{"b": 2}\n{"c', b"\n")
    Sample(fields=('a', 'b'), lines=2)
    """
    fields: dict[str, None] = {}
    lines = 0
    for line in beginning.split(ending):
        if line.strip():
            with suppress(BadValue):
                fields.update(dict.fromkeys(parsed_line(line, 0)))
                lines += 1
    return Sample(tuple(fields), lines)


def _untold(file: InputFile, error: pa.ArrowInvalid) -> SchemaError:
    """Return the error of lines that are objects, and have no columns for all that."""
    several = "changed from" in str(error)
    reason = str(error).removeprefix("JSON parse error: ").rstrip(".")
    return SchemaError(
        f"File {file.shown} of stream {file.stream!r} has "
        + ("values of several types in one column" if several else "lines that show no columns")
        + f": {reason}.",
        hint="Declare schema= on the stream.",
        file=file.shown,
        stream=file.stream,
    )


def _is_readable(line: bytes) -> bool:
    try:
        _arrow_schema(line)
    except pa.ArrowInvalid:
        return False
    return True


def _arrow_schema(data: bytes) -> pa.Schema:
    return pajson.read_json(
        pa.BufferReader(data), read_options=pajson.ReadOptions(use_threads=False, block_size=len(data) + 1)
    ).schema


def _objects(file: InputFile, block: Block, ending: bytes) -> bytes:
    """Return the lines that are objects; another one is an error, unless the file is tolerant."""
    lines, offset = [], block.offset
    for line in block.data.split(b"\n"):
        if line.strip():
            try:
                parsed_line(line, offset)
                lines.append(line)
            except BadValue as bad:
                if not file.tolerant:
                    place = place_of(file, offset, ending)
                    raise bad_record(file, "JSON lines", f"{bad} {place}", place.line, line) from bad
        offset += len(line) + 1
    return b"\n".join(lines)

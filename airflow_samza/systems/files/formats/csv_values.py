"""Values of CSV as text, read and written, in the unambiguous forms that Spark's reader accepts.

Whole numbers are digits with a sign, so ``0x1F``, ``1_000``, ``1e3`` and spaces are none. Numbers with a fraction may
have an exponent; what is too large for a ``double`` or ``float`` does not become infinite. ``NaN``, ``Inf`` and
``Infinity`` are read in any letter case. What is written reads back equal by the same options; values for which there
is no such form are rejected.
"""

from __future__ import annotations

from typing import IO, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from airflow_samza.errors import SchemaError
from airflow_samza.quoting import quoted
from airflow_samza.systems.files.formats.csv_records import Dialect
from airflow_samza.systems.files.formats.file_format import FileWriter, concatenated, pieces_of
from airflow_samza.systems.files.formats.options import FileOptions
from airflow_samza.systems.files.formats.text_values import parse_text

_TYPES = (pa.int64(), pa.bool_(), pa.date32(), pa.timestamp("us"), pa.timestamp("us", "UTC"), pa.float64())

_INFINITE = r"(?i)^[+-]?inf(inity)?$"


def parse_column(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return a column of text in its type; one value that has none is a ``pyarrow.ArrowInvalid``."""
    if types.is_string(kind):
        return column
    if types.is_integer(kind):
        return _integers(column, kind)
    if types.is_floating(kind):
        return _floats(column, kind)
    return parse_text(column, kind)


def type_of(column: pa.Array) -> pa.DataType:
    """Return the type in which all values of a column of text are read; text where none is, or there are no values."""
    if column.null_count < len(column):
        for kind in _TYPES:
            try:
                parse_column(column, kind)
            except pa.ArrowInvalid:
                continue
            return kind
    return pa.string()


def _integers(column: pa.Array, kind: pa.DataType) -> pa.Array:
    try:
        numbers = pc.cast(column, kind)
    except pa.ArrowInvalid:
        numbers = pc.cast(pc.replace_substring_regex(column, r"^\+([0-9])", r"\1"), kind)
    if _holds_x(column):
        raise pa.ArrowInvalid("a hexadecimal number")
    return numbers


def _holds_x(column: pa.Array) -> bool:
    """Return whether Arrow can have read hexadecimal digits.

    The buffer of texts is looked through at once, so there may be none for all that.
    """
    content = bytes(column.buffers()[2] or b"")
    if b"x" not in content and b"X" not in content:
        return False
    return bool(pc.any(pc.match_substring_regex(column, "[xX]")).as_py())


def _floats(column: pa.Array, kind: pa.DataType) -> pa.Array:
    try:
        numbers = pc.cast(column, kind)
    except pa.ArrowInvalid:
        column = pc.ascii_trim_whitespace(column)
        numbers = pc.cast(column, kind)
    infinite = pc.is_inf(numbers)
    if pc.any(infinite).as_py() and not pc.all(pc.match_substring_regex(column.filter(infinite), _INFINITE)).as_py():
        raise pa.ArrowInvalid("a number that is too large")
    return numbers


_IN_NUMBERS = frozenset("0123456789+-.: TZabcdefilnrstuyEINa")
"""Characters of numbers, times, booleans, NaN and Infinity."""

_MARK = "\ufeff"
"""The byte order mark."""


class CsvOutput(FileWriter):
    """Writer of a header, then a line for each row. Text is in quotes, so that empty text differs from null."""

    def __init__(self, sink: IO[bytes] | pa.NativeFile, schema: pa.Schema, options: FileOptions) -> None:
        self.sink = sink
        self.options = options
        self.dialect = Dialect(options)
        self.special = [text for text in (self.dialect.escape, self.dialect.quote, self.dialect.delimiter) if text]
        self.awkward = bool(_IN_NUMBERS & set("".join(self.special)))
        if options.header and schema.names:
            names = [
                self._text(pa.array([name], pa.string()), name, begins=place == 0)
                for place, name in enumerate(schema.names)
            ]
            self.sink.write((self.dialect.delimiter.join(text[0].as_py() for text in names) + "\n").encode())

    def write(self, batch: pa.RecordBatch) -> None:
        """Append lines."""
        for part in pieces_of(batch) if batch.num_columns else ():
            ends = [*[self.dialect.delimiter] * (len(part.schema) - 1), "\n"]
            pieces: list[Any] = []
            for place, (field, end) in enumerate(zip(part.schema, ends, strict=True)):
                begins = place == 0 and not self.options.header
                pieces += [self._column(part.column(place), field.name, begins), pa.scalar(end, pa.large_string())]
            self.sink.write(concatenated(pc.binary_join_element_wise(*pieces, pa.scalar("", pa.large_string()))))

    def _column(self, column: pa.Array, name: str, begins: bool) -> pa.Array:
        """Return the values as they stand in lines."""
        is_text, null = types.is_string(column.type), self.options.null_value
        text = column if is_text else _cast(column)
        if is_text or self.awkward or (null and pc.any(pc.equal(text, null)).as_py()):
            text = self._text(text, name, begins=begins and is_text)
        return pc.fill_null(pc.cast(text, pa.large_string()), null)

    def _text(self, column: pa.Array, name: str, *, begins: bool = False) -> pa.Array:
        """Return text in quotes; where there are none, ambiguous text is escaped or rejected.

        ``begins``: the file may begin with it, where readers take a byte order mark for one of the file.
        """
        dialect = self.dialect
        if not self.options.multiline:
            self._reject(column, pc.match_substring_regex(column, r"[\r\n]"), name, "a line end", "set multiline=true")
        if dialect.quote:
            if dialect.escape:
                column = pc.replace_substring(column, dialect.escape, dialect.escape * 2)
            column = pc.replace_substring(column, dialect.quote, (dialect.escape or dialect.quote) + dialect.quote)
            return pc.binary_join_element_wise(dialect.quote, column, dialect.quote, "")
        same = pc.equal(column, self.options.null_value)
        self._reject(
            column,
            same,
            name,
            "text that is written like null",
            "set quote, for example quote='\"', or another null_value",
        )
        for special in (*self.special, "\r", "\n"):
            if dialect.escape:
                column = pc.replace_substring(column, special, dialect.escape + special)
            else:
                shown = {"\r": "a line end", "\n": "a line end"}.get(special, f"the delimiter {special!r}")
                self._reject(column, pc.match_substring(column, special), name, shown, "set quote= or escape=")
        if begins and dialect.escape:
            column = pc.replace_substring_regex(column, f"^{_MARK}", dialect.escape.replace("\\", "\\\\") + _MARK)
        elif begins:
            marked = pc.starts_with(column, _MARK)
            self._reject(column, marked, name, "a byte order mark at the beginning", "set quote= or escape=")
        return column

    def _reject(self, column: pa.Array, bad: pa.Array, name: str, what: str, way_out: str) -> None:
        if pc.any(bad).as_py():
            value = column.filter(bad)[0].as_py()
            brief = value if len(value) <= 60 else value[:57] + "…"
            raise SchemaError(
                f"Column {name!r} has {what} in {quoted(brief)}, which CSV with these options cannot hold.",
                hint=f"{way_out[0].upper()}{way_out[1:]} on the output stream, or write another format.",
                column=name,
            )


def _cast(column: pa.Array) -> pa.Array:
    if types.is_floating(column.type) and pc.all(pc.is_finite(column)).as_py() is False:
        texts = pc.cast(column, pa.string())
        for lower, shown in (("nan", "NaN"), ("inf", "Infinity"), ("-inf", "-Infinity")):
            texts = pc.if_else(pc.equal(texts, lower), shown, texts)
        return texts
    return pc.cast(column, pa.string())

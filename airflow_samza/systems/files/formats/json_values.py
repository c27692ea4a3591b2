"""Conversion of rows to JSON lines and back, value by value where Arrow has no way of its own.

Formats and serdes convert by it, and tasks do where they write dead letters.
"""

from __future__ import annotations

import base64
import json
import math
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from airflow_samza.quoting import plainly
from airflow_samza.systems.files.formats.casts import shown
from airflow_samza.systems.files.formats.file_format import concatenated, rows_without_columns
from airflow_samza.systems.files.formats.json_blocks import DEEPEST, is_too_deep
from airflow_samza.systems.files.formats.lines import Block
from airflow_samza.systems.files.formats.nested import python_value
from airflow_samza.systems.files.formats.text_values import is_text_leaf, parse_text

_DECIMAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")

_OTHER_WORDS = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*(?:"|\Z)|(-?)(Inf)(?!inity)|-NaN', re.DOTALL)

_SURROGATE = re.compile("[\ud800-\udfff]")

_LARGEST_FLOAT = 3.4028235677973366e38
"""Half a step above the largest ``float``: from here on it would be infinite."""

_NUMBERS_AS_TEXT = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


class BadValue(ValueError):
    """Value that does not fit its column, or line that is no JSON object (``column`` None), and the line's offset."""

    def __init__(self, what: str, column: str | None = None, offset: int = 0) -> None:
        super().__init__(what)
        self.column = column
        self.offset = offset


LineReader = Callable[[Block, pa.Schema], pa.RecordBatch]
"""Reads the rows of a block of lines as :func:`from_lines` does."""


def from_lines(block: Block, target: pa.Schema) -> pa.RecordBatch:
    """Return the rows of a block of lines; the first bad one is a :class:`BadValue`."""
    columns: list[list[Any]] = [[] for _ in target]
    offset, rows = block.offset, 0
    for line in block.data.split(b"\n"):
        if line.strip():
            message = parsed_line(line, offset)
            rows += 1
            for field, column in zip(target, columns, strict=True):
                try:
                    column.append(_value(message.get(field.name), field.type))
                except BadValue as bad:
                    raise BadValue(str(bad), field.name, offset) from None
        offset += len(line) + 1
    if not columns:
        return rows_without_columns(rows)
    nullable = pa.schema([field.with_nullable(True) for field in target])
    arrays = []
    for field, column in zip(nullable, columns, strict=True):
        try:
            arrays.append(pa.array(column, field.type))
        except (pa.ArrowInvalid, OverflowError) as error:
            if b"\n" in block.data:  # which line it is
                offset = block.offset
                for line in block.data.split(b"\n"):
                    from_lines(Block(offset, line), target)
                    offset += len(line) + 1
            raise BadValue(
                f"a value that {shown(field.type)} cannot hold ({plainly(error)})", field.name, block.offset
            ) from None
    return pa.RecordBatch.from_arrays(arrays, schema=nullable)


_LINES = 16
"""Lines that Python reads behind a bad one; with each success twice as many are read together."""


def readable_lines(
    lines: Sequence[bytes], target: pa.Schema, read: LineReader
) -> Iterator[pa.RecordBatch | tuple[int, BadValue]]:
    """Yield the rows of lines, none of them blank, in pieces; and between them the place of each bad one, and why."""
    start, count = 0, _LINES
    while start < len(lines):
        data = b"\n".join(lines[start : start + count])
        try:
            batch = read(Block(0, data), target) if count > _LINES else from_lines(Block(0, data), target)
        except BadValue as bad:
            count = data.count(b"\n", 0, bad.offset)  # the good ones before it
            if not count:
                yield start, bad
                start, count = start + 1, _LINES
        else:
            yield batch
            start, count = start + count, 2 * count


def parsed_line(line: bytes, offset: int) -> dict[str, Any]:
    """Return the object that a line is, numbers with a fraction as decimals.

    Of a key that comes twice the last value counts.
    """
    if is_too_deep(line):
        raise BadValue(f"no JSON (more than {DEEPEST} arrays and objects inside of one another)", offset=offset)
    try:
        text = line.decode()
        try:
            value = json.loads(text, parse_float=Decimal)
        except ValueError:
            # Arrow also knows numbers of thousands of digits, and other words for what is no number.
            words = _OTHER_WORDS.sub(
                lambda match: match[0] if match[0][0] == '"' else match[1] + "Infinity" if match[2] else "NaN", text
            )
            value = json.loads(words, parse_float=Decimal, parse_int=Decimal)
    except (ValueError, RecursionError) as error:
        # Python counts lines within the text that it is given, which is one.
        why = f"{error.msg}: column {error.colno}" if isinstance(error, json.JSONDecodeError) else error
        raise BadValue(f"no JSON ({why})", offset=offset) from None
    except ArithmeticError:
        raise BadValue("a number whose exponent is too large", offset=offset) from None
    if not isinstance(value, dict):
        raise BadValue(f"{plainly(_as_json(value), 60)} instead of an object", offset=offset)
    return value


def _as_json(value: object) -> str:
    """Return a parsed value as the JSON that it was, numbers with all their digits."""
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, list):
        return f"[{', '.join(map(_as_json, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{json.dumps(name)}: {_as_json(held)}' for name, held in value.items())}}}"
    return json.dumps(value)


_FORMS: dict[int, Any] = {
    pa.lib.Type_STRUCT: dict,
    pa.lib.Type_MAP: dict,
    pa.lib.Type_LIST: list,
    pa.lib.Type_BOOL: bool,
}
"""Python's types of values that are no numbers, by the type of the column; all others are texts."""


def _value(value: Any, kind: pa.DataType) -> Any:
    """Return a JSON value as Arrow's builder of this type takes it."""
    if value is None:
        return None
    if types.is_integer(kind) or types.is_decimal(kind) or types.is_floating(kind):
        return _number(value, kind)
    if not isinstance(value, _FORMS.get(kind.id, str)):
        raise _unfit(value, kind)
    if types.is_struct(kind):
        return {field.name: _value(value.get(field.name), field.type) for field in kind}
    if types.is_map(kind):
        return [(_value(key, kind.key_type), _value(item, kind.item_type)) for key, item in value.items()]
    if types.is_list(kind):
        return [_value(item, kind.value_type) for item in value]
    return value if types.is_boolean(kind) else _text(value, kind)


def _number(value: Any, kind: pa.DataType) -> Any:
    if types.is_floating(kind) and isinstance(value, str) and value in _NUMBERS_AS_TEXT:
        return _NUMBERS_AS_TEXT[value]
    if isinstance(value, str) and types.is_decimal(kind):  # written as text to keep its digits from other parsers
        if not _DECIMAL.fullmatch(value):
            raise _unfit(value, kind)
        try:
            value = Decimal(value)
        except ArithmeticError:
            raise _unfit(value, kind) from None
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise _unfit(value, kind)
    if types.is_floating(kind):
        return value if isinstance(value, float) else _float(value, kind)
    if types.is_decimal(kind):
        if isinstance(value, float) or not Decimal(value).is_finite():
            raise _unfit(value, kind)
        return Decimal(value)
    # The size first: an integer of 1e999999999 would take all memory.
    if isinstance(value, float) or Decimal(value).adjusted() > 18 or value != int(value):
        raise _unfit(value, kind)
    number, limit = int(value), 2 ** (kind.bit_width - 1)
    if not -limit <= number < limit:
        raise _unfit(value, kind)
    return number


def _float(value: int | Decimal, kind: pa.DataType) -> float:
    """Return the nearest number; what is too large does not become infinite."""
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if abs(number) > (_LARGEST_FLOAT if kind.bit_width == 32 else sys.float_info.max):
        raise _unfit(value, kind)
    return number


def _text(value: str, kind: pa.DataType) -> Any:
    if not value.isascii() and _SURROGATE.search(value):
        raise _unfit(value, kind)
    if not is_text_leaf(kind):
        return value
    try:
        return parse_text(pa.array([value], pa.string()), kind)[0].as_py()
    except pa.ArrowInvalid:
        raise _unfit(value, kind) from None


def _unfit(value: object, kind: pa.DataType) -> BadValue:
    return BadValue(f"{plainly(_as_json(value), 60)}, which is no {shown(kind)}")


def to_lines(batch: pa.RecordBatch) -> bytes:
    """Return the rows as lines. Null columns are written, so that every line has every key."""
    return concatenated(to_objects(batch, "\n")) if batch.num_rows else b""


def to_objects(batch: pa.RecordBatch, end: str = "") -> pa.Array:
    """Return each row as a JSON object (large_string), with ``end`` behind it."""
    parts: list[Any] = []
    for place, field in enumerate(batch.schema):
        parts.append(("{" if place == 0 else ",") + json.dumps(field.name, ensure_ascii=False) + ":")
        parts.append(_texts(batch.column(place)))
    if not parts:
        return pa.array(["{}" + end] * batch.num_rows, pa.large_string())
    parts.append("}" + end)
    return pc.binary_join_element_wise(
        *(pa.scalar(p, pa.large_string()) if isinstance(p, str) else p for p in [*parts, ""])
    )


def _texts(column: pa.Array) -> pa.Array:
    """Return every value as JSON text."""
    kind = column.type
    if types.is_boolean(kind) or types.is_integer(kind) or types.is_decimal(kind):
        texts = pc.cast(column, pa.string())
        if types.is_decimal(kind) and kind.scale <= 0:
            texts = pa.array([None if v is None else format(v, "f") for v in column.to_pylist()], pa.string())
    elif types.is_floating(kind) and pc.all(pc.is_finite(column)).as_py() is not False:
        texts = pc.cast(column, pa.string())
        texts = pc.if_else(pc.equal(texts, "-0"), "-0.0", texts)  # as an integer it would lose its sign
    elif types.is_timestamp(kind) or types.is_date(kind):
        iso = pc.replace_substring(pc.cast(column, pa.string()), " ", "T")  # in UTC
        texts = pc.binary_join_element_wise('"', iso, '"', "")
    elif types.is_string(kind):
        awkward = pc.any(pc.match_substring_regex(column, r'["\\\x00-\x1f]')).as_py()
        texts = _each(column, lambda v: v) if awkward else pc.binary_join_element_wise('"', column, '"', "")
    else:
        texts = _each(column, lambda v: python_value(v, kind, _plain))
    return pc.fill_null(pc.cast(texts, pa.large_string()), "null")


def _each(column: pa.Array, convert: Callable[[Any], Any]) -> pa.Array:
    texts = [
        None if value is None else json.dumps(convert(value), ensure_ascii=False, separators=(",", ":"))
        for value in column.to_pylist()
    ]
    return pa.array(texts, pa.large_string())


def _plain(value: Any, kind: pa.DataType) -> Any:
    """Return a plain value as ``json`` writes it in this format's forms."""
    if types.is_floating(kind):
        return (
            value if math.isfinite(value) else "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        )
    if types.is_decimal(kind):
        return format(value, "f")  # as text: a number would lose digits in parsers that know doubles only
    if types.is_binary(kind):
        return base64.b64encode(value).decode()
    if types.is_timestamp(kind):
        text = value.isoformat()
        return text.replace("+00:00", "Z") if kind.tz else text
    return value.isoformat() if types.is_date(kind) else value

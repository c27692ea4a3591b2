"""Functions of texts.

A character is a code point, positions start at 1, and what is trimmed is the space alone, as in Spark.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from airflow_samza.schema import DataType
from airflow_samza.task.expressions.casts import cast
from airflow_samza.task.expressions.expression import (
    INT,
    STRING,
    Expression,
    Frame,
    Function,
    UnsupportedExpression,
    applied,
    constant,
    literal,
    need,
    row_by_row,
)

_LONGEST = 1000
"""Up to this length a text is padded, or this often repeated, on Arrow."""

_REGULAR = frozenset(".^$*+?()[]{}|\\")


def length(operand: Expression) -> Expression:
    """``length(operand)``: code points."""
    return applied(INT, [need("length", operand, "string")], pc.utf8_length)


def trimmed(name: str, kernel: str, operand: Expression, characters: Expression | None = None) -> Expression:
    """``trim``, ``ltrim`` and ``rtrim``: spaces, or any of the given characters."""
    some = " " if characters is None else constant(name, characters, "string")
    if not some:
        raise UnsupportedExpression(f"{name} is given no character")
    options = pc.TrimOptions(some)
    return applied(STRING, [need(name, operand, "string")], lambda texts: pc.call_function(kernel, [texts], options))


def substring(operand: Expression, position: Expression, count: Expression | None = None) -> Expression:
    """``substring(operand, position[, count])``: a negative position counts from the end, 0 counts as 1."""
    need("substring", operand, "string")
    numbers = [need("substring", number, "int") for number in (position, count) if number is not None]
    if all(number.literal and number.value is not None for number in numbers):
        return applied(STRING, [operand], _slicing(*(number.value for number in numbers)))
    return applied(STRING, [operand, *numbers], row_by_row(STRING, _part))


def _slicing(position: int, count: int = (1 << 31) - 1) -> Callable[[Any], Any]:
    start = position - 1 if position > 0 else position
    stop: int | None = start + count
    if count <= 0:
        return _emptied
    if start < 0 and start + count >= 0:
        stop = None
    return lambda texts: pc.utf8_slice_codeunits(texts, start=start, stop=stop)


def _emptied(texts: Any) -> Any:
    return pc.if_else(texts.is_valid(), "", pa.scalar(None, pa.string()))


def _part(text: str, position: int, count: int = (1 << 31) - 1) -> str:
    start = position - 1 if position > 0 else len(text) + position if position < 0 else 0
    stop = start + count
    return text[max(start, 0) : max(stop, 0)] if stop > start else ""


def left(operand: Expression, count: Expression) -> Expression:
    """``left(operand, count)``."""
    return substring(operand, literal(1, INT), count)


def right(operand: Expression, count: Expression) -> Expression:
    """``right(operand, count)``, with a literal count."""
    number = constant("right", count, "int")
    if number <= 0 and operand.fallible:
        raise UnsupportedExpression("right takes nothing of a value that can fail, which Catalyst may drop")
    return applied(STRING, [need("right", operand, "string")], _slicing(-number) if number > 0 else _emptied)


def concat(*operands: Expression) -> Expression:
    """``concat(…)`` and ``||``: null when an operand is null; every operand is evaluated."""
    kinds = ("string", "boolean", "tinyint", "smallint", "int", "bigint", "date", "timestamp", "decimal")
    ready = [cast(need("concat", operand, *kinds), STRING) for operand in operands]

    def run(frame: Frame) -> Any:
        return pc.binary_join_element_wise(*(operand.run(frame) for operand in ready), "", null_handling="emit_null")

    return Expression(STRING, any(o.nullable for o in ready), any(o.fallible for o in ready), run)


def concat_ws(separator: Expression, *operands: Expression) -> Expression:
    """``concat_ws(separator, …)``: nulls are left out."""
    between = constant("concat_ws", separator, "string")
    for operand in operands:
        need("concat_ws", operand, "string")

    def run(frame: Frame) -> Any:
        first, *others = (operand.array(frame) for operand in operands)
        alone = reduce(pc.and_, (each.is_null() for each in (first, *others)))
        # A row of nothing but nulls would be missing from Arrow's result.
        return pc.binary_join_element_wise(pc.if_else(alone, "", first), *others, between, null_handling="skip")

    return Expression(STRING, False, any(o.fallible for o in operands), run)


def replace(operand: Expression, search: Expression, replacement: Expression | None = None) -> Expression:
    """``replace(operand, search[, replacement])`` with literals."""
    need("replace", operand, "string")
    pattern = constant("replace", search, "string")
    by = "" if replacement is None else constant("replace", replacement, "string")
    if not pattern:
        return operand
    return applied(STRING, [operand], lambda texts: pc.replace_substring(texts, pattern=pattern, replacement=by))


def padded(name: str, operand: Expression, width: Expression, pad: Expression | None = None) -> Expression:
    """``lpad(operand, width[, pad])`` and ``rpad``: filled up, or cut off, to ``width`` characters."""
    length = constant(name, width, "int")
    filling = " " if pad is None else constant(name, pad, "string")
    if length > _LONGEST:
        raise UnsupportedExpression(f"{name} makes texts of more than {_LONGEST} characters")
    need(name, operand, "string")
    if length <= 0:
        return applied(STRING, [operand], _emptied)
    truncated = _slicing(1, length)
    if not filling:
        return applied(STRING, [operand], truncated)
    whole = filling * (length // len(filling) + 1)
    fillings = pa.array([whole[:count] for count in range(length + 1)])

    def kernel(texts: Any) -> Any:
        missing = pc.max_element_wise(pc.subtract(length, pc.utf8_length(texts)), 0, skip_nulls=False)
        added = fillings.take(missing)
        both = (added, truncated(texts)) if name == "lpad" else (truncated(texts), added)
        return pc.binary_join_element_wise(*both, "")

    return applied(STRING, [operand], kernel)


def repeat(operand: Expression, times: Expression) -> Expression:
    """``repeat(operand, times)``, with a literal count."""
    count = constant("repeat", times, "int")
    if count > _LONGEST:
        raise UnsupportedExpression(f"repeat is asked for more than {_LONGEST} times")
    return applied(STRING, [need("repeat", operand, "string")], lambda texts: pc.binary_repeat(texts, max(count, 0)))


def instr(operand: Expression, part: Expression) -> Expression:
    """``instr(operand, part)``: where ``part`` starts, 0 if nowhere."""
    need("instr", operand, "string")
    if not part.literal:
        return applied(
            INT, [operand, need("instr", part, "string")], row_by_row(INT, lambda text, part: text.find(part) + 1)
        )
    return applied(INT, [operand], _finding(constant("instr", part, "string")))


def _finding(part: str) -> Callable[[Any], Any]:
    """Arrow finds a place in bytes; in a text that is not all ASCII it is counted in characters again."""

    def kernel(texts: Any) -> Any:
        if not part:
            return pc.if_else(texts.is_valid(), pa.scalar(1, pa.int32()), pa.scalar(None, pa.int32()))
        places = pc.add(pc.find_substring(texts, pattern=part), pa.scalar(1, pa.int32()))
        later = pc.fill_null(pc.and_not(pc.greater(places, 1), pc.string_is_ascii(texts)), False)
        if later.true_count == 0:
            return places
        return pc.replace_with_mask(
            places, later, pa.array([t.find(part) + 1 for t in texts.filter(later).to_pylist()], pa.int32())
        )

    return kernel


def locate(part: Expression, operand: Expression, start: Expression | None = None) -> Expression:
    """``locate(part, operand[, start])`` and ``position``: with a literal part and start."""
    text_part = constant("locate", part, "string")
    first = 1 if start is None else constant("locate", start, "int")
    need("locate", operand, "string")
    if first < 1:
        raise UnsupportedExpression("locate starts before 1")
    if first == 1 or not text_part:
        return applied(INT, [operand], _finding(text_part))
    return applied(INT, [operand], row_by_row(INT, lambda text: text.find(text_part, first - 1) + 1))


def split_part(operand: Expression, separator: Expression, number: Expression) -> Expression:
    """``split_part(operand, separator, number)``: a negative number counts from the end.

    The empty text where there is no such part.
    """
    between, place = constant("split_part", separator, "string"), constant("split_part", number, "int")
    need("split_part", operand, "string")
    if not between or place == 0:
        raise UnsupportedExpression("split_part has an empty separator or asks for part 0")

    def kernel(texts: Any) -> Any:
        parts = pc.split_pattern(texts, pattern=between)
        counts = pc.list_value_length(parts)
        places = (
            pc.add(pa.scalar(place, pa.int32()), counts)
            if place < 0
            else pc.if_else(counts.is_valid(), place - 1, counts)
        )
        inside = pc.and_(pc.greater_equal(places, 0), pc.less(places, counts))
        starts = parts.offsets.slice(0, len(parts))
        part = parts.values.take(pc.if_else(inside, pc.add(starts, places), pa.scalar(None, pa.int32())))
        return pc.if_else(pc.fill_null(pc.invert(inside), False), "", part)

    return applied(STRING, [operand], kernel)


def split(operand: Expression, pattern: Expression) -> Expression:
    """``split(operand, pattern)``, with a literal pattern that holds nothing but plain characters."""
    between = constant("split", pattern, "string")
    if not between or _REGULAR & set(between):
        raise UnsupportedExpression("split is given a regular expression")
    kind = DataType("array", children=(STRING,))
    return applied(kind, [need("split", operand, "string")], lambda texts: pc.split_pattern(texts, pattern=between))


FUNCTIONS = {
    **{name: Function(length) for name in ("length", "len", "char_length", "character_length")},
    "ltrim": Function(partial(trimmed, "ltrim", "utf8_ltrim")),
    "rtrim": Function(partial(trimmed, "rtrim", "utf8_rtrim")),
    "btrim": Function(partial(trimmed, "btrim", "utf8_trim"), 1, 2),
    "left": Function(left, 2, 2),
    "right": Function(right, 2, 2),
    "concat": Function(concat, 1, None),
    "concat_ws": Function(concat_ws, 2, None),
    "replace": Function(replace, 2, 3),
    "lpad": Function(partial(padded, "lpad"), 2, 3),
    "rpad": Function(partial(padded, "rpad"), 2, 3),
    "repeat": Function(repeat, 2, 2),
    "instr": Function(instr, 2, 2),
    "locate": Function(locate, 2, 3),
    "split_part": Function(split_part, 3, 3),
    "split": Function(split, 2, 2),
}

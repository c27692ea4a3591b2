"""``upper`` and ``lower`` as Spark does them (ICU, root locale).

``ß`` becomes ``SS``, ``İ`` becomes ``i̇``, a final ``Σ`` becomes ``ς``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from airflow_samza.task.expressions.expression import STRING, Expression, Function, applied, need


def upper(operand: Expression) -> Expression:
    """``upper(operand)``."""
    return applied(STRING, [need("upper", operand, "string")], _by_alphabet("ascii_upper", raised))


def lower(operand: Expression) -> Expression:
    """``lower(operand)``."""
    return applied(STRING, [need("lower", operand, "string")], _by_alphabet("ascii_lower", lowered))


def _by_alphabet(kernel: str, change: Callable[[str], str]) -> Callable[[Any], Any]:
    """Arrow's kernel for ASCII.

    Texts with other letters are changed one by one, since Arrow maps each code point to just one.
    """

    def run(texts: Any) -> Any:
        changed = pc.call_function(kernel, [texts])
        foreign = pc.fill_null(pc.invert(pc.string_is_ascii(texts)), False)
        if foreign.true_count == 0:
            return changed
        return pc.replace_with_mask(
            changed, foreign, pa.array([change(text) for text in texts.filter(foreign).to_pylist()], pa.string())
        )

    return run


@functools.cache
def _young() -> tuple[dict[int, int], dict[int, int]]:
    pairs = {
        small + step * n: capital + step * n for small, capital, count, step in YOUNG_LETTERS for n in range(count)
    }
    return pairs, {capital: small for small, capital in pairs.items()}


def raised(text: str) -> str:
    """A text in capitals."""
    return text.upper().translate(_young()[0])


def lowered(text: str) -> str:
    """A text in small letters."""
    if "Σ" not in text:
        return text.lower().translate(_young()[1])
    # The rule of the final Σ needs the neighbours' properties, which Python has for an older Unicode.
    parts = text.split("Σ")
    done = [lowered(parts[0])]
    for place, part in enumerate(parts[1:], 1):
        before, after = "Σ".join(parts[:place]), "Σ".join(parts[place:])
        done += ["ς" if _meets_letter(reversed(before)) and not _meets_letter(after) else "σ", lowered(part)]
    return "".join(done)


def _meets_letter(text: Any) -> bool:
    """Return whether the first character that the rule does not look over is a letter with case."""
    for character in text:
        if ord(character) not in IGNORABLE:
            return ord(character) in CASED
    return False


# Letters as Spark's ICU (Unicode 17) maps them, and neighbours of a Σ, where Python's own tables are older.
# tests/property/test_letter_case_against_spark.py holds all of it against a real Spark, for every code point.


def _ranges(text: str) -> frozenset[int]:
    """The code points of ``gap.length`` pairs in hexadecimal.

    Each range starts ``gap`` after the end of the one before.
    """
    points: set[int] = set()
    end = 0
    for word in text.split():
        gap, _, length = word.partition(".")
        start = end + int(gap, 16)
        end = start + int(length or "0", 16)
        points.update(range(start, end + 1))
    return frozenset(points)


YOUNG_LETTERS: tuple[tuple[int, int, int, int], ...] = (
    (0x19B, 0xA7DC, 1, 1),
    (0x264, 0xA7CB, 1, 1),
    (0x1C8A, 0x1C89, 1, 1),
    (0x2C5F, 0x2C2F, 1, 1),
    (0xA7C1, 0xA7C0, 2, 2),
    (0xA7C8, 0xA7C7, 2, 2),
    (0xA7CD, 0xA7CC, 8, 2),
    (0xA7F6, 0xA7F5, 1, 1),
    (0x10597, 0x10570, 11, 1),
    (0x105A3, 0x1057C, 15, 1),
    (0x105B3, 0x1058C, 7, 1),
    (0x105BB, 0x10594, 2, 1),
    (0x10D70, 0x10D50, 22, 1),
    (0x16EBB, 0x16EA0, 25, 1),
)
"""Letters younger than Unicode 13, which the oldest Python we run on has.

Small, capital, how many, and the step to the next.
"""

CASED = _ranges(
    "41.19 7.19 30 b 5 6.16 2.1e 2.c2 2.3 5.cf 3.19 c1.3 3.1 4.2 2 7 2.2 2 2.13 2.52 2.8a 9.a5 2.25 a.28 b18.25 2 6 "
    "3.2a 3.2 2a1.55 3.5 883.a 6.2a 3.2 41.2b 40.c 2.21 66.115 3.5 3.25 3.5 3.7 2 2 2 2.1e 3.34 2.6 2 4.2 2.6 4.3 3.5 "
    "5.c 6.2 2.6 106 5 3.9 2 4.4 7 2 2 2.3 2.5 5 3.3 6.4 5 12.1f 4.1 332.33 717.7b 3.66 7.3 4.1 d.25 2 6 7913.2d "
    "13.1b 87.4d 2.16 4.3 2.4c 19.1 4 336.2a 6.8 8.4f 4f41.6 d.4 40a.19 7.19 4a6.4f 61.23 5.23 75.a 2.e 2.6 2.1 2.a "
    "2.e 2.6 2.1 6c4.32 e.32 5e.15 b.15 b1b.3f 5561.3f 21.18 3.18 652d.54 2.46 2.1 3 3.1 3.3 2.b 2 2.6 2.40 2.3 3.7 "
    "2.6 2.1b 2.3 2.4 2 4.6 2.153 3.18 2.18 2.1e 2.18 2.1e 2.18 2.1e 2.18 2.1e 2.18 2.7 735.9 2.13 7.5 9d6.43 7ed.19 "
    "7.19 7.19"
)
"""Code points that are letters with case for the rule of the final Σ."""

IGNORABLE = _ranges(
    "27 7 c 24 2 48 5 2 5 3.1 1f8.bf 5.1 5 a.1 2 fc.6 d0 6 32.2c 2 2.1 2.1 2 2d c.5 b.a 2 24 b.14 11 66.7 2.9 2.3 22 "
    "2 1f.1a 5c.a 3b.a 5 3 19.17 2c.2 2d 8.1 6.8 2a.39 38 2 5.7 5 4.6 b.1 e 10 3b 5.3 9 15.1 1b 3.1 3a 5.1 5.1 3.2 4 "
    "1f.1 4 c.1 3a 5.4 2.1 5 15.1 17.5 2 3b 3 2.3 9 8.1 c.1 1f 3e d 33 4 38 2.2 6.2 2.3 8.1 c.1 1e 3b 3 7 6.1 15.1 "
    "1d.1 3a.1 5.3 9 15.1 1e 49 8.2 2 5b 3.6 c.8 63 3.8 a 2.6 4a.1 1c 2 2 38.d 2.4 2.1 6.a 2.23 a 67.3 2.5 2.1 3.1 "
    "1a.1 5.2 11.3 e 3.1 7 10 5f 261.2 3b3.2 1e.1 1f.1 1f.1 41.1 2.6 9 3.a 4 6 2e.4 34 42.1 23 77.2 5.1 a 7.2 dc.1 3 "
    "3b 2.6 2 2 3.7 7.9 3 28 9.2d 3.b 15.3 31 2.4 2 6 29.8 d.1 21.3 3.1 2.2 39 2.1 4 2.2 3b.7 3.1 41.5 53.2 2.c 2.6 5 "
    "7 4.1 33.3e e 23.64 1be 2.2 c.2 e.2 e.2 e.1 d.4 9.1 b 3 3.4 32.4 2.9 2 e 11.c 34.20 b8c.1 72.2 7e 10 61.1f 30 "
    "1d6 25.3 4.4 6 5e.5 5e.2 6f17 4e3.5 10f 63.3 2.9 2 1d.3 51.1 f.21 4f 18.2 67.3 4.1 9 4 5 1a.1 6 98.1 1b.11 e "
    "27.7 1a.a 2f.2 31 3.3 3.1 12 16.1 43.5 3.1 3.1 d 9 24 c 34 2.2 3.1 6.1 2 1c f.1 6.1 2 65.4 a.2 7a 3 5 4f31 94.10 "
    "23e.f 4 d.f 23 3 aa 8 7 c 24 2 30 2e.1 44 16.2 202 e3 96.4 406.5 2.29 2.8 247.2 2.1 6.3 29.2 5 a6.1 23e.3 27 "
    "1b.4 2 13c.1 19 35.5 47.a 32.3 7c 37.e 2a 3.1 b.2 32.3 3.1 3 5 b 33.2 25.4 2.7 3f d.1 35.8 b.3 3 60.2 3 2.1 7 3 "
    "9e 4.7 16.1 3a.1 4 26.6 4.4 47.5 e 2 2 f.1 56.7 3.2 2 18 55.5 2 5.1 2.1 ef.3 7.1 2.1 1c.1 56.7 3 2.1 6b 2 3.5 2 "
    "66 2 3.3 2.4 104.8 2.1 101.1 2 5 91.3 3.1 5 21.9 29.5 3.3 9 a.5 3.2 2f.c 2.1 c7 2.2 2 ca.6 2.5 2 53.15 3.6 2.1 "
    "2.1 7b.5 4 2.1 2.6 2 49.1 4 2 42 11a.1 c.1 35.4 6 2 18 14d6.10 7.e 2cc9.b 4.2 9c1.4 3c.6 a.3 1fd.2 29.1 1e3 "
    "40.10 41.1 2.1 e.1 3ffd.3 2.6 2.1 c9f.1 2.3 125d.2d 3.16 221.2 a.f 3.6 1f.3 95.2 7bc.36 5.31 9 f 17.4 2.e 551.6 "
    "2.10 3.6 2.1 2.4 6.3d 22 a1.d 171 3e.3 1fc.4 ff.1 f4 3 8.1 6 a 1d1.6 6e.7 ab0.4 c0c02 1f.5f 81.ef"
)
"""Code points that the rule of the final Σ looks over."""


FUNCTIONS = {"upper": Function(upper), "ucase": Function(upper), "lower": Function(lower), "lcase": Function(lower)}

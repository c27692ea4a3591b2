"""``upper`` and ``lower`` as Spark does them (ICU, root locale).

``ß`` becomes ``SS``, ``İ`` becomes ``i̇``, a final ``Σ`` becomes ``ς``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from airflow_samza.task.expressions.expression import Expression
from airflow_samza.task.expressions.letter_tables import CASED, IGNORABLE, YOUNG_LETTERS
from airflow_samza.task.expressions.signature import STRING, Function, applied, need


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


FUNCTIONS = {"upper": Function(upper), "ucase": Function(upper), "lower": Function(lower), "lcase": Function(lower)}

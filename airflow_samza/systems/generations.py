"""Generations of a stage's output: numbers with dots between them, ``<plan generation>.<stage generation>``.

Outputs of all systems tell by them which try counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from airflow_samza.errors import ConfigError


@lru_cache(maxsize=4096)
def parse_generation(text: str, numbers: int | None = None) -> tuple[int, ...]:
    """Return the numbers of a generation, so that ``1.10`` is later than ``1.9``.

    Args:
        text: The generation as records and file names write it.
        numbers: How many numbers it must have, each from 1 without a zero in front; None: any.

    Raises:
        ConfigError: The text is none.

    >>> parse_generation("1.10") > parse_generation("1.9")
    True
    """
    parts = text.split(".")
    form = "[0-9]+" if numbers is None else "[1-9][0-9]*"
    if len(parts) == (numbers or len(parts)) and all(re.fullmatch(form, part) for part in parts):
        return tuple(int(part) for part in parts)
    raise ConfigError(
        f"{text!r} is not a generation.",
        hint="A generation is two numbers from 1 with a dot between them, the plan's and the stage's: 1.1.",
        key="generation",
        value=text,
    )


def newest_generations(written: Iterable[tuple[str, str]]) -> dict[str, tuple[int, ...]]:
    """Return the newest generation of each writer, of pairs of a writer and a generation.

    >>> newest_generations([("views", "1.9"), ("views", "1.10"), ("clicks", "1.1")])
    {'views': (1, 10), 'clicks': (1, 1)}
    """
    newest: dict[str, tuple[int, ...]] = {}
    for writer, generation in written:
        newest[writer] = max(newest.get(writer, ()), parse_generation(generation))
    return newest

"""Budgets of random suites and of long lists of cases: a part for ``make test``, all for ``make test-all``."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable
from typing import Any

import pytest

EXTENDED = os.environ.get("EXTENDED") == "1"
"""True while ``make test-all`` runs: random suites have their whole budgets, and count as extended."""


def share(whole: int, quick: int | None = None) -> int:
    """Return how many examples a random suite tries: a fifth in ``make test`` (or ``quick``), all in ``make test-all``."""
    if EXTENDED:
        return whole
    return quick if quick is not None else max(whole // 5, 1)


def seconds(variable: str, whole: float) -> float:
    """Return for how long a random suite tries: as the environment says, or a quarter in ``make test``."""
    return float(os.environ.get(variable) or (whole if EXTENDED else whole / 4))


def extended_but(quick: Collection[Any], all_of_them: Iterable[Any]) -> list[Any]:
    """Return all values of a parameter, of which those that are not quick are left to ``make test-all``."""
    return [value if value in quick else pytest.param(value, marks=pytest.mark.extended) for value in all_of_them]


def nightly_but(quick: Collection[str], all_of_them: Iterable[str]) -> list[Any]:
    """Return all values of a parameter, of which those that are not quick are nightly."""
    return [value if value in quick else pytest.param(value, marks=pytest.mark.nightly) for value in all_of_them]

"""Budgets of random suites and of long lists of cases: a part for ``make test``, more for ``make test-all``, all at night."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable
from typing import Any

import pytest

EXTENDED = os.environ.get("EXTENDED") == "1"
"""True while ``make test-all`` runs: random suites beside Spark have a quarter of their budgets, and count as extended."""

NIGHTLY = os.environ.get("NIGHTLY") == "1"
"""True while ``make nightly`` runs: random suites have their whole budgets, and count as nightly."""


def share(whole: int, quick: int | None = None) -> int:
    """Return how many examples a random suite tries: a tenth in ``make test`` (or ``quick``), a quarter in ``make test-all``."""
    if NIGHTLY:
        return whole
    least = quick if quick is not None else max(whole // 10, 1)
    return max(whole // 4, least) if EXTENDED else least


def seconds(variable: str, whole: float) -> float:
    """Return for how long a random suite tries: as the environment says, or an eighth in ``make test``, a quarter in ``make test-all``."""
    return float(os.environ.get(variable) or (whole if NIGHTLY else whole / 4 if EXTENDED else whole / 8))


def extended_but(quick: Collection[Any], all_of_them: Iterable[Any], nightly: Collection[Any] = ()) -> list[Any]:
    """Return all values of a parameter, of which those that are not quick are left to ``make test-all``, or are nightly."""
    return [
        value
        if value in quick
        else pytest.param(value, marks=pytest.mark.nightly if value in nightly else pytest.mark.extended)
        for value in all_of_them
    ]


LOOKS = pytest.mark.parametrize(
    ("width", "dark"),
    [
        pytest.param(1440, False, id="wide and light"),
        pytest.param(390, True, id="narrow and dark", marks=pytest.mark.nightly),
        pytest.param(390, False, id="narrow and light", marks=pytest.mark.nightly),
        pytest.param(1440, True, id="wide and dark", marks=pytest.mark.nightly),
    ],
)
"""Ways of looking at a page: one in ``make test-all``, the others at night."""


def nightly_but(quick: Collection[str], all_of_them: Iterable[str]) -> list[Any]:
    """Return all values of a parameter, of which those that are not quick are nightly."""
    return [value if value in quick else pytest.param(value, marks=pytest.mark.nightly) for value in all_of_them]

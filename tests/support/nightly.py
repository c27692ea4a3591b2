"""Parameters of tests of which each run of the tests has a few, and the nightly one all."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import pytest


def nightly_but(quick: Collection[str], all_of_them: Iterable[str]) -> list[Any]:
    """Return all values of a parameter, of which those that are not quick are nightly."""
    return [value if value in quick else pytest.param(value, marks=pytest.mark.nightly) for value in all_of_them]

"""The shape of a case: what is not expected fails, so that no case is half run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pytest

REMARKS = frozenset({"name", "note", "origin", "source"})


def fields(data: object, where: str, required: Iterable[str], optional: Iterable[str] = ()) -> Mapping[str, Any]:
    """``data`` as an object that has all required fields and none but these and remarks; the test fails otherwise."""
    if not isinstance(data, dict):
        pytest.fail(f"unknown shape: {where} is {data!r}, not an object")
    needed = set(required)
    lacking = needed - set(data)
    more = set(data) - needed - set(optional) - REMARKS
    if lacking or more:
        pytest.fail(f"unknown shape: {where} lacks {sorted(lacking)} and has {sorted(more)}")
    return data

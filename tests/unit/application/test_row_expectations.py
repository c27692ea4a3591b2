"""Limits of ``rows(…)`` that are rejected when they are written."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_samza import rows
from airflow_samza.errors import InvalidApplication


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        ({}, "says nothing"),
        ({"at_least": -1}, "has at_least=-1"),
        ({"change": float("inf")}, "has change=inf"),
        ({"at_most": True}, "has at_most=True"),
        ({"at_least": 10, "at_most": 1}, "has at_least=10 above at_most=1, which no run meets"),
    ],
)
def test_rejects_limits_that_are_none_or_that_no_run_meets(limits: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidApplication) as rejected:
        rows(**limits)
    assert said in rejected.value.sentence
    assert "rite" in rejected.value.hint


def test_takes_limits_that_are_equal() -> None:
    assert rows(at_least=3, at_most=3).limits == (("at_least", 3.0), ("at_most", 3.0))

"""The order of operators."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from airflow_samza.errors import UnsupportedShape
from airflow_samza.planner.job_graph import in_order
from tests.support.planner_applications import keyed, spec_of


def test_p9_operators_among_their_own_inputs_are_named_by_the_first_id_however_they_were_declared() -> None:
    def describe(app: Any) -> None:
        keyed(app, "a").where("v > 1", id="one").where("v > 2", id="two").sink(print)

    one, two = (op for op in spec_of(describe).operators if op.op_id.endswith(("one", "two")))
    circle = [replace(one, inputs=(two,)), two]
    for operators in (circle, circle[::-1]):
        with pytest.raises(UnsupportedShape, match=f"{one.op_id} is among its own inputs"):
            in_order(operators)

"""Rule C4: how far time has come at one operator.

The tests up to the line are the prose cases "operator_watermark", by their names.
"""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from airflow_samza.control.operator_watermark import OperatorWatermark
from airflow_samza.control.watermarks import END_OF_TIME, NONE_YET


def after(**outputs: int) -> OperatorWatermark:
    watermark = OperatorWatermark(outputs)
    for upstream, timestamp in outputs.items():
        watermark.arrived(upstream, timestamp)
    return watermark


def test_operator_min_over_upstreams() -> None:
    assert after(a=7, b=5).input == 5


def test_operator_upstream_without_watermark_holds() -> None:
    assert after(a=7, b=NONE_YET).input == NONE_YET


def test_operator_upstream_unused_in_task() -> None:
    assert after(a=7, b=END_OF_TIME).input == 7
    assert after(a=7).input == 7  # left out, it is the same


def scripted(*said: int | None) -> Callable[[int], int | None]:
    left = list(said)
    return lambda timestamp: left.pop(0)


def test_user_watermark_function() -> None:
    watermark = OperatorWatermark(["a"], scripted(8, None, 6, 9))
    moved = []
    for timestamp in (10, 12, 13, 14):
        assert watermark.arrived("a", timestamp) == timestamp
        moved.append((watermark.moved(), watermark.output))
    assert moved == [(8, 8), (None, 8), (None, 8), (9, 9)]


def test_user_function_checked_after_each_message() -> None:
    watermark = OperatorWatermark(["a"], scripted(None, 3, 3, 4))
    assert [watermark.moved() for _ in range(4)] == [None, 3, None, 4]  # nothing has arrived: data moved it
    assert watermark.input == NONE_YET


# ----------------------------------------------------------------------------------------------------------------------


def test_without_a_function_the_input_is_passed_on_once() -> None:
    watermark = after(a=7, b=5)
    assert (watermark.moved(), watermark.moved()) == (5, None)
    assert (watermark.arrived("b", 9), watermark.moved()) == (7, 7)


def test_an_upstream_that_goes_backwards_changes_nothing() -> None:
    watermark = after(a=7)
    assert (watermark.arrived("a", 3), watermark.input) == (None, 7)
    assert (watermark.arrived("a", 7), watermark.arrived("a", 8)) == (None, 8)


def test_the_end_of_time_passes_whatever_the_function_says() -> None:
    watermark = OperatorWatermark(["a"], lambda timestamp: 1)
    assert watermark.moved() == 1
    assert (watermark.arrived("a", END_OF_TIME), watermark.moved()) == (END_OF_TIME, END_OF_TIME)


def test_a_restart_keeps_inputs_and_output() -> None:
    before = OperatorWatermark(["a", "b"], lambda timestamp: timestamp - 2)
    before.arrived("a", 7)
    before.arrived("b", 5)
    before.moved()
    restored = OperatorWatermark(["a", "b"], lambda timestamp: timestamp - 2)
    restored.restore(json.loads(json.dumps(before.checkpoint())))
    assert (restored.input, restored.output, restored.moved()) == (5, 3, None)
    assert (restored.arrived("b", 9), restored.moved()) == (7, 5)


def test_a_checkpoint_of_other_operators_is_left_out() -> None:
    watermark = OperatorWatermark(["a", "new"])
    watermark.restore({"upstreams": {"a": 7, "gone": 3}, "output": 2})
    assert (watermark.input, watermark.output) == (NONE_YET, 2)
    with pytest.raises(KeyError):
        watermark.arrived("gone", 9)

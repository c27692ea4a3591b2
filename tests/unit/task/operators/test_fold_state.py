"""The values of folds from epoch to epoch.

Columns and text where that keeps them exactly, pickle for the rest, with a warning.
"""

from __future__ import annotations

import logging
from collections import Counter
from typing import Any

import pytest

from airflow_samza import Row, stream_application, tumbling
from airflow_samza.application.operator_specs import WindowOperatorSpec
from airflow_samza.schema import Schema
from airflow_samza.task.operators.windows.folded import Fold


class Sketch:
    """A class of the user's that no schema describes."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sketch)

    __hash__ = None  # type: ignore[assignment]


def fold() -> Fold:
    @stream_application("folding")
    def folding(app: Any) -> None:
        rows = app.input_stream("rows", schema="member bigint, at timestamp", timestamp="at", key="member")
        window = tumbling("1 hour")
        folded = rows.window(window, key="member", fold=lambda former, row: former, schema="n bigint", id="folded")
        folded.send_to(app.output_stream("out"))

    spec = next(op for op in folding.spec().operators if isinstance(op, WindowOperatorSpec))
    return Fold(spec, Schema.of("member bigint, at timestamp"), Schema.of("n bigint"))


def test_plain_values_are_not_pickled(caplog: pytest.LogCaptureFixture) -> None:
    values = {0: Row(n=1), 1: {"n": 1, "seen": {1, 2}}, 2: Counter("aab"), 3: (1.5, None)}
    kept = fold().kept(values)
    assert set(kept) == {"values", "plain"}
    assert fold().restored(kept) == values
    assert not caplog.records


def test_values_of_other_classes_are_pickled_with_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    one = fold()
    with caplog.at_level(logging.WARNING):
        kept = one.kept({0: Sketch(), 1: [Sketch()]})
        one.kept({0: Sketch()})
    assert set(kept) == {"pickled"}
    assert fold().restored(kept) == {0: Sketch(), 1: [Sketch()]}
    assert [record.getMessage() for record in caplog.records] == [
        "The fold of window 'folded' keeps values that only pickle keeps (it holds a Sketch): who may write the root "
        "can run code here."
    ]

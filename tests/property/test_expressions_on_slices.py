"""An expression sees rows, not buffers: parts of a batch, and no rows at all, give parts of the result."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from airflow_samza.task.expressions.compiler import compile_projection
from airflow_samza.task.expressions.expression import EvaluationFailure, Expression, Frame, UnsupportedExpression
from tests.support.catalogue import ALL
from tests.support.referee import SCHEMA, TAME, rows, told

BATCH = rows(TAME, random.Random(5), 40)


def compiled(texts: list[str]) -> dict[str, Expression]:
    found = {}
    for text in texts:
        try:
            found[text] = compile_projection([f"{text} AS r"], SCHEMA).expressions[0]
        except UnsupportedExpression:
            continue
    return found


def value(expression: Expression, batch: pa.RecordBatch) -> pa.Array:
    return expression.array(Frame(batch.columns, batch.num_rows))


@pytest.mark.parametrize("group", ALL)
def test_a_part_of_the_rows_gives_that_part_of_the_result(group: str) -> None:
    done = 0
    for text, expression in compiled(ALL[group]).items():
        try:
            whole = told(value(expression, BATCH))
        except EvaluationFailure:
            continue
        assert told(value(expression, BATCH.slice(7, 21))) == whole[7:28], text
        done += 1
    assert done > (0 if group == "found" else 10)


@pytest.mark.parametrize("group", ALL)
def test_no_rows_give_no_values_and_no_failure(group: str) -> None:
    for text, expression in compiled(ALL[group]).items():
        empty = value(expression, BATCH.slice(0, 0))
        assert len(empty) == 0, text
        assert empty.type == expression.type.to_arrow(), text


@pytest.mark.parametrize("group", ALL)
def test_rows_that_are_left_out_are_not_evaluated(group: str) -> None:
    """CASE does so with a value that can fail: it gets a frame that is filtered when a column is asked for."""
    mask = pa.array([row % 3 == 0 for row in range(BATCH.num_rows)])
    for text, expression in compiled(ALL[group]).items():
        try:
            chosen = expression.array_where(Frame(BATCH.columns, BATCH.num_rows), mask)
        except EvaluationFailure:
            continue
        alone = told(value(expression, BATCH.filter(mask)))
        assert [v for row, v in enumerate(told(chosen)) if row % 3 == 0] == alone, text

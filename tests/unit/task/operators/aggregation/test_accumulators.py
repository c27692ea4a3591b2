"""Sums that cannot overflow in silence."""

from __future__ import annotations

from decimal import Context, Decimal, localcontext

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from airflow_samza.task.operators.aggregation.accumulators import checked_sum_input

MOST, LEAST = 2**63 - 1, -(2**63)
NINES = Decimal("9" * 38)


@pytest.mark.parametrize(
    "values",
    [[MOST, 1], [MOST, 1, None, 1], [1, 1, MOST], [LEAST, -1], [-1, 0, LEAST], [2**62, 0, 2**62], [LEAST, MOST]],
)
def test_bigints_whose_sum_may_be_none_become_decimals(values: list[int | None]) -> None:
    found = checked_sum_input(pa.array(values, pa.int64()))
    assert pa.types.is_decimal(found.type)
    assert pc.sum(found).as_py() == sum(value or 0 for value in values)


@pytest.mark.parametrize("values", [[], [None], [1, -1], [2**61, 2**60], [-(2**61), 2**61]])
def test_bigints_whose_sums_all_fit_stay_what_they_are(values: list[int | None]) -> None:
    column = pa.array(values, pa.int64())
    assert checked_sum_input(column) is column


@pytest.mark.parametrize(
    "values", [[NINES, Decimal(1)], [Decimal(-1), NINES.copy_negate()], [Decimal(1), Decimal(0), NINES]]
)
def test_decimals_whose_sum_may_be_none_become_wider(values: list[Decimal]) -> None:
    found = checked_sum_input(pa.array(values, pa.decimal128(38, 0)))
    assert found.type == pa.decimal256(76, 0)
    with localcontext(Context(prec=50)):
        assert pc.sum(found).as_py() == sum(values)


def test_decimals_whose_sums_all_fit_stay_what_they_are() -> None:
    column = pa.array([Decimal("1.50"), Decimal("-2.25")], pa.decimal128(38, 2))
    assert checked_sum_input(column) is column


def test_other_columns_stay_what_they_are() -> None:
    column = pa.array([1e308, 1e308])
    assert checked_sum_input(column) is column

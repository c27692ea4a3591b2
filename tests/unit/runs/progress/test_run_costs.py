"""Estimates of what a run may cost, by what former runs of the application have cost."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from airflow_samza.runs.progress.run_costs import Estimate, History, InputAmount, RunCost


def read(amount: int | None) -> tuple[InputAmount, ...]:
    return (InputAmount("events", "lake", "files", 1, amount),)


def cost(amount: int | None, *, seconds: float, work: float, rows: int) -> RunCost:
    return RunCost(f"of-{amount}", None, "succeeded", seconds, work, {"counts": rows}, read(amount))


def estimate(wanted: int, *runs: RunCost) -> Estimate:
    found = History(runs).estimate(read(wanted))
    assert found is not None
    return found


def test_the_start_of_spark_does_not_grow_with_the_input() -> None:
    found = estimate(1000, cost(10, seconds=8.0, work=0.2, rows=2))
    assert found.seconds == 7.8 + 0.2 * 100
    assert found.task_seconds == 0.2 * 100


def test_the_time_of_tasks_that_work_side_by_side_grows_as_a_whole() -> None:
    assert estimate(200, cost(100, seconds=50.0, work=380.0, rows=1)).seconds == 100.0


def test_rows_grow_in_proportion_while_former_runs_have_read_about_the_same() -> None:
    runs = cost(100, seconds=1, work=1, rows=50), cost(110, seconds=1, work=1, rows=55)
    assert estimate(1000, *runs).rows == 500


def test_rows_of_an_aggregation_do_not_grow_when_former_runs_show_it() -> None:
    runs = cost(42, seconds=1, work=1, rows=2), cost(481, seconds=1, work=1, rows=2)
    assert estimate(1400, *runs).rows == 2


def test_without_known_amounts_a_run_costs_what_runs_have_cost() -> None:
    found = estimate(7, cost(None, seconds=3.0, work=2.0, rows=5), cost(None, seconds=5.0, work=2.0, rows=5))
    assert (found.by, found.seconds, found.rows) == ("run", 4.0, 5)


amounts = st.integers(1, 10**12)


@given(amounts, amounts, st.floats(0, 1e5), st.floats(0, 1e6), st.integers(0, 10**9))
def test_more_input_costs_no_less_and_the_same_input_the_same(
    some: int, more: int, seconds: float, work: float, rows: int
) -> None:
    run = cost(some, seconds=seconds, work=work, rows=rows)
    same, other = estimate(some, run), estimate(some + more, run)
    assert abs(same.seconds - seconds) < 0.01
    assert same.rows == rows
    assert other.seconds >= same.seconds
    assert other.rows >= same.rows

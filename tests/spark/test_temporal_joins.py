"""Joins as of event times on Spark: a backfill, catch-up runs and a continuous run give what DuckDB's ASOF JOIN gives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from airflow_samza.systems.system import SystemBinding
from tests.support import as_of_cases, side_input_apps
from tests.support.budgets import extended_but, share
from tests.support.one_session import Runs
from tests.support.pushes import Pushes

pytestmark = [pytest.mark.spark, pytest.mark.random, pytest.mark.timeout(600)]

SHIPPED = side_input_apps


def runs_in(session: Any, folder: Path) -> Runs:
    return Runs(session, folder / "root", {"lake": SystemBinding("files", {"root": str(folder / "lake")})})


@pytest.mark.parametrize("seed", extended_but([], range(100, 104), [102, 103]))
def test_a_month_of_pushes_is_the_same_in_each_way(session: Any, tmp_path: Path, seed: int) -> None:
    month, pushes = as_of_cases.Month(seed), Pushes(tmp_path / "root")
    as_of_cases.check_month(
        runs_in(session, tmp_path),
        tmp_path / "lake",
        month,
        lambda part: as_of_cases.push(pushes, part, month),
        lambda: as_of_cases.rows_of_versions(pushes),
        "tests.support.side_input_apps:pushed",
        share(as_of_cases.DAYS, 4),
    )


@pytest.mark.parametrize("seed", extended_but([], range(200, 204), [202, 203]))
def test_a_month_of_a_side_input_is_the_same_in_each_way(session: Any, tmp_path: Path, seed: int) -> None:
    month, runs = as_of_cases.Month(seed), runs_in(session, tmp_path)

    def put(part: int) -> None:
        as_of_cases.send(runs.log, "changes", side_input_apps.CHANGES, month.parts[part].changes)

    as_of_cases.check_month(
        runs,
        tmp_path / "lake",
        month,
        put,
        lambda: as_of_cases.rows_of_changes(month),
        "tests.support.side_input_apps:timed",
        share(as_of_cases.DAYS, 4),
    )

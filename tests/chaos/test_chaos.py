"""Runs to which everything happens that happens to hosts, and which end as undisturbed ones. ``make nightly`` runs it.

The disk that fills up is a small tmpfs where this process may mount one; else only the runners' own writes fail, and
the first line of the output says so.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_samza.launch import own_process
from tests.chaos import spark_runner
from tests.chaos.rounds import SECONDS, Round, rounds
from tests.support import runner_without_spark

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(int(2 * SECONDS + 1800))]


def test_runs_without_spark_end_as_undisturbed_ones(ground: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runner_without_spark.use_instead(monkeypatch, ground.parent / "dials")
    rounds(ground, lambda number, seed: Round(ground, number, seed, on_spark=False))


@pytest.mark.spark
def test_runs_on_spark_end_as_undisturbed_ones(ground: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_process, "RUNNER_MODULE", spark_runner.__name__)
    monkeypatch.setenv(runner_without_spark.VARIABLE, str(ground.parent / "dials"))
    rounds(ground, lambda number, seed: Round(ground, number, seed, on_spark=True))

"""An Airflow on PostgreSQL with two executors, worked and maltreated for an hour: all outputs are those of DuckDB.

``make nightly`` runs it; ``SOAK_SECONDS=600 pytest tests/soak -s`` takes a quarter of an hour.
"""

from __future__ import annotations

import os
import sys
import time

import pytest

from tests.soak.mischief import Mischief
from tests.soak.soak import END_SECONDS, SECONDS, SEED, Soak

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.airflow,
    pytest.mark.spark,
    pytest.mark.timeout(int(SECONDS + 2 * END_SECONDS)),
]

COUNTED = ("soak_feed", "soak_catch_up", "soak_pipelined", "soak_daily")
FAULT_EVERY_SECONDS = float(os.environ.get("SOAK_FAULT_EVERY", "20"))


def test_everything_at_once_and_every_fault_ends_as_duckdb_says(soak: Soak) -> None:
    print(f"SOAK_SEED={SEED}", file=sys.stderr)
    mischief = Mischief(soak.airflow, SEED, FAULT_EVERY_SECONDS)
    lanes = soak.begin()
    began = time.monotonic()
    mischief.start()
    try:
        soak.over.wait(SECONDS)  # a lane that fails ends it
    finally:
        mischief.stop()
        print("\n".join([*mischief.diary, *soak.wrong]), file=sys.stderr)
    soak.airflow.wait_until(soak.airflow.is_healthy, 300, "Airflow to be healthy after the last fault")
    soak.end(lanes)
    runs = {dag_id: len(soak.runs_of(dag_id)) for dag_id in COUNTED}
    print(f"{time.monotonic() - began:.0f} s; runs {runs}; faults {dict(mischief.done)}", file=sys.stderr)
    assert not soak.wrong
    assert list(soak.differences()) == []
    assert soak.damage() == []
    assert soak.left_behind() == []
    if 2 * FAULT_EVERY_SECONDS * len(mischief.acts) < SECONDS:  # two packs
        assert set(mischief.done) == set(mischief.acts)

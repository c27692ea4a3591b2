"""A host with warm runners under mixed runs: nothing is mixed up, nothing grows, nothing stays.

An hour of it (``WARM_SECONDS`` for another time) is nightly, some runs of it are in every run of the tests.
"""

from __future__ import annotations

import json
import os
import tempfile
import threading
from pathlib import Path

import pytest

from airflow_samza.launch.warm.taking import end_warm
from tests.support.warm_mix import GOOD, Mix, grown, until

pytestmark = [pytest.mark.extended, pytest.mark.spark]

LANES = 2


def mixed(folder: Path, seconds: float, at_least: int, bounds: str) -> Mix:
    with tempfile.TemporaryDirectory(prefix="w") as temporary:
        mix = Mix(folder, bounds, Path(temporary))
        lanes = [threading.Thread(target=mix.lane, args=(number, seconds, at_least)) for number in range(LANES)]
        for lane in lanes:
            lane.start()
        for lane in lanes:
            lane.join()
        (folder / "report.json").write_text(
            json.dumps({"runs": mix.runs, "wrong": mix.wrong, "sizes": mix.sizes}, indent=1)
        )
        try:
            assert mix.wrong == []
            assert len(mix.places()) <= LANES
            assert [run for run in mix.runs if run["kind"] == GOOD and "run " in run["warm"]], "none was warm"
        finally:
            for place in mix.places():
                end_warm(place, now=True)
            until(lambda: not mix.places())
            until(lambda: not mix.processes())
    return mix


@pytest.mark.timeout(600)
def test_some_mixed_runs_meet_nobody_and_leave_nothing(tmp_path: Path) -> None:
    mixed(tmp_path, 10.0, 3, "2")


@pytest.mark.nightly
@pytest.mark.timeout(7200)
def test_mixed_runs_of_an_hour_meet_nobody_leave_nothing_and_grow_nothing(tmp_path: Path) -> None:
    mix = mixed(tmp_path, float(os.environ.get("WARM_SECONDS", "3600")), 20, "2,runs=1000,age=86400")
    for name, sizes in mix.sizes.items():
        # Each run has a version of code of its own here, and one daemon forks the workers of all.
        assert all(one["monitors"] <= 1 for one in sizes if "monitors" in one), (name, sizes)
        if len(sizes) >= 15:
            figures = sizes[3:]
            assert grown(figures, "megabytes") < 0.25, (name, sizes)
            assert grown(figures, "files") < 0.2, (name, sizes)
            assert grown(figures, "threads") < 0.2, (name, sizes)
            assert grown(figures, "processes") < 0.2, (name, sizes)

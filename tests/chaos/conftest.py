"""The ground on which rounds of chaos are played."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_samza.runs.records import liveness
from tests.support import runner_without_spark
from tests.support.looping import APPLICATION
from tests.support.small_disks import small_disk


@pytest.fixture
def ground(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder for the roots: a small filesystem of its own where that can be had."""
    (tmp_path / "looping_app.py").write_text(APPLICATION)
    monkeypatch.syspath_prepend(str(tmp_path))
    sys.modules.pop("looping_app", None)
    monkeypatch.setattr(liveness, "FROZEN_AFTER_SECONDS", 5.0)
    monkeypatch.setattr(liveness, "CONFIRM_SECONDS", 1.5)
    monkeypatch.setenv(runner_without_spark.PULSE_SECONDS, "5")
    disk = tmp_path / "disk"
    disk.mkdir()
    with small_disk(disk, 64) as mounted:
        what = "a tmpfs of 64 MiB" if mounted else "no real one: mounting is not allowed here, and only runners notice"
        print(f"The disk that fills up is {what}.")
        yield disk
    sys.modules.pop("looping_app", None)

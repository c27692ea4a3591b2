"""The tables that a worker keeps from epoch to epoch: which it forgets when they are too many."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_samza.engine.tables import warm_tables
from airflow_samza.engine.tables.warm_tables import WarmTables
from airflow_samza.prepare.task_side_inputs import SideInputs
from airflow_samza.task.loop.reading import TaskInput
from tests.support.runs_here import Here
from tests.unit.prepare.test_side_inputs import profiles, views


def tables(size: int) -> Any:
    return SimpleNamespace(stores={"t": SimpleNamespace(nbytes=size)})


def kept(warm: WarmTables, *names: str) -> list[str]:
    return [name for name in names if warm.take(name) is not None]


def test_what_was_not_asked_for_the_longest_is_forgotten() -> None:
    warm = WarmTables(20)
    for name in "abc":
        warm.keep(name, tables(10))
    assert kept(warm, "a", "b", "c") == ["b", "c"]


def test_what_the_host_keeps_is_forgotten_before_what_would_be_made_anew() -> None:
    warm = WarmTables(20)
    for name, elsewhere in (("a", False), ("b", True), ("c", False)):
        warm.keep(name, tables(10), elsewhere=elsewhere)
    assert kept(warm, "a", "b", "c") == ["a", "c"]


def test_what_was_kept_last_stays_however_large() -> None:
    warm = WarmTables(20)
    warm.keep("a", tables(10), elsewhere=False)
    warm.keep("b", tables(100))
    assert kept(warm, "a", "b") == ["b"]


def test_what_tables_are_read_from_is_closed_when_they_are_filled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[SideInputs] = []
    closed: list[SideInputs] = []

    class Watched(SideInputs):
        def of(self, *args: Any) -> list[TaskInput]:
            opened.append(self)
            return super().of(*args)

        def close(self) -> None:
            closed.append(self)
            super().close()

    monkeypatch.setattr(warm_tables, "SideInputs", Watched)
    here = Here(tmp_path)
    profiles(here, m1="gold")
    views(here, 1)
    here.whole("tests.support.side_input_apps:unkept_views", "run-1")
    assert opened
    assert closed == opened

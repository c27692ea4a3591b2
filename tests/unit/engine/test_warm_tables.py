"""The tables that a worker keeps from epoch to epoch: which it forgets when they are too many."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from airflow_samza.engine.warm_tables import WarmTables


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

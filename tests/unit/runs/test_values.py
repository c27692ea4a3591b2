"""Values of records and decisions do not change once they are made, but for what adds something up."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from types import ModuleType

import pytest

from airflow_samza import engine, runs

ADDS_UP = {
    "_Held",
    "_Seen",
    "_Written",
    "SweptRoot",
    "SweptRuns",
    "SweptTable",
}
"""Dataclasses that take in one thing after the other, within one function."""


def values(package: ModuleType) -> Iterator[type]:
    """Yield the dataclasses that the modules of a package define."""
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        for value in vars(importlib.import_module(module.name)).values():
            if inspect.isclass(value) and dataclasses.is_dataclass(value) and value.__module__ == module.name:
                yield value


@pytest.mark.parametrize("package", [runs, engine], ids=["runs", "engine"])
def test_a_value_is_a_frozen_dataclass(package: ModuleType) -> None:
    changing = {value.__name__ for value in values(package) if not value.__dataclass_params__.frozen}  # type: ignore[attr-defined]
    assert changing == (ADDS_UP if package is runs else set())

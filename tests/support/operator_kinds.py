"""Every kind of operator that an application can have, found by walking the classes."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import TypeVar

from airflow_samza.application import operator_specs
from airflow_samza.application.operator_spec import OperatorSpec

T = TypeVar("T")


def subclasses(kind: type[T]) -> Iterator[type[T]]:
    """Yield the classes below one, however deep."""
    for below in kind.__subclasses__():
        yield below
        yield from subclasses(below)


def operator_kinds() -> set[type[OperatorSpec]]:
    """Return the kinds of operators that can be made; families of them are abstract."""
    return {kind for kind in subclasses(OperatorSpec) if _is_made(kind)}


def _is_made(kind: type) -> bool:
    return kind.__module__ == operator_specs.__name__ or not inspect.isabstract(kind)

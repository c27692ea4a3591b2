"""Triggers: they wait while their tasks are deferred, and load neither Spark nor what starts it.

A task that a former version has deferred names its trigger by this package, or by the public module: both find the
class.
"""

from __future__ import annotations

import importlib
from typing import Any

_PUBLIC = "airflow_samza.triggers"


def class_path(kind: type) -> str:
    """Return the path by which a triggerer loads a class: of those of this package the public one, which stays."""
    if kind.__module__.startswith(f"{__name__}."):
        return f"{_PUBLIC}.{kind.__name__}"
    return f"{kind.__module__}.{kind.__qualname__}"


def __getattr__(name: str) -> Any:
    return getattr(importlib.import_module(_PUBLIC), name)

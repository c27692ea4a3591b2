"""Triggers: they wait while their tasks are deferred, and load neither Spark nor what starts it.

A task that a former version has deferred names its trigger by the module in which it was then. Each such path leads to
this package, which finds the class.
"""

from __future__ import annotations

import importlib
from typing import Any

_MODULES = {
    "KafkaLagTrigger": "kafka",
    "KafkaMessagesTrigger": "kafka",
    "SamzaEndOfStreamTrigger": "runs",
    "SamzaProducersTrigger": "runs",
    "SamzaRunTrigger": "runs",
    "SamzaStageTrigger": "runs",
    "SamzaStateTrigger": "runs",
    "TableFreshnessTrigger": "tables",
    "TablePushTrigger": "tables",
}


def class_path(kind: type) -> str:
    """Return the path by which a triggerer loads a class: of those of this package the public one, which stays."""
    if _MODULES.get(kind.__name__) == kind.__module__.removeprefix(f"{__name__}."):
        return f"airflow_samza.triggers.{kind.__name__}"
    return f"{kind.__module__}.{kind.__qualname__}"


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)

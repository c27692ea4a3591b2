"""Names and acts of Airflow that only tests need, as its releases have them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from airflow.dag_processing.dagbag import DagBag
    from airflow.sdk.exceptions import DownstreamTasksSkipped
    from airflow.sdk.serde import deserialize, serialize
    from airflow.serialization.serialized_objects import DagSerialization
else:
    try:
        from airflow.sdk.serde import deserialize, serialize
    except ImportError:  # Airflow 3.1
        from airflow.serialization.serde import deserialize, serialize
    try:
        from airflow.sdk.exceptions import DownstreamTasksSkipped
    except ImportError:  # Airflow 3.1
        from airflow.exceptions import DownstreamTasksSkipped
    try:
        from airflow.dag_processing.dagbag import DagBag
    except ImportError:  # Airflow 3.1
        from airflow.models.dagbag import DagBag
    try:
        from airflow.serialization.serialized_objects import DagSerialization
    except ImportError:  # Airflow 3.1
        from airflow.serialization.serialized_objects import SerializedDAG as DagSerialization

__all__ = [
    "DagBag",
    "DagSerialization",
    "DownstreamTasksSkipped",
    "OutletEvents",
    "deserialize",
    "metrics_sent_to",
    "serialize",
]


class OutletEvents(dict[str, Any]):
    """The events of a task's assets and aliases, looked up by these: in Airflow 3.1 they are no keys of a dict."""

    def __init__(self, make: Callable[[], Any]) -> None:
        super().__init__()
        self._make = make

    def __getitem__(self, asset: Any) -> Any:
        return self.setdefault(getattr(asset, "uri", asset.name), self._make())


@contextmanager
def metrics_sent_to(backend: Any) -> Iterator[None]:
    """Have Airflow send metrics to an object with a method ``gauge``."""
    stats: Any
    try:
        from airflow.sdk.observability import stats
        from airflow.sdk.observability.metrics.stats_utils import get_stats_factory
    except ImportError:  # Airflow 3.1
        from airflow.stats import Stats

        older: Any = Stats
        older.instance, older._instance_pid = backend, os.getpid()
        yield
        older.instance = None
        return
    if hasattr(stats, "initialize"):
        stats.initialize(factory=lambda: backend, export_legacy_names=True)
        yield
        stats.initialize(factory=get_stats_factory(), export_legacy_names=True)
    else:  # Airflow 3.2
        made: Any = stats.Stats
        factory: Any = get_stats_factory
        made.initialize(factory=lambda: backend)
        yield
        made.initialize(factory=factory(made))

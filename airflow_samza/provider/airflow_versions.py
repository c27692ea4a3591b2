"""Names and abilities that Airflow's releases from 3.1 on have at different places, or not at all (decision 79).

This module alone knows Airflow's versions; each name is looked for where the newest release has it, then where older
ones do. Modules of the provider, and tests of it, import these names from here.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import datetime, tzinfo
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

if TYPE_CHECKING:
    from airflow.sdk.bases.skipmixin import SkipMixin
    from airflow.sdk.configuration import conf
    from airflow.sdk.exceptions import (
        AirflowException,
        AirflowFailException,
        AirflowNotFoundException,
        AirflowSkipException,
        AirflowTaskTimeout,
        TaskDeferralError,
        TaskDeferralTimeout,
        TaskDeferred,
    )
else:
    try:
        from airflow.sdk.configuration import conf
        from airflow.sdk.exceptions import (
            AirflowException,
            AirflowFailException,
            AirflowNotFoundException,
            AirflowSkipException,
            AirflowTaskTimeout,
            TaskDeferralError,
            TaskDeferralTimeout,
            TaskDeferred,
        )
    except ImportError:  # Airflow 3.1
        from airflow.configuration import conf
        from airflow.exceptions import (
            AirflowException,
            AirflowFailException,
            AirflowNotFoundException,
            AirflowSkipException,
            AirflowTaskTimeout,
            TaskDeferralError,
            TaskDeferralTimeout,
            TaskDeferred,
        )
    try:
        from airflow.sdk.bases.skipmixin import SkipMixin
    except ImportError:  # Airflow 3.1
        from airflow.providers.standard.utils.skipmixin import SkipMixin

__all__ = [
    "AirflowException",
    "AirflowFailException",
    "AirflowNotFoundException",
    "AirflowSkipException",
    "AirflowTaskTimeout",
    "SkipMixin",
    "TaskDeferralError",
    "TaskDeferralTimeout",
    "TaskDeferred",
    "airflow_version",
    "conf",
    "events_take_partitions",
    "hook_lineage",
    "next_partition",
    "partition_zone",
    "plugin_class",
    "send_gauge",
    "start_stats",
    "triggers_hear_of_kills",
]


def _found(*places: str) -> Any:
    """Return what a release has at one of several places (``module``, ``module:name``): the newest's, then 3.1's."""
    for place in places[:-1]:
        with suppress(ImportError, AttributeError):
            return resolve_name(place)
    return resolve_name(places[-1])


def plugin_class() -> Any:
    """Return the class of plugins, which a Dag file need not load."""
    return _found("airflow.sdk.plugins_manager:AirflowPlugin", "airflow.plugins_manager:AirflowPlugin")


def triggers_hear_of_kills() -> bool:
    """Return whether Airflow calls ``on_kill`` of a trigger when a user ends the deferred task: since 3.3."""
    from airflow.triggers.base import BaseTrigger  # a Dag file need not load it

    return hasattr(BaseTrigger, "on_kill")


def events_take_partitions() -> bool:
    """Return whether the events of a task's assets take partition keys: since Airflow 3.3."""
    from airflow.sdk.types import OutletEventAccessorProtocol

    return hasattr(OutletEventAccessorProtocol, "add_partitions")


def partition_zone(dag: Any) -> tzinfo | None:
    """Return the time zone of a Dag's partition keys.

    That of its timetable, else of the mapper that makes its keys of those of assets, else the Dag's own.
    """
    timetable = getattr(dag, "timetable", None)
    mappers = [*getattr(timetable, "partition_mapper_config", {}).values()]
    mappers += [getattr(timetable, "default_partition_mapper", None)]
    zones = [getattr(timetable, "timezone", None), *map(_zone_of_mapper, mappers), getattr(dag, "timezone", None)]
    zone = next((zone for zone in zones if zone is not None), None)
    return ZoneInfo(zone) if isinstance(zone, str) else zone


def _zone_of_mapper(mapper: Any) -> Any:
    """Return the time zone of the keys that a mapper of partitions makes, where it is one of times."""
    inner = getattr(mapper, "downstream_mapper", None) or getattr(mapper, "upstream_mapper", None)
    if inner is not None:
        return _zone_of_mapper(inner)
    return getattr(mapper, "_timezone", None)


def next_partition(dag: Any, moment: datetime) -> datetime | None:
    """Return when the partition after the one of ``moment`` begins; None where the Dag has no timetable of partitions.

    That is CronPartitionTimetable, since Airflow 3.2.
    """
    timetable: Any = getattr(dag, "timetable", None)
    if not hasattr(timetable, "key_format") or not hasattr(timetable, "expression"):
        return None
    try:
        of_scheduler: Any = resolve_name("airflow.timetables.trigger:CronPartitionTimetable")
        pendulum: Any = resolve_name("pendulum")
    except (ImportError, AttributeError):  # a task with the SDK alone
        return None
    ticks = of_scheduler(timetable.expression, timezone=timetable.timezone)
    after: datetime = ticks._get_next(pendulum.instance(moment))  # it is how its own partitions are made
    return after


def knows_asset(uri: str) -> bool:
    """Return whether Airflow has had an event of the asset of this name and URI; True where a task cannot ask."""
    try:
        from airflow.sdk.execution_time.comms import GetAssetEventByAsset
        from airflow.sdk.execution_time.task_runner import SUPERVISOR_COMMS
    except ImportError:  # outside of a task
        return True
    from airflow.sdk.exceptions import AirflowRuntimeError

    bound: dict[str, Any] = {"limit": 1} if "limit" in GetAssetEventByAsset.model_fields else {}
    try:
        answer = SUPERVISOR_COMMS.send(GetAssetEventByAsset(name=uri, uri=uri, **bound))
    except AirflowRuntimeError:
        return True
    return bool(getattr(answer, "asset_events", True))


def hook_lineage() -> Any:
    """Return what collects the assets that a task reads and writes, for those who follow lineage."""
    name = "get_hook_lineage_collector"
    return _found(f"airflow.sdk.lineage:{name}", f"airflow.lineage.hook:{name}")()


def airflow_version() -> str:
    """Return the version of Airflow, as sentences name it."""
    from airflow import __version__

    return __version__


def send_gauge(name: str, value: float, tags: Mapping[str, str]) -> None:
    """Send a gauge to where Airflow was configured to send metrics to."""
    _stats().gauge(name, value, tags=dict(tags))


def sends_names_without_tags() -> bool:
    """Return whether metrics have names, too, that hold what stands in their tags; Airflow 3.1 has no others."""
    return bool(conf.getboolean("metrics", "legacy_names_on", fallback=True))


def start_stats() -> None:
    """Prepare metrics in a process where Airflow has not: a triggerer."""
    try:
        from airflow.sdk.observability import stats
        from airflow.sdk.observability.metrics import stats_utils
    except ImportError:  # Airflow 3.1 prepares them at the first use
        return
    if hasattr(stats, "initialize"):
        stats.initialize(
            factory=stats_utils.get_stats_factory(), export_legacy_names=conf.getboolean("metrics", "legacy_names_on")
        )
    else:  # Airflow 3.2
        client: Any = stats.Stats
        factory: Any = stats_utils.get_stats_factory
        client.initialize(factory=factory(client))


def _stats() -> Any:
    """Return the module, or in older releases the class, that sends metrics."""
    stats = _found("airflow.sdk.observability.stats", "airflow.stats:Stats")
    return stats if hasattr(stats, "gauge") else stats.Stats


def dags_in(file: Path | None) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the Dags of a file, or of all bundles of this Airflow, by id, and import errors by file.

    The files are read as Airflow reads them, and nothing is written into its database.
    """
    bag = _found("airflow.dag_processing.dagbag:DagBag", "airflow.models.dagbag:DagBag")
    places = [(file, file.parent)] if file is not None else [(path, path) for path in _bundle_paths()]
    dags: dict[str, Any] = {}
    problems: dict[str, str] = {}
    for folder, path in places:
        if str(path) not in sys.path:
            sys.path.append(str(path))
        parsed = bag(dag_folder=folder, bundle_path=path)
        dags |= {dag_id: dag for dag_id, dag in parsed.dags.items() if dag_id not in dags}
        problems |= parsed.import_errors
    return dags, problems


def scheduler_form(dag: Any) -> Any:
    """Return a Dag as the scheduler has it, which knows the runs between two moments."""
    module = "airflow.serialization.serialized_objects"
    form = _found(f"{module}:DagSerialization", f"{module}:SerializedDAG")
    return form.from_dict(form.to_dict(dag))


def _bundle_paths() -> Iterator[Path]:
    from airflow.dag_processing.bundles.manager import DagBundlesManager

    for bundle in DagBundlesManager().get_all_dag_bundles():
        bundle.initialize()
        yield Path(bundle.path)

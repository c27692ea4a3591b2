"""From Airflow's context to plain values: the run, the generation, the data interval of a task.

Every key may be missing from a context: a run that was triggered by hand or by an asset has no logical date and no data
interval (AIRFLOW 1e), so nothing is indexed. Operators, sensors of tables and the preview of a backfill read a context
by it.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any

from airflow_samza.application.partition_keys import beginning, key_interval
from airflow_samza.errors import ConfigError
from airflow_samza.provider.airflow_versions import next_partition, partition_zone
from airflow_samza.runs.records.data_interval import DataInterval
from airflow_samza.runs.records.names import safe


def run_id_of(context: Mapping[str, Any], scope: str) -> str:
    """Return the runtime's id of this run: Dag, scope (task group or task) and Airflow run together.

    Two Dags may run one application, and scheduled runs of both have the same Airflow run id; a Dag may hold the
    application twice; a mapped task runs it once per index.
    """
    ti = _task_instance(context)
    parts = [ti.dag_id, scope] if scope else [ti.dag_id]
    map_index = getattr(ti, "map_index", None)
    if map_index is not None and map_index >= 0:
        parts.append(f"map{map_index}")
    # "~" is in no id of Airflow, so no two combinations give one text; safe() keeps it usable in paths, and unique.
    return safe("~".join([*parts, str(context.get("run_id") or ti.run_id)]))


def generation_of(context: Mapping[str, Any]) -> int:
    """Return the number of the first try since this task was cleared: equal in all retries, another after a clear.

    A clear sets ``max_tries`` to the tries so far plus ``retries``; a retry leaves it alone. Airflow's task runner
    computes the same number for the first reschedule date.
    """
    ti = _task_instance(context)
    task = getattr(ti, "task", None) or context.get("task")
    retries = getattr(task, "retries", None) or 0
    max_tries = getattr(ti, "max_tries", None)
    if max_tries is None:
        return 1
    # A task whose retries were raised after the run was made would come out below 1; a try is never a later generation
    # than its own number.
    return max(1, min(int(max_tries) - int(retries) + 1, int(getattr(ti, "try_number", 1) or 1)))


def has_another_try(context: Mapping[str, Any]) -> bool:
    """Return whether Airflow would try this task again if it failed now."""
    ti = _task_instance(context)
    return int(ti.try_number) <= int(ti.max_tries)


def airflow_run_of(context: Mapping[str, Any]) -> dict[str, str]:
    """Return the Dag, run and task that planned a run, for its records."""
    ti = _task_instance(context)
    return {"dag_id": str(ti.dag_id), "run_id": str(context.get("run_id") or ti.run_id), "task_id": str(ti.task_id)}


def interval_of(context: Mapping[str, Any], data_interval: Any = None) -> DataInterval | None:
    """Return the run's data interval.

    ``data_interval`` (two texts or moments) when there is one, else the data interval, else that of the partition, else
    None.
    """
    if data_interval:
        return _parsed_interval(data_interval)
    dag_run = context.get("dag_run")
    start = context.get("data_interval_start") or getattr(dag_run, "data_interval_start", None)
    end = context.get("data_interval_end") or getattr(dag_run, "data_interval_end", None)
    if start is None or end is None:
        return _partition_interval(context)
    return DataInterval(start, end)


def _partition_interval(context: Mapping[str, Any]) -> DataInterval | None:
    """Return the interval of the run's partition: what its key names, else until the next of the Dag's timetable.

    A key is a date of the zone of the timetable or mapper that wrote it, else of the Dag's.
    """
    key, dag = partition_key_of(context), context.get("dag")
    date = context.get("partition_date") or getattr(context.get("dag_run"), "partition_date", None)
    zone = partition_zone(dag) or timezone.utc
    named = key_interval(key)
    if named is None:
        end = next_partition(dag, date) if date is not None else None
        return None if date is None or end is None else DataInterval(date, end)
    if date is not None and beginning(named.unit, date.astimezone(zone).replace(tzinfo=None)) != named.start:
        raise ConfigError(
            f"The partition key {key!r} of this run is no date in the time zone {zone}: there its partition date is "
            f"{date.astimezone(zone).isoformat()}.",
            hint="Give the zone of the keys to the mapper of the Dag's PartitionedAssetTimetable (timezone=) or to its "
            "start_date, or the interval to the task (data_interval=).",
            key="partition_key",
            value=key,
        )
    return DataInterval.of_key(key, zone, date)


def partition_key_of(context: Mapping[str, Any]) -> str | None:
    """Return the partition key of the Dag run; None where its timetable gives none, or Airflow knows none (3.1)."""
    key = context.get("partition_key") or getattr(context.get("dag_run"), "partition_key", None)
    return str(key) if key else None


def bundle_of(context: Mapping[str, Any]) -> dict[str, str]:
    """Return name and version of the Dag bundle that the task runs from; empty where it has no versions."""
    bundle = getattr(_task_instance(context), "bundle_instance", None)
    version = getattr(bundle, "version", None)
    if not isinstance(version, str) or not version:
        return {}
    return {"name": str(getattr(bundle, "name", "")), "version": version}


def _parsed_interval(data_interval: Any) -> DataInterval:
    if isinstance(data_interval, DataInterval):
        return data_interval
    pair = (
        data_interval.split("/")
        if isinstance(data_interval, str)
        else list(data_interval)
        if isinstance(data_interval, list | tuple)
        else []
    )
    if len(pair) != 2:
        raise ConfigError(
            f"data_interval={data_interval!r} is not two moments.",
            hint='Give a pair such as ("2013-01-01", "2013-01-02"), or a text "2013-01-01/2013-01-02".',
            key="data_interval",
            value=data_interval,
        )
    start, end = (part.isoformat() if isinstance(part, datetime) else str(part).strip() for part in pair)
    return DataInterval.from_iso(start, end)


def _task_instance(context: Mapping[str, Any]) -> Any:
    ti = context.get("ti") or context.get("task_instance")
    if ti is None:
        raise ConfigError(
            "The context holds no task instance.",
            hint="Run the operator in a Dag, or pass a context with ti.",
            key="ti",
            value=None,
        )
    return ti

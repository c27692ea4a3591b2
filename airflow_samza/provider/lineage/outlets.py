"""Outlets of the tasks of runs: the assets of what an application writes, and what their events say.

Every output has an asset by where its data lies (:mod:`airflow_samza.provider.lineage.dataset_names`), which a Dag file
that is parsed does not look up: there its outlet is an alias, to which the run adds the asset. A stream that
applications share and a pushed table have an asset by their connection besides, which a Dag file can name. Stage, push
and publish tasks send their asset events by it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from airflow.sdk import Asset, AssetAlias

from airflow_samza.application.application import ApplicationSpec
from airflow_samza.errors import ConfigError, SamzaError
from airflow_samza.grouping import grouped
from airflow_samza.provider import airflow_versions
from airflow_samza.provider.airflow_versions import hook_lineage
from airflow_samza.provider.assets import SCHEME, pushed_table, shared_stream, version_facts
from airflow_samza.provider.lineage.dataset_names import DatasetName
from airflow_samza.provider.parsed_application import is_late
from airflow_samza.runs.records.first_events import take_turn
from airflow_samza.runs.records.run_plan import RunPlan
from airflow_samza.runs.records.stage_result import OutputResult, StageResult
from airflow_samza.runs.tables.table_version import TableVersion

if TYPE_CHECKING:
    from airflow_samza.provider.hooks.samza import SamzaHook

log = logging.getLogger(__name__)

_ALIAS = "samza-output:"
_ALIAS_OF_ALL = "samza-outputs:"

DATA_INTERVAL = "data_interval"
"""The ``partition_key`` that stands for the beginning of the run's data interval."""

_KEY_FORMAT = "%Y-%m-%dT%H:%M:%S"
"""As Airflow's CronPartitionTimetable writes keys by default, so that its mappers read them."""

_LONGEST_KEY = 250
"""Characters of a partition key in Airflow's database."""

_SUMMED = ("rows", "files", "bytes")


@dataclass(frozen=True)
class Slice:
    """The part of the data that a run writes.

    ``key`` is the partition key that its events get, None where they get no other than the Dag run's; ``named`` is the
    one that they say, and ``interval`` the run's data interval (ISO texts).
    """

    key: str | None = None
    named: str | None = None
    interval: tuple[str, str] | None = None


def output_alias(place: str, stream_id: str) -> AssetAlias:
    """Return the outlet of a stream in a place (a connection, a system of the code): the run finds what is there."""
    return AssetAlias(name=f"{_ALIAS}{place}/{stream_id}")


def alias_of_all(conn_id: str, application: str) -> AssetAlias:
    """Return the outlet of a task that runs a whole application, of which its Dag file need not know the outputs."""
    return AssetAlias(name=f"{_ALIAS_OF_ALL}{conn_id}/{application}")


def slice_of(context: Mapping[str, Any], partition_key: Any, task_id: str, interval: tuple[str, str] | None) -> Slice:
    """Return the slice of a run: ``given`` is the partition key of the operator, ``interval`` the run's."""
    begins = datetime.fromisoformat(interval[0]).strftime(_KEY_FORMAT) if interval is not None else None
    key = begins if partition_key == DATA_INTERVAL else str(partition_key or "").strip() or None
    if key is not None and len(key) > _LONGEST_KEY:
        raise ConfigError(
            f"partition_key={key[:40]!r}… of the task {task_id!r} has {len(key)} characters, and Airflow keeps "
            f"{_LONGEST_KEY}.",
            hint="Give a shorter key.",
            key="partition_key",
            value=key,
        )
    own = str(context.get("partition_key") or "") or None
    return Slice(key, key or own or begins, interval)


def reject_partitions(task_id: str, partition_key: str | None) -> None:
    """Reject a partition key where the events of assets have none."""
    if partition_key is not None and not airflow_versions.events_take_partitions():
        raise ConfigError(
            f"The task {task_id!r} has partition_key={partition_key!r}, and Airflow "
            f"{airflow_versions.airflow_version()} gives asset events no partitions.",
            hint="Leave partition_key out, or use Airflow 3.3 or later.",
            key="partition_key",
            value=partition_key,
        )


def outlets_of(spec: ApplicationSpec, conn_id: str, systems: Mapping[str, str]) -> dict[str, list[Asset | AssetAlias]]:
    """Return the outlets of the streams that an application writes, by stream id.

    A templated connection has none while a Dag is read.
    """
    outlets: dict[str, list[Asset | AssetAlias]] = {}
    for stream_id, stream in spec.outputs.items():
        system = stream.system or spec.default_system
        place = systems.get(system, conn_id) if system is not None else conn_id
        if not isinstance(place, str) or "{{" in place:
            continue
        by_code = system is not None and system not in systems and system in spec.systems
        alias = output_alias(str(system) if by_code else place, stream_id)
        outlets[stream_id] = [shared_stream(stream_id, place), alias] if stream.shared else [alias]
    return outlets


def outlets_of_task(
    spec: ApplicationSpec | None,
    application: str,
    conn_id: str,
    systems: Any,
    written: Sequence[str] | None,
    *,
    alone: bool,
) -> list[Asset | AssetAlias]:
    """Return the outlets of a task that runs stages: of the streams ``written``, None: of all that are written.

    ``spec`` is the application where the Dag file knows it. Where it does not, and of a task that is a whole run
    (``alone``), one alias stands for all outputs; without a connection that the Dag file knows there are none.
    """
    if is_late(systems) or not isinstance(conn_id, str) or "{{" in conn_id:
        return []
    outlets = outlets_of(spec, conn_id, systems or {}) if spec is not None else {}
    chosen = [
        outlet for stream_id in (outlets if written is None else written) for outlet in outlets.get(stream_id, ())
    ]
    if not alone and spec is not None:
        return chosen
    whole = [] if "{{" in application else [alias_of_all(conn_id, application)]
    return [*(outlet for outlet in chosen if isinstance(outlet, Asset)), *whole]


def with_outlets(ours: Sequence[Asset | AssetAlias], users: Any) -> list[Any]:
    """Return the outlets of what a task writes, and those that the user gives it; each name counts once."""
    aliases = {outlet.name for outlet in ours}
    return [*ours, *(outlet for outlet in users or () if getattr(outlet, "name", None) not in aliases)]


def announce(
    events: Any,
    outlets: Iterable[Any],
    run: RunPlan,
    results: Sequence[StageResult],
    hook: SamzaHook,
    names: Mapping[str, DatasetName],
    slice_: Slice = Slice(),
) -> None:
    """Add the run and what it wrote to the events of its outputs, and say what it read and wrote.

    What it wrote to the branch of a table, or waits for an approval, has an event when that is published.
    ``names`` are those of the run's streams. Airflow sends events when the task has succeeded. Of several outputs at
    one place there is one event. ``events`` is None where a task is executed by hand, outside of Airflow: there is
    nobody to tell then.
    """
    _tell_lineage(run, results, hook, names)
    written: list[_Written] = []
    for result in results:
        for output in result.outputs:
            if not output.held:
                is_seen = not output.own and output.facts.get("branch") is None
                uri = asset_uri(names.get(output.stream_id)) if is_seen else None
                connections = (hook.systems.get(output.system, hook.conn_id), hook.conn_id)
                facts = output_facts(run, result, output, slice_)
                written.append(_Written(output.stream_id, connections, uri, facts))
    _send(events, outlets, written, hook, slice_)


class _Written(NamedTuple):
    """A stream that was written: the URI of the asset where it lies, None for none, and what its events say.

    ``connections`` are those by which a Dag file may name it, the likelier first.
    """

    stream_id: str
    connections: Sequence[str]
    uri: str | None
    facts: dict[str, Any]


def _send(events: Any, outlets: Iterable[Any], written: Sequence[_Written], hook: SamzaHook, slice_: Slice) -> None:
    """Add what was written to the events of outlets: of a stream's asset by its connection, and of the one by place."""
    declared = list(outlets) if events is not None else []
    assets = {outlet.uri: outlet for outlet in declared if isinstance(outlet, Asset)}
    aliases = {
        o.name.rpartition("/")[2]: o for o in declared if isinstance(o, AssetAlias) and o.name.startswith(_ALIAS)
    }
    of_all = next((o for o in declared if isinstance(o, AssetAlias) and o.name.startswith(_ALIAS_OF_ALL)), None)
    for each in written:
        uris = [f"{SCHEME}://{conn_id}/{each.stream_id}" for conn_id in each.connections]
        named = next((assets[uri] for uri in uris if uri in assets), None)
        if named is not None:
            _announce(events[named], each.facts, slice_)
    for uri, here in grouped((each.uri, each) for each in written if each.uri is not None).items():
        facts = _together([each.facts for each in here])
        alias = next((aliases[each.stream_id] for each in here if each.stream_id in aliases), of_all)
        if uri in assets:  # the Dag file names it, too
            _announce(events[assets[uri]], facts, slice_)
        elif alias is not None:
            _announce_by_place(events[alias], hook, uri, facts)


def output_facts(run: RunPlan, result: StageResult, output: OutputResult, slice_: Slice) -> dict[str, Any]:
    """Return what the event of an output says."""
    files = output.facts.get("files")
    return {
        "stream": output.stream_id,
        "application": run.application,
        "run_id": run.run_id,
        "stage": result.stage_id,
        "generation": result.generation,
        "rows": output.messages,
        "bytes": output.bytes,
        "files": len(files) if isinstance(files, list | tuple) else None,
        **{name: output.facts[name] for name in ("snapshot", "version") if output.facts.get(name) is not None},
        **({"expectations": {e.expectation: e.outcome for e in output.expectations}} if output.expectations else {}),
        "partition_key": slice_.named,
        "interval": list(slice_.interval) if slice_.interval is not None else None,
    }


def outlets_of_table(table: str, conn_id: str) -> tuple[Asset, AssetAlias]:
    """Return the outlets of a pushed table: the asset that Dag files name, and the alias of the one by its place."""
    return pushed_table(table, conn_id), output_alias(conn_id, f"{table}-push")


def announce_version(
    hook: SamzaHook,
    events: Any,
    outlets: Iterable[Any],
    table: str,
    place: DatasetName,
    version: TableVersion,
    partition_key: str | None,
) -> None:
    """Add a version to the events of a push, as :func:`announce` does: by its connection, and by where it lies."""
    facts = {**version_facts(version), "partition_key": partition_key}
    written = _Written(f"{table}-push", [hook.conn_id], asset_uri(place), facts)
    _send(events, outlets, [written], hook, Slice(partition_key))


def _announce_by_place(event: Any, hook: SamzaHook, uri: str, facts: dict[str, Any]) -> None:
    """Add an asset to the events of an alias.

    Airflow makes an asset with its first event, and of two tasks that send one in the same instant it marks one failed.
    """
    try:
        if not airflow_versions.knows_asset(uri):
            by = str(facts.get("run_id") or facts.get("push_id"))
            take_turn(hook.files, uri, by, lambda: airflow_versions.knows_asset(uri))
    except SamzaError as error:  # what is written is published by now
        log.warning("Whether another run announces %s for the first time is not known: %s", uri, error)
    event.add(Asset(name=uri, uri=uri), extra=facts)


def _announce(event: Any, facts: dict[str, Any], slice_: Slice) -> None:
    event.extra = facts
    if slice_.key is not None and airflow_versions.events_take_partitions():
        event.add_partitions(slice_.key)


def _together(facts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the facts of several outputs at one place: their counts summed, all their streams named."""
    if len(facts) == 1:
        return facts[0]
    values = {name: [one[name] for one in facts if one[name] is not None] for name in _SUMMED}
    sums = {name: sum(counts) if counts else None for name, counts in values.items()}
    return {**facts[0], **sums, "streams": [one["stream"] for one in facts]}


def _tell_lineage(
    run: RunPlan, results: Sequence[StageResult], hook: SamzaHook, names: Mapping[str, DatasetName]
) -> None:
    """Say to Airflow's collector of lineage which datasets were read and written."""
    lineage = hook_lineage()
    for result in results:
        for read in result.inputs:
            uri = asset_uri(names.get(read.stream_id)) if not run.is_own(read.stream_id) else None
            if uri is not None:
                lineage.add_input_asset(hook, uri=uri)
        for output in result.outputs:
            uri = asset_uri(names.get(output.stream_id)) if not output.own else None
            if uri is not None:
                lineage.add_output_asset(hook, uri=uri)


def asset_uri(name: DatasetName | None) -> str | None:
    """Return the URI as Airflow has it once an asset is made of it; None where no asset can be made of it.

    What is written is published by now, so that no odd name may fail the task.
    """
    if name is None:
        return None
    try:
        return Asset(name=name.uri, uri=name.uri).uri
    except ValueError as error:
        log.warning("The output %s has no asset: %s", name.uri, error)
        return None

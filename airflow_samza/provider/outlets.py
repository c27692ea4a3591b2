"""Outlets of the tasks of runs: the assets of what an application writes, and what their events say.

A stream that applications share has an asset by its connection. A topic of Kafka has one by its brokers, which a Dag
file that is parsed does not look up: there its outlet is an alias, to which the run adds the asset.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk import Asset, AssetAlias

from airflow_samza.application.application import ApplicationSpec
from airflow_samza.prepare.bound_systems import run_bindings
from airflow_samza.provider.airflow_versions import hook_lineage
from airflow_samza.provider.assets import SCHEME, shared_stream
from airflow_samza.provider.kafka_assets import kafka_topic, topic_uri
from airflow_samza.runs.records.run_plan import RunPlan
from airflow_samza.runs.records.stage_result import OutputResult, StageResult
from airflow_samza.system_kinds import find_kind
from airflow_samza.systems.kafka.access import ADDRESSES

if TYPE_CHECKING:
    from airflow_samza.provider.hooks import SamzaHook

_ALIAS = "samza-output:"


def output_alias(place: str, stream_id: str) -> AssetAlias:
    """Return the outlet of a stream in a place (a connection, a system of the code): the run finds what is there."""
    return AssetAlias(name=f"{_ALIAS}{place}/{stream_id}")


def outlets_of(spec: ApplicationSpec, conn_id: str, systems: Mapping[str, str]) -> dict[str, Asset | AssetAlias]:
    """Return the outlets of the streams that an application writes, by stream id.

    A templated connection has none while a Dag is read.
    """
    found: dict[str, Asset | AssetAlias] = {}
    for stream_id, stream in spec.outputs.items():
        system = stream.system or spec.default_system
        place = systems.get(system, conn_id) if system is not None else conn_id
        if not isinstance(place, str) or "{{" in place:
            continue
        if stream.shared:
            found[stream_id] = shared_stream(stream_id, place)
        elif system in systems:
            found[stream_id] = output_alias(place, stream_id)
        elif system in spec.systems:  # the code says where it is
            found[stream_id] = output_alias(str(system), stream_id)
    return found


def announce(
    events: Any, outlets: Iterable[Any], run: RunPlan, results: Sequence[StageResult], hook: SamzaHook
) -> None:
    """Add the run and its number of messages to the events of what it wrote, and say what it read and wrote.

    Airflow sends events when the task has succeeded.
    """
    known = list(outlets)
    assets = {outlet.uri: outlet for outlet in known if isinstance(outlet, Asset)}
    shared = {uri.rpartition("/")[2]: asset for uri, asset in assets.items() if uri.startswith(f"{SCHEME}://")}
    aliases = {o.name.rpartition("/")[2]: o for o in known if isinstance(o, AssetAlias) and o.name.startswith(_ALIAS)}
    brokers, lineage = _brokers(run, hook), hook_lineage()
    for result in results:
        for read in result.inputs:
            if read.system in brokers and not run.is_own(read.stream_id):
                lineage.add_input_asset(hook, uri=topic_uri(read.stream, brokers[read.system]))
        for output in result.outputs:
            if output.stream_id in shared:
                events[shared[output.stream_id]].extra = _facts(run, result, output)
            if output.system in brokers and not output.own:
                topic = kafka_topic(output.stream, brokers[output.system])
                lineage.add_output_asset(hook, uri=topic.uri)
                if topic.uri in assets:  # the Dag file names it, too
                    events[assets[topic.uri]].extra = _facts(run, result, output)
                elif output.stream_id in aliases:
                    events[aliases[output.stream_id]].add(topic, extra=_facts(run, result, output))


def _brokers(run: RunPlan, hook: SamzaHook) -> dict[str, str]:
    """Return the addresses of brokers by the names of the systems that are Kafka."""
    kinds = {name: find_kind(str(declared.get("kind"))) for name, declared in run.systems.items()}
    names = {name for name, kind in kinds.items() if kind is not None and kind.place == ADDRESSES}
    bindings = run_bindings(run.systems, hook.bindings()) if names else {}
    return {name: str(bindings[name].options[ADDRESSES]) for name in names}


def _facts(run: RunPlan, result: StageResult, output: OutputResult) -> dict[str, Any]:
    return {
        "stream": output.stream_id,
        "application": run.application,
        "run_id": run.run_id,
        "stage": result.stage_id,
        "generation": result.generation,
        "rows": output.messages,
    }

"""Commits of tables that started a Dag run: the version up to which its runs read them.

Asset events name them: those of a watcher with the ``IcebergTableSnapshotTrigger`` of Airflow's provider of Iceberg,
and those of tables that runs have written. Only the version counts; from where an input is read on is in the state of
its application (decision 112). The plan task reads them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_samza.application.application import ApplicationSpec
from airflow_samza.prepare.bound_systems import kind_of, system_name
from airflow_samza.prepare.input_versions import lake_inputs, why_unlimited
from airflow_samza.provider.lineage.dataset_names import table_dataset
from airflow_samza.provider.lineage.outlets import asset_uri
from airflow_samza.system_kinds import traits_of
from airflow_samza.systems.system import SystemBinding

if TYPE_CHECKING:
    from airflow_samza.provider.hooks.samza import SamzaHook

_MAIN = "main"


@dataclass(frozen=True)
class Commit:
    """Commit of a table: the id of its snapshot or the number of its version, and the branch on which it is.

    ``table`` is the table's name in a catalog of Iceberg that nobody names, or "" where ``uri``, that of the asset,
    says which table it is.
    """

    version: str
    branch: str
    table: str = ""
    uri: str = ""

    @classmethod
    def of(cls, uri: str, extra: Mapping[str, Any]) -> Commit | None:
        """Return the commit that an asset event names; None of any other event."""
        payload = extra.get("payload")
        if extra.get("from_trigger") and isinstance(payload, Mapping):
            table, snapshot = payload.get("table"), payload.get("snapshot_id")
            known = isinstance(table, str) and str(snapshot).isdecimal()
            return cls(str(snapshot), str(payload.get("branch") or _MAIN), table=str(table)) if known else None
        version = next((extra[name] for name in ("snapshot", "version") if extra.get(name) is not None), None)
        known = bool(extra.get("application") and extra.get("stream")) and str(version).isdecimal()
        return cls(str(version), str(extra.get("branch") or _MAIN), uri=uri) if known else None


@dataclass(frozen=True)
class _Input:
    """Input that is a table: ``name`` in its system, with a namespace, and ``uri`` of its asset."""

    system: str
    name: str
    uri: str | None
    branch: str
    why_not: str | None

    def has(self, commit: Commit) -> bool:
        return commit.uri == self.uri if commit.uri else commit.table == self.name


def versions_of_events(
    context: Mapping[str, Any], hook: SamzaHook, spec: ApplicationSpec, mode: str, tell: Callable[[str], None]
) -> dict[str, str]:
    """Return the versions up to which inputs are read as the Dag run's asset events say, by stream id.

    ``tell`` gets a sentence on each. Of several versions the table knows which is the newest. A commit of another
    branch than the one that is read, a commit that may be of several catalogs, and one of an input that says itself
    what is read of it, play no part.
    """
    commits = list(dict.fromkeys(_commits(context)))
    inputs = _inputs(hook, spec, mode) if commits else {}
    versions: dict[str, list[str]] = {}
    for commit in commits:
        having = {stream_id: one for stream_id, one in inputs.items() if one.has(commit)}
        systems = sorted({one.system for one in having.values()})
        for stream_id, one in having.items():
            why = one.why_not
            if commit.branch != one.branch:
                why = f"reads the branch {one.branch}, and the commit is on {commit.branch}"
            elif len(systems) > 1 and not commit.uri:
                why = f"has namesakes: a table of this name is in {' and in '.join(systems)}"
            if why is None:
                versions.setdefault(stream_id, []).append(commit.version)
            else:
                tell(f"The asset event of {one.name} does not limit the input {stream_id}, which {why}.")
    for stream_id, named in versions.items():
        which = named[0] if len(named) == 1 else f"the newest of {', '.join(named)}"
        tell(f"The input {stream_id} is read up to {which} of {inputs[stream_id].name}, as its asset event says.")
    return {stream_id: ",".join(sorted(named)) for stream_id, named in versions.items()}


def _commits(context: Mapping[str, Any]) -> Iterator[Commit]:
    for asset, events in (context.get("triggering_asset_events") or {}).items():
        for event in events:
            uri = str(getattr(getattr(event, "asset", asset), "uri", asset))
            extra = event.extra
            commit = Commit.of(uri, extra) if isinstance(extra, Mapping) else None
            if commit is not None:
                yield commit


def _inputs(hook: SamzaHook, spec: ApplicationSpec, mode: str) -> dict[str, _Input]:
    """Return the inputs of an application that are tables of a lake, by stream id."""
    bindings, inputs = hook.bindings(), {}
    for stream_id, stream in lake_inputs(spec).items():
        system = system_name(spec, stream, bindings, hook.default_system)
        kind = kind_of(spec, system, bindings)
        traits = traits_of(kind)
        if kind is None or not traits.has_tables:
            continue
        declared = spec.systems.get(system)
        binding = bindings.get(system) or SystemBinding(kind, dict(declared.options) if declared is not None else {})
        options = dict(stream.options)
        table = options.get("table") or stream.physical_name(spec.config)
        name = table if "." in table or not traits.namespace else f"{traits.namespace}.{table}"
        uri = asset_uri(table_dataset(table, system, binding))
        why = why_unlimited(stream, kind, mode)
        inputs[stream_id] = _Input(system, name, uri, options.get("ref") or _MAIN, why)
    return inputs

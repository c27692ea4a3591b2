"""The systems of a run: the binding of each name in the application, and the bound systems.

A name is looked up in the environment's bindings, then in the application's declarations; ``log`` (the default system
unless another is named) is the log under the root. Used wherever a run's systems are opened: in the plan step, the
runtime, the stage runner, commands and triggers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from airflow_samza.application.application import ApplicationSpec
from airflow_samza.application.descriptors import StreamDescriptor, StreamRole
from airflow_samza.application.rejections import did_you_mean
from airflow_samza.errors import ConfigError, SectionOpen, TopicError, UnknownName
from airflow_samza.runs.tables.pins import push_stream
from airflow_samza.system_kinds import DATAFRAMES, EMBEDDED, KINDS_OF_NAMES, traits_of
from airflow_samza.systems.bindings import bind_system
from airflow_samza.systems.filesystems.root_access import ROOT_ACCESS
from airflow_samza.systems.system import System, SystemBinding


def system_name(
    spec: ApplicationSpec, stream: StreamDescriptor, bindings: Mapping[str, SystemBinding], default_system: str | None
) -> str:
    """Return the name of the system in which a stream lives."""
    if stream.reader is not None:
        return DATAFRAMES
    if stream.system is not None:
        return stream.system
    name = spec.default_system or default_system or EMBEDDED
    traits = traits_of(kind_of(spec, name, bindings))
    if stream.role is StreamRole.INTERMEDIATE and not (traits.carries_control or traits.own_topics):
        return EMBEDDED
    pushed = any(push_stream(table) == stream.stream_id for table in spec.tables.values())
    if pushed and not traits_of(kind_of(spec, name, bindings)).keeps_versions:
        return EMBEDDED
    return name


@contextmanager
def asking_for_systems(bound: Iterable[str], used: Iterable[str]) -> Iterator[None]:
    """Have the error for a stream that its system does not have ask for a system of a near name.

    ``bound`` are the systems that are bound or declared, ``used`` those that the application names.
    """
    try:
        yield
    except TopicError as error:
        others = sorted(set(bound) - set(used))
        if type(error) in (TopicError, SectionOpen) and isinstance(name := error.facts.get("system"), str):
            error.hint = f"{did_you_mean(name, others, 'the system ')}{error.hint}"
        raise


def declared_systems(
    spec: ApplicationSpec, names: Iterable[str], bindings: Mapping[str, SystemBinding]
) -> dict[str, dict[str, Any]]:
    """Return what the run's record keeps of each system: its kind, and the options in the application's code.

    Options of the environment are not kept: they may be secret, and may change between two attempts.
    """
    kept: dict[str, dict[str, Any]] = {}
    for name in sorted(set(names)):
        kind = kind_of(spec, name, bindings)
        if kind is None:
            systems = sorted({*bindings, *(n for n, s in spec.systems.items() if s.kind), EMBEDDED})
            raise UnknownName(
                f"{_whose(spec, name)} names the system {name!r}, which is not bound to anything.",
                hint=f"{did_you_mean(name, systems)}Bound or declared are {', '.join(systems)}. Bind it: "
                f'systems={{"{name}": "<connection id>"}} on the task group, or --system {name}=files:/path on the '
                "command line.",
                name=name,
            )
        if traits_of(kind).in_one_process:
            raise ConfigError(
                f"The system {name!r} is of kind {kind}, which exists in one process only, and stages run in others.",
                hint=f"Bind it to a log or to files; {kind} is for airflow_samza.testing.",
                key=f"systems.{name}.kind",
                value=kind,
            )
        declared = spec.systems.get(name)
        options = dict(declared.options) if name not in bindings and declared is not None else {}
        kept[name] = {"kind": kind, "options": options}
    return kept


def run_bindings(
    kept: Mapping[str, Mapping[str, Any]], bindings: Mapping[str, SystemBinding]
) -> dict[str, SystemBinding]:
    """Return the bindings of a run: the environment's where it has one, else what the run's record kept."""
    bound_by_name: dict[str, SystemBinding] = {}
    for name, record in kept.items():
        bound = bindings.get(name)
        if bound is not None and bound.kind != record["kind"]:
            raise ConfigError(
                f"The system {name!r} is bound to the kind {bound.kind!r}, and was bound to {record['kind']!r} when "
                "the run was planned.",
                hint="Clear the plan task, so that the run is planned for the new binding.",
                key=f"systems.{name}.kind",
                value=bound.kind,
            )
        bound_by_name[name] = bound or SystemBinding(record["kind"], record["options"])
    return bound_by_name


def bind_systems(bindings: Mapping[str, SystemBinding], root: str) -> dict[str, System]:
    """Return the systems, by name; the root's access, which travels with the bindings, is none."""
    return {name: bind_system(name, binding, root) for name, binding in bindings.items() if name != ROOT_ACCESS}


def _whose(spec: ApplicationSpec, system: str) -> str:
    """Return the first stream that names a system, with its place in the user's code."""
    for stream in (*spec.inputs.values(), *spec.outputs.values(), *spec.intermediates.values()):
        if stream.system == system:
            at = f" ({stream.location})" if stream.location is not None else ""
            return f"The stream {stream.stream_id!r} of {spec.name!r}{at}"
    return f"The application {spec.name!r}"


def kind_of(spec: ApplicationSpec, name: str, bindings: Mapping[str, SystemBinding]) -> str | None:
    """Return the kind of a system: as it is bound, or as the application declares it; None: neither."""
    if name in bindings:
        return bindings[name].kind
    declared = spec.systems.get(name)
    if declared is not None and declared.kind:
        return declared.kind
    return KINDS_OF_NAMES.get(name)

"""Pushes: the request, its table and its source, and its submission to a stage runner (the driver process), once."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from airflow_samza.application.application import ApplicationSpec
from airflow_samza.application.descriptors import StreamDescriptor, TableKind, push_stream_id
from airflow_samza.application.loader import load_application
from airflow_samza.application.rejections import did_you_mean
from airflow_samza.config import Config
from airflow_samza.errors import PushError, UnknownName
from airflow_samza.launch.runner_settings import RunnerSettings
from airflow_samza.launch.submission import Code, submit
from airflow_samza.prepare.bound_systems import bind_systems, declared_systems, run_bindings, system_name
from airflow_samza.prepare.side_inputs import keeps_no_versions
from airflow_samza.runs.records import folders
from airflow_samza.runs.records.data_interval import DataInterval
from airflow_samza.runs.stages.stage_state import QUEUED, RUNNING, StageHandle, stage_status
from airflow_samza.runs.tables import versions
from airflow_samza.runs.tables.pins import KEY_STAYS
from airflow_samza.runs.tables.push_finish import discard, newest_staging
from airflow_samza.runs.tables.push_records import PushResult
from airflow_samza.runs.tables.push_request import SOURCE, PushRequest, request_path
from airflow_samza.runs.tables.table_version import ROLLBACK
from airflow_samza.runs.tables.version_errors import taken
from airflow_samza.system_kinds import traits_of
from airflow_samza.systems.filesystems.filesystem import Filesystem
from airflow_samza.systems.system import StreamSpec, System, SystemBinding

OWN_PARTITIONER = "samza"


@dataclass(frozen=True)
class TablePlace:
    """The push stream of a table: its system, its physical name, and its declaration."""

    system: str
    topic: str
    stream: StreamDescriptor
    binding: SystemBinding


def table_place(
    spec: ApplicationSpec, table: str, bindings: Mapping[str, SystemBinding], default_system: str | None
) -> TablePlace:
    """Return the push stream of a pushed table of an application; any other table is rejected."""
    descriptor = spec.tables.get(table)
    stream = spec.side_inputs.get(push_stream_id(table))
    if descriptor is None:
        raise UnknownName(
            f"The application {spec.name!r} has no table {table!r}.",
            hint=f"{did_you_mean(table, sorted(spec.tables))}Its tables are "
            f"{', '.join(sorted(spec.tables)) or 'none'}.",
            name=table,
        )
    if descriptor.kind is not TableKind.PUSHED or stream is None:
        raise PushError(
            f"The table {table!r} of {spec.name!r} is not filled by pushes: it is {descriptor.word}"
            f"{' (' + ', '.join(descriptor.side_inputs) + ')' if descriptor.side_inputs else ''}.",
            hint="Declare it with app.pushed_table(…).",
            table=table,
        )
    name = system_name(spec, stream, bindings, default_system)
    binding = run_bindings(declared_systems(spec, [name], bindings), bindings)[name]
    if not traits_of(binding.kind).keeps_versions:
        raise keeps_no_versions(table, name, binding.kind)
    if stream.partitioner != OWN_PARTITIONER:
        raise PushError(
            f"The table {table!r} is partitioned by {stream.partitioner!r}, and pushes know only {OWN_PARTITIONER!r}.",
            hint="Leave partitioner= out where the table is declared.",
            table=table,
        )
    topic = spec.config.get(f"streams.{stream.stream_id}.samza.physical.name", stream.stream_id)
    return TablePlace(name, topic, stream, binding)


def prepare_push(
    files: Filesystem,
    bindings: Mapping[str, SystemBinding],
    reference: str,
    table: str,
    source: object,
    push_id: str,
    default_system: str | None,
    *,
    interval: DataInterval | None = None,
    config: Mapping[str, str] | None = None,
    **options: Any,
) -> PushRequest:
    """Return the request of a push, checked as far as can be without Spark."""
    spec = load_application(reference).spec(config or {})
    place = table_place(spec, table, bindings, default_system)
    before = versions.newest(files, place.system, place.topic)
    if before is not None and before.key != place.stream.key:
        raise PushError(
            f"The table {table!r} was pushed by the key {', '.join(before.key)} (version {before.number}), and "
            f"{spec.name!r} declares it with {', '.join(place.stream.key)}.",
            hint=KEY_STAYS,
            table=table,
        )
    version = versions.by_push_id(files, place.system, place.topic, push_id)
    if version is not None and version.kind == ROLLBACK:
        raise taken(version)
    partitions = place.stream.partitions
    if partitions is None:
        system = bind_systems({place.system: place.binding}, files.root)[place.system]
        metadata = system.admin.metadata([StreamSpec(place.topic)]).get(place.topic)
        if metadata is None:
            raise PushError(
                f"The table {table!r} of {spec.name!r} does not say how many partitions it has, and nothing was "
                "pushed yet.",
                hint="Declare it: app.pushed_table(…, partitions=16), as many as the streams that are joined with it.",
                table=table,
            )
        partitions = metadata.partitions
    schema = place.stream.schema
    return PushRequest(
        application=spec.name,
        reference=reference,
        table=table,
        push_id=push_id,
        system=place.system,
        topic=place.topic,
        partitions=partitions,
        key=place.stream.key,
        source=source_of(table, source),
        schema=schema.ddl() if schema is not None else None,
        interval=interval.iso() if interval is not None and not interval.is_empty else None,
        after=versions.highest_number(files, place.system, place.topic),
        config=dict(config or {}),
        messages_shown=Config(spec.config).messages_shown,
        **{name: value for name, value in options.items() if value is not None},
    )


def source_of(table: str, source: object) -> dict[str, Any]:
    """Return a source as a request has it: a text is a path, a function is named by its module and name."""
    if isinstance(source, str):
        return {"path": source}
    if callable(source):
        return {"callable": _named(table, source)}
    if isinstance(source, Mapping):
        described = dict(source)
        if callable(described.get("callable")):
            described["callable"] = _named(table, described["callable"])
        if isinstance(described.get("callable"), str):
            _import(table, described["callable"])
        return described
    raise PushError(
        f"The source of the push of table {table!r} is {source!r}.",
        hint='Give a path, {"table": …}, {"query": …}, {"jdbc": {…}}, {"path": …, "format": …}, or a function of a '
        "Spark session.",
        table=table,
    )


def _named(table: str, function: Any) -> str:
    module, name = str(getattr(function, "__module__", "")), str(getattr(function, "__qualname__", ""))
    if "<" in name or module in ("", "__main__"):
        raise PushError(
            f"The source of the push of table {table!r} is {name or function!r} of {module or 'no module'}, which "
            "other processes cannot import.",
            hint='Make it a function of a module, such as "pipelines.models:scores".',
            table=table,
        )
    return f"{module}:{name}"


def _import(table: str, reference: str) -> None:
    """Import the function's module, so that it is shipped with the application that lies beside it."""
    try:
        importlib.import_module(reference.partition(":")[0])
    except ImportError as error:
        raise not_importable(table, reference, error) from None


def not_importable(table: str, reference: str, error: Exception) -> PushError:
    """Return the error for a function that makes a push's rows, and that a process cannot import."""
    return PushError(
        f"The source of the push of table {table!r} is {reference!r}, which cannot be imported: {error}.",
        hint='Write "package.module:function", of a function that takes a '
        "Spark session; py_modules ships further modules.",
        table=table,
    )


def push_bindings(
    bindings: Mapping[str, SystemBinding], request: PushRequest, secrets: Mapping[str, str]
) -> dict[str, SystemBinding]:
    """Return the bindings for the runner of a push: the table's system, and the source's options that are secret."""
    spec = load_application(request.reference).spec(request.config)
    run = run_bindings(declared_systems(spec, [request.system], bindings), bindings)
    if secrets:
        run[SOURCE] = SystemBinding("spark", dict(secrets), frozenset(secrets))
    return run


def submit_push(
    files: Filesystem,
    system: System,
    request: PushRequest,
    settings: Callable[[], RunnerSettings],
    conf: Mapping[str, str],
) -> StageHandle:
    """Re-attach to a push that lives or is over, else try it with what the request says now.

    What was staged for an equal request is kept.
    """
    handle = request.handle
    if stage_status(files, handle).state not in (QUEUED, RUNNING) or not files.exists(request_path(handle)):
        version = versions.by_push_id(files, request.system, request.topic, request.push_id)
        if version is not None:
            folders.write_once(files, handle.folder.result, PushResult(version.number, version.push_id))
        else:
            staged = newest_staging(files, handle.folder)[1]
            if staged is not None and staged.digest != request.digest:
                discard(files, system, request)
        folders.replace(files, request_path(handle), request)
    return submit(files, handle, lambda _: (settings(), Code()), conf)

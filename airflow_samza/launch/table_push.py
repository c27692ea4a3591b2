"""Pushes: the request, its table and its source, and its submission to a stage runner (the driver process), once.

The runtime submits pushes by it, for operators and the command line.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from airflow_samza.application.application import ApplicationSpec
from airflow_samza.application.descriptors import StreamDescriptor, TableDescriptor, TableKind, push_stream_id
from airflow_samza.application.loader import load_application
from airflow_samza.application.rejections import did_you_mean, imported, listed
from airflow_samza.config import Config
from airflow_samza.errors import ConfigError, PushError, SamzaError, UnknownName
from airflow_samza.launch.runner_settings import RunnerSettings
from airflow_samza.launch.submission import submit
from airflow_samza.prepare.bound_systems import bind_systems, declared_systems, kind_of, run_bindings, system_name
from airflow_samza.prepare.side_inputs import keeps_no_versions
from airflow_samza.records import plain
from airflow_samza.runs.records import folders
from airflow_samza.runs.records.data_interval import DataInterval
from airflow_samza.runs.records.expectations import Declared
from airflow_samza.runs.records.run_code import RunCode
from airflow_samza.runs.stages.stage_state import QUEUED, RUNNING, StageHandle, stage_status
from airflow_samza.runs.tables import versions
from airflow_samza.runs.tables.lake_changes import PUSH_ALL, changed_since
from airflow_samza.runs.tables.lake_source import LakeSource
from airflow_samza.runs.tables.pins import KEY_STAYS
from airflow_samza.runs.tables.push_checks import check_columns, column_expressions
from airflow_samza.runs.tables.push_finish import discard, newest_staging, same_rows
from airflow_samza.runs.tables.push_request import SOURCE, PushRequest, PushResult, request_path
from airflow_samza.runs.tables.table_version import FULL, ROLLBACK, TableVersion
from airflow_samza.schema import Schema
from airflow_samza.system_kinds import traits_of
from airflow_samza.systems.capabilities import HasTableVersions
from airflow_samza.systems.filesystems.filesystem import Filesystem
from airflow_samza.systems.system import StreamSpec, System, SystemBinding

log = logging.getLogger(__name__)

OWN_PARTITIONER = "samza"

_OF_ROWS = ("mode", "columns", "deletes", "latest_by", "on_null_key", "on_duplicate")
"""Options of a push that decide which rows it has."""


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
            hint=f"{did_you_mean(table, sorted(spec.tables))}Its tables are {listed(sorted(spec.tables))}.",
            name=table,
        )
    if descriptor.from_table is not None:
        raise PushError(
            f"The table {table!r} of {spec.name!r} is the table {descriptor.from_table} of the system "
            f"{spec.side_inputs[descriptor.side_inputs[0]].system!r}: it has no pushes, and each of that table's "
            "snapshots is a version.",
            hint="Write to that table, or roll it back there; a run reads another snapshot by input_versions "
            f"(--input-version {table}=…). To push, leave from_table= out.",
            table=table,
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
    return TablePlace(name, stream.physical_name(spec.config), stream, binding)


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
        raise versions.taken(version)
    partitions = place.stream.partitions
    if partitions is None:
        system = bind_systems({place.system: place.binding}, files.root)[place.system]
        metadata = system.metadata([StreamSpec(place.topic)]).get(place.topic)
        if metadata is None:
            raise PushError(
                f"The table {table!r} of {spec.name!r} does not say how many partitions it has, and nothing was "
                "pushed yet.",
                hint="Declare it: app.pushed_table(…, partitions=16), as many as the streams that are joined with it.",
                table=table,
            )
        partitions = metadata.partitions
    schema = place.stream.schema
    request = PushRequest(
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
        expect=_declared(spec.tables[table], schema),
        **{name: value for name, value in options.items() if value is not None},
    )
    if version is not None:
        _warn_of_other_rows(files, request, version)
    return request if request.lake is None else _with_version(files, bindings, spec, request, request.lake)


def _declared(table: TableDescriptor, schema: Schema | None) -> tuple[Declared, ...]:
    """Return what a table expects of its rows; conditions that tasks cannot evaluate are rejected."""
    if table.expect:
        from airflow_samza.task.messages.expectations import check_expectations

        check_expectations(table.location, table.expect, schema, f"table {table.table_id!r}")
    return tuple(
        Declared(each.text, each.kind, each.action, each.columns, dict(each.limits), each.sql) for each in table.expect
    )


def _warn_of_other_rows(files: Filesystem, request: PushRequest, version: TableVersion) -> None:
    """Say that a push whose version stands has other options now, which change nothing of it."""
    former = folders.read(files, request_path(request.handle), PushRequest)
    if former is None:
        return
    then, now = plain(former), plain(request)
    others = [f"{name}={then[name]!r}" for name in _OF_ROWS if then[name] != now[name]]
    if others:
        log.warning(
            "The push %s of table %s has made version %d with %s. That version stands, and what is asked for now "
            "changes nothing: push again with another push_id.",
            request.push_id,
            request.table,
            version.number,
            ", ".join(others),
        )


def _with_version(
    files: Filesystem,
    bindings: Mapping[str, SystemBinding],
    spec: ApplicationSpec,
    request: PushRequest,
    lake: LakeSource,
) -> PushRequest:
    """Return a request for a table of a lake that names the snapshot or version which every attempt reads.

    It is the one of a former attempt, unless that was rejected, or it is gone. A table that does not fit is rejected
    here, without Spark. Changes are those since the snapshot of the version that is current now.
    """
    binding = _binding_of(spec, bindings, request.table, lake)
    system = bind_systems({lake.system: binding}, files.root)[lake.system]
    stands = versions.by_push_id(files, request.system, request.topic, request.push_id) is not None
    stands = stands or files.exists(request.handle.folder.result)  # by the version of another push
    former = _former(files, request, lake)
    former_lake = None if former is None else former.lake
    if former is not None and former_lake is not None and (stands or _is_readable(system, former, former_lake)):
        request = replace(request, source=replace(former_lake, since=None).plain(), table_id=former.table_id)
    else:
        fixed, range_ = _look(system, lake, request.table)
        request = replace(request, source=fixed.plain(), table_id=range_["table_id"])
        columns = Schema.of(range_["schema"])
        chosen = column_expressions(request, columns.names)
        if not isinstance(request.columns, Mapping):  # the types of expressions are known to Spark only
            source = Schema(tuple(field for field in columns.fields if field.name in chosen))
            check_columns(request, source, Schema.of(request.schema) if request.schema else source, loose=False)
    return request if request.mode == FULL or stands else _of_changes(files, system, request)


def _former(files: Filesystem, request: PushRequest, lake: LakeSource) -> PushRequest | None:
    """Return the request of a former attempt at reading the table, which was not rejected; None: there is none."""
    former = folders.read(files, request_path(request.handle), PushRequest)
    if former is None or former.lake is None or lake.version is not None or _was_rejected(files, request.handle):
        return None
    return former if replace(former.lake, version=None, since=None) == lake else None


def _is_readable(system: System, former: PushRequest, lake: LakeSource) -> bool:
    """Return whether the snapshot or version that a former attempt has fixed can be read, of the same table."""
    try:
        fixed, range_ = _look(system, lake, former.table)
    except SamzaError as error:
        if error.retryable:
            raise
        return False
    return former.table_id in (None, range_["table_id"]) and fixed.version == lake.version


def _look(system: System, lake: LakeSource, table: str) -> tuple[LakeSource, Mapping[str, Any]]:
    """Return a source with the snapshot or version that it means now, and the input range of that."""
    with lake.failures(table):
        range_ = system.slice(lake.stream(1))
    version = range_[lake.word]
    return replace(lake, version=None if version is None else str(version)), range_


def _of_changes(files: Filesystem, system: System, request: PushRequest) -> PushRequest:
    """Return a request for what has changed in a table of a lake since the snapshot of the current version."""
    dropping = next((each for each in request.expect if each.action == "drop"), None)
    if dropping is not None:
        raise PushError(
            f"The table {request.table!r} drops rows that do not meet the expectation {dropping.expectation}, and an "
            f"incremental push from {request.source_text} would leave their former rows in the table.",
            hint='Push with mode="full", or write on_error="fail" or "warn" where the table is declared.',
            table=request.table,
        )
    request = replace(request, since=changed_since(files, request))
    lake = request.lake
    assert lake is not None
    assert isinstance(system, HasTableVersions)
    if lake.version != lake.since:
        with lake.failures(request.table):
            system.changes(lake.stream(1), str(lake.since), PUSH_ALL)
    return request


def _binding_of(
    spec: ApplicationSpec, bindings: Mapping[str, SystemBinding], table: str, lake: LakeSource
) -> SystemBinding:
    """Return the binding of a source's system; one of another kind, and one that is not bound, are rejected."""
    kind = kind_of(spec, lake.system, bindings)
    if kind == lake.kind:
        return run_bindings(declared_systems(spec, [lake.system], bindings), bindings)[lake.system]
    names = sorted({*bindings, *spec.systems})
    bound = f"is of kind {kind}" if kind is not None else "is not bound to anything"
    raise UnknownName(
        f"The source of the push of table {table!r} is the {lake.kind} table {lake.table} of the system "
        f"{lake.system!r}, which {bound}.",
        hint=f"{did_you_mean(lake.system, [name for name in names if name != lake.system])}Bind it: "
        f'systems={{"{lake.system}": "<connection id>"}} of the operator, or --system {lake.system}={lake.kind}:/path '
        "on the command line.",
        name=lake.system,
    )


def _was_rejected(files: Filesystem, handle: StageHandle) -> bool:
    """Return whether the last attempt at a push has failed for good: the next one may find another table."""
    error = stage_status(files, handle).error
    return error is not None and not error.get("retryable")


def source_of(table: str, source: object) -> dict[str, Any]:
    """Return a source as a request has it: a text is a path, a function is named by its module and name."""
    if isinstance(source, str):
        return {"path": source}
    if callable(source):
        return {"callable": _named(table, source)}
    if isinstance(source, Mapping):
        described = dict(source)
        function = described.get("callable")
        if callable(function):
            described["callable"] = _named(table, function)
        elif isinstance(function, str):  # its module is shipped with the application that lies beside it
            function = function_of_source(table, function)
        if function is None or callable(function):
            return described
    raise PushError(
        f"The source of the push of table {table!r} is {source!r}.",
        hint='Give a path, {"table": …}, {"query": …}, {"jdbc": {…}}, {"path": …, "format": …}, '
        '{"iceberg": …, "system": …}, {"delta": …, "system": …}, or a function of a Spark session.',
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


def function_of_source(table: str, reference: str) -> Any:
    """Return the function ``package.module:function`` that makes a push's rows."""
    return imported(reference, f"The source of the push of table {table!r}", PushError, table=table)


def push_bindings(
    bindings: Mapping[str, SystemBinding], request: PushRequest, secrets: Mapping[str, str]
) -> dict[str, SystemBinding]:
    """Return the bindings for the runner of a push: the table's system, and the source's with its secrets."""
    spec, lake = load_application(request.reference).spec(request.config), request.lake
    run = run_bindings(declared_systems(spec, [request.system], bindings), bindings)
    if lake is not None:
        run[lake.system] = _binding_of(spec, bindings, request.table, lake)
    if secrets and lake is not None:
        raise ConfigError(
            f"The source of the push of table {request.table!r} is the {lake}, and has a connection beside it.",
            hint="Leave source_conn_id= out; the connection of the system opens the table: systems=.",
            key="source_conn_id",
        )
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
        if version is None:
            version, staged = same_rows(files, request), newest_staging(files, handle.folder)[1]
            if staged is not None and (version is not None or staged.digest != request.digest):
                discard(files, system, request)
        if version is not None:
            folders.write_once(files, handle.folder.result, PushResult(version.number, version.push_id))
        folders.replace(files, request_path(handle), request)
    return submit(files, handle, lambda _: (settings(), RunCode()), conf)

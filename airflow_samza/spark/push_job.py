"""A push on the driver: the source is read and checked, one Spark job stages it, and it becomes a version.

An attempt that finds everything staged, or published, reads nothing.
"""

from __future__ import annotations

import dataclasses
import logging
import time
from collections.abc import Mapping
from typing import Any

from airflow_samza.application.user_code import USER_ERRORS, let_interrupts_through
from airflow_samza.engine.driver_session import DriverSession, is_gone
from airflow_samza.engine.stage_context import Attempt
from airflow_samza.engine.worker_errors import find_error, shown_as_written
from airflow_samza.errors import PushError, SamzaError
from airflow_samza.runs.failpoints import reach
from airflow_samza.runs.records.folders import must_read, write_once
from airflow_samza.runs.stages.stage_state import StageHandle, can_finish
from airflow_samza.runs.tables import versions
from airflow_samza.runs.tables.push_checks import PushTotals
from airflow_samza.runs.tables.push_finish import begin_staging, finish_push
from airflow_samza.runs.tables.push_records import PushManifest
from airflow_samza.runs.tables.push_request import SOURCE, PushRequest, request_path
from airflow_samza.runs.tables.version_text import describe_version
from airflow_samza.runs.tables.versions import DELETED, INCREMENTAL
from airflow_samza.schema import Field, Schema, parse_type
from airflow_samza.spark.push_failures import function_failed, job_failed
from airflow_samza.spark.push_source import partitioned, read_source, table_columns
from airflow_samza.spark.push_task import RESULT_SCHEMA, PushTask, empty_manifest
from airflow_samza.spark.stage_job import lost, refuse_unwanted
from airflow_samza.spark.table_compaction import compacting
from airflow_samza.systems.bindings import bind_system
from airflow_samza.systems.filesystems.filesystem import Filesystem
from airflow_samza.systems.system import StreamSpec, System, SystemBinding

log = logging.getLogger("airflow_samza.runner")


def is_push(files: Filesystem, handle: StageHandle) -> bool:
    """Return whether an attempt is one at a push."""
    return files.exists(request_path(handle))


def run_push(
    driver: DriverSession,
    files: Filesystem,
    bindings: Mapping[str, SystemBinding],
    attempt: Attempt,
    settings: Mapping[str, Any],
) -> None:
    """Runs an attempt at a push to its version; every way to fail is a SamzaError."""
    request = must_read(files, request_path(attempt.handle), PushRequest)
    system = bind_system(request.system, bindings[request.system], files.root)
    origins = {files.location(path): origin for path, origin in settings.get("origins", {}).items()}
    known = versions.by_push_id(files, request.system, request.topic, request.push_id)
    if known is None and not can_finish(files, attempt.handle.folder):
        try:
            _stage(driver, files, bindings, system, request, attempt, origins)
        except SamzaError as error:
            raise SamzaError.from_dict(shown_as_written(error.to_dict(), origins)) from error
        except Exception as error:
            if is_gone(error):
                raise lost(driver, attempt.handle) from error
            raise
    refuse_unwanted(files, attempt)
    version = finish_push(
        files, system, request, compacting(driver, files, bindings[request.system], system, request, attempt)
    )
    log.info("%s", describe_version(version))


def _stage(
    driver: DriverSession,
    files: Filesystem,
    bindings: Mapping[str, SystemBinding],
    system: System,
    request: PushRequest,
    attempt: Attempt,
    origins: Mapping[str, str],
) -> None:
    """Has Spark write the rows of the source as segments, which nobody sees."""
    if request.mode == INCREMENTAL and versions.newest(files, request.system, request.topic) is None:
        raise versions.needs_base(request.table, request.push_id)
    secrets = bindings[SOURCE].options if SOURCE in bindings else {}
    with driver.stage_session(attempt.request.spark_conf, own=True) as spark:
        started = time.monotonic()
        rows, schema = table_columns(request, _read(spark, request, secrets, attempt.group, driver))
        stream = push_stream(request, schema)
        make_topic(system, request, stream)
        epoch = begin_staging(files, request, schema)
        reach("push-after-staging-began")
        task = PushTask(
            root=files.root,
            bindings=driver.for_workers(spark, {request.system: bindings[request.system]}),
            system=request.system,
            stream=dataclasses.asdict(stream),
            key=request.key,
            required=tuple(field.name for field in schema.fields if not field.nullable),
            folder=attempt.handle.folder.path,
            epoch=epoch,
            push=request.push_id,
            messages_shown=request.messages_shown,
        )
        frame = partitioned(request, rows, schema).mapInArrow(task, RESULT_SCHEMA)
        refuse_unwanted(files, attempt)
        description = f"push {request.push_id} of table {request.table}"
        try:
            with driver.tagged(spark, attempt.group, description, pool=request.table):
                frame.collect()
        except Exception as error:
            refuse_unwanted(files, attempt)
            found = find_error(str(error), origins)
            if found is not None:
                raise found from error
            if is_gone(error):
                raise
            log.exception("%s: the Spark job failed without an error of ours", attempt.group)
            raise job_failed(request, str(error)) from error
    totals = PushTotals()
    for number in range(request.partitions):
        write_once(files, attempt.handle.folder.manifest(epoch, number), empty_manifest())
        totals.add(must_read(files, attempt.handle.folder.manifest(epoch, number), PushManifest))
    seconds = time.monotonic() - started
    log.info(
        "%s: %s rows and %s deletes staged in %.1f s", attempt.group, f"{totals.rows:,}", f"{totals.deletes:,}", seconds
    )


def _read(spark: Any, request: PushRequest, secrets: Mapping[str, Any], group: str, driver: DriverSession) -> Any:
    log.info("%s: reading %s", group, request.source_text)
    with driver.tagged(spark, group, f"source of table {request.table}"):
        try:
            return read_source(spark, request, secrets)
        except SamzaError:
            raise
        except USER_ERRORS as error:
            let_interrupts_through(error)
            if is_gone(error) or request.kind_of_source != "callable":
                raise
            raise function_failed(request, error) from error


def push_stream(request: PushRequest, schema: Schema) -> StreamSpec:
    """The push stream.

    The table's columns (all but the key may be null, as in a row that deletes), and the mark of deletes.
    """
    fields = [field if field.name in request.key else Field(field.name, field.type) for field in schema.fields]
    columns = Schema((*fields, Field(DELETED, parse_type("boolean"))))
    return StreamSpec(request.topic, request.partitions, columns.ddl(), request.key)


def make_topic(system: System, request: PushRequest, stream: StreamSpec) -> None:
    """Makes the push stream; one that is there has to be of this table as it is declared now."""
    known = system.admin.metadata([stream]).get(stream.name)
    wanted = Schema.of(str(stream.schema))
    if known is not None and known.schema is not None:
        there = Schema.of(known.schema)
        if [(f.name, f.type) for f in there.fields] != [(f.name, f.type) for f in wanted.fields]:
            ours, theirs = _listed(wanted), _listed(there)
            raise PushError(
                f"The push stream {stream.name!r} has the columns ({theirs}), and table {request.table!r} is declared "
                f"with ({ours}).",
                hint="A stream keeps its columns: push to a table of another name, or take the columns that it has."
                if DELETED in there
                else "Something else has written to this stream; give the table another name, or delete the topic.",
                table=request.table,
                stream=known.schema,
                declared=str(stream.schema),
            )
    if known is not None and known.partitions != request.partitions:
        raise PushError(
            f"The push stream {stream.name!r} has {known.partitions} partitions, and table {request.table!r} is "
            "declared with "
            f"{request.partitions}.",
            hint=f"Declare partitions={known.partitions}, or push to a table of another name: a stream's count never "
            "changes.",
            table=request.table,
        )
    if known is None:
        system.admin.create([stream])


def _listed(schema: Schema) -> str:
    return ", ".join(f"{field.name} {field.type.ddl()}" for field in schema.fields if field.name != DELETED)

"""An attempt at a push: the source is read and checked, its rows are staged, and they become a version of the table.

An attempt that finds everything staged, or published, reads nothing (decision 47).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import partial
from typing import Any

from airflow_samza.engine.push_task import empty_manifest, expectations_of
from airflow_samza.engine.runner_records import AttemptState
from airflow_samza.engine.stage_context import PushContext, origins_of, reject_stopped
from airflow_samza.engine.stage_engine import StageEngine
from airflow_samza.engine.tables.table_compaction import compact_if_due
from airflow_samza.errors import PushError
from airflow_samza.runs.failpoints import reach
from airflow_samza.runs.records.folders import adopt
from airflow_samza.runs.stages.stage_state import StageHandle, can_finish
from airflow_samza.runs.tables import versions
from airflow_samza.runs.tables.push_checks import totals_of
from airflow_samza.runs.tables.push_finish import begin_staging, finish_push
from airflow_samza.runs.tables.push_request import PushRequest, request_path, standing_request
from airflow_samza.runs.tables.table_version import DELETED, INCREMENTAL, describe_push
from airflow_samza.schema import Field, Schema, parse_type
from airflow_samza.systems.bindings import bind_system
from airflow_samza.systems.filesystems.filesystem import Filesystem
from airflow_samza.systems.system import StreamSpec, System, SystemBinding

log = logging.getLogger("airflow_samza.runner")


def is_push(files: Filesystem, handle: StageHandle) -> bool:
    """Return whether an attempt is one at a push."""
    return files.exists(request_path(handle))


def run_push(
    engine: StageEngine,
    files: Filesystem,
    bindings: Mapping[str, SystemBinding],
    attempt: AttemptState,
    settings: Mapping[str, Any],
) -> None:
    """Run an attempt at a push to its version; every way to fail is a SamzaError."""
    request = standing_request(files, attempt.handle)
    system = bind_system(request.system, bindings[request.system], files.root)
    push = PushContext(files, bindings, attempt, origins_of(files, settings), system, request)
    standing = versions.by_push_id(files, request.system, request.topic, request.push_id)
    if standing is None and not can_finish(files, attempt.handle.folder):
        with push.errors_as_written():
            _stage(engine, push)
    reject_stopped(files, attempt)
    attempt.watch.start()  # where everything was staged before
    version = finish_push(files, system, request, partial(compact_if_due, push, partial(engine.compact, push)))
    log.info("%s", describe_push(version, request.push_id))


def _stage(engine: StageEngine, push: PushContext) -> None:
    """Write the rows of the source as segments, which nobody sees."""
    request, files, attempt = push.request, push.files, push.attempt
    if request.mode == INCREMENTAL and versions.newest(files, request.system, request.topic) is None:
        raise versions.needs_base(request.table, request.push_id)
    with engine.open_source(push) as source:
        if request.expect:
            from airflow_samza.task.messages.expectations import check_expectations

            check_expectations(None, expectations_of(request.expect), source.schema, f"table {request.table!r}")
        stream = push_stream(request, source.schema)
        make_topic(push.system, request, stream)
        epoch = begin_staging(files, request, source.schema)
        attempt.watch.start()
        reach("push-after-staging-began")
        source.stage(stream, epoch)
    paths = (attempt.handle.folder.manifest(epoch, number) for number in range(request.partitions))
    totals = totals_of(request, [adopt(files, path, empty_manifest()) for path in paths])
    staged = f"{totals.rows:,} rows and {totals.deletes:,} deletes"
    log.info("%s: %s staged in %.1f s", attempt.group, staged, attempt.watch.spans[-1].seconds)


def push_stream(request: PushRequest, schema: Schema) -> StreamSpec:
    """Return the push stream: the table's columns, and the mark of deletes.

    All columns but the key may be null, as in a row that deletes.
    """
    fields = [field if field.name in request.key else Field(field.name, field.type) for field in schema.fields]
    columns = Schema((*fields, Field(DELETED, parse_type("boolean"))))
    return StreamSpec(request.topic, request.partitions, columns.ddl(), request.key)


def make_topic(system: System, request: PushRequest, stream: StreamSpec) -> None:
    """Make the push stream; reject one that is there with other columns or partitions than the table has."""
    topic = system.metadata([stream]).get(stream.name)
    columns = Schema.of(str(stream.schema))
    if topic is not None and topic.schema is not None:
        existing = Schema.of(topic.schema)
        if [(f.name, f.type) for f in existing.fields] != [(f.name, f.type) for f in columns.fields]:
            ours, theirs = _columns_text(columns), _columns_text(existing)
            raise PushError(
                f"The push stream {stream.name!r} has the columns ({theirs}), and table {request.table!r} is declared "
                f"with ({ours}).",
                hint="A stream keeps its columns: push to a table of another name, or take the columns that it has."
                if DELETED in existing
                else "Something else has written to this stream; give the table another name, or delete the topic.",
                table=request.table,
                stream=topic.schema,
                declared=str(stream.schema),
            )
    if topic is not None and topic.partitions != request.partitions:
        raise PushError(
            f"The push stream {stream.name!r} has {topic.partitions} partitions, and table {request.table!r} is "
            f"declared with {request.partitions}.",
            hint=f"Declare partitions={topic.partitions}, or push to a table of another name: a stream's "
            "count never changes.",
            table=request.table,
        )
    if topic is None:
        system.create([stream])


def _columns_text(schema: Schema) -> str:
    return ", ".join(f"{field.name} {field.type.ddl()}" for field in schema.fields if field.name != DELETED)

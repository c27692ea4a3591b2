"""The side inputs of a run: the streams that feed its tables, their input ranges, and the notes of the plan.

The plan fixes a range from the oldest offset to the latest, so that every task, retry and clear fills the same tables
(rule S1; decision 94). The plan step and pushes fix them; the stage runner looks by it for newer messages.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from airflow_samza.application.application import ApplicationSpec
from airflow_samza.application.descriptors import StreamDescriptor, TableDescriptor
from airflow_samza.application.times import duration_text
from airflow_samza.errors import NoSuchVersion, PushError, SamzaError, TopicError
from airflow_samza.planner.plan import ExecutionPlan
from airflow_samza.planner.wording import count_text
from airflow_samza.prepare.input_versions import version_note
from airflow_samza.prepare.run_request import RunRequest
from airflow_samza.prepare.task_side_inputs import COMPACTION, TOPIC_IDENTITY, topic_identity, whole_range
from airflow_samza.runs.records.epoch_records import InputIntent
from airflow_samza.runs.records.run_plan import BoundStream, Note, RunPlan, side_input_key
from airflow_samza.runs.tables import versions as table_versions
from airflow_samza.runs.tables.pins import (
    CURRENT,
    HISTORY,
    PinnedTable,
    as_of_joins,
    begins_late,
    check_columns,
    check_requests,
    find_version,
    may_be_read,
    numbers_in,
    push_stream,
    reject_expired,
    with_history,
)
from airflow_samza.runs.tables.table_version import DELETED, TableVersion
from airflow_samza.schema import Schema
from airflow_samza.system_kinds import traits_of
from airflow_samza.systems.capabilities import HasSections, HasTableVersions
from airflow_samza.systems.filesystems.filesystem import Filesystem
from airflow_samza.systems.system import System

PUSHES = "pushes/"
"""Beginning of the names of pushes' producers (``pushes/<table>/<push id>``)."""


def side_streams(spec: ApplicationSpec, outline: ExecutionPlan) -> dict[str, StreamDescriptor]:
    """Return the streams that feed the tables of an application's stages, by their key in ``RunPlan.streams``."""
    fed = sorted({stream_id for stage in outline.stages for stream_id in stage.side_inputs})
    return {side_input_key(s) if s in spec.inputs else s: spec.side_inputs[s] for s in fed}


CREATE_STREAM = "Create it, correct its name, or bind the system to the place where it is."


def side_input_missing(spec: ApplicationSpec, stream: BoundStream) -> TopicError:
    """Return the error for a side input of which its system knows nothing."""
    table = next(table for table in spec.tables.values() if stream.stream_id in table.side_inputs)
    return TopicError(
        f"The side input {stream.stream_id!r} of the table {table.table_id!r} does not exist: the system "
        f"{stream.system!r} has no stream {stream.spec.name!r}.",
        hint=(
            "Push the table first (SamzaTablePushOperator, airflow-samza tables push): without a push there is "
            "nothing to look up."
        )
        if push_stream(table) == stream.stream_id
        else CREATE_STREAM,
        stream=stream.stream_id,
        table=table.table_id,
        system=stream.system,
    )


def keeps_no_versions(table: str, system: str, kind: str) -> PushError:
    """Return the error for a pushed table in a system that keeps no versions of it."""
    return PushError(
        f"The table {table!r} is in the system {system!r} of kind {kind}, which keeps no versions.",
        hint="Leave system= of the table out, and its pushes lie in the log under the root; or bind the system to a "
        "log. What others write feeds a table as it is by app.table(…, side_inputs=[app.side_input(…)]).",
        table=table,
        system=system,
    )


def check_pushes(
    spec: ApplicationSpec, bound: Mapping[str, BoundStream], kept: Mapping[str, Mapping[str, Any]]
) -> Iterator[SamzaError]:
    """Yield the errors of pushed tables that lie where no versions are kept."""
    for table in spec.tables.values():
        stream = bound.get(push_stream(table) or "")
        kind = "" if stream is None else str(kept[stream.system]["kind"])
        if stream is not None and not traits_of(kind).keeps_versions:
            yield keeps_no_versions(table.table_id, stream.system, kind)


class SideInputSlices:
    """The input range of each side input: of a pushed table one version, of other streams all that there is now.

    The request names versions by table (``runs.pinned_tables``); :attr:`tables` are those that were found, and
    :attr:`warnings` sentences about them.
    """

    def __init__(
        self,
        files: Filesystem,
        spec: ApplicationSpec,
        systems: Mapping[str, System],
        request: RunRequest,
    ) -> None:
        check_requests(spec, request.tables)
        self._files = files
        self._spec = spec
        self._systems = systems
        self._request = request
        self.tables: dict[str, PinnedTable] = {}
        self.warnings: list[str] = []

    def of(self, stream: BoundStream) -> Mapping[str, Any]:
        """Return the slice of a side input."""
        system = self._systems[stream.system]
        table = next((table for table in self._spec.tables.values() if push_stream(table) == stream.stream_id), None)
        if table is not None:
            request = self._request
            asked = request.tables.get(table.table_id, CURRENT)
            version = find_version(self._files, table, stream, asked, request.interval, request.partition_key)
            if version is not None:
                check_columns(table, version)
                more = self._history(table, stream, version, asked)
                self.tables[table.table_id] = PinnedTable(
                    stream.stream_id, version.number, version.push_id, asked, numbers_in(more)
                )
                return {
                    **version.slice,
                    **more,
                    "schema": version.schema,
                    TOPIC_IDENTITY: topic_identity(system, stream),
                }
            _reject_half_pushed(table, stream, system)
            if self._has_history(table):
                raise NoSuchVersion(
                    f"The table {table.table_id!r} has no version yet, and its rows are looked up as of event times.",
                    hint="Push the table first (SamzaTablePushOperator, airflow-samza tables push).",
                    table=table.table_id,
                    wanted=CURRENT,
                )
        return _checked_range(self._spec, system, stream)

    def _has_history(self, table: TableDescriptor) -> bool:
        return any(join.table.table_id == table.table_id for join in as_of_joins(self._spec))

    def _history(
        self, table: TableDescriptor, stream: BoundStream, version: TableVersion, request: str
    ) -> dict[str, Any]:
        """Return what a slice also has where rows are looked up as of event times: all versions."""
        if not self._has_history(table):
            return {}
        system, topic = stream.system, stream.spec.name
        more = with_history(self._files, system, topic, version, whole=request == CURRENT)
        reject_expired(self._files, system, topic, table.table_id, more, self._request.interval)
        warning = begins_late(table.table_id, more, self._request.interval)
        self.warnings += [] if warning is None else [warning]
        return more


def _checked_range(spec: ApplicationSpec, system: System, stream: BoundStream) -> Mapping[str, Any]:
    """Return all that a side input holds now.

    An unbounded stream needs a latest offset (rule S5); a table has versions in its place.
    """
    slice_ = whole_range(system, stream)
    bounded = spec.side_inputs[stream.stream_id].bounded or isinstance(system, HasTableVersions)
    if slice_.get("offsets") is None and not bounded:
        raise TopicError(
            f"The system {stream.system!r} does not report the latest offset of the side input "
            f"{stream.stream_id!r}, so it is not known when its tables are complete.",
            hint="Declare it bounded, or keep it in a log.",
            stream=stream.stream_id,
            system=stream.system,
        )
    return slice_


def _reject_half_pushed(table: TableDescriptor, stream: BoundStream, system: System) -> None:
    """Reject a table without a version, whose topic holds what a push has written."""
    sections = system.sections(stream.spec) if isinstance(system, HasSections) else []
    if any(section.producer.startswith(PUSHES) for section in sections):
        raise NoSuchVersion(
            f"The table {table.table_id!r} has no version yet: its first push has not come to its end.",
            hint="Wait for the push, or clear it: a push that was killed is completed by its next try.",
            table=table.table_id,
            wanted=CURRENT,
        )


def pin_versions(files: Filesystem, run: RunPlan) -> None:
    """Keep the versions that a run reads until it is closed."""
    reader = f"{run.application}/{run.run_id}"
    for pinned in run.tables.values():
        stream = run.side_input(pinned["stream_id"])
        version = table_versions.pin(files, stream.system, stream.spec.name, pinned["number"], reader)
        slice_ = stream.slice or {}
        for described in slice_.get(HISTORY, ()):  # all versions that are read as of event times
            former = table_versions.pin(files, stream.system, stream.spec.name, int(described["number"]), reader)
            if not may_be_read(former, described):
                raise _given_up(former)
        if not version.may_be_read(slice_):
            raise _given_up(version)


def _given_up(version: TableVersion) -> NoSuchVersion:
    return NoSuchVersion(
        f"Version {version.number} of table {version.table!r} was compacted while the run was planned, and "
        "what it was made of is given up.",
        hint="Plan the run again.",
        table=version.table,
        wanted=version.number,
    )


def reported_columns(schema: Schema) -> Schema:
    """Return the columns of a table's rows, of those that its side input has: one of them may mark what is deleted."""
    return Schema(tuple(field for field in schema.fields if field.name != DELETED))


def planned_side_inputs(run: RunPlan, stage_id: str) -> dict[str, InputIntent]:
    """Return what the tables of a stage hold, as the plan fixed it."""
    bound = {stream_id: run.side_input(stream_id) for stream_id in run.plan.stage(stage_id).side_inputs}
    return {stream_id: InputIntent(stream.spec.name, stream.slice or {}) for stream_id, stream in bound.items()}


def side_input_notes(run: RunPlan) -> Iterator[Note]:
    """Yield what is read of side inputs."""
    for stage in run.plan.stages:
        for stream_id in stage.side_inputs:
            as_what = "as a side input, " if stream_id in stage.inputs else ""
            yield stage.stage_id, stream_id, as_what + _reading(run, stream_id)


def _reading(run: RunPlan, stream_id: str) -> str:
    slice_ = run.side_input(stream_id).slice or {}
    offsets = slice_.get("offsets")
    if offsets is None and ("snapshot" in slice_ or "version" in slice_):
        return f"{version_note(slice_)}; all of it into the table"
    if offsets is None:
        return "reads all of it into the table"
    pinned = next((PinnedTable(**text) for text in run.tables.values() if text["stream_id"] == stream_id), None)
    if pinned is not None:
        return f"reads {pinned.text}" + ("" if pinned.asked == CURRENT else f", asked for as {pinned.asked}")
    count = sum(int(end) - int(start) for start, end in offsets)
    expired = sum(int(start) for start, _ in offsets)
    text = f"reads {count_text(count, 'offset')} up to the latest offset at plan"
    if expired:
        text += f"; {expired:,} older {'one has' if expired == 1 else 'ones have'} expired"
    if COMPACTION in slice_:
        keeps = duration_text(slice_[COMPACTION]["keeps_ms"])
        text += f"; compacted, and promises to keep what is overwritten for {keeps}"
    return text

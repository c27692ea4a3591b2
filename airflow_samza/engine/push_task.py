"""One task of a push: a partition of the table, checked batch by batch and written as a segment of the push stream.

Spark's job of a push runs one for each partition.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from airflow_samza.application.descriptors import ErrorPolicy, Expectation
from airflow_samza.engine.task_section import read_over
from airflow_samza.launch.bindings import bindings_from_json
from airflow_samza.quoting import plainly, show_messages
from airflow_samza.records import from_plain
from airflow_samza.runs.failpoints import reach
from airflow_samza.runs.records.expectations import Declared
from airflow_samza.runs.records.folders import StageFolder, must_read, read, write_once
from airflow_samza.runs.tables.push_request import PushManifest
from airflow_samza.runs.tables.table_version import DELETED
from airflow_samza.schema import Schema
from airflow_samza.systems.bindings import bind_system
from airflow_samza.systems.filesystems.opening import open_filesystem
from airflow_samza.systems.system import StreamSpec
from airflow_samza.task.messages.expectations import Expectations
from airflow_samza.task.tables.parts import key_begins, rows_with_key

_EXAMPLES = 3


@dataclass(frozen=True)
class PushTask:
    """The work of a push's tasks.

    ``required`` are columns that may not be null, ``folder`` the stage's, ``epoch`` the try. ``of_changes`` is the
    table whose push takes changes, which the last column of the rows marks. ``expect`` is what the table declares.
    """

    root: str
    bindings: Mapping[str, Any] = field(repr=False)  # they may hold secrets
    system: str
    stream: Mapping[str, Any]
    key: tuple[str, ...]
    required: tuple[str, ...]
    folder: str
    epoch: int
    push: str
    messages_shown: bool = True
    of_changes: str | None = None
    expect: tuple[Declared, ...] = ()

    def run(self, task: int, batches: Iterator[pa.RecordBatch]) -> PushManifest:
        """Stage the rows of a partition, with equal keys beside each other; return the manifest that stands.

        It is that of a former try, where Spark runs the task again.
        """
        show_messages(self.messages_shown)
        files = open_filesystem(self.root)
        path = StageFolder(self.folder).manifest(self.epoch, task)
        standing = read(files, path, PushManifest)
        if standing is not None:
            read_over(batches)
            return standing
        system = bind_system(self.system, bindings_from_json(self.bindings)[self.system], self.root)
        producer = system.producer(from_plain(StreamSpec, self.stream), f"push-{self.epoch}-{task}-{uuid.uuid4().hex}")
        rows = _PushedRows(self.key, self.required, self._expectations())
        if self.of_changes is not None:
            from airflow_samza.task.tables.push_changes import changed_rows

            batches = changed_rows(batches, self.key, self.of_changes)
        try:
            for batch in rows.kept(batches):
                producer.write_keyed(batch, self.key)  # type: ignore[attr-defined]  # pushes go to the log
            staged = producer.finish()
        except BaseException:
            producer.abort()
            raise
        reach("push-task-before-manifest")
        manifest = rows.manifest(staged)
        written = write_once(files, path, manifest)
        reach("push-task-after-manifest")
        if not written:
            producer.abort()
        return manifest if written else must_read(files, path, PushManifest)

    def _expectations(self) -> Expectations | None:
        if not self.expect:
            return None
        columns = table_columns(Schema.of(str(self.stream["schema"])))
        return Expectations(None, expectations_of(self.expect), columns, "the table", None, {})


def table_columns(stream: Schema) -> Schema:
    """Return the columns of a table, of those of its push stream."""
    return Schema(tuple(column for column in stream.fields if column.name != DELETED))


def expectations_of(declared: Iterable[Declared]) -> list[Expectation]:
    """Return the expectations of a request as tasks evaluate them."""
    return [
        Expectation(
            each.kind,
            each.expectation,
            each.columns,
            each.sql,
            tuple(each.limits.items()),
            each.action,
            ErrorPolicy() if each.action == "drop" else None,
        )
        for each in declared
    ]


def empty_manifest() -> PushManifest:
    """Return the manifest of a partition that has no row, for which Spark may run no task."""
    return _PushedRows((), ()).manifest({"segment": None, "total_rows": 0, "bytes": 0, "schema": None})


class _PushedRows:
    """Rows on their way, with null keys left out and of each key the last row only; what was left out is counted."""

    def __init__(
        self, key: tuple[str, ...], required: tuple[str, ...], expectations: Expectations | None = None
    ) -> None:
        self._key = key
        self._expectations = expectations
        self._required = [name for name in required if name not in key]
        self.rows = self.deletes = self.null_keys = self.duplicates = 0
        self.examples: list[Any] = []
        self.nulls: dict[str, int] = {}

    def manifest(self, staged: Mapping[str, Any]) -> PushManifest:
        """Return the manifest of these rows, staged as the system describes them."""
        return PushManifest(
            rows=self.rows,
            deletes=self.deletes,
            bytes=staged["bytes"],
            null_keys=self.null_keys,
            duplicates=self.duplicates,
            examples=tuple(self.examples),
            nulls=self.nulls,
            checked=() if self._expectations is None else tuple(self._expectations.checked()),
            staged=staged,
        )

    def kept(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield what is written; the last row is held back until the next one shows another key."""
        held: pa.RecordBatch | None = None
        for batch in batches:
            batch = self._without_null_keys(self._as_expected(batch))
            if not batch.num_rows:
                continue
            if held is not None:
                batch = pa.concat_batches([held, batch])
            last = batch.num_rows - 1
            held = batch.slice(last, 1)
            rest = self._without_doubled(batch.slice(0, last), [batch.column(name) for name in self._key])
            if rest.num_rows:
                yield self._counted(rest)
        if held is not None:
            yield self._counted(held)

    def _as_expected(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return a batch without the rows that the table's expectations leave out."""
        if self._expectations is None or not batch.num_rows:
            return batch
        written, not_deleted = self._written(batch)
        lost = self._expectations.lost(written) if written.num_rows else None
        if lost is None:
            return batch
        kept = pc.invert(pa.array(lost))
        return batch.filter(
            kept if not_deleted is None else pc.replace_with_mask(pa.repeat(True, batch.num_rows), not_deleted, kept)
        )

    def _written(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, pa.Array | None]:
        """Return the table's columns of the rows that delete nothing, and a mask of them (None: it is all rows)."""
        deleted = batch.column(batch.schema.get_field_index(DELETED))
        columns = batch.select([name for name in batch.schema.names if name != DELETED])
        if not pc.any(deleted).as_py():
            return columns, None
        not_deleted = pc.invert(pc.fill_null(deleted, False))
        return columns.filter(not_deleted), not_deleted

    def _without_null_keys(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        with_key = rows_with_key([batch.column(name) for name in self._key])
        if with_key is None:
            return batch
        kept = batch.filter(pa.array(with_key))
        self.null_keys += batch.num_rows - kept.num_rows
        return kept

    def _without_doubled(self, rows: pa.RecordBatch, keys: list[pa.Array]) -> pa.RecordBatch:
        """Return the rows of which the next one has another key; ``keys`` go on with that of the row behind them."""
        stays = pa.array(key_begins(keys)[1:])  # to the readers' index not-a-number is a key like any other
        doubled = pc.indices_nonzero(pc.invert(stays)).to_pylist()
        if not doubled:
            return rows
        self.duplicates += len(doubled)
        for row in doubled[: _EXAMPLES - len(self.examples)]:
            values = [column[row].as_py() for column in keys]
            self.examples.append(plainly(values[0] if len(values) == 1 else tuple(values)))
        return rows.filter(stays)

    def _counted(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        deletes = pc.sum(batch.column(batch.schema.get_field_index(DELETED))).as_py() or 0
        self.deletes += deletes
        self.rows += batch.num_rows - deletes
        if self._expectations is not None and batch.num_rows > deletes:
            self._expectations.count(self._written(batch)[0])
        for name in self._required:  # a row that deletes has nothing but its key
            nulls = batch.column(batch.schema.get_field_index(name)).null_count - deletes
            if nulls > 0:
                self.nulls[name] = self.nulls.get(name, 0) + nulls
        return batch

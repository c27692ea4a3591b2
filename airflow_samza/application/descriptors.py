"""Descriptors: the declarations of an application's systems, streams and tables. Values only, no I/O.

Source: planner-with-tables (streams, tables, side inputs) and rule P11 (keys), rules S6–S8 (tables).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

from airflow_samza.application.source_location import SourceLocation
from airflow_samza.application.watermarks import WatermarkStrategy
from airflow_samza.schema import DataType, Field, Schema

if TYPE_CHECKING:
    from airflow_samza.application.declarations.remote_access import RemoteAccess


class StreamRole(str, Enum):
    """The role of a stream in its application."""

    INPUT = "input"
    OUTPUT = "output"
    INTERMEDIATE = "intermediate"
    SIDE_INPUT = "side_input"


class TableKind(str, Enum):
    """The writer of a table: side inputs (read-only here; pushes, if it is its own), the application, or a service."""

    PUSHED = "pushed"
    LOCAL = "local"
    REMOTE = "remote"


@dataclass(frozen=True)
class SystemDescriptor:
    """A named place where streams live. Code names it; the environment binds it (kind, root, secrets).

    ``kind`` and ``options`` are defaults for environments that bind nothing (``memory``, ``log``, ``files``, …).
    """

    name: str
    kind: str | None = None
    options: tuple[tuple[str, str], ...] = ()
    location: SourceLocation | None = field(default=None, compare=False)


@dataclass(frozen=True)
class ErrorPolicy:
    """Messages that fail are dropped, or (``stream``) sent to a dead-letter stream."""

    stream: StreamDescriptor | None = None

    @property
    def text(self) -> str:
        """As plans show it."""
        return "drop" if self.stream is None else f"dead_letter({self.stream.stream_id})"

    @property
    def side_outputs(self) -> tuple[StreamDescriptor, ...]:
        """The streams that an operator writes beside its results."""
        return () if self.stream is None else (self.stream,)


@dataclass(frozen=True)
class Expectation:
    """One fact that must be true of the rows of a stream (:mod:`airflow_samza.application.expectations`).

    ``text`` shows it as it was written, ``columns`` are those that it names, ``sql`` is a condition, ``limits`` are
    numbers by name, ``table`` is the id of a table that has the values. ``action`` is what becomes of rows, or of the
    run, that do not meet it: ``fail``, ``warn``, ``drop`` or ``dead letter`` (both with a ``policy``). ``on_error`` and
    ``declared_table`` are the arguments, until they are checked.
    """

    kind: str
    text: str
    columns: tuple[str, ...] = ()
    sql: str = ""
    limits: tuple[tuple[str, float], ...] = ()
    action: str = "fail"
    policy: ErrorPolicy | None = None
    on_error: object = None
    table: str = ""
    declared_table: object = None

    @property
    def shown(self) -> str:
        """Return it as plans show it: with what becomes of rows that do not meet it, unless that fails the stage."""
        return (
            self.text if self.action == "fail" else f"{self.text} (else {self.policy.text if self.policy else 'warn'})"
        )


CHANGE_TYPE = "_change_type"
"""The column that says of a message of ``changes=True`` what became of the row."""


ROW_DELETED = "_deleted"
"""The column that is true in messages that delete their key (tombstones)."""


@dataclass(frozen=True)
class ChangeEvents:
    """The form of a stream of changes (:mod:`airflow_samza.application.declarations.change_events`).

    ``operation`` is the column of what became of the row: one of the words ``writes``, ``deletes`` or ``ignores``, in
    any case of letters. With ``images`` the row stands in two columns, as it was before and as it is after; they,
    ``operation`` and what ``columns`` takes from beside them, by its path, may be ``inside`` of a column.
    """

    operation: str
    writes: tuple[str, ...]
    deletes: tuple[str, ...]
    ignores: tuple[str, ...] = ()
    images: tuple[str, str] | None = None
    columns: tuple[tuple[str, str], ...] = ()
    inside: str = ""

    def messages(self, rows: Schema) -> Schema:
        """Return the columns of messages: those of the rows, and the mark of those that delete."""
        if ROW_DELETED in rows:
            return rows
        return Schema((*rows.fields, Field(ROW_DELETED, DataType("boolean"))), rows.python_class)

    def events(self, rows: Schema) -> Schema:
        """Return the columns of the events as their system has them, any of which may be null."""
        taken = dict(self.columns)
        plain = [Field(field.name, field.type) for field in rows.fields if field.name not in (ROW_DELETED, *taken)]
        if self.images is None:
            is_declared = any(field.name == self.operation for field in plain)
            return Schema((*plain, *(() if is_declared else (Field(self.operation, DataType("string")),))))
        row = _struct(plain)
        fields = {name: Field(name, row) for name in self.images}
        fields[self.operation] = Field(self.operation, DataType("string"))
        beside: dict[str, list[Field]] = {}
        for name, path in self.columns:
            first, _, last = path.rpartition(".")
            beside.setdefault(first, []).append(Field(last, _as_event_has_it(rows[name].type)))
        for first, found in beside.items():
            each = {field.name: field for field in found}
            fields |= {first: Field(first, _struct(list(each.values())))} if first else each
        whole = tuple(fields.values())
        return Schema((Field(self.inside, _struct(whole)),) if self.inside else whole)


def _struct(fields: Sequence[Field]) -> DataType:
    return DataType(
        "struct", children=tuple(field.type for field in fields), names=tuple(field.name for field in fields)
    )


def _as_event_has_it(kind: DataType) -> DataType:
    """Return the type of a value beside the row: times are numbers there."""
    return DataType("bigint") if kind.name == "timestamp" else kind


@dataclass(frozen=True)
class StreamDescriptor:
    """One stream: an input, an output, an intermediate stream or a side input.

    ``stream_id`` is unique in the application. ``system`` None means the default system. ``partitions`` None means
    that the system knows (or, for intermediate streams, that the planner decides). ``key`` holds the columns by which
    the stream is partitioned, () when it is not keyed, ``partitioner`` the rule
    by which it is ("": that of its kind of system). ``timestamp`` is the event-time column, ``watermarks`` how an
    input that is not bounded makes watermarks of it. ``path`` and ``slice_by`` bound
    the input: a template over the data interval, ``"timestamp"``, ``"checkpoint"`` or None (all of it), and how many
    ``intervals`` there are in it. ``reader`` is
    the function of ``from_dataframe``: from a Spark session to the DataFrame that is the stream. ``on_error`` sets what
    becomes of messages that cannot be read, or do not fit the schema (None: they fail the stage). ``topic`` is its name
    in the system where that is no id, because it has dots. ``renamed_from`` is the former id of an input, under which
    runs have read it. ``changes``: the messages are the changes of a table, and not its rows. ``events`` is the form of
    the events of which its messages are made (None: they come as they are). ``doc`` is its
    description for people. ``expect``: what must be true of them. ``waits_for_approval``: readers see what a run
    writes to an output when somebody has approved it.
    """

    stream_id: str
    role: StreamRole
    system: str | None = None
    schema: Schema | None = None
    key: tuple[str, ...] = ()
    partitioner: str = ""
    partitions: int | None = None
    bounded: bool = True
    timestamp: str | None = None
    watermarks: WatermarkStrategy | None = None
    path: str | None = None
    format: str | None = None
    serde: str | None = None
    slice_by: str | None = None
    intervals: int | None = None
    broadcast: bool = False
    bootstrap: bool = False
    priority: int | None = None
    shared: bool = False
    reader: Any = None
    on_error: ErrorPolicy | None = None
    options: tuple[tuple[str, str], ...] = ()
    topic: str | None = None
    renamed_from: str | None = None
    changes: bool = False
    events: ChangeEvents | None = None
    doc: str = field(default="", compare=False)
    expect: tuple[Expectation, ...] = ()
    waits_for_approval: bool = False
    location: SourceLocation | None = field(default=None, compare=False)

    @property
    def read_schema(self) -> Schema | None:
        """The columns that its system reads: those of events, of which messages are made."""
        return self.schema if self.events is None or self.schema is None else self.events.events(self.schema)

    @property
    def dead_letters(self) -> tuple[StreamDescriptor, ...]:
        """The streams to which messages go that do not meet its expectations, each once."""
        policies = (each.policy for each in self.expect if each.policy is not None)
        return tuple(dict.fromkeys(stream for policy in policies for stream in policy.side_outputs))

    def physical_name(self, config: Mapping[str, str]) -> str:
        """Return the name of a stream in its system.

        Default: that with which it is declared
        """
        stream = self.stream_id
        return config.get(f"streams.{stream}.samza.physical.name", "").strip() or self.topic or stream


class FilledTable:
    """A table by what fills it, as it is declared and as it is planned."""

    table_id: str
    kind: str
    side_inputs: tuple[str, ...]

    @property
    def is_pushed(self) -> bool:
        """Return whether pushes fill it, in versions: its own stream of them, and no other."""
        return self.kind == TableKind.PUSHED and self.side_inputs == (push_stream_id(self.table_id),)

    @property
    def word(self) -> str:
        """The kind for people: ``pushed``, ``filled by side inputs``, ``local`` or ``remote``."""
        if self.kind == TableKind.PUSHED and not self.is_pushed:
            return "filled by side inputs"
        return TableKind(self.kind).value


@dataclass(frozen=True)
class TableDescriptor(FilledTable):
    """One table: fed by side inputs (read-only), local (written by ``send_to``) or remote (functions).

    ``key`` is the key column or columns, ``side_inputs`` the ids of the streams that feed it. ``partitions`` is the
    declared count of a pushed table's push stream. ``processor`` is a factory of
    :class:`~airflow_samza.application.declarations.side_inputs.SideInputsProcessor` or None (the key column and all
    others, as they come). ``reader`` and ``writer`` are the callables of a remote table, ``access`` sets how they are
    called. ``retain_ms`` is how far behind the watermark rows are found as of event times. ``sequence_by`` is the
    column that orders the changes of a key (None: they come in order). ``expect`` is what must be true of the rows of a
    push. ``renamed_from`` is the table's former id, ``doc`` its description for people.
    """

    table_id: str
    kind: TableKind
    key: tuple[str, ...]
    schema: Schema | None = None
    partitions: int | None = None
    side_inputs: tuple[str, ...] = ()
    processor: Any = None
    ttl_ms: int | None = None
    reader: Any = None
    writer: Any = None
    access: RemoteAccess | None = None
    renamed_from: str | None = None
    options: tuple[tuple[str, str], ...] = ()
    retain_ms: int | None = None
    sequence_by: str | None = None
    expect: tuple[Expectation, ...] = ()
    doc: str = field(default="", compare=False)
    location: SourceLocation | None = field(default=None, compare=False)

    @property
    def has_times(self) -> bool:
        """Return whether its rows may be valid from times on, of versions or of messages of side inputs."""
        if self.from_table or self.processor is not None or self.ttl_ms is not None:
            return False
        return self.kind is TableKind.PUSHED

    @property
    def from_table(self) -> str | None:
        """The table of a lake that it is, of which each snapshot or version is one of it."""
        return dict(self.options).get(FROM_TABLE)


FROM_TABLE = "from_table"
"""The option of a table that is one of a lake: its name there."""


def push_stream_id(table_id: str) -> str:
    """Return the id of the stream of pushes of a table."""
    return f"{table_id}-push"


@dataclass(frozen=True)
class StoreDescriptor:
    """A store of each task of a low-level application: the columns of its keys and values.

    ``plain_value``: a value is that of its one column, and no message. A key of one column is its value, else
    a tuple. ``backend`` is ``memory`` or ``rocksdb``; an entry lives for ``ttl_ms`` after it was put (None: until it is
    deleted).
    """

    name: str
    key: Schema
    value: Schema
    plain_value: bool
    backend: str = "memory"
    ttl_ms: int | None = None
    location: SourceLocation | None = field(default=None, compare=False)

"""Descriptors: the declarations of an application's systems, streams and tables. Values only, no I/O.

Source: planner-with-tables (streams, tables, side inputs) and rule P11 (keys), rules S6–S8 (tables).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

from airflow_samza.application.source_location import SourceLocation
from airflow_samza.application.watermarks import WatermarkStrategy
from airflow_samza.schema import Schema

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


CHANGE_TYPE = "_change_type"
"""The column that says of a message of ``changes=True`` what became of the row."""


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
    runs have read it. ``changes``: the messages are the changes of a table, and not its rows.
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
    location: SourceLocation | None = field(default=None, compare=False)


@dataclass(frozen=True)
class TableDescriptor:
    """One table: fed by side inputs (read-only), local (written by ``send_to``) or remote (functions).

    ``key`` is the key column or columns, ``side_inputs`` the ids of the streams that feed it. ``partitions`` is the
    declared count of a pushed table's push stream. ``processor`` is a factory of
    :class:`~airflow_samza.application.declarations.side_inputs.SideInputsProcessor` or None (the key column and all
    others, as they come). ``reader`` and ``writer`` are the callables of a remote table, ``access`` sets how they are
    called. ``renamed_from`` is the table's former id.
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
    location: SourceLocation | None = field(default=None, compare=False)

    @property
    def is_pushed(self) -> bool:
        """Return whether pushes fill it, in versions."""
        return is_pushed(self.kind.value, self.table_id, self.side_inputs)

    @property
    def from_table(self) -> str | None:
        """The table of a lake that it is, of which each snapshot or version is one of it."""
        return dict(self.options).get(FROM_TABLE)

    @property
    def word(self) -> str:
        """The kind for people: ``pushed``, ``filled by side inputs``, ``local`` or ``remote``."""
        return table_word(self.kind.value, self.table_id, self.side_inputs)


FROM_TABLE = "from_table"
"""The option of a table that is one of a lake: its name there."""


def push_stream_id(table_id: str) -> str:
    """Return the id of the stream of pushes of a table."""
    return f"{table_id}-push"


def is_pushed(kind: str, table_id: str, side_inputs: Sequence[str]) -> bool:
    """Return whether a table is filled by its own stream of pushes, and by no other."""
    return kind == TableKind.PUSHED.value and tuple(side_inputs) == (push_stream_id(table_id),)


def table_word(kind: str, table_id: str, side_inputs: Sequence[str]) -> str:
    """Return the kind of a table for people.

    >>> table_word("pushed", "members", ["members-push"]), table_word("pushed", "members", ["changes"])
    ('pushed', 'filled by side inputs')
    """
    if kind == TableKind.PUSHED.value and not is_pushed(kind, table_id, side_inputs):
        return "filled by side inputs"
    return kind


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

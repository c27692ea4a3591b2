"""The plan as a value: streams with their counts and reasons, join groups, stages. Frozen; serialises to JSON and back.

A plan carries names, never values of secrets and never absolute paths, so that it may be logged, compared and stored.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from dataclasses import dataclass
from typing import Any, TypeVar

from airflow_samza.errors import UnknownName

T = TypeVar("T")


@dataclass(frozen=True)
class Partitioning:
    """How the messages of an edge lie in its partitions (SEMANTICS P11).

    ``kind`` is ``keyed``, ``unknown``, ``unkeyed`` or ``broadcast``; ``types`` are the key columns' types for hashing
    (every integer is ``bigint``), None where the schema does not tell.
    """

    kind: str
    key: tuple[str, ...] = ()
    types: tuple[str | None, ...] = ()
    partitioner: str = ""


@dataclass(frozen=True)
class PlannedStream:
    """A stream of the plan, its partition count and the reason for it (SEMANTICS P6).

    ``role`` is a :class:`~airflow_samza.application.descriptors.StreamRole` value. ``writers`` and ``readers`` are operator ids.
    """

    stream_id: str
    role: str
    system: str | None
    partitions: int
    reason: str
    partitioning: Partitioning
    bounded: bool
    broadcast: bool = False
    schema: str | None = None
    writers: tuple[str, ...] = ()
    readers: tuple[str, ...] = ()


@dataclass(frozen=True)
class PlannedTable:
    """A table of the plan: who writes it (operator ids), who joins it, which streams feed it."""

    table_id: str
    kind: str
    key: tuple[str, ...]
    schema: str | None = None
    side_inputs: tuple[str, ...] = ()
    writers: tuple[str, ...] = ()
    readers: tuple[str, ...] = ()


@dataclass(frozen=True)
class PlannedOperator:
    """An operator of the plan: its id, kind, inputs (operator ids), and what it names (stream, table, expressions, callable).

    ``details`` are (name, text) pairs for people and for the fingerprint; a callable is named, never shown by address.
    """

    op_id: str
    name: str
    op: str
    inputs: tuple[str, ...]
    stream: str | None = None
    table: str | None = None
    schema: str | None = None
    details: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class JoinGroup:
    """The streams that meet in one join (SEMANTICS P2), sorted by id."""

    join: str
    streams: tuple[str, ...]


@dataclass(frozen=True)
class Stage:
    """A part of the plan between re-partitions: one Airflow task, one Spark job per epoch.

    ``inputs`` and ``outputs`` are stream ids (side inputs apart), ``upstream`` the ids of the stages that write its
    inputs. ``task_count`` is the largest partition count of its inputs that are not broadcast (1 when all are).
    ``several_epochs`` marks a stage that reads what it writes.
    """

    stage_id: str
    operators: tuple[str, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    side_inputs: tuple[str, ...] = ()
    tables: tuple[str, ...] = ()
    upstream: tuple[str, ...] = ()
    task_count: int = 1
    several_epochs: bool = False


@dataclass(frozen=True)
class ExecutionPlan:
    """The whole plan; ``stages`` are in an order in which each comes after its upstream stages.

    ``warnings`` are sentences. ``shape_only`` marks a plan made at author time: its counts are 0 and mean nothing.
    """

    application: str
    app_id: str
    operators: tuple[PlannedOperator, ...]
    streams: tuple[PlannedStream, ...]
    tables: tuple[PlannedTable, ...]
    join_groups: tuple[JoinGroup, ...]
    stages: tuple[Stage, ...]
    warnings: tuple[str, ...] = ()
    shape_only: bool = False

    def stage(self, stage_id: str) -> Stage:
        """The stage with this id."""
        return _find(self.stages, "stage_id", stage_id, "stage")

    def stream(self, stream_id: str) -> PlannedStream:
        """The stream with this id."""
        return _find(self.streams, "stream_id", stream_id, "stream")

    def table(self, table_id: str) -> PlannedTable:
        """The table with this id."""
        return _find(self.tables, "table_id", table_id, "table")

    def operator(self, op_id: str) -> PlannedOperator:
        """The operator with this id."""
        return _find(self.operators, "op_id", op_id, "operator")

    def to_dict(self) -> dict[str, Any]:
        """The JSON form as a dict (see :meth:`to_json`)."""
        return dataclasses.asdict(self)

    def to_json(self) -> str:
        """Canonical JSON: the same application and metadata give the same bytes (SEMANTICS P9)."""
        return json.dumps({"fingerprint": self.fingerprint, **self.to_dict()}, sort_keys=True, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> ExecutionPlan:
        """The plan that :meth:`to_json` wrote."""
        data = json.loads(text)
        data.pop("fingerprint", None)
        return cls(
            operators=tuple(_build(PlannedOperator, item) for item in data.pop("operators")),
            streams=tuple(_stream(item) for item in data.pop("streams")),
            tables=tuple(_build(PlannedTable, item) for item in data.pop("tables")),
            join_groups=tuple(_build(JoinGroup, item) for item in data.pop("join_groups")),
            stages=tuple(_build(Stage, item) for item in data.pop("stages")),
            **{name: _frozen(value) for name, value in data.items()},
        )

    @property
    def fingerprint(self) -> str:
        """16 hex digits that change when anything that a run depends on changes; warnings and reasons play no part."""
        body = self.to_dict()
        body.pop("warnings")
        for stream in body["streams"]:
            stream.pop("reason")
        text = json.dumps(body, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def _find(items: tuple[T, ...], attribute: str, wanted: str, word: str) -> T:
    for item in items:
        if getattr(item, attribute) == wanted:
            return item
    known = ", ".join(sorted(getattr(item, attribute) for item in items)) or "none"
    raise UnknownName(f"The plan has no {word} {wanted!r}.", hint=f"Its {word}s are: {known}.", name=wanted)


def _frozen(value: Any) -> Any:
    return tuple(_frozen(item) for item in value) if isinstance(value, list) else value


def _build(kind: Any, data: dict[str, Any]) -> Any:
    return kind(**{name: _frozen(value) for name, value in data.items()})


def _stream(data: dict[str, Any]) -> PlannedStream:
    partitioning: Partitioning = _build(Partitioning, data["partitioning"])
    return PlannedStream(**{**{name: _frozen(v) for name, v in data.items() if name != "partitioning"}, "partitioning": partitioning})

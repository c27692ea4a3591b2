"""The plan as a value: streams with their counts and reasons, join groups, stages. Frozen; serialises to JSON and back.

A plan carries names, never values of secrets and never absolute paths, so that it may be logged, compared and stored.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

from airflow_samza.application.descriptors import FilledTable
from airflow_samza.application.rejections import did_you_mean
from airflow_samza.errors import PlanError, UnknownName
from airflow_samza.typed_values import converted

T = TypeVar("T")

_ROLES_IN_JSON = {
    "sourceStreams": ("input", "side_input"),
    "sinkStreams": ("output",),
    "intermediateStreams": ("intermediate",),
}
"""The ids of streams by what they are, under Samza's names, for programs that read a plan's JSON."""


@dataclass(frozen=True)
class Partitioning:
    """The partitioning of the messages of an edge (rule P11).

    ``kind`` is ``keyed``, ``unknown``, ``unkeyed`` or ``broadcast``; ``types`` are the key columns' types for hashing
    (every integer is ``bigint``), None where the schema is not known. ``unchecked`` says why it is not certain that
    messages lie so ("" where it is): a keyed operator checks it while it runs.
    """

    kind: str
    key: tuple[str, ...] = ()
    types: tuple[str | None, ...] = ()
    partitioner: str = ""
    unchecked: str = ""


@dataclass(frozen=True)
class KeyCheck:
    """Check of a keyed operator that messages lie where their key belongs, made on each batch (rule P11).

    ``side`` is the number of the operator's input; ``columns`` those by which it is partitioned, into ``partitions``;
    ``why`` tells what it is that nobody can know before, as a half sentence.
    """

    op_id: str
    side: int
    columns: tuple[str, ...]
    partitions: int
    why: str


@dataclass(frozen=True)
class PlannedStream:
    """A stream of the plan, its partition count and the reason for it (rule P6).

    ``role`` is a :class:`~airflow_samza.application.descriptors.StreamRole` value. ``writers`` and ``readers`` are
    operator ids.
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
class PlannedTable(FilledTable):
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
    """An operator of the plan.

    Its id, kind, inputs (operator ids), and what it names (stream, table, expressions, callable).

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
    """The streams that meet in one join (rule P2), sorted by id."""

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

    ``key_checks`` are what operators check of their messages while they run, ``warnings`` are sentences. ``shape_only``
    marks a plan made at author time: its counts are 0 and mean nothing.
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
    key_checks: tuple[KeyCheck, ...] = ()

    def stage(self, stage_id: str) -> Stage:
        """The stage with this id."""
        return _find(self._stages_by_id, stage_id, "stage")

    def stream(self, stream_id: str) -> PlannedStream:
        """The stream with this id."""
        return _find(self._streams_by_id, stream_id, "stream")

    def table(self, table_id: str) -> PlannedTable:
        """The table with this id."""
        return _find({table.table_id: table for table in self.tables}, table_id, "table")

    def operator(self, op_id: str) -> PlannedOperator:
        """The operator with this id."""
        return _find(self._operators_by_id, op_id, "operator")

    def to_json(self) -> str:
        """Canonical JSON: the same application and metadata give the same bytes (rule P9)."""
        by_role = {
            name: [s.stream_id for s in self.streams if s.role in roles] for name, roles in _ROLES_IN_JSON.items()
        }
        return _canonical({"fingerprint": self.fingerprint, **by_role, **_as_dict(self)})

    @classmethod
    def from_json(cls, text: str) -> ExecutionPlan:
        """The plan that :meth:`to_json` wrote, whatever stands beside it.

        Anything else is a :class:`~airflow_samza.errors.PlanError`.
        """
        try:
            return converted(json.loads(text), cls)
        except (ValueError, RecursionError) as error:
            shown = text if len(text) <= 40 else text[:40] + "…"
            raise PlanError(
                f"The text {shown!r} is not a plan: {error!r}.",
                hint="Give what ExecutionPlan.to_json wrote, by this version; plan the application again.",
            ) from error

    @cached_property
    def fingerprint(self) -> str:
        """16 hex digits of stages, operators, streams, counts and tables; warnings and reasons play no part.

        Nor do the places, formats and options of streams, of which a plan says nothing.
        """
        body = json.loads(_canonical(_as_dict(self)))
        for derived in ("warnings", "key_checks"):
            body.pop(derived)
        for stream in body["streams"]:
            stream.pop("reason")
            stream["partitioning"].pop("unchecked")
        return _digest(body)

    @cached_property
    def shape_fingerprint(self) -> str:
        """16 hex digits of what a Dag is made of: the stages, what each reads and writes, and their order.

        Equal for :func:`~airflow_samza.planner.planner.plan_shape` and the full plan of the same code; a ``map`` more
        changes nothing.
        """
        stages = [(s.stage_id, s.inputs, s.outputs, s.side_inputs, s.upstream, s.several_epochs) for s in self.stages]
        return _digest([self.application, self.app_id, stages])

    @cached_property
    def _stages_by_id(self) -> dict[str, Stage]:
        return {stage.stage_id: stage for stage in self.stages}

    @cached_property
    def _streams_by_id(self) -> dict[str, PlannedStream]:
        return {stream.stream_id: stream for stream in self.streams}

    @cached_property
    def _operators_by_id(self) -> dict[str, PlannedOperator]:
        return {operator.op_id: operator for operator in self.operators}


def _canonical(data: Any) -> str:
    return json.dumps(data, default=_as_dict, sort_keys=True, separators=(",", ":"))


def _digest(data: Any) -> str:
    return hashlib.sha256(_canonical(data).encode()).hexdigest()[:16]


def _find(items: Mapping[str, T], name: str, word: str) -> T:
    if name in items:
        return items[name]
    names = ", ".join(sorted(items)) or "none"
    raise UnknownName(
        f"The plan has no {word} {name!r}.",
        hint=f"{did_you_mean(name, items)}Its {word}s are: {names}.",
        name=name,
    )


def _as_dict(value: Any) -> dict[str, Any]:
    # dataclasses.asdict copies every leaf, which costs two seconds for a plan of 10,000 operators.
    return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}

"""The application while it is being written.

Ids given out once, descriptors and operators collected in the order declared.
"""

from __future__ import annotations

from typing import Any, NoReturn, TypeVar

from airflow_samza.application.descriptors import StreamDescriptor, StreamRole, SystemDescriptor, TableDescriptor
from airflow_samza.application.operator_checks import checked_id, is_blank
from airflow_samza.application.operator_spec import OperatorSpec
from airflow_samza.application.operator_specs import InputOperatorSpec, TaskSpec
from airflow_samza.application.rejections import reject
from airflow_samza.application.source_location import SourceLocation
from airflow_samza.errors import DuplicateId

Spec = TypeVar("Spec", bound=OperatorSpec)

_ROLE_WORDS = {
    StreamRole.INPUT: "an input stream",
    StreamRole.OUTPUT: "an output stream",
    StreamRole.INTERMEDIATE: "an intermediate stream",
    StreamRole.SIDE_INPUT: "a side input",
}

DECLARE_HERE = "Declare it inside this application; applications share streams by app.shared_stream(…)."


class GraphBuilder:
    """Collects one application. Ids follow rule P8: ``<app>-<app id>-<op>-<name or number>``.

    The number counts the operators declared so far, named ones too; streams that enter the graph are named after their
    id and do not count, so that another input renames nothing.
    """

    def __init__(self, application: str, app_id: str, *, low_level: bool = False) -> None:
        self.application = application
        self.app_id = app_id
        self.low_level = low_level
        self.systems: dict[str, SystemDescriptor] = {}
        self.streams: dict[str, StreamDescriptor] = {}
        self.side_inputs: dict[str, StreamDescriptor] = {}
        self.changelogs: dict[str, StreamDescriptor] = {}
        """The streams to which goes what is written to a table, by table."""
        self.tables: dict[str, TableDescriptor] = {}
        self.operators: list[OperatorSpec] = []
        self.docs: dict[str, str] = {}
        """Descriptions for people, by operator."""
        self._places: dict[str, SourceLocation | None] = {}
        self._count = 0
        self._finished = False

    def finish(self) -> None:
        """End the description; later declarations are rejected."""
        self._finished = True

    def check_open(self) -> None:
        """Reject declarations in an application that is already described."""
        if self._finished:
            reject(
                f"Application {self.application!r} is already described",
                hint="Declare streams and operators only inside the function (or the method describe) that gets app.",
            )

    def check_same_application(self, other: Any, name: str, where: str) -> None:
        """Reject a stream, table or side input that another application (or another description of this) declared."""
        if other._graph is not self:
            mine, theirs = self.application, other._graph.application
            reject(
                f"{where} got {name!r} of another application ({theirs!r}, not {mine!r})"
                if mine != theirs
                else f"{where} got {name!r} of another description of application {mine!r}",
                hint=DECLARE_HERE,
                operator=where,
            )

    def add_system(self, system: SystemDescriptor) -> None:
        """Add a system; its name is unique."""
        self.check_open()
        if system.name in self.systems:
            self.reject_duplicate(
                f"system {system.name!r}", self.systems[system.name].location, "Declare each system once.", system.name
            )
        self.systems[system.name] = system

    def add_stream(self, stream: StreamDescriptor) -> StreamDescriptor:
        """Add a stream; its id is unique in the application, whatever its role."""
        self.check_open()
        former = self.streams.get(stream.stream_id) or self.side_inputs.get(stream.stream_id)
        if former is not None:
            self.reject_duplicate(
                f"stream {stream.stream_id!r}",
                former.location,
                f"It is {_ROLE_WORDS[former.role]} already: use the stream that the first call returned, or choose "
                "another id.",
                stream.stream_id,
            )
        (self.side_inputs if stream.role is StreamRole.SIDE_INPUT else self.streams)[stream.stream_id] = stream
        return stream

    def add_table(self, table: TableDescriptor) -> None:
        """Add a table; its id is unique among the tables."""
        self.check_open()
        if table.table_id in self.tables:
            former = self.tables[table.table_id].location
            self.reject_duplicate(
                f"table {table.table_id!r}",
                former,
                "Use the table that the first call returned, or choose another id.",
                table.table_id,
            )
        self.tables[table.table_id] = table

    def add(
        self,
        kind: type[Spec],
        user_id: str | None,
        *,
        inputs: tuple[OperatorSpec, ...] = (),
        location: SourceLocation | None = None,
        **fields: Any,
    ) -> Spec:
        """Make the operator spec, with the id that the user chose, or else the next number."""
        self.check_open()
        if self.low_level and not issubclass(kind, TaskSpec):
            reject(
                f"{kind.op} was called in the low-level application {self.application!r}, "
                "whose only operator is its task",
                hint="Do it in the StreamTask, or write a StreamApplication.",
                operator=kind.op,
            )
        name = str(self._count) if is_blank(user_id) else checked_id(user_id, kind.op)
        spec = self._operator(kind, name, inputs, location or SourceLocation.of_caller(), fields)
        self._count += 1
        return spec

    def add_input(self, stream: StreamDescriptor) -> InputOperatorSpec:
        """Make the operator by which a stream enters the graph, named after the stream."""
        policy = stream.on_error
        beside = dict.fromkeys((*(policy.side_outputs if policy is not None else ()), *stream.dead_letters))
        return self._operator(
            InputOperatorSpec,
            stream.stream_id,
            (),
            stream.location,
            {
                "stream": stream,
                "schema": stream.schema,
                "on_error": policy,
                "side_outputs": tuple(beside),
                "renamed_from": stream.renamed_from,
            },
        )

    def _operator(
        self,
        kind: type[Spec],
        name: str,
        inputs: tuple[OperatorSpec, ...],
        location: SourceLocation | None,
        fields: dict[str, Any],
    ) -> Spec:
        op_id = f"{self.application}-{self.app_id}-{kind.op}-{name}"
        if op_id in self._places:
            automatic = name.isdigit()
            self.reject_duplicate(
                f"operator {op_id!r}",
                self._places[op_id],
                "Numbers are given to operators without an id: choose an id that is not a number."
                if automatic
                else f"Give each {kind.op} an id of its own.",
                op_id,
            )
        spec = kind(op_id=op_id, name=name, inputs=inputs, location=location, **fields)
        self._places[op_id] = location
        self.operators.append(spec)
        return spec

    def reject_duplicate(self, what: str, former: SourceLocation | None, hint: str, name: str) -> NoReturn:
        """Reject a second declaration of a thing; ``former`` is the place of the first."""
        first = f": first at {former}, then again" if former is not None else ""
        reject(f"The {what} is declared twice{first}", hint=hint, kind=DuplicateId, name=name)

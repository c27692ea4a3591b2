"""A stage made ready to run: its operators compiled, cut into sections around what Catalyst runs, ordered in phases.

A program is never sent anywhere: each process makes its own from a :class:`ProgramSource`, which is JSON. The plan step
compiles it to check; the stage runner and each of its workers to run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TypeAlias

from airflow_samza.application.application import ApplicationSpec
from airflow_samza.application.loader import load_application
from airflow_samza.application.operator_spec import CATALYST, OperatorSpec
from airflow_samza.application.operator_specs import InputOperatorSpec, SendToTableSpec, TableJoinSpec
from airflow_samza.chooser.default import check_chooser, looks_at_messages
from airflow_samza.config import Config
from airflow_samza.control.end_of_stream import producing_task_count
from airflow_samza.errors import (
    InvalidApplication,
    RuntimeMissing,
    SamzaError,
    SchemaError,
    UnsupportedShape,
    raise_all,
)
from airflow_samza.grouping import grouped
from airflow_samza.planner.graphs import reached
from airflow_samza.planner.plan import ExecutionPlan, Stage
from airflow_samza.planner.replication import Replication, find_replication
from airflow_samza.planner.stream_edges import behind_unbounded
from airflow_samza.quoting import one_line
from airflow_samza.records import durable
from airflow_samza.runs.records.run_plan import TopicContent
from airflow_samza.schema import Schema
from airflow_samza.systems.system import ColumnBound
from airflow_samza.task.messages.user_errors import located
from airflow_samza.task.program.kinds.operator_kind import CompiledOperator
from airflow_samza.task.program.phases import Phases, order_phases
from airflow_samza.task.program.pruning.bounds import input_bounds
from airflow_samza.task.program.pruning.columns import columns_used, pruned
from airflow_samza.task.program.pruning.topics import topic_columns
from airflow_samza.task.program.schemas import SchemaResolver
from airflow_samza.task.program.side_input_checks import side_input_errors

TASK = "task"

Operators: TypeAlias = Mapping[str, CompiledOperator]
"""The compiled operators of a stage by id, in order."""


@dataclass(frozen=True)
class StageSection:
    """A part of a stage that one engine runs: ``task`` (Arrow and Python, in the task) or ``catalyst``.

    A task section gets batches from the stage's inputs (``entry`` None) or what the operator ``entry`` of the section
    before gives, and hands what the operator ``boundary`` gives to the section behind (None: it has none). Operators
    are in order.
    """

    kind: str
    operators: tuple[str, ...]
    entry: str | None = None
    boundary: str | None = None
    sets_aside: tuple[str, ...] = ()
    takes_up: tuple[str, ...] = ()

    @property
    def arriving(self) -> tuple[str, ...]:
        """The operators of earlier sections whose messages it gets."""
        return (*((self.entry,) if self.entry is not None else ()), *self.takes_up)


@dataclass(frozen=True)
class StageProgram:
    """A stage, compiled. ``operators`` come after their inputs; ``streams`` and ``tables`` hold the schemas by id.

    ``producing_tasks`` says per output how many tasks, from the first on, end it (rule C7), ``reads`` the columns that
    are read of inputs of which not all are, ``bounds`` what messages of inputs must fulfil to be of use,
    ``replication`` which tasks handle what is broadcast.
    """

    spec: ApplicationSpec
    plan: ExecutionPlan
    stage: Stage
    operators: Mapping[str, CompiledOperator]
    sections: tuple[StageSection, ...]
    phases: Phases
    streams: Mapping[str, Schema]
    tables: Mapping[str, Schema]
    producing_tasks: Mapping[str, int]
    replication: Replication
    reads: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    bounds: Mapping[str, tuple[ColumnBound, ...]] = field(default_factory=dict)

    @cached_property
    def unbounded(self) -> frozenset[str]:
        """The ids of the operators behind unbounded inputs."""
        return frozenset(op.op_id for op in behind_unbounded(self.spec))

    @property
    def engines(self) -> dict[str, tuple[str, str]]:
        """Per operator the engine that runs it, and why."""
        return {op_id: (compiled.engine, compiled.reason) for op_id, compiled in self.operators.items()}

    @property
    def keeps_order(self) -> bool:
        """Return whether streams wait beside Catalyst, so that messages have to keep their order among them."""
        return any(section.sets_aside for section in self.sections)

    def delay_before(self, section: StageSection) -> int:
        """Return by how much watermarks wait for event times that Catalyst has made before a section, in ms."""
        number = self.sections.index(section)
        if number == 0 or self.sections[number - 1].kind != CATALYST:
            return 0
        times = [self.operators[op_id].spec.event_time for op_id in self.sections[number - 1].operators]
        return sum(time.max_delay_ms or 0 for time in times if time is not None)

    def section_schema(self, number: int) -> Schema:
        """The schema of the batches that a task section hands over at its boundary."""
        boundary = self.sections[number].boundary
        assert boundary is not None
        return _schema_of(self.operators[boundary])


def compile_stage(
    spec: ApplicationSpec,
    plan: ExecutionPlan,
    stage_id: str,
    input_schemas: Mapping[str, Schema] | None = None,
    contents: Mapping[str, TopicContent] | None = None,
) -> StageProgram:
    """Makes a stage ready to run.

    ``input_schemas`` maps streams to schemas that the application does not declare (inputs without ``schema=``,
    intermediate streams behind Catalyst), and operators that Catalyst runs (by operator id) to their output schemas.
    ``contents`` are those of topics by the run's plan; of an input only the columns that the stage uses are read.

    Raises:
        UnknownName: an expression, key or aggregation names a column that is not there.
        UnsupportedShape: what Catalyst must run stands behind an operator that writes, or beside a broadcast or a
            table that the stage writes and joins.
        SchemaError: the schema of an input is not known.
    """
    stage = plan.stage(stage_id)
    resolver = SchemaResolver(spec, input_schemas or {}, contents=contents)
    resolver.resolve()
    specs = spec.operators_of(stage.operators)
    reads = _narrowed(resolver, specs, contents or {})
    operators = {operator.op_id: resolver.operators[operator.op_id] for operator in specs}
    sections = cut_sections(operators)
    _reject_broadcast_beside(plan, sections, operators)
    return StageProgram(
        spec=spec,
        plan=plan,
        stage=stage,
        operators=operators,
        sections=sections,
        phases=order_phases(specs, bounded=all(plan.stream(stream).bounded for stream in stage.inputs)),
        streams=dict(resolver.streams),
        tables=dict(resolver.tables),
        producing_tasks={output: producing_task_count(plan, stage_id, output) for output in stage.outputs},
        replication=find_replication(spec.operators, lambda stream_id: plan.stream(stream_id).broadcast),
        reads=reads,
        bounds={
            stream_id: bounds
            for stream_id, bounds in input_bounds(
                specs,
                operators,
                {op_id: compiled.schema for op_id, compiled in operators.items() if compiled.schema is not None},
            ).items()
            if spec.stream(stream_id).events is None  # they are of rows, which are inside of events
        },
    )


def _narrowed(
    resolver: SchemaResolver, operators: Sequence[OperatorSpec], contents: Mapping[str, TopicContent]
) -> dict[str, tuple[str, ...]]:
    """Cuts the inputs of a stage to what it uses of them; the columns that are read, by stream, where not all are."""
    config = Config(resolver.spec.config)
    if looks_at_messages(config):
        return {}
    times = config.chooser_class is not None
    used = columns_used(operators, topic_columns(resolver.spec, contents), times=times)
    inputs = [operator for operator in operators if isinstance(operator, InputOperatorSpec)]
    whole = {operator.op_id: _schema_of(resolver.operators[operator.op_id]) for operator in inputs}
    for operator in inputs:
        content = contents.get(operator.stream.stream_id)
        if content is not None and content.combined_for is not None:
            used[operator.op_id] = None  # partial results are read whole
    if all(pruned(schema, used[op_id]) is schema for op_id, schema in whole.items()):
        return {}
    resolver.narrow([operator.op_id for operator in operators], used)
    left = {operator.stream.stream_id: _schema_of(resolver.operators[operator.op_id]) for operator in inputs}
    return {
        operator.stream.stream_id: left[operator.stream.stream_id].names
        for operator in inputs
        if left[operator.stream.stream_id].names != whole[operator.op_id].names and operator.stream.events is None
    }


def check_application(
    spec: ApplicationSpec,
    plan: ExecutionPlan,
    input_schemas: Mapping[str, Schema] | None = None,
    contents: Mapping[str, TopicContent] | None = None,
) -> dict[str, CompiledOperator]:
    """Compiles all stages as far as schemas are known.

    Everything that is wrong is raised at once, before anything runs. The result holds per operator its schema (None:
    known when the stage runs), its engine and the reason.
    """
    errors: list[SamzaError] = []
    try:
        check_chooser(Config(spec.config))
    except SamzaError as error:
        errors.append(error)
    resolver = SchemaResolver(spec, input_schemas or {}, errors, contents)
    compiled = resolver.resolve()
    for stage in plan.stages:
        try:
            operators = {op.op_id: compiled[op.op_id] for op in spec.operators_of(stage.operators)}
            sections = cut_sections(operators)
            _reject_broadcast_beside(plan, sections, operators)
            compiled |= _with_waiting_noted(operators, sections)
        except SamzaError as error:
            errors.append(error)
    raise_all([*errors, *side_input_errors(spec, plan, resolver.streams)])
    return compiled


def _with_waiting_noted(operators: Operators, sections: Sequence[StageSection]) -> dict[str, CompiledOperator]:
    """Return the operators that Catalyst runs while other streams wait, with that in their reasons."""
    noted = {}
    for number, section in enumerate(sections):
        aside = {op_id for before in sections[:number] for op_id in before.sets_aside}
        count = len(aside.intersection(op_id for behind in sections[number:] for op_id in behind.takes_up))
        if section.kind == CATALYST and count:
            beside = "another stream waits" if count == 1 else f"{count} other streams wait"
            for op_id in section.operators:
                noted[op_id] = replace(operators[op_id], reason=f"{operators[op_id].reason}; {beside} on disk")
    return noted


def _schema_of(compiled: CompiledOperator) -> Schema:
    if compiled.schema is None:
        spec = compiled.spec
        stream = spec.stream.stream_id if isinstance(spec, InputOperatorSpec) else None
        raise SchemaError(
            f"The schema of {f'input {stream!r}' if stream is not None else f'{spec.title}'} is not known.",
            hint="Declare it with schema=, or let the system report it.",
            operator=spec.op_id,
        )
    return compiled.schema


def cut_sections(operators: Mapping[str, CompiledOperator]) -> tuple[StageSection, ...]:
    """The sections of a stage; one when Catalyst runs nothing of it.

    Each chain of operators that Catalyst runs is a section, through which its own stream passes alone. A task section
    runs all that needs no later section, except what writes: outputs are written by the last one (decision 29).
    """
    reading = grouped((source.op_id, op_id) for op_id, o in operators.items() for source in o.spec.inputs)
    following = {op_id: reading.get(op_id, []) for op_id in operators}
    in_catalyst = [op_id for op_id, compiled in operators.items() if compiled.engine == CATALYST]
    _reject_writers_before(operators, in_catalyst, following)
    writers = [op_id for op_id, o in operators.items() if o.spec.is_terminal or o.spec.written_streams]
    late = reached(writers, following.__getitem__)
    sections: list[StageSection] = []
    rest = list(operators)
    entry: str | None = None
    while waiting := [op_id for op_id in rest if operators[op_id].engine == CATALYST]:
        chain = [waiting[0]]
        while len(following[chain[-1]]) == 1 and operators[following[chain[-1]][0]].engine == CATALYST:
            chain.append(following[chain[-1]][0])
        behind = late | reached(waiting, following.__getitem__)
        before = tuple(op_id for op_id in rest if op_id not in behind)
        source = operators[chain[0]].spec.inputs[0].op_id
        sections.append(StageSection(TASK, before, entry, source))
        sections.append(StageSection(CATALYST, tuple(chain), source, chain[-1]))
        rest = [op_id for op_id in rest if op_id not in before and op_id not in chain]
        entry = chain[-1]
    sections.append(StageSection(TASK, tuple(rest), entry))
    sections = _with_waiting_streams(operators, sections)
    _reject_shared_tables(operators, in_catalyst)
    return tuple(sections)


def _with_waiting_streams(
    operators: Mapping[str, CompiledOperator], sections: Sequence[StageSection]
) -> list[StageSection]:
    """Note in the task sections which streams wait beside Catalyst for a later one, and which it takes up."""
    section_of = {
        op_id: n for n, s in enumerate(sections) if s.kind == TASK for op_id in (*s.operators, s.entry) if op_id
    }
    taken: dict[int, list[str]] = {number: [] for number in range(len(sections))}
    for number, section in enumerate(sections):
        if section.kind != TASK:
            continue
        reads = [source.op_id for op_id in section.operators for source in operators[op_id].spec.inputs]
        for op_id in dict.fromkeys([*reads, *([section.boundary] if section.boundary is not None else [])]):
            if section_of[op_id] < number:
                taken[number].append(op_id)
    waiting = {op_id for op_ids in taken.values() for op_id in op_ids}
    return [
        section
        if section.kind != TASK
        else replace(
            section,
            sets_aside=tuple(op_id for op_id in operators if op_id in waiting and section_of[op_id] == number),
            takes_up=tuple(taken[number]),
        )
        for number, section in enumerate(sections)
    ]


def _reject_writers_before(
    operators: Mapping[str, CompiledOperator], in_catalyst: Sequence[str], following: Mapping[str, list[str]]
) -> None:
    """Reject an operator that writes beside its results before one that Catalyst runs."""
    for op_id, compiled in operators.items():
        if compiled.spec.side_outputs:
            behind = reached(following[op_id], following.__getitem__)
            catalyst = next((other for other in in_catalyst if other in behind), None)
            if catalyst is not None:
                spec, reason = compiled.spec, operators[catalyst].reason
                stream = spec.side_outputs[0].stream_id
                raise UnsupportedShape(
                    f"{spec.title}{located(spec.location)} writes {stream!r} beside its results, and what follows it "
                    f"in the stage, {operators[catalyst].spec.title}, runs in Catalyst ({reason}): outputs cannot be "
                    "written before that.",
                    hint="Put a partition_by between the two, rewrite the second so that Arrow runs it, "
                    'or set on_error="drop".',
                    operator=spec.op_id,
                    stream=stream,
                    reason=reason,
                )


def _reject_shared_tables(operators: Mapping[str, CompiledOperator], in_catalyst: Sequence[str]) -> None:
    """Reject a table that a stage with Catalyst both writes and joins: its writers go before its joiners (rule M8)."""
    if not in_catalyst:
        return
    written = {o.spec.table.table_id for o in operators.values() if isinstance(o.spec, SendToTableSpec)}
    for compiled in operators.values():
        if isinstance(compiled.spec, TableJoinSpec) and compiled.spec.table.table_id in written:
            beside = f"the table {compiled.spec.table.table_id!r} of {compiled.spec.title}"
            raise _beside_catalyst(operators[in_catalyst[0]], f"{beside} is written and joined in the same stage")


def _reject_broadcast_beside(plan: ExecutionPlan, sections: Sequence[StageSection], operators: Operators) -> None:
    """Reject a broadcast in a stage with streams beside Catalyst: a transform would get messages of other tasks."""
    if not any(section.sets_aside for section in sections):
        return
    in_catalyst = next(compiled for compiled in operators.values() if compiled.engine == CATALYST)
    for compiled in operators.values():
        spec = compiled.spec
        if isinstance(spec, InputOperatorSpec) and plan.stream(spec.stream.stream_id).broadcast:
            raise _beside_catalyst(in_catalyst, f"the broadcast {spec.stream.stream_id!r} is alive beside it")


def _beside_catalyst(catalyst: CompiledOperator, reason: str) -> UnsupportedShape:
    spec = catalyst.spec
    return UnsupportedShape(
        f"{spec.title}{located(spec.location)} runs in Catalyst ({catalyst.reason}), and {reason}.",
        hint="Put it before the partition_by that starts the stage, give it a partition_by of its own, or write it so "
        "that Arrow runs it.",
        operator=spec.op_id,
        reason=catalyst.reason,
    )


def reject_catalyst(program: StageProgram) -> None:
    """Reject a stage with a part that only Spark can run."""
    unreadable = next((c for c in program.operators.values() if c.unreadable), None)
    if unreadable is not None:
        spec = unreadable.spec
        raise InvalidApplication(
            f"{spec.title}{located(spec.location)} has a syntax error {unreadable.unreadable}: "
            f"{one_line(', '.join(spec.sql))}.",
            hint="Correct the SQL; if Spark reads it as it stands, the stage runs on Spark only.",
            operator=spec.op_id,
        )
    if len(program.sections) > 1:
        catalyst = next(c for c in program.operators.values() if c.engine == CATALYST)
        raise RuntimeMissing(
            f"{catalyst.spec.title} of stage {program.stage.stage_id!r} runs only in Catalyst ({catalyst.reason}), and "
            "there is no Spark here.",
            hint="Write it within the subset that Arrow runs, or run the stage on Spark.",
            operator=catalyst.spec.op_id,
            stage=program.stage.stage_id,
        )


@durable("program of a stage")
@dataclass(frozen=True)
class ProgramSource:
    """All from which a worker makes a stage's program: JSON, and the application's code."""

    application: str
    plan: str
    stage_id: str
    schemas: Mapping[str, str] = field(default_factory=dict)
    config: Mapping[str, str] = field(default_factory=dict)
    contents: Mapping[str, TopicContent] = field(default_factory=dict)

    def load(self) -> StageProgram:
        """The program, compiled in this process."""
        spec = load_application(self.application).spec(dict(self.config))
        schemas = {name: Schema.of(ddl) for name, ddl in self.schemas.items()}
        return compile_stage(spec, ExecutionPlan.from_json(self.plan), self.stage_id, schemas, self.contents)

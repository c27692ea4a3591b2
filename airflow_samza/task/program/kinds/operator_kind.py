"""The facts of a kind of operator as a task uses them, and the compiled operators and schemas that these get.

The compiler of a stage, pruning, and the plan step ask kinds for them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from airflow_samza.application.application import ApplicationSpec
from airflow_samza.application.descriptors import StreamDescriptor
from airflow_samza.application.operator_spec import KeyedResultSpec, OperatorSpec
from airflow_samza.application.operator_specs import WindowOperatorSpec
from airflow_samza.application.output_schemas import aggregated_schema, windowed_schema
from airflow_samza.runs.records.run_plan import TopicContent
from airflow_samza.runs.records.state_meaning import StateMeaning
from airflow_samza.schema import Schema
from airflow_samza.task.messages.bad_records import Reading
from airflow_samza.task.messages.output_writers import OutputWriter
from airflow_samza.task.operators.aggregation.combiner import Combining
from airflow_samza.task.operators.aggregation.partial_groups import partial_schema
from airflow_samza.task.operators.operator import Operator
from airflow_samza.task.program.column_sources import Flow
from airflow_samza.task.program.pruning.columns import Columns, lowered, pruned
from airflow_samza.task.program.schema_checks import check_columns
from airflow_samza.task.tables.remote_table import RemoteTables
from airflow_samza.task.tables.store import TableStore

COMBINED = "combined"
"""The ``compiled`` of an aggregation that gets partial results instead of messages."""


@dataclass(frozen=True)
class CompiledOperator:
    """An operator with all that running it needs.

    ``inputs`` and ``schema`` are the columns that it gets and emits (None: not known yet), ``engine`` runs it for a
    ``reason``. ``compiled`` holds the compiled expressions of ``where`` (a tuple of conjuncts) and ``select`` (a
    projection), for ``partition_by`` the schema that goes through the topic or the :class:`Combining`, and
    :data:`COMBINED` for an aggregation behind one. ``unreadable`` is the place of what seems a syntax error, where only
    Spark can find that it is none.
    """

    spec: OperatorSpec
    inputs: tuple[Schema | None, ...]
    schema: Schema | None
    engine: str
    reason: str
    compiled: Any = None
    unreadable: str = ""


class SchemaLookup:
    """The schemas of one application's streams and tables, as far as they are known when an operator is compiled.

    ``reported`` maps streams (by id) and operators (by operator id) to schemas that the application does not declare:
    those that systems report of inputs, and Spark of operators that Catalyst runs. ``contents`` are those of topics
    through which less than whole messages go, ``used`` the columns that are read behind an operator, by its id.
    """

    def __init__(
        self, spec: ApplicationSpec, reported: Mapping[str, Schema], contents: Mapping[str, TopicContent] | None = None
    ) -> None:
        self.spec = spec
        self.reported = reported
        self.contents = contents or {}
        self.used: Mapping[str, Columns] = {}
        self.streams: dict[str, Schema] = {}
        self.tables: dict[str, Schema] = {}

    def of_stream(self, stream: StreamDescriptor) -> Schema | None:
        """Return the columns of what lies in a stream."""
        content = self.contents.get(stream.stream_id)
        if content is not None and content.combined_for is not None:
            return self.combining(content).sent
        derived = stream.schema or self.streams.get(stream.stream_id)
        if derived is not None and content is not None and content.columns is not None:
            derived = pruned(derived, lowered(content.columns))
        reported = self.reported.get(stream.stream_id)
        if derived is not None and reported is not None and derived.fields == reported.fields:
            return derived  # the same columns, and the dataclass, too
        if stream.stream_id in self.spec.intermediates:
            return reported or derived
        return derived or reported

    def sent(self, stream: StreamDescriptor, schema: Schema | None) -> Schema | Combining | None:
        """Return the schema of what is sent of messages to a topic; None when that is not known yet."""
        content = self.contents.get(stream.stream_id)
        if schema is None or content is None:
            return schema
        if content.combined_for is None:
            return pruned(schema, lowered(content.columns) if content.columns is not None else None)
        return self.combining(content, schema)

    def combining(self, content: TopicContent, messages: Schema | None = None) -> Combining:
        """Return what a combiner does for a topic that carries partial results, with the types that the plan knew."""
        aggregate = next(o for o in self.spec.operators if o.op_id == content.combined_for)
        planned = Schema.of(content.schema)
        assert isinstance(aggregate, KeyedResultSpec)
        output = results_schema(aggregate, planned)
        assert output is not None
        return Combining(aggregate, messages or planned, output, partial_schema(aggregate, planned, output))


def results_schema(operator: KeyedResultSpec, schema: Schema | None) -> Schema | None:
    """Return the columns that an aggregation or a window makes of messages."""
    check_columns(operator, operator.columns_named, schema)
    key, aggregations = operator.key, operator.aggregations
    if isinstance(operator, WindowOperatorSpec):
        folded = operator.fold_schema
        return windowed_schema(schema, operator.window, key, aggregations, folded, operator.title)
    return aggregated_schema(schema, key, (), aggregations, operator.title)


Inputs = tuple[Schema | None, ...]
"""The columns of an operator's inputs, in order; None: not known."""


@dataclass(frozen=True)
class TaskResources:
    """Resources that the operators of one task share: output writers by stream, tables by id, the task's name.

    ``unbounded`` are the ids of the operators behind unbounded inputs.
    """

    task_name: str
    writers: Mapping[str, OutputWriter]
    tables: Mapping[str, TableStore]
    partitions: Mapping[str, Sequence[int]]
    config: Mapping[str, str]
    one_by_one: frozenset[str]
    clock: Callable[[], int]
    reading: Reading = field(default_factory=Reading)
    remote: RemoteTables = field(default_factory=RemoteTables)
    unbounded: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Making:
    """All of which an operator is made. ``output`` is None where it emits nothing.

    ``beside``: whether it writes dead letters and late messages beside its results.
    """

    compiled: CompiledOperator
    spec: Any
    inputs: Sequence[Schema]
    output: Schema | None
    resources: TaskResources
    beside: bool

    @property
    def first(self) -> Schema:
        """The columns of its first input."""
        return self.inputs[0]

    @property
    def columns(self) -> Schema:
        """The columns that it emits."""
        assert self.output is not None
        return self.output


@dataclass(frozen=True)
class Flows:
    """The surroundings in which the columns of an operator have their sources.

    ``tables`` are the flows of tables by id, to which operators that write one add theirs.
    """

    compiled: Mapping[str, CompiledOperator]
    contents: Mapping[str, TopicContent]
    tables: dict[str, Flow]

    def schema(self, operator: OperatorSpec) -> Schema | None:
        """Return the columns that an operator emits."""
        return self.compiled[operator.op_id].schema


@dataclass(frozen=True)
class OperatorKind:
    """The facts of one kind of operator in a task (decision 73).

    ``schema`` derives the columns that it emits, or all of the compiled operator, from what is known, the operator and
    the columns of its inputs; what is wrong with them it raises. ``flow`` gives the sources of these columns, from the
    surroundings, the operator and the flows of its inputs. ``make`` makes what runs it. ``meaning``, of a kind that
    keeps state, yields the meaning of each state by the key under which it is kept, from the operator, the columns of
    its inputs, and of those the ones that it keeps; ``keeps_messages`` says whether it keeps any.
    """

    schema: Callable[..., CompiledOperator | Schema | None]
    flow: Callable[..., Flow]
    make: Callable[[Making], Operator[Any]]
    meaning: Callable[[Any, Inputs, Inputs], Iterator[tuple[str, StateMeaning]]] | None = None
    keeps_messages: Callable[[Any], bool] = lambda operator: False


def same_messages(schemas: SchemaLookup, operator: OperatorSpec, schema: Schema | None) -> Schema | None:
    """Return the declared columns, else those of the input."""
    return operator.schema or schema


def no_messages(schemas: SchemaLookup, operator: OperatorSpec, *inputs: Schema | None) -> None:
    """Return no columns: nothing is emitted."""


def passed_on(flows: Flows, operator: OperatorSpec, *inputs: Flow) -> Flow:
    """Return the flow of the input as it is."""
    return inputs[0] if inputs else Flow()

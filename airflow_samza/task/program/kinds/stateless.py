"""Inputs, merges, SQL, and callables per message and per batch."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from typing import Any

from airflow_samza.application.event_times import stamped_schema
from airflow_samza.application.operator_spec import ARROW, CATALYST, OperatorSpec
from airflow_samza.application.operator_specs import (
    FilterSpec,
    FlatMapSpec,
    InputOperatorSpec,
    MapAsyncSpec,
    MapBatchesSpec,
    MapSpec,
    MergeSpec,
    ReadTimeSpec,
    SelectSpec,
    SinkSpec,
    TransformSpec,
    WhereSpec,
)
from airflow_samza.application.output_schemas import merged_schema
from airflow_samza.errors import InvalidApplication, RuntimeMissing, SchemaError
from airflow_samza.quoting import one_line
from airflow_samza.schema import Schema
from airflow_samza.task.expressions.column_use import ColumnUse, column_use
from airflow_samza.task.expressions.compiler import (
    UnknownColumn,
    compile_condition,
    compile_projection,
    unknown_columns,
)
from airflow_samza.task.expressions.expression import UnsupportedExpression
from airflow_samza.task.expressions.reading import Unreadable
from airflow_samza.task.messages.expectations import check_expectations
from airflow_samza.task.messages.user_errors import located
from airflow_samza.task.operators.map_async import MapAsync
from airflow_samza.task.operators.operator import Operator
from airflow_samza.task.operators.per_message import Filter, FlatMap, Map, Sink
from airflow_samza.task.operators.read_time import ReadTime
from airflow_samza.task.operators.stateless import ExpectingInput, MapBatches, Pass, Select, Where
from airflow_samza.task.program.column_sources import (
    CONDITIONAL,
    FILTER,
    IDENTITY,
    NOTHING,
    TRANSFORMATION,
    Flow,
    Sources,
    called,
    of_stream,
    then,
)
from airflow_samza.task.program.kinds.operator_kind import (
    CompiledOperator,
    Flows,
    Making,
    OperatorKind,
    SchemaLookup,
    no_messages,
    passed_on,
    same_messages,
)
from airflow_samza.task.program.kinds.sending import expectations_of
from airflow_samza.task.program.pruning.columns import pruned
from airflow_samza.task.program.schema_checks import unknown_column

# -- columns -----------------------------------------------------------------------------------------------------------


def _input_schema(schemas: SchemaLookup, operator: InputOperatorSpec) -> Schema | None:
    schema = schemas.of_stream(operator.stream)
    if schema is None:
        return None
    schemas.streams.setdefault(operator.stream.stream_id, schema)
    check_expectations(operator.location, operator.stream.expect, schema, f"input stream {operator.stream.stream_id!r}")
    return pruned(schema, schemas.used.get(operator.op_id))


def _stamped_schema(schemas: SchemaLookup, operator: ReadTimeSpec, read: Schema | None) -> Schema | None:
    """Return the columns that are read, in the declared order, and the one that is filled."""
    if read is None:
        return operator.schema
    if operator.schema is None:
        return stamped_schema(Schema(read.fields), operator.column, operator.title)
    fields = tuple(field for field in operator.schema.fields if field.name in read or field.name == operator.column)
    return operator.schema if fields == operator.schema.fields else Schema(fields)


def _merged_schema(schemas: SchemaLookup, operator: MergeSpec, *inputs: Schema | None) -> Schema | None:
    used = schemas.used.get(operator.op_id)
    return merged_schema([pruned(schema, used) if schema is not None else None for schema in inputs], operator.title)


def _transformed_schema(schemas: SchemaLookup, operator: TransformSpec, schema: Schema | None) -> Schema | None:
    return schemas.reported.get(operator.op_id) or operator.schema


def _compiled_sql(schemas: SchemaLookup, operator: WhereSpec | SelectSpec, schema: Schema | None) -> CompiledOperator:
    texts = operator.sql
    reported = schemas.reported.get(operator.op_id)
    if schema is None:
        return CompiledOperator(operator, (None,), reported, ARROW, "the columns are known when the stage runs")
    try:
        if isinstance(operator, WhereSpec):
            conjuncts = compile_condition(operator.condition, schema)
            return CompiledOperator(operator, (schema,), schema, *operator.engine, conjuncts)
        projection = compile_projection(operator.expressions, schema)
        return CompiledOperator(operator, (schema,), projection.schema, *operator.engine, projection)
    except UnknownColumn as unknown:
        raise unknown_column(operator, unknown.name, one_line(", ".join(texts)), schema) from None
    except UnsupportedExpression as unsupported:
        missing = unknown_columns(texts, schema)
        if missing:
            raise unknown_column(operator, missing[0], one_line(", ".join(texts)), schema) from None
        if operator.on_error is not None:
            raise InvalidApplication(
                f"{operator.title}{located(operator.location)} has on_error={operator.on_error.text}, and Catalyst "
                f"runs it ({unsupported}): a row that fails there fails the stage.",
                hint="Leave on_error= out, and filter such rows out before: try_cast, try_divide, CASE WHEN … THEN "
                "… END.",
                operator=operator.op_id,
            ) from None
        # decision 29: what is not proven equal on Arrow runs in Catalyst
        output = schema if isinstance(operator, WhereSpec) else reported or operator.schema
        place = unsupported.place if isinstance(unsupported, Unreadable) else ""
        return CompiledOperator(operator, (schema,), output, CATALYST, str(unsupported), unreadable=place)
    except SchemaError as error:
        raise InvalidApplication(
            f"{operator.title}{located(operator.location)}: {error.sentence}", hint=error.hint, operator=operator.op_id
        ) from None


# -- their sources -----------------------------------------------------------------------------------------------------


def _input_flow(flows: Flows, operator: InputOperatorSpec) -> Flow:
    return of_stream(operator.stream.stream_id, flows.schema(operator))


def _stamped(flows: Flows, operator: ReadTimeSpec, flow: Flow) -> Flow:
    return Flow({**flow.columns, operator.column.lower(): NOTHING}, flow.rows, flow.rest)


def _filtered(flows: Flows, operator: FilterSpec, flow: Flow) -> Flow:
    return flow.chosen(then(flow.whole, FILTER, True))


def _mapped(flows: Flows, operator: OperatorSpec, flow: Flow) -> Flow:
    return called(flow, flows.schema(operator))


def _one_for_one(flows: Flows, operator: OperatorSpec, flow: Flow) -> Flow:
    results = called(flow, flows.schema(operator))
    return Flow(results.columns, flow.rows, results.rest)


def _merged(flows: Flows, operator: MergeSpec, *inputs: Flow) -> Flow:
    return reduce(Flow.with_, inputs, Flow())


def _where(flows: Flows, operator: WhereSpec, flow: Flow) -> Flow:
    use = column_use(operator.condition)
    return flow.chosen(then(flow.whole, FILTER, True) if use is None else then(_named(use, flow), FILTER))


def _selected(flows: Flows, operator: SelectSpec, flow: Flow) -> Flow:
    compiled = flows.compiled[operator.op_id]
    columns: dict[str, Sources] = {}
    named: dict[str, Sources] = {}  # names that a later expression of the same select may use
    rest, used = NOTHING, NOTHING
    for text in operator.expressions:
        if text.strip() == "*":
            columns.update(flow.columns)
            rest |= flow.rest
            continue
        use = column_use(text)
        sources = _evaluated(use, flow, named)
        used |= then(flow.whole, FILTER, True) if use is None else then(_named(use, flow, named), FILTER)
        if use is not None and use.name:
            columns[use.name.lower()] = named[use.name.lower()] = sources
        else:
            rest |= sources
    if compiled.schema is not None and rest:  # columns whose names only Spark makes
        columns = {name.lower(): columns.get(name.lower(), rest) for name in compiled.schema.names}
    rows = flow.rows | used if compiled.engine == CATALYST else flow.rows  # explode and its like
    return Flow(columns, rows, rest)


def _named(use: ColumnUse, flow: Flow, named: Mapping[str, Sources] | None = None) -> Sources:
    """Return the sources of all columns that an expression names."""
    return NOTHING.union(*(_column(name, flow, named or {}) for name in (*use.values, *use.conditions)))


def _evaluated(use: ColumnUse | None, flow: Flow, named: Mapping[str, Sources]) -> Sources:
    """Return the sources of an expression's value."""
    if use is None:
        return then(flow.whole, TRANSFORMATION, True)
    how = IDENTITY if use.is_column else TRANSFORMATION
    values = NOTHING.union(*(_column(name, flow, named) for name in use.values))
    conditions = NOTHING.union(*(_column(name, flow, named) for name in use.conditions))
    return then(values, how) | then(conditions, CONDITIONAL)


def _column(name: str, flow: Flow, named: Mapping[str, Sources]) -> Sources:
    return flow.columns[name] if name in flow.columns else named.get(name, flow.rest)


# -- making ------------------------------------------------------------------------------------------------------------


def _input(making: Making) -> Pass:
    spec = making.spec
    assert isinstance(spec, InputOperatorSpec)
    if not spec.stream.expect:
        return Pass(spec, making.columns)
    return ExpectingInput(spec, making.columns, expectations_of(making, spec.stream, making.columns))


def _read_time(making: Making) -> ReadTime:
    source = making.spec.inputs[0]
    assert isinstance(source, InputOperatorSpec)
    clock = making.resources.clock
    return ReadTime(making.spec, making.first, making.columns, clock, bounded=source.stream.bounded)


def _only_on_spark(making: Making) -> Operator[Any]:
    raise RuntimeMissing(
        f"{making.spec.title} is run by Spark, and there is no Spark here.",
        hint="Run the stage on Spark.",
        operator=making.spec.op_id,
    )


STATELESS: Mapping[type[OperatorSpec], OperatorKind] = {
    InputOperatorSpec: OperatorKind(_input_schema, _input_flow, _input),
    ReadTimeSpec: OperatorKind(_stamped_schema, _stamped, _read_time),
    MergeSpec: OperatorKind(_merged_schema, _merged, lambda making: Pass(making.spec, making.columns)),
    FilterSpec: OperatorKind(same_messages, _filtered, lambda making: Filter(making.spec, making.first)),
    WhereSpec: OperatorKind(
        _compiled_sql, _where, lambda making: Where(making.spec, making.first, making.compiled.compiled)
    ),
    SelectSpec: OperatorKind(
        _compiled_sql, _selected, lambda making: Select(making.spec, making.first, making.compiled.compiled)
    ),
    MapSpec: OperatorKind(same_messages, _one_for_one, lambda making: Map(making.spec, making.first, making.columns)),
    FlatMapSpec: OperatorKind(
        same_messages, _mapped, lambda making: FlatMap(making.spec, making.first, making.columns)
    ),
    MapAsyncSpec: OperatorKind(
        same_messages,
        _one_for_one,
        lambda making: MapAsync(making.spec, making.first, making.columns, making.resources.task_name),
    ),
    MapBatchesSpec: OperatorKind(
        same_messages, _mapped, lambda making: MapBatches(making.spec, making.first, making.columns)
    ),
    TransformSpec: OperatorKind(_transformed_schema, _mapped, _only_on_spark),
    SinkSpec: OperatorKind(no_messages, passed_on, lambda making: Sink(making.spec, making.first)),
}
"""The kinds of operators that keep nothing but the time that they have reached."""

"""The parts of a stage that Catalyst runs: built, analysed before the job runs, and kept narrow.

``mapInArrow → DataFrame operators → mapInArrow``, all in one job without a shuffle: partition k stays task k from end to end.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from airflow_samza.application.operator_specs import OperatorSpec, SelectSpec, TransformSpec, WhereSpec
from airflow_samza.errors import InvalidApplication, MessageError, SamzaError, UnsupportedShape
from airflow_samza.schema import Schema
from airflow_samza.spark.epoch_task import RESULT_SCHEMA, EpochTask
from airflow_samza.task.schemas import CATALYST
from airflow_samza.task.stage_program import ProgramSource, StageProgram

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession


def analyse_sections(spark: SparkSession, source: ProgramSource) -> tuple[ProgramSource, StageProgram]:
    """The program with the columns that Catalyst gives; refuses what is not narrow, and what Spark cannot analyse."""
    while True:
        program = source.load()
        waiting = [op for op, compiled in program.operators.items() if compiled.engine == CATALYST and op not in source.schemas]
        if not waiting:
            return source, program
        operator = program.operators[waiting[0]]
        entry = operator.inputs[0]
        assert entry is not None
        given = spark.range(0, 2, 1, 2).mapInArrow(_nothing, entry.ddl())
        result = _applied(given, operator.spec)
        _refuse_wide(result, operator.spec, 2)
        columns = Schema.of(_arrow_schema(result))
        source = dataclasses.replace(source, schemas={**source.schemas, waiting[0]: columns.ddl()})


def stage_frame(spark: SparkSession, program: StageProgram, task: EpochTask, tasks: int) -> DataFrame:
    """The whole stage as one narrow DataFrame; collecting it runs every task."""
    frame = spark.range(0, tasks, 1, tasks)
    for number, section in enumerate(program.sections):
        if section.kind == CATALYST:
            for op_id in section.operators:
                frame = _applied(frame, program.operators[op_id].spec)
        else:
            schema = RESULT_SCHEMA if section.boundary is None else program.section_schema(number).ddl()
            frame = frame.mapInArrow(dataclasses.replace(task, section=number), schema)
    if len(program.sections) > 1:
        last = next(op for section in reversed(program.sections) if section.kind == CATALYST for op in reversed(section.operators))
        _refuse_wide(frame, program.operators[last].spec, tasks)
    return frame


def _applied(frame: DataFrame, operator: OperatorSpec) -> DataFrame:
    from pyspark.errors import PySparkException
    from pyspark.sql import DataFrame

    try:
        if isinstance(operator, WhereSpec):
            return frame.where(operator.condition)
        if isinstance(operator, SelectSpec):
            return frame.selectExpr(*operator.expressions)
        assert isinstance(operator, TransformSpec)
        result: Any = operator.function(frame)
    except SamzaError:
        raise
    except PySparkException as error:
        hint = f"The columns are {', '.join(frame.columns)}. Correct the {'function' if isinstance(operator, TransformSpec) else 'SQL'}."
        raise _refused(operator, f"cannot be analysed by Spark: {_short(str(error)).rstrip('.;')}", hint) from error
    except Exception as error:
        raise MessageError(
            f"The function of {_named(operator)} failed with {type(error).__name__}: {error}",
            hint="It gets a DataFrame and must return one.",
            operator=operator.op_id,
            file=operator.location.file if operator.location else None,
            line=operator.location.line if operator.location else None,
        ) from error
    if not isinstance(result, DataFrame):
        raise _refused(
            operator, f"returned {type(result).__name__}, not a DataFrame", "Return the DataFrame that you made of the one given."
        )
    return result


def _refuse_wide(frame: DataFrame, operator: OperatorSpec, tasks: int) -> None:
    """Refuses a plan that moves rows between partitions, reads its source twice or not at all, or changes the partition count."""
    plan = frame._jdf.queryExecution().executedPlan()
    sources = 0
    for node in _nodes(plan):
        if node.nodeName() == "MapInArrow" and not any(inner.nodeName() == "MapInArrow" for inner in _below(node)):
            sources += 1
        if "Exchange" in node.nodeName() and any(inner.nodeName() == "MapInArrow" for inner in _below(node)):
            text = node.simpleString(25)
            keys = _keys(text)
            raise UnsupportedShape(
                f"{_named(operator)} moves rows between partitions ({_short(_NUMBERS.sub('', text))}), and inside a stage nothing may.",
                hint=_way_out(keys),
                operator=operator.op_id,
                exchange=text,
            )
    if sources != 1:
        raise _refused(
            operator,
            f"reads its DataFrame {sources} times, and must read it exactly once",
            "Do without union with itself, and without cache.",
        )
    partitions = frame._jdf.queryExecution().toRdd().getNumPartitions()
    if partitions != tasks:
        raise _refused(
            operator,
            f"makes {partitions} partitions of {tasks}",
            "Do without coalesce, repartition and union: the stage's partitions are its tasks.",
        )


_NUMBERS = re.compile(r"#\d+L?|, ENSURE_REQUIREMENTS|, \[plan_id=\d+\]")
"""What Spark adds to a plan's nodes for itself."""


def _way_out(keys: list[str]) -> str:
    if not keys:
        return "Put a .partition_by(…, id=…) before it, or do it in an application of its own."
    columns = ", ".join(repr(key) for key in keys)
    return (
        f"Put .partition_by({columns}, id=…) before it, which replaces the exchange; then do what needs all rows of a key "
        "with .aggregate(…), or with a transform that stays within its partition."
    )


def _nodes(plan: Any) -> Iterator[Any]:
    """A physical plan's nodes, the root first."""
    yield plan
    yield from _below(plan)


def _below(plan: Any) -> Iterator[Any]:
    children = plan.children()
    for index in range(children.size()):
        yield from _nodes(children.apply(index))


def _keys(exchange: str) -> list[str]:
    """The columns of ``hashpartitioning(country#5, 200)``."""
    match = re.search(r"(?:hash|range)partitioning\((.*?), \d+\)", exchange)
    return re.findall(r"([A-Za-z_]\w*)#\d+", match[1]) if match else []


def _arrow_schema(frame: DataFrame) -> pa.Schema:
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(frame.schema, timezone="UTC")


def _nothing(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Stands for the section before while a plan is only analysed."""
    for _ in batches:
        pass
    return iter(())


def _refused(operator: OperatorSpec, what: str, hint: str) -> InvalidApplication:
    return InvalidApplication(f"{_named(operator)} {what}.", hint=hint, operator=operator.op_id)


def _named(operator: OperatorSpec) -> str:
    at = f" ({operator.location})" if operator.location is not None else ""
    return f"{operator.title}{at}"


def _short(text: str) -> str:
    line = text.strip().splitlines()[0] if text.strip() else ""
    return line if len(line) <= 300 else line[:300] + "…"

"""The parts of a stage that Catalyst runs: built, analysed before the job runs, and kept narrow (decision 29).

``mapInArrow → DataFrame operators → mapInArrow``, all in one job without a shuffle: partition k stays task k from end
to end.
"""

from __future__ import annotations

import dataclasses
import re
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_samza.application.operator_spec import CATALYST, OperatorSpec
from airflow_samza.application.operator_specs import SelectSpec, TransformSpec, WhereSpec
from airflow_samza.application.rejections import USER_ERRORS, let_interrupts_through
from airflow_samza.application.stream import placed
from airflow_samza.errors import InvalidApplication, MessageError, SamzaError, UnsupportedShape
from airflow_samza.schema import Schema
from airflow_samza.spark.arrow_types import arrow_schema
from airflow_samza.spark.epoch_task import RESULT_SCHEMA, EpochTask
from airflow_samza.spark.physical_plan import PlanNode, exchange_keys, explained, parse_plan
from airflow_samza.spark.sessions.driver_session import is_spark_lost
from airflow_samza.task.loop.set_aside import ORDER
from airflow_samza.task.program.stage_program import ProgramSource, StageProgram

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession


def analyse_sections(spark: SparkSession, source: ProgramSource) -> tuple[ProgramSource, StageProgram]:
    """Return the program with the columns that Catalyst gives; reject what is not narrow or cannot be analysed."""
    while True:
        program = source.load()
        waiting = [
            op for op, compiled in program.operators.items() if compiled.engine == CATALYST and op not in source.schemas
        ]
        if not waiting:
            return source, program
        operator = program.operators[waiting[0]]
        entry = operator.inputs[0]
        assert entry is not None
        frame = spark.range(0, 2, 1, 2).mapInArrow(_Nothing(uuid.uuid4().hex), entry.ddl())
        result = _applied(frame, operator.spec)
        with _rejections(operator.spec, frame):  # a session of Spark Connect analyses only now
            columns = Schema.of(arrow_schema(result.schema))
        reject_wide(result, operator.spec)
        source = dataclasses.replace(source, schemas={**source.schemas, waiting[0]: columns.ddl()})


def stage_frame(source: DataFrame, program: StageProgram, task: EpochTask) -> DataFrame:
    """Return the whole stage as one narrow DataFrame; collecting it runs a task for each partition of ``source``."""
    frame = source
    for number, section in enumerate(program.sections):
        if section.kind == CATALYST:
            for op_id in section.operators:
                frame = _applied(frame, program.operators[op_id].spec)
        else:
            schema = RESULT_SCHEMA if section.boundary is None else program.section_schema(number).ddl()
            if program.keeps_order and section.boundary is not None:
                schema = f"{schema}, {ORDER} bigint"
            frame = frame.mapInArrow(dataclasses.replace(task, section=number), schema)
    if len(program.sections) > 1:
        last = next(
            op
            for section in reversed(program.sections)
            if section.kind == CATALYST
            for op in reversed(section.operators)
        )
        reject_wide(frame, program.operators[last].spec)
    return frame


def _applied(frame: DataFrame, operator: OperatorSpec) -> DataFrame:
    from pyspark.sql import DataFrame

    with _rejections(operator, frame):
        if isinstance(operator, WhereSpec):
            return frame.where(operator.condition)
        if isinstance(operator, SelectSpec):
            return _selected(frame, operator.expressions)
        assert isinstance(operator, TransformSpec)
        result: Any = operator.function(frame.drop(ORDER) if ORDER in frame.columns else frame)
        if isinstance(result, DataFrame):
            return result
    raise _rejected(
        operator,
        f"returned {type(result).__name__}, not a DataFrame",
        "Return the DataFrame that you made of the one given.",
    )


def _selected(frame: DataFrame, expressions: Sequence[str]) -> DataFrame:
    """Select expressions, and with them the order of the rows where the frame has it."""
    if ORDER not in frame.columns:
        return frame.selectExpr(*expressions)
    result = frame.selectExpr(*expressions, ORDER)
    places = [place for place, name in enumerate(result.columns) if name == ORDER]
    if len(places) == 1:
        return result
    # a star has brought it, too; users' columns may share a name, so they are dropped by their place
    numbered = result.toDF(
        *[f"{name}" if name != ORDER else f"{ORDER}{place}" for place, name in enumerate(result.columns)]
    )
    return numbered.drop(*[f"{ORDER}{place}" for place in places[:-1]]).withColumnRenamed(f"{ORDER}{places[-1]}", ORDER)


@contextmanager
def _rejections(operator: OperatorSpec, frame: DataFrame) -> Iterator[None]:
    """Report what Spark, or a transform's function, rejects in our words, with the operator's place.

    ``frame`` is what the operator was given.
    """
    from pyspark.errors import PySparkException

    try:
        yield
    except SamzaError:
        raise
    except PySparkException as error:
        if is_spark_lost(error):
            raise
        hint = (
            f"The columns are {', '.join(name for name in frame.columns if name != ORDER)}. Correct the "
            f"{'function' if isinstance(operator, TransformSpec) else 'SQL'}."
        )
        raise _rejected(operator, f"cannot be analysed by Spark: {_short(str(error)).rstrip('.;')}", hint) from error
    except USER_ERRORS as error:
        let_interrupts_through(error)
        raise MessageError(
            f"The function of {placed(operator)} failed with {type(error).__name__}: {error}",
            hint="It gets a DataFrame and must return one.",
            operator=operator.op_id,
            file=operator.location.file if operator.location else None,
            line=operator.location.line if operator.location else None,
        ) from error


def reject_wide(frame: DataFrame, operator: OperatorSpec) -> None:
    """Reject a plan that moves rows between partitions, changes these, or does not read its source just once.

    Read from the explanation, which a session of Spark Connect gives, too. Only operators that are known to keep every
    partition as it is may lie between the source and the end; beside that path (what a broadcast join reads) any may.
    """
    plan = parse_plan(explained(frame))
    path = next(_paths(plan.root), [])
    for node in path:
        if "Exchange" in node.name:
            text = str(node)
            raise UnsupportedShape(
                f"{placed(operator)} moves rows between partitions ({_short(_NUMBERS.sub('', text))}), which is not "
                "allowed inside of a stage.",
                hint=_way_out(exchange_keys(text)),
                operator=operator.op_id,
                exchange=text,
            )
        if node.is_a("InMemoryTableScan"):
            raise _rejected(
                operator,
                "reads its DataFrame from a cache",
                "Do without cache and persist: a stage reads its input once.",
            )
    sources = sum(1 for root in (plan.root, *plan.subqueries) for _ in _paths(root))
    if sources != 1:
        raise _rejected(
            operator,
            f"reads its DataFrame {_TIMES.get(sources, f'{sources} times')}, and must read it exactly once",
            "Do without union, join or subquery of the DataFrame with itself.",
        )
    for node in path:
        if not _keeps_partitions(node):
            raise _rejected(
                operator,
                f"does not keep the partitions as they are ({node.name})",
                "Do without limit, coalesce, repartition and union: the stage's partitions are its tasks.",
            )


_TIMES = {0: "not at all", 2: "twice"}

# Operators whose partition k is made of partition k of what they read, and of nothing else. An operator that is not
# known to be one of them is rejected: were it wrong, a task's messages would be lost or doubled.
_KEEP_PARTITIONS = frozenset(
    (
        "KEEP_PARTITIONS",
        "AppendColumns",
        "AppendColumnsWithObject",
        "ArrowEvalPython",
        "ArrowEvalPythonUDTF",
        "BatchEvalPython",
        "BatchEvalPythonUDTF",
        "BroadcastHashJoin",
        "CollectMetrics",
        "ColumnarToRow",
        "DeserializeToObject",
        "EventTimeWatermark",
        "Expand",
        "Filter",
        "Generate",
        "LocalLimit",
        "MapElements",
        "MapInArrow",
        "MapInPandas",
        "MapPartitions",
        "Project",
        "Range",
        "RowToColumnar",
        "Sample",
        "SerializeFromObject",
        "Sort",
    )
)

# A nested loop join whose broadcast side keeps its unmatched rows adds partitions for them.
_NESTED_LOOPS = re.compile(
    r"BroadcastNestedLoopJoin (?:(?:Inner|Cross) "
    r"Build(?:Left|Right)|(?:LeftOuter|LeftSemi|LeftAnti|ExistenceJoin\(.*\)) BuildRight"
    r"|RightOuter BuildLeft)"
)


def _keeps_partitions(node: PlanNode) -> bool:
    return node.name.split(" ")[0] in _KEEP_PARTITIONS or _NESTED_LOOPS.fullmatch(node.name) is not None


def _paths(node: PlanNode) -> Iterator[list[PlanNode]]:
    """Return the ways from a node down to each source: a ``mapInArrow`` with none below, the stage's first section."""
    below = [path for child in node.children for path in _paths(child)]
    if below:
        yield from ([node, *path] for path in below)
    elif node.is_a("MapInArrow"):
        yield [node]


_NUMBERS = re.compile(r"#\d+L?|, ENSURE_REQUIREMENTS|, \[plan_id=\d+\]")
"""Numbers and marks that Spark adds to a plan's nodes for itself."""


def _way_out(keys: list[str]) -> str:
    if not keys:
        return "Put a .partition_by(…, id=…) before it, or do it in an application of its own."
    columns = ", ".join(repr(key) for key in keys)
    return (
        f"Put .partition_by({columns}, id=…) before it, which replaces the exchange; then do what needs all rows of a "
        "key with .aggregate(…), or with a transform that stays within its partition."
    )


@dataclass(frozen=True)
class _Nothing:
    """Stands for the section before while a plan is only analysed.

    ``number`` makes each different from all others: if a transform caches its DataFrame, Spark replaces every equal
    plan by what was cached, for all sessions of a server.
    """

    number: str

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            pass
        return iter(())


def _rejected(operator: OperatorSpec, what: str, hint: str) -> InvalidApplication:
    return InvalidApplication(f"{placed(operator)} {what}.", hint=hint, operator=operator.op_id)


def _short(text: str) -> str:
    line = text.strip().splitlines()[0] if text.strip() else ""
    return line if len(line) <= 300 else line[:300] + "…"

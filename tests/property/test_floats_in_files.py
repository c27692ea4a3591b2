"""Conditions on floats keep every row of files that they are true of, whatever statistics say of NaN and -0.0."""

from __future__ import annotations

import functools
import itertools
import json
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

from airflow_samza import stream_application
from airflow_samza.planner.planner import ExecutionPlanner
from airflow_samza.schema import Schema
from airflow_samza.systems.files.system import FilesSystem
from airflow_samza.systems.system import (
    ColumnBound,
    MessageRun,
    Publication,
    StreamSpec,
    SystemBinding,
    SystemStreamPartition,
)
from airflow_samza.task.expressions.compiler import compile_condition
from airflow_samza.task.expressions.expression import Frame, UnsupportedExpression, is_true
from airflow_samza.task.program.stage_program import compile_stage

DDL = "id bigint, x double, f float, s struct<x:double>, l array<double>"
FLAT = "id bigint, x double, f float"
NAN = math.nan
GROUPS: list[list[float | None]] = [
    [NAN, NAN, NAN],
    [1.0, NAN, 2.0],
    [1.0, 2.0, 3.0],
    [-0.0, -0.0, None],
    [0.0, None, NAN],
    [None, None, None],
    [NAN, None, None],
    [-1.0, -0.0, 0.0],
    [math.inf, NAN, -math.inf],
    [7.0, 7.0, 7.0],
]
"""The floats of row groups of three rows: with NaN only, some, none; with zeros of both signs; with nulls."""

Truth = bool | None
_NOT_A_NUMBER = "CAST('NaN' AS double)"
CONDITIONS: dict[str, Callable[[float | None], Truth]] = {}
"""Conditions on {c}, and when they are true: NaN is equal to itself and greater than all numbers, -0.0 equals 0.0."""


def _order(value: float) -> tuple[bool, float]:
    return (True, 0.0) if math.isnan(value) else (False, value)


def _known(test: Callable[[Any], bool]) -> Callable[[float | None], Truth]:
    return lambda value: None if value is None else test(_order(value))


def _comparisons(text: str, number: float) -> dict[str, Callable[[float | None], Truth]]:
    """Conditions that compare with a number, written as ``text``."""
    other, three = _order(number), (False, 3.0)
    return {
        f"{{c}} = {text}": _known(lambda value: value == other),
        f"{{c}} <> {text}": _known(lambda value: value != other),
        f"{{c}} > {text}": _known(lambda value: value > other),
        f"{{c}} < {text}": _known(lambda value: value < other),
        f"{text} <= {{c}}": _known(lambda value: value >= other),
        f"NOT ({{c}} <= {text})": _known(lambda value: value > other),
        f"{{c}} IN ({text}, 3.0D)": _known(lambda value: value in (other, three)),
        f"{{c}} NOT IN ({text}, 3.0D)": _known(lambda value: value not in (other, three)),
        f"{{c}} BETWEEN 0.5D AND {text}": _known(lambda value: (False, 0.5) <= value <= other),
        f"NOT {{c}} BETWEEN {text} AND 4.0D": _known(lambda value: not other <= value <= (False, 4.0)),
    }


for _text, _number in (("5", 5.0), ("1.5", 1.5), ("0", 0.0), ("-0.0D", -0.0), ("1.0D", 1.0), (_NOT_A_NUMBER, NAN)):
    CONDITIONS |= _comparisons(_text, _number)
CONDITIONS |= {
    "isnan({c})": lambda value: value is not None and math.isnan(value),
    "NOT isnan({c})": lambda value: value is None or not math.isnan(value),
    "{c} IS NULL": lambda value: value is None,
    "{c} IS NOT NULL": lambda value: value is not None,
    f"{{c}} <=> {_NOT_A_NUMBER}": lambda value: value is not None and math.isnan(value),
    "{c} IS NOT NULL AND {c} > 5": _known(lambda value: value > (False, 5.0)),
}


def table() -> pa.Table:
    """The groups, a row a float: in a plain column, a narrow one, a field and an element."""
    floats = [value for group in GROUPS for value in group]
    rows = [
        {"id": number, "x": value, "f": value, "s": {"x": value}, "l": [value]} for number, value in enumerate(floats)
    ]
    return pa.Table.from_pylist(rows, Schema.of(DDL).to_arrow())


def write(folder: Path, format_name: str, writer: str) -> StreamSpec:
    """Files of the table, by Arrow or as an output of ours; of each group a row group, and a file of all."""
    stream = StreamSpec("in", schema=FLAT if format_name == "csv" else DDL, format=format_name)
    rows = table().select(Schema.of(stream.schema).names)
    if writer == "ours":
        system = FilesSystem("lake", SystemBinding("files", {"root": str(folder)}))
        parts = [rows.slice(start, 3) for start in range(0, rows.num_rows, 3)] if format_name == "parquet" else [rows]
        for number, part in enumerate(parts):
            producer = system.producer(stream, f"a{number}")
            producer.write(0, part.combine_chunks().to_batches()[0])
            system.publish(stream, Publication(f"app/run/stage{number}", "1.1", 0, {0: producer.finish()}))
        return stream
    (folder / "in").mkdir(parents=True)
    if format_name == "orc":
        orc.write_table(rows, folder / "in" / "a.orc")
    else:
        pq.write_table(rows, folder / "in" / "a.parquet", row_group_size=3, write_page_index=True)
        pq.write_table(rows.slice(0, 0), folder / "in" / "b.parquet")
    return stream


def read(folder: Path, stream: StreamSpec, bounds: Sequence[ColumnBound]) -> Iterator[pa.RecordBatch]:
    """The batches that a task reads of the folder under these bounds."""
    system = FilesSystem("lake", SystemBinding("files", {"root": str(folder)}))
    consumer = system.consumer(stream, json.loads(json.dumps(system.slice(stream))))
    for envelope in consumer.read(SystemStreamPartition("lake", "in", 0), None, None, bounds):
        if isinstance(envelope, MessageRun):
            yield envelope.batch


def bounds_of(condition: str, ddl: str) -> tuple[ColumnBound, ...]:
    """The bounds that a stage gives to the reader of an input that goes through the condition first."""
    app = stream_application("floats")(
        lambda app: app.input_stream("in", schema=ddl).where(condition).send_to(app.output_stream("out"))
    ).spec()
    plan = ExecutionPlanner({}, {"in": 1}).plan(app)
    return compile_stage(app, plan, plan.stages[0].stage_id).bounds.get("in", ())


def kept(condition: str, stream: StreamSpec, batches: Iterable[pa.RecordBatch]) -> list[int] | None:
    """The numbers of the rows that a condition keeps on Arrow; None where Arrow does not evaluate it."""
    try:
        conjuncts = compile_condition(condition, Schema.of(stream.schema))
    except UnsupportedExpression:
        return None
    found: list[int] = []
    for batch in batches:
        for conjunct in conjuncts:
            batch = batch.filter(is_true(conjunct.array(Frame(batch.columns, batch.num_rows))))
        found += batch.column("id").to_pylist()
    return sorted(found)


COLUMNS = ["x", "f", "s.x", "l[0]"]


def wanted(condition: str) -> list[int]:
    """The numbers of the rows of which a condition is true, in plain Python."""
    floats = itertools.chain.from_iterable(GROUPS)
    return [number for number, value in enumerate(floats) if CONDITIONS[condition](value)]


@pytest.mark.parametrize(
    ("format_name", "writer"),
    [
        ("parquet", "arrow"),
        ("parquet", "ours"),
        ("orc", "arrow"),
        *((name, "ours") for name in ("orc", "json", "csv", "avro")),
    ],
)
@pytest.mark.few(2)
def test_a_condition_on_floats_keeps_the_rows_it_is_true_of(tmp_path: Path, format_name: str, writer: str) -> None:
    stream = write(tmp_path, format_name, writer)
    evaluated = 0
    batches = functools.cache(lambda bounds: list(read(tmp_path, stream, bounds)))
    for condition, column in itertools.product(CONDITIONS, ["x", "f"] if format_name == "csv" else COLUMNS):
        text = condition.format(c=column)
        bounds = bounds_of(text, str(stream.schema))
        right = wanted(condition)
        numbers = {number for batch in batches(bounds) for number in batch.column("id").to_pylist()}
        assert numbers >= set(right), f"{text} leaves out rows {sorted(set(right) - numbers)} by {bounds}"
        found = kept(text, stream, batches(bounds))
        evaluated += found is not None
        assert found in (None, right), f"{text} keeps {found}, not {right}"
    assert evaluated > 50


def test_null_tests_of_floats_and_bounds_of_other_columns_skip_row_groups_still(tmp_path: Path) -> None:
    stream = write(tmp_path, "parquet", "arrow")
    left = {
        text: sum(batch.num_rows for batch in read(tmp_path, stream, bounds_of(text, DDL)))
        for text in ("x IS NOT NULL", "x IS NULL", "x > 5 AND id >= 27", "x > 5")
    }
    assert left == {"x IS NOT NULL": 27, "x IS NULL": 12, "x > 5 AND id >= 27": 3, "x > 5": 30}


def test_a_condition_on_floats_in_the_names_of_folders_keeps_the_rows_it_is_true_of(tmp_path: Path) -> None:
    texts = ["NaN", "-0.0", "0.0", "1.0", "7", "Infinity", "__HIVE_DEFAULT_PARTITION__"]
    floats = [NAN, -0.0, 0.0, 1.0, 7.0, math.inf, None]
    for number, text in enumerate(texts):
        folder = tmp_path / "in" / f"x={text}"
        folder.mkdir(parents=True)
        # In the file the column has other values, whose statistics say nothing of the folder's.
        pq.write_table(pa.table({"id": [number], "x": [2.5]}), folder / "a.parquet")
    stream = StreamSpec("in", schema="id bigint, x double", format="parquet")
    for condition, test in CONDITIONS.items():
        text = condition.format(c="x")
        found = kept(text, stream, read(tmp_path, stream, bounds_of(text, str(stream.schema))))
        right = [number for number, value in enumerate(floats) if test(value)]
        assert found in (None, right), f"{text} keeps {found}, not {right}"


@pytest.mark.spark
@pytest.mark.nightly
def test_spark_keeps_the_same_rows_of_what_we_write_and_we_of_what_spark_writes(tmp_path: Path, spark: Any) -> None:
    write(tmp_path, "parquet", "ours")
    frame = spark.read.schema(DDL).parquet(str(tmp_path / "in"))
    frame.coalesce(2).write.parquet(str(tmp_path / "spark" / "in"))
    stream = StreamSpec("in", schema=DDL, format="parquet")
    wrong = []
    for condition, column in zip(CONDITIONS, itertools.cycle(("x", "s.x"))):
        text, right = condition.format(c=column), wanted(condition)
        found = kept(text, stream, read(tmp_path / "spark", stream, bounds_of(text, DDL)))
        wrong += [f"{text} keeps {found}, not {right}"] * (found not in (None, right))
        # Spark looks for 0.0 in dictionaries, where -0.0 is less, also in files that it has written itself.
        if not any(test in condition for test in ("= 0", "= -0.0D", "IN (0", "IN (-0.0D", "0 <=", "-0.0D <=")):
            theirs = sorted(row.id for row in frame.where(text).collect())
            wrong += [f"Spark: {text} keeps {theirs}, not {right}"] * (theirs != right)
    assert not wrong, "\n".join(wrong)

"""Speed of the engines that evaluate SQL expressions on Arrow.

Typical filters and projections over batches of 65,536 rows, one core.

``python -m benchmarks.expressions [--rounds 7] [--write-docs]``. Ours is the compiler of
``airflow_samza.task.expressions``, which calls ``pyarrow.compute``; beside it Acero's expressions and DuckDB, and
DataFusion where it is installed (it is no dependency). Every engine gets one batch at a time, as a task does; DuckDB
also gets them all as one stream. CPU seconds are counted, in turn.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.acero as acero
import pyarrow.compute as pc

from airflow_samza.schema import Schema
from airflow_samza.task.expressions.compiler import compile_condition, compile_projection
from airflow_samza.task.expressions.expression import Frame, is_true
from benchmarks.report import between_markers

ROWS = 65_536
BATCHES = 8
PAGE = Path(__file__).parents[1] / "docs" / "concepts/expressions.md"
SCHEMA = Schema.of("member_id bigint, country string, dwell_ms bigint, price double, seen timestamp, page string")


@dataclass(frozen=True)
class Case:
    """One filter or projection: our SQL, the SQL of DuckDB and DataFusion where it differs, and Acero's expression."""

    name: str
    sql: str
    acero: Callable[[], pc.Expression] | None
    other_sql: str = ""
    filters: bool = False


def _case() -> pc.Expression:
    slow = pc.make_struct(pc.greater(pc.field("dwell_ms"), 5000), pc.greater(pc.field("dwell_ms"), 1000))
    return pc.case_when(slow, pc.scalar("slow"), pc.scalar("fair"), pc.scalar("fast"))


CASES = (
    Case("dwell_ms > 1000", "dwell_ms > 1000", lambda: pc.field("dwell_ms") > 1000, filters=True),
    Case(
        "dwell_ms > 1000 AND country IN (2 texts) OR price < 1",
        "(dwell_ms > 1000 AND country IN ('NL', 'FR')) OR price < 1",
        lambda: ((pc.field("dwell_ms") > 1000) & pc.field("country").isin(["NL", "FR"])) | (pc.field("price") < 1),
        filters=True,
    ),
    Case(
        "page LIKE '/product/%'",
        "page LIKE '/product/%'",
        lambda: pc.starts_with(pc.field("page"), "/product/"),
        filters=True,
    ),
    Case("dwell_ms div 1000", "dwell_ms div 1000", lambda: pc.divide(pc.field("dwell_ms"), 1000), "dwell_ms // 1000"),
    Case(
        "price * 1.21D + 2",
        "price * 1.21D + 2",
        lambda: pc.field("price") * 1.21 + 2.0,
        "price * CAST(1.21 AS DOUBLE) + 2",
    ),
    Case(
        "CASE of two branches",
        "CASE WHEN dwell_ms > 5000 THEN 'slow' WHEN dwell_ms > 1000 THEN 'fair' ELSE 'fast' END",
        _case,
    ),
    Case("coalesce(price, 0)", "coalesce(price, 0)", lambda: pc.coalesce(pc.field("price"), 0.0)),
    Case("upper(substring(page, 2, 5))", "upper(substring(page, 2, 5))", None),
    Case("concat(country, '-', page)", "concat(country, '-', page)", None),
    Case("year(seen)", "year(seen)", lambda: pc.year(pc.field("seen")), "extract(year FROM seen)"),
    Case(
        "date_trunc('hour', seen)", "date_trunc('hour', seen)", lambda: pc.floor_temporal(pc.field("seen"), 1, "hour")
    ),
    Case(
        "CAST(member_id AS string)",
        "CAST(member_id AS string)",
        lambda: pc.field("member_id").cast(pa.string()),
        "CAST(member_id AS VARCHAR)",
    ),
    Case("round(price, 2)", "round(price, 2)", None),
)


def batches() -> list[pa.RecordBatch]:
    """Page views with two nulls in a hundred."""
    generator = np.random.default_rng(7)
    found = []
    for _ in range(BATCHES):
        nothing = generator.random(ROWS) < 0.02
        moments = generator.integers(1_600_000_000_000_000, 1_760_000_000_000_000, ROWS)
        columns = [
            pa.array(generator.integers(0, 1_000_000, ROWS)),
            pa.array(generator.choice(["NL", "FR", "DE", "GB", "US"], ROWS).tolist()),
            pa.array(generator.integers(0, 10_000, ROWS), mask=nothing),
            pa.array(generator.random(ROWS) * 100, mask=nothing),
            pa.array(moments, pa.timestamp("us", "UTC")),
            pa.array([f"/{kind}/{number}" for kind, number in zip(_kinds(generator), moments % 5000, strict=True)]),
        ]
        found.append(pa.RecordBatch.from_arrays(columns, schema=SCHEMA.to_arrow()))
    return found


def _kinds(generator: Any) -> list[str]:
    return list(generator.choice(["product", "list", "home"], ROWS))


Run = Callable[[list[pa.RecordBatch]], int]


def ours(case: Case) -> Run:
    """The compiler of this project."""
    if case.filters:
        conjuncts = compile_condition(case.sql, SCHEMA)

        def keep(data: list[pa.RecordBatch]) -> int:
            kept = 0
            for batch in data:
                for conjunct in conjuncts:
                    batch = batch.filter(is_true(conjunct.array(Frame(batch.columns, batch.num_rows))))
                kept += batch.num_rows
            return kept

        return keep
    expression = compile_projection([f"{case.sql} AS r"], SCHEMA).expressions[0]
    return lambda data: sum(len(expression.array(Frame(batch.columns, batch.num_rows))) for batch in data)


def by_acero(case: Case) -> Run | None:
    """Arrow's query engine, one plan per batch."""
    if case.acero is None:
        return None
    expression = case.acero()

    def run(data: list[pa.RecordBatch]) -> int:
        rows = 0
        for batch in data:
            source = acero.Declaration("table_source", acero.TableSourceNodeOptions(pa.Table.from_batches([batch])))
            options = (
                acero.FilterNodeOptions(expression) if case.filters else acero.ProjectNodeOptions([expression], ["r"])
            )
            plan = acero.Declaration.from_sequence(
                [source, acero.Declaration("filter" if case.filters else "project", options)]
            )
            rows += plan.to_table(use_threads=False).num_rows
        return rows

    return run


def _statement(case: Case) -> str:
    return (
        f"SELECT * FROM data WHERE {case.sql}"
        if case.filters
        else f"SELECT {case.other_sql or case.sql} AS r FROM data"
    )


def by_duckdb(case: Case, *, streaming: bool) -> Run:
    """DuckDB with one thread: a query per batch, or one over all."""
    import duckdb

    connection = duckdb.connect(config={"threads": 1})
    statement = _statement(case)

    def one(source: Any) -> int:
        connection.register("data", source)
        rows: int = sum(batch.num_rows for batch in connection.sql(statement).to_arrow_reader(ROWS))
        connection.unregister("data")
        return rows

    def run(data: list[pa.RecordBatch]) -> int:
        if streaming:
            return one(pa.RecordBatchReader.from_batches(data[0].schema, data))
        return sum(one(pa.Table.from_batches([batch])) for batch in data)

    return run


def by_datafusion(case: Case) -> Run | None:
    """DataFusion with one partition, a query per batch; None where it is not installed."""
    try:
        import datafusion  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        return None
    context = datafusion.SessionContext(datafusion.SessionConfig().with_target_partitions(1))

    def run(data: list[pa.RecordBatch]) -> int:
        rows = 0
        for batch in data:
            context.register_record_batches("data", [[batch]])
            rows += sum(found.num_rows for found in context.sql(_statement(case).replace("//", "/")).collect())
            context.deregister_table("data")
        return rows

    return run


def measured(data: list[pa.RecordBatch], rounds: int) -> Iterator[tuple[str, dict[str, float | None]]]:
    """Per case and engine the rows per second of CPU, in millions.

    The median of rounds in which the engines take turns.
    """
    zoneless = [
        batch.cast(batch.schema.set(4, pa.field("seen", pa.timestamp("us")))) for batch in data
    ]  # zones are an extension there
    for case in CASES:
        engines: dict[str, Run | None] = {
            "ours": ours(case),
            "Acero": by_acero(case),
            "DuckDB per batch": by_duckdb(case, streaming=False),
            "DuckDB stream": by_duckdb(case, streaming=True),
            "DataFusion": by_datafusion(case),
        }
        seconds: dict[str, list[float]] = {name: [] for name in engines}
        given = {name: zoneless if name.startswith("D") else data for name in engines}
        answers = {run(given[name]) for name, run in engines.items() if run is not None}  # warm, too
        if len(answers) > 1:
            raise SystemExit(f"{case.name}: the engines keep different numbers of rows: {answers}")
        for _ in range(rounds):
            for name, run in engines.items():
                if run is not None:
                    start = time.process_time()
                    run(given[name])
                    seconds[name].append(time.process_time() - start)
        yield case.name, {n: ROWS * len(data) / statistics.median(s) / 1e6 if s else None for n, s in seconds.items()}


def table(figures: list[tuple[str, dict[str, float | None]]]) -> str:
    """The figures in Markdown."""
    names = list(figures[0][1])
    lines = [f"| M rows/s of CPU | {' | '.join(names)} |", "|---|" + "---:|" * len(names)]
    for case, found in figures:
        cells = ["–" if found[name] is None else f"{found[name]:.0f}" for name in names]
        lines.append(f"| `{case}` | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    """Measure, print, and write the page."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rounds", type=int, default=7)
    options.add_argument("--write-docs", action="store_true", help="put the table into docs/concepts/expressions.md")
    chosen = options.parse_args()
    pa.set_cpu_count(1)
    found = table(list(measured(batches(), chosen.rounds)))
    print(found)
    if chosen.write_docs:
        PAGE.write_text(
            between_markers(PAGE.read_text(encoding="utf-8"), "figures", found.splitlines()), encoding="utf-8"
        )


if __name__ == "__main__":
    main()

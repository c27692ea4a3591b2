"""Every operator behind a broadcast, beside a stream of four partitions.

Each message counts once, and a table is whole in every task.

The expected results are plain Python over the rows; the operators are those of ``operator_specs``, so that a new one
cannot be forgotten.
"""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from airflow_samza import (
    count,
    dead_letter,
    foreign_key,
    stream_application,
    sum_,
    system_time,
    task_application,
    tumbling,
)
from airflow_samza.application import operator_specs as specs
from airflow_samza.application.operator_spec import OperatorSpec
from airflow_samza.errors import PlanError, UnsupportedShape
from airflow_samza.testing import TestDriver
from tests.support.operator_kinds import operator_kinds

ROW = "k bigint, v bigint, at timestamp"
Rows = list[tuple[int, int]]
MANY: Rows = [(k, 100 + k) for k in range(16)]
FEW: Rows = [(1, 1), (2, 2), (2, 3), (5, 4)]
OTHER: Rows = [(2, 7), (5, 8), (9, 9)]


def messages(rows: Rows, hour: int = 0) -> list[dict[str, Any]]:
    at = datetime.datetime(2026, 1, 1, hour, tzinfo=datetime.timezone.utc)
    return [{"k": k, "v": v, "at": at} for k, v in rows]


def found(rows: Any) -> Counter[tuple[Any, ...]]:
    return Counter((row.k, row.v) for row in rows)


@dataclass
class Outside:
    """Messages that leave the application by its own callables."""

    rows: Rows = field(default_factory=list)

    def write(self, row: Any) -> None:
        self.rows.append((row.k, row.v))

    def put(self, key: int, row: Any) -> None:
        self.rows.append((key, row["v"]))


Build = Callable[[Any, Any], Any]
Model = Callable[[Rows], Rows]


async def _raised(row: Any) -> Any:
    return {**row, "v": row.v + 1}


def _as_rows(stream: Any) -> Any:
    return stream.select("k", "n AS v", "CAST(NULL AS timestamp) AS at")


def _counts(rows: Rows) -> Rows:
    return list(Counter(k for k, _ in rows).items())


def _once(rows: Rows) -> Rows:
    return [row for place, row in enumerate(rows) if row[0] not in {k for k, _ in rows[:place]}]


def _newer(rows: Rows) -> Rows:
    newer = [max([v for k, v in rows[:place] if k == row[0]], default=-1) < row[1] for place, row in enumerate(rows)]
    return [row for row, counts in zip(rows, newer, strict=True) if counts]


def _looked_up(rows: Rows) -> Rows:
    other = dict(OTHER)
    return [(k, other[k]) for k, _ in rows if k in other]


def _other(app: Any, name: str = "other") -> Any:
    return app.input_stream(name, schema=ROW, timestamp="at", partitions=1)


def _table_of_a_broadcast(app: Any, stream: Any) -> Any:
    table = app.local_table("others", key="k", schema=ROW)
    _other(app).broadcast(id="others-everywhere").send_to(table)
    return stream.join(table, lambda one, other: {**one, "v": other.v}, schema=ROW, id="look-up")


def _table_of_a_side_input(app: Any, stream: Any) -> Any:
    side = app.side_input("other", schema=ROW, broadcast=True)
    return stream.join(
        app.table("others", key="k", side_inputs=[side]),
        lambda one, other: {**one, "v": other.v},
        schema=ROW,
        id="look-up",
    )


def _table_of_one_partition(app: Any, stream: Any) -> Any:
    table = app.local_table("others", key="k", schema=ROW)
    _other(app).partition_by("k", id="by-k").send_to(table)
    return stream.join(table, lambda one, other: {**one, "v": other.v}, schema=ROW, id="look-up")


def _remote(app: Any, stream: Any) -> Any:
    rows = {k: {"k": k, "v": v} for k, v in OTHER}
    table = app.remote_table("others", key="k", schema="k bigint, v bigint", reader=rows.get)
    return stream.join(table, lambda one, other: {**one, "v": other.v}, schema=ROW, id="look-up")


def _joined(app: Any, other: Any, stream: Any) -> Any:
    return stream.join(other, lambda one, two: {**one, "v": two.v}, schema=ROW, key="k", ttl="1 hour", id="meet")


BETWEEN: dict[type[OperatorSpec], list[tuple[Build, Model]]] = {
    specs.InputOperatorSpec: [(lambda app, s: s, lambda rows: rows)],
    specs.FilterSpec: [
        (lambda app, s: s.filter(lambda row: row.v > 1), lambda rows: [(k, v) for k, v in rows if v > 1])
    ],
    specs.MapSpec: [
        (lambda app, s: s.map(lambda row: {**row, "v": row.v + 1}), lambda rows: [(k, v + 1) for k, v in rows])
    ],
    specs.FlatMapSpec: [(lambda app, s: s.flat_map(lambda row: [row, row]), lambda rows: [*rows, *rows])],
    specs.MapAsyncSpec: [
        (lambda app, s: s.map_async(_raised, concurrency=2), lambda rows: [(k, v + 1) for k, v in rows])
    ],
    specs.MapBatchesSpec: [(lambda app, s: s.map_batches(lambda batch: batch), lambda rows: rows)],
    specs.WhereSpec: [(lambda app, s: s.where("v > 1"), lambda rows: [(k, v) for k, v in rows if v > 1])],
    specs.SelectSpec: [(lambda app, s: s.select("k", "v + 1 AS v", "at"), lambda rows: [(k, v + 1) for k, v in rows])],
    specs.MergeSpec: [
        (
            lambda app, s: s.where("v > 1").merge(s.where("v > 2")),
            lambda rows: [r for n in (1, 2) for r in rows if r[1] > n],
        )
    ],
    specs.AggregateSpec: [(lambda app, s: _as_rows(s.aggregate("k", id="counted", n=count())), _counts)],
    specs.WindowOperatorSpec: [
        (lambda app, s: _as_rows(s.window(tumbling("1 hour"), key="k", id="hours", n=count())), _counts),
        (
            lambda app, s: s.window(tumbling("1 hour"), id="hours", n=sum_("v")).select(
                "CAST(0 AS bigint) AS k", "n AS v", "CAST(NULL AS timestamp) AS at"
            ),
            lambda rows: [(0, sum(v for _, v in rows))] if rows else [],
        ),
    ],
    specs.DistinctSpec: [
        (lambda app, s: s.distinct("k", id="once"), _once),
        (lambda app, s: s.distinct("k", within="1 day", keep="last", id="once"), lambda rows: list(dict(rows).items())),
    ],
    specs.ApplyChangesSpec: [
        (lambda app, s: s.apply_changes("k", sequence_by="v", id="in-order"), _newer),
        (
            lambda app, s: (
                s.apply_changes("k", sequence_by="v", stored_as_scd_type=2, id="histories")
                .where("NOT is_current")
                .select("k", "v", "at")
            ),
            lambda rows: [row for row in _newer(rows) if row not in dict(_newer(rows)).items()],
        ),
    ],
    specs.StreamJoinSpec: [
        (lambda app, s: _joined(app, _other(app).broadcast(id="others"), s), _looked_up),
        (lambda app, s: _joined(app, _other(app).partition_by("k", id="others"), s), _looked_up),
    ],
    specs.TableJoinSpec: [
        (_table_of_a_broadcast, _looked_up),
        (_table_of_a_side_input, _looked_up),
        (_table_of_one_partition, _looked_up),
        (_remote, _looked_up),
    ],
}
"""Operators that give messages: how each is put behind a stream, and what it makes of rows in plain Python."""

ENDS = (specs.PartitionBySpec, specs.BroadcastSpec, specs.SendToSpec, specs.SendToTableSpec, specs.SinkSpec)
"""Operators that a stage ends with: a test each below."""

ALONE = (specs.ReadTimeSpec, specs.TaskSpec, specs.TransformSpec, specs.ForeignKeySpec)
"""Operators that cannot be put behind any stream: a test each below."""


def test_every_operator_has_its_case() -> None:
    assert operator_kinds() == {*BETWEEN, *ENDS, *ALONE}


CASES = [
    pytest.param(build, model, id=f"{kind.op}-{number}")
    for kind, cases in BETWEEN.items()
    for number, (build, model) in enumerate(cases)
]


def _many(app: Any) -> Any:
    return app.input_stream("many", schema=ROW, key="k", timestamp="at", partitions=4)


def _enriched(app: Any, table: Any) -> Any:
    return _many(app).join(table, lambda one, kept: {**one, "v": kept.v}, schema=ROW, id="enrich")


def _few(app: Any, declared: bool = False) -> Any:
    if declared:
        return app.input_stream("few", schema=ROW, timestamp="at", broadcast=True)
    return app.input_stream("few", schema=ROW, timestamp="at", partitions=2).broadcast(id="everywhere")


def run(describe: Callable[[Any], None], mode: str = "staged") -> TestDriver:
    driver = (
        TestDriver(stream_application("case")(describe))
        .pipe("many", messages(MANY))
        .pipe("few", messages(FEW), partition=0)
    )
    if "other" in {*driver.spec.inputs, *driver.spec.side_inputs}:
        driver.pipe("other", messages(OTHER))
    driver.run(mode=mode, epoch_messages=None if mode == "staged" else 2)
    assert any(stage.task_count == 4 and {"everywhere", "few"} & set(stage.inputs) for stage in driver.plan.stages)
    return driver


@pytest.mark.parametrize(("declared", "mode"), [(False, "staged"), (True, "staged"), (False, "pipelined")])
@pytest.mark.parametrize(("build", "model"), CASES)
@pytest.mark.few(16)
def test_what_is_merged_with_messages_of_one_task_counts_once(
    build: Build, model: Model, declared: bool, mode: str
) -> None:
    def describe(app: Any) -> None:
        _many(app).merge(build(app, _few(app, declared))).send_to(app.output_stream("out"))

    assert found(run(describe, mode).output("out")) == Counter([*MANY, *model(FEW)])


@pytest.mark.parametrize("mode", ["staged", "pipelined"])
def test_what_refers_to_no_row_is_removed_once(mode: str) -> None:
    def describe(app: Any) -> None:
        others = app.table("others", key="k", side_inputs=[app.side_input("other", schema=ROW, broadcast=True)])
        rows, table = _few(app), app.local_table("kept", key="k", schema=ROW)
        rows.send_to(table)
        rows.send_to(app.output_stream("copy", expect=[foreign_key("k", others, on_error="drop")]))
        _enriched(app, table).send_to(app.output_stream("out"))

    driver, known = run(describe, mode), {k for k, _ in OTHER}
    referring = [row for row in FEW if row[0] in known]
    assert 0 < len(referring) < len(FEW)
    assert found(driver.output("copy")) == Counter(referring)


@pytest.mark.parametrize(("build", "model"), CASES)
def test_what_fills_a_table_is_in_every_task_and_leaves_the_stage_once(build: Build, model: Model) -> None:
    def describe(app: Any) -> None:
        rows = build(app, _few(app)).where("k >= 0")
        table = app.local_table("kept", key="k", schema=ROW)
        rows.send_to(table)
        rows.send_to(app.output_stream("copy"))
        _enriched(app, table).send_to(app.output_stream("out"))

    if build in (_table_of_one_partition, CASES_OF_ONE_PARTITION):
        with pytest.raises(
            PlanError
        ):  # the table would hold a part of it in one task: rejected, as 1 partition and 4 do not meet
            run(describe)
        return
    driver = run(describe)
    rows = model(FEW)
    last = dict(rows)
    assert found(driver.output("copy")) == Counter(rows)
    assert found(driver.output("out")) == Counter((k, last[k]) for k, _ in MANY if k in last)


CASES_OF_ONE_PARTITION = BETWEEN[specs.StreamJoinSpec][1][0]
"""A stream join of which one task has a side."""


def _beside_a_table(end: Callable[[Any, Any], None]) -> Callable[[Any], None]:
    def describe(app: Any) -> None:
        rows = _few(app).where("v > 1")
        table = app.local_table("kept", key="k", schema=ROW)
        rows.send_to(table)
        end(app, rows)
        _enriched(app, table).sink(lambda row: None)

    return describe


KEPT = [(k, v) for k, v in FEW if v > 1]


@pytest.mark.parametrize("kind", [specs.PartitionBySpec, specs.BroadcastSpec, specs.SendToSpec])
def test_what_is_sent_to_a_stream_is_sent_by_one_task(kind: type[OperatorSpec]) -> None:
    def end(app: Any, rows: Any) -> None:
        out = app.output_stream("out")
        if kind is specs.PartitionBySpec:
            rows.partition_by("k", id="again").send_to(out)
        elif kind is specs.BroadcastSpec:
            rows.broadcast(id="again").send_to(out)
        else:
            rows.send_to(out)

    assert found(run(_beside_a_table(end)).output("out")) == Counter(KEPT)


def test_a_combined_count_behind_a_re_partition_counts_once() -> None:
    def end(app: Any, rows: Any) -> None:
        _as_rows(rows.partition_by("k", id="again").aggregate("k", id="counted", n=count())).send_to(
            app.output_stream("out")
        )

    assert found(run(_beside_a_table(end)).output("out")) == Counter(_counts(KEPT))


def test_a_sink_is_called_by_one_task() -> None:
    outside = Outside()
    run(_beside_a_table(lambda app, rows: rows.sink(outside.write)))
    assert Counter(outside.rows) == Counter(KEPT)


def test_a_remote_table_is_written_by_one_task_and_a_local_one_by_all() -> None:
    outside = Outside()

    def end(app: Any, rows: Any) -> None:
        rows.send_to(app.remote_table("far", key="k", schema=ROW, writer=outside.put))

    driver = run(_beside_a_table(end))
    assert Counter(outside.rows) == Counter(KEPT)
    assert len(driver.table_rows("kept")) == 4 * len(dict(KEPT))


def test_the_changelog_of_a_table_that_every_task_fills_is_written_once() -> None:
    def describe(app: Any) -> None:
        table = app.local_table("kept", key="k", schema=ROW, changelog="kafka.changes")
        _few(app).send_to(table)
        _enriched(app, table).sink(lambda row: None)

    assert found(run(describe).output("changes")) == Counter(FEW)


def test_dead_letters_are_sent_and_counted_once() -> None:
    def fail(row: Any) -> bool:
        raise ValueError(row.v)

    def describe(app: Any) -> None:
        rows = _few(app)
        table = app.local_table("kept", key="k", schema=ROW)
        rows.filter(fail, id="fails", on_error=dead_letter(app.output_stream("bad"))).send_to(table)
        _enriched(app, table).sink(lambda row: None)

    driver = run(describe)
    assert len(driver.output("bad")) == len(FEW)
    reports = [report for stage in driver.plan.stages for report in driver.reports(stage.stage_id)]
    assert sum(report.metrics.get("dead_letters.fails", 0) for report in reports) == len(FEW)
    assert len([sample for report in reports for sample in report.bad_samples]) == 3


def test_late_messages_are_sent_once() -> None:
    def describe(app: Any) -> None:
        few = app.input_stream("few", schema=ROW, timestamp="at", broadcast=True, bounded=False, max_delay="1 second")
        late = app.output_stream("late", schema=ROW)
        table = app.local_table("kept", key="k", schema=ROW)
        _as_rows(few.window(tumbling("1 hour"), key="k", id="hours", n=count(), late_to=late)).send_to(table)
        _enriched(app, table).sink(lambda row: None)

    driver = TestDriver(stream_application("case")(describe)).pipe("many", messages(MANY))
    driver.pipe("few", messages(FEW[:1], hour=12)).step()
    driver.pipe("few", messages(FEW, hour=8)).step()
    (stage,) = driver.plan.stages
    assert stage.task_count == 4
    assert found(driver.output("late")) == Counter(FEW)


def test_dead_letters_of_a_broadcast_input_are_sent_once() -> None:
    def describe(app: Any) -> None:
        bad = dead_letter(app.output_stream("bad"))
        few = app.input_stream("few", schema=ROW, timestamp="at", broadcast=True, on_error=bad)
        table = app.local_table("kept", key="k", schema=ROW)
        few.send_to(table)
        _enriched(app, table).sink(lambda row: None)

    driver = TestDriver(stream_application("case")(describe)).pipe("many", messages(MANY))
    driver.pipe("few", [*messages(FEW), "not a row"]).run()
    assert len(driver.output("bad")) == 1


def test_the_time_of_reading_goes_with_each_message_once() -> None:
    def describe(app: Any) -> None:
        few = app.input_stream("few", schema="k bigint, v bigint", timestamp=system_time("at"), broadcast=True)
        many = app.input_stream("many", schema="k bigint, v bigint", key="k", timestamp=system_time("at"), partitions=4)
        many.merge(few).send_to(app.output_stream("out"))

    driver = TestDriver(stream_application("case")(describe))
    driver.pipe("many", [{"k": k, "v": v} for k, v in MANY]).pipe("few", [{"k": k, "v": v} for k, v in FEW]).run()
    assert found(driver.output("out")) == Counter([*MANY, *FEW])


def test_every_low_level_task_is_handed_all_of_a_broadcast() -> None:
    class Writing:
        def process(self, envelope: Any, collector: Any, coordinator: Any) -> None:
            collector.send("out", envelope.message)

    @task_application("low")
    def low(app: Any) -> None:
        app.input_stream("few", schema=ROW, broadcast=True)
        app.input_stream("many", schema=ROW, key="k", partitions=4)
        app.output_stream("out", schema=ROW)
        app.task(Writing)

    driver = TestDriver(low).pipe("many", messages(MANY)).pipe("few", messages(FEW)).run()
    assert found(driver.output("out")) == Counter([*MANY, *FEW * 4])


def test_catalyst_runs_no_operator_of_a_stage_in_which_a_broadcast_is_alive_beside_another_stream() -> None:
    # So a transform never sees messages that other tasks have, too; were that allowed, the rule would have to reach
    # over its boundary.
    def describe(app: Any) -> None:
        _many(app).merge(_few(app).transform(lambda frame: frame, schema=ROW)).send_to(app.output_stream("out"))

    with pytest.raises(UnsupportedShape, match="the broadcast 'everywhere' is alive beside it"):
        run(describe)


def test_a_window_that_a_key_follows_behind_a_merge_is_rejected_as_its_rows_do_not_lie_by_the_key() -> None:
    def describe(app: Any) -> None:
        _many(app).merge(_few(app)).aggregate("k", id="counted", n=count()).send_to(app.output_stream("out"))

    with pytest.raises(PlanError, match="partition_by"):
        run(describe)


def test_a_count_behind_a_merge_and_a_re_partition_counts_each_message_once() -> None:
    def describe(app: Any) -> None:
        merged = _many(app).merge(_few(app)).partition_by("k", id="again")
        _as_rows(merged.aggregate("k", id="counted", n=count())).send_to(app.output_stream("out"))

    assert found(run(describe).output("out")) == Counter(_counts([*MANY, *FEW]))


def test_the_plan_says_where_one_task_handles_what_is_broadcast() -> None:
    from airflow_samza.planner.explain import explain

    def describe(app: Any) -> None:
        _many(app).merge(_few(app), id="both").send_to(app.output_stream("out"))

    plan = run(describe).plan
    assert dict(plan.operator("case-1-merge-both").details)["broadcast_handled_by"] == "task-0"
    assert "broadcast messages in task 0" in explain(plan)
    assert not any(
        "broadcast_handled_by" in dict(operator.details) for operator in plan.operators if operator.op != "merge"
    )


def test_a_stream_of_one_partition_meets_itself_merged_with_its_broadcast_once() -> None:
    def describe(app: Any) -> None:
        one = app.input_stream("few", schema=ROW, timestamp="at", partitions=1)
        both = one.merge(one.broadcast(id="everywhere"))
        met = one.join(both, lambda left, right: {**left, "v": right.v}, schema=ROW, key="k", ttl="1 hour", id="meet")
        _many(app).merge(met).send_to(app.output_stream("out"))

    pairs = [(k, v) for k, _ in FEW for other, v in [*FEW, *FEW] if other == k]
    assert found(run(describe).output("out")) == Counter([*MANY, *pairs])

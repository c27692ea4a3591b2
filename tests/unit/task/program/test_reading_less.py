"""Columns and rows that a stage reads and sends.

The columns it uses, the partial results an aggregation needs, the row groups its conditions leave open.
"""

from __future__ import annotations

import datetime
import functools
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from airflow_samza import Row, avg, collect, count, stream_application, sum_
from airflow_samza.config import INTERMEDIATE_WHOLE_MESSAGES
from airflow_samza.planner.planner import ExecutionPlanner
from airflow_samza.prepare.notes import joined
from airflow_samza.runs.records.run_plan import TopicContent
from airflow_samza.schema import Schema
from airflow_samza.systems.system import ColumnBound
from airflow_samza.task.operators.aggregation import combiner
from airflow_samza.task.program.pruning.notes import flow_notes
from airflow_samza.task.program.pruning.topics import reduce_topics
from airflow_samza.task.program.stage_program import StageProgram, check_application, compile_stage
from airflow_samza.testing import TestDriver

VIEWS = "member bigint, page int, at date, country string, dwell int"


def prepared(
    describe: Callable[[Any], None], config: dict[str, str] | None = None
) -> tuple[dict[str, TopicContent], list[StageProgram]]:
    spec = stream_application("less")(describe).spec(config)
    plan = ExecutionPlanner({}, {"views": 2, "more": 2}).plan(spec)
    contents = reduce_topics(spec, plan, check_application(spec, plan))
    return contents, [compile_stage(spec, plan, stage.stage_id, None, contents) for stage in plan.stages]


def views(app: Any) -> Any:
    return app.input_stream("views", schema=VIEWS)


# -- columns -----------------------------------------------------------------------------------------------------------


def test_a_topic_carries_what_the_next_stage_reads_and_the_key() -> None:
    contents, programs = prepared(
        lambda app: (
            views(app)
            .partition_by("member", id="m")
            .where("dwell > 5")
            .select("page")
            .send_to(app.output_stream("out"))
        )
    )
    assert contents == {"m": TopicContent(("member", "page", "dwell"))}
    assert programs[0].reads == {"views": ("member", "page", "dwell")}
    assert programs[0].streams["m"].names == ("member", "page", "dwell")
    assert programs[1].reads == {"m": ("page", "dwell")}


def _behind_topic(behind: Callable[[Any, Any], Any], app: Any) -> None:
    behind(views(app).partition_by("member", id="m"), app)


def test_an_output_a_callable_and_a_transform_need_every_column() -> None:
    behinds: list[Callable[[Any, Any], Any]] = [
        lambda stream, app: stream.send_to(app.output_stream("out")),
        lambda stream, app: stream.map(lambda view: view).send_to(app.output_stream("out")),
        lambda stream, app: stream.map_batches(lambda batch: batch).send_to(app.output_stream("out")),
        lambda stream, app: stream.transform(lambda frame: frame, schema="x int").send_to(app.output_stream("out")),
    ]
    for behind in behinds:
        contents, programs = prepared(functools.partial(_behind_topic, behind))
        assert contents == {}
        assert programs[0].reads == {}


def test_sql_that_catalyst_runs_needs_the_columns_it_names_and_what_cannot_be_read_needs_all() -> None:
    named, _ = prepared(
        lambda app: (
            views(app)
            .partition_by("page", id="p")
            .select("rand(3) * dwell AS x", id="s")
            .send_to(app.output_stream("out"))
        )
    )
    assert named == {"p": TopicContent(("page", "dwell"))}
    starred, _ = prepared(
        lambda app: (
            views(app).partition_by("page", id="p").select("struct(*) AS x", id="s").send_to(app.output_stream("out"))
        )
    )
    assert starred == {}


def test_a_star_needs_what_is_read_behind_it() -> None:
    contents, _ = prepared(
        lambda app: (
            views(app)
            .partition_by("member", id="m")
            .select("*", "dwell * 2 AS double")
            .partition_by("page", id="p")
            .select("double")
            .send_to(app.output_stream("out"))
        )
    )
    assert contents == {"m": TopicContent(("member", "page", "dwell")), "p": TopicContent(("page", "double"))}


def test_merged_streams_carry_the_same_columns_whatever_else_is_read_of_them() -> None:
    def describe(app: Any) -> None:
        one = views(app)
        one.select("country").send_to(app.output_stream("countries"))
        one.merge(app.input_stream("more", schema=VIEWS)).partition_by("page", id="p").select("page").send_to(
            app.output_stream("pages")
        )

    rows = [Row(member=1, page=2, at=datetime.date(2026, 1, 1), country="nl", dwell=5)]
    driver = TestDriver(stream_application("less")(describe), partitions=2, reduced=True)
    driver.pipe("views", rows).pipe("more", rows).run()
    assert driver.output("pages") == [Row(page=2), Row(page=2)]
    assert driver.output("countries") == [Row(country="nl")]


def test_whole_messages_go_through_topics_when_the_configuration_says_so() -> None:
    contents, _ = prepared(
        lambda app: (
            views(app)
            .partition_by("member", id="m")
            .aggregate("member", n=count(), id="n")
            .send_to(app.output_stream("out"))
        ),
        {INTERMEDIATE_WHOLE_MESSAGES: "true"},
    )
    assert contents == {}


# -- partial results ---------------------------------------------------------------------------------------------------


def aggregated(app: Any, **aggregations: Any) -> None:
    stream = views(app).partition_by("country", id="c")
    stream.aggregate("country", id="totals", **aggregations).send_to(app.output_stream("out"))


def test_an_aggregation_behind_a_partition_by_gets_partial_results() -> None:
    contents, programs = prepared(lambda app: aggregated(app, n=count(), mean=avg("dwell")))
    assert contents["c"].combined_for == "less-1-aggregate-totals"
    assert programs[0].reads == {"views": ("country", "dwell")}
    assert (
        programs[0].streams["c"].ddl()
        == "country string, n bigint not null, mean_sum double, mean_count bigint not null"
    )


@pytest.mark.parametrize(
    "behind",
    [
        lambda stream, app: stream.aggregate("country", every=collect("dwell"), id="n").send_to(
            app.output_stream("out")
        ),
        lambda stream, app: (
            stream.where("dwell > 1").aggregate("country", n=count(), id="n").send_to(app.output_stream("out"))
        ),
        lambda stream, app: (
            stream.aggregate("country", n=count(), id="n").send_to(app.output_stream("out")),
            stream.select("country").send_to(app.output_stream("all")),
        ),
    ],
    ids=["not decomposable", "not next", "not alone"],
)
def test_messages_go_through_the_topic_where_an_aggregation_is(behind: Any) -> None:
    contents, _ = prepared(lambda app: behind(views(app).partition_by("country", id="c"), app))
    assert contents["c"].combined_for is None


def test_a_combiner_sends_a_row_per_key_and_task() -> None:
    rows = [{"member": n, "page": 1, "at": None, "country": "ndf"[n % 3], "dwell": n} for n in range(300)]
    app = stream_application("less")(lambda app: aggregated(app, n=count(), total=sum_("dwell")))
    driver = TestDriver(app, partitions=2, reduced=True).pipe("views", rows).run()
    assert sum(report.outputs["c"].messages for report in driver.reports("views")) == 2 * 3
    assert sorted(driver.output("out"), key=repr) == sorted(
        (Row(country=c, n=100, total=sum(n for n in range(300) if "ndf"[n % 3] == c)) for c in "ndf"), key=repr
    )


def test_combining_stops_where_keys_do_not_repeat_and_the_result_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(combiner, "TRIED_ROWS", 100)
    rows = [{"member": n, "page": 1, "at": None, "country": f"c{n % 990}", "dwell": n} for n in range(1000)]
    tables = [
        pa.Table.from_pylist(rows[start : start + 50], Schema.of(VIEWS).to_arrow()) for start in range(0, 1000, 50)
    ]
    app = stream_application("less")(lambda app: aggregated(app, n=count(), total=sum_("dwell"), mean=avg("dwell")))
    found = []
    for reduced in (False, True):
        driver = TestDriver(app, reduced=reduced)
        for table in tables:
            driver.pipe("views", table)
        found.append(sorted(map(repr, driver.run().output("out"))))
    assert found[0] == found[1]
    assert driver.reports("views")[0].outputs["c"].messages == 1000


def test_held_partial_results_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(combiner, "MOST_ROWS", 10)
    monkeypatch.setattr("airflow_samza.task.operators.aggregation.partial_groups.RAW_ROWS", 20)
    rows = [{"member": n, "page": 1, "at": None, "country": f"c{n % 40}", "dwell": n} for n in range(400)]
    table = pa.Table.from_pylist(rows, Schema.of(VIEWS).to_arrow())
    app = stream_application("less")(lambda app: aggregated(app, n=count()))
    driver = TestDriver(app, reduced=True)
    for start in range(0, 400, 20):
        driver.pipe("views", table.slice(start, 20))
    driver.run()
    assert driver.reports("views")[0].outputs["c"].messages > 40
    assert {row.n for row in driver.output("out")} == {10}


# -- bounds ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("conditions", "wanted"),
    [
        (["dwell > 5 AND 7 >= member"], [("dwell", ">", 5), ("member", "<=", 7)]),
        (["DWELL = -3", "country = 'nl'"], [("dwell", "=", -3), ("country", "=", "nl")]),
        (["page BETWEEN 2 AND 4"], [("page", ">=", 2), ("page", "<=", 4)]),
        (
            ["country IN ('nl', 'de') AND member IS NOT NULL"],
            [("country", "in", ("nl", "de")), ("member", "is not null", None)],
        ),
        (
            ["at >= '2026-01-02' AND at < DATE '2026-02-01'"],
            [("at", ">=", datetime.date(2026, 1, 2)), ("at", "<", datetime.date(2026, 2, 1))],
        ),
        (["dwell + 1 > 5 OR page = 2", "page = 1"], []),  # dwell + 1 may overflow: what comes behind must not hide it
        (["page % 2 = 0 AND page > 1"], [("page", ">", 1)]),
        (["member / page > 1 AND dwell > 5"], []),  # nor a division, before which Catalyst's own null tests are put
        (["dwell > 5 AND member / page > 1 AND page > 1"], [("dwell", ">", 5)]),
        (["page NOT IN (1, 2) AND NOT page BETWEEN 4 AND 5 AND NOT page = 7"], []),
        (["(dwell > 5 AND ((page = 1)))"], [("dwell", ">", 5), ("page", "=", 1)]),
        (["dwell > 1.5", "country > 5"], []),
        (["dwell > 1 OR page > 1"], []),
    ],
)
def test_bounds_are_what_leading_conditions_say_of_single_columns(
    conditions: list[str], wanted: list[tuple[str, str, Any]]
) -> None:
    def describe(app: Any) -> None:
        stream = views(app)
        for condition in conditions:
            stream = stream.where(condition)
        stream.send_to(app.output_stream("out"))

    _, (program,) = prepared(describe)
    assert program.bounds.get("views", ()) == tuple(ColumnBound(*bound) for bound in wanted)


@pytest.mark.extended
def test_a_condition_may_be_longer_than_pythons_stack_is_deep() -> None:
    condition = " AND ".join(f"dwell > {number}" for number in range(2000))
    _, (program,) = prepared(lambda app: views(app).where(condition).send_to(app.output_stream("out")))
    assert len(program.bounds["views"]) == 2000


def test_an_input_that_is_read_twice_has_no_bounds() -> None:
    def twice(app: Any) -> None:
        stream = views(app)
        stream.where("page > 1").send_to(app.output_stream("one"))
        stream.where("page < 1").send_to(app.output_stream("other"))

    assert not prepared(twice)[1][0].bounds


# -- for people --------------------------------------------------------------------------------------------------------


def test_the_plan_says_what_is_read_skipped_and_sent() -> None:
    def describe(app: Any) -> None:
        stream = (
            app.input_stream("views", schema=VIEWS, format="parquet")
            .where("dwell > 1000")
            .partition_by("country", id="c")
        )
        stream.select("country", "page").partition_by("country", id="again").aggregate(
            "country", n=count(), id="totals"
        ).send_to(app.output_stream("out"))

    spec = stream_application("less")(describe).spec()
    plan = ExecutionPlanner({}, {"views": 2}).plan(spec)
    contents = reduce_topics(spec, plan, check_application(spec, plan))
    compiled = check_application(spec, plan, None, contents)
    assert joined([flow_notes(spec, plan, compiled, contents, {"views": "files"})]) == {
        "views": {
            "views": "reads 3 of 5 columns: page, country, dwell; skips what statistics rule out by dwell > 1000; "
            "keeps the dictionaries of texts that repeat: country",
            "c": "sends only page, country: nothing else is read later",
        },
        "c": {"again": "sends partial results of aggregate 'totals' instead of messages"},
    }


@pytest.mark.parametrize("kind", ["kafka", "log"])
def test_the_plan_names_no_statistics_where_a_system_has_none(kind: str) -> None:
    def describe(app: Any) -> None:
        views(app).where("dwell > 1000").select("page").send_to(app.output_stream("out"))

    spec = stream_application("less")(describe).spec()
    plan = ExecutionPlanner({}, {"views": 2}).plan(spec)
    notes = joined([flow_notes(spec, plan, check_application(spec, plan), {}, {"views": kind})])
    assert notes == {"views": {"views": "reads 2 of 5 columns: page, dwell"}}

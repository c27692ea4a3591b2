"""Column lineage: which columns of the inputs make each column of an output, and which decide about its rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from airflow_samza import dead_letter
from airflow_samza.application.windows import count, max_, sum_, tumbling
from airflow_samza.schema import Schema
from airflow_samza.task.program.column_lineage import column_lineage
from airflow_samza.task.program.column_sources import NOTHING, ColumnSource, StreamLineage, lineage_through
from tests.support.lineage_applications import said, stages_of, whole_run
from tests.support.planner_applications import files, keyed, spec_of


def of_run(describe: Callable[[Any, Any], Any]) -> StreamLineage:
    """Return the lineage of the output of what is described of the stream ``rows``."""

    def application(app: Any) -> None:
        describe(app, keyed(app, "rows")).send_to(app.output_stream("out"))

    return whole_run(spec_of(application))["out"]


def columns(lineage: StreamLineage) -> dict[str, set[str]]:
    return {name: said(sources) for name, sources in lineage.columns.items()}


def test_a_column_that_is_passed_on_is_the_same_column() -> None:
    found = of_run(lambda app, rows: rows.select("k", "c AS name"))
    assert columns(found) == {"k": {"rows.k IDENTITY"}, "name": {"rows.c IDENTITY"}}
    assert found.rows == NOTHING


def test_an_expression_is_made_of_the_columns_that_it_names() -> None:
    found = of_run(lambda app, rows: rows.select("v + length(c) AS size"))
    assert columns(found) == {"size": {"rows.v TRANSFORMATION", "rows.c TRANSFORMATION"}}


def test_a_condition_within_an_expression_decides_and_is_no_part_of_the_value() -> None:
    found = of_run(lambda app, rows: rows.select("CASE WHEN v > 1 THEN c END AS c"))
    assert columns(found) == {"c": {"rows.c TRANSFORMATION", "rows.v CONDITIONAL"}}


def test_a_filter_decides_about_rows_and_not_about_columns() -> None:
    found = of_run(lambda app, rows: rows.where("v > 1").select("k"))
    assert columns(found) == {"k": {"rows.k IDENTITY"}}
    assert said(found.rows) == {"rows.v FILTER"}


def test_of_a_callable_all_columns_of_its_input_count_and_are_marked() -> None:
    found = of_run(lambda app, rows: rows.select("k", "v").map(lambda row: row, schema="n bigint"))
    assert columns(found) == {"n": {"rows.k TRANSFORMATION?", "rows.v TRANSFORMATION?"}}
    assert found.rows == NOTHING


def test_a_callable_that_filters_decides_by_any_column() -> None:
    found = of_run(lambda app, rows: rows.select("k", "v").filter(bool))
    assert columns(found) == {"k": {"rows.k IDENTITY"}, "v": {"rows.v IDENTITY"}}
    assert said(found.rows) == {"rows.k FILTER?", "rows.v FILTER?"}


def test_an_aggregation_is_made_of_its_column_and_grouped_by_the_key() -> None:
    found = of_run(
        lambda app, rows: rows.partition_by("c", id="by-c").aggregate("c", id="sums", n=count(), total=sum_("v"))
    )
    assert columns(found) == {"c": {"rows.c IDENTITY"}, "n": set(), "total": {"rows.v AGGREGATION"}}
    assert said(found.rows) == {"rows.c GROUP_BY"}


def test_a_window_begins_and_ends_by_the_event_time() -> None:
    found = of_run(lambda app, rows: rows.window(tumbling("1 hour"), key="k", id="hours", most=max_("v")))
    assert columns(found) == {
        "k": {"rows.k IDENTITY"},
        "window_start": {"rows.at TRANSFORMATION"},
        "window_end": {"rows.at TRANSFORMATION"},
        "most": {"rows.v AGGREGATION"},
    }
    assert said(found.rows) == {"rows.k GROUP_BY", "rows.at WINDOW"}


def test_a_join_takes_columns_of_both_sides_and_matches_by_their_keys() -> None:
    def application(app: Any, rows: Any) -> Any:
        other = keyed(app, "others").select("k", "c AS name")
        return rows.select("k", "v").join(other, key="k", ttl="1 hour", id="both")

    found = of_run(application)
    assert columns(found) == {"k": {"rows.k IDENTITY"}, "v": {"rows.v IDENTITY"}, "name": {"others.c IDENTITY"}}
    assert said(found.rows) == {"rows.k JOIN", "others.k JOIN"}


def test_a_table_gives_what_was_written_to_it() -> None:
    def application(app: Any, rows: Any) -> Any:
        table = app.local_table("names", key="k", schema="k bigint, name string")
        keyed(app, "others").select("k", "upper(c) AS name").send_to(table)
        return rows.select("k", "v").join(table, id="named")

    found = of_run(application)
    assert columns(found)["name"] == {"others.c TRANSFORMATION"}
    assert {"others.k JOIN", "others.k GROUP_BY", "rows.k JOIN"} <= said(found.rows)


def test_a_pushed_table_is_the_stream_of_its_pushes() -> None:
    def application(app: Any, rows: Any) -> Any:
        table = app.pushed_table("names", key="k", schema="k bigint, name string", partitions=8)
        return rows.select("k", "v").join(table, id="named")

    assert columns(of_run(application))["name"] == {"names-push.name IDENTITY"}


def test_a_dead_letter_is_made_of_the_message_that_failed() -> None:
    def application(app: Any) -> None:
        bad = app.output_stream("bad")
        rows = keyed(app, "rows").select("k", "v")
        made = rows.map(lambda row: row, schema="n bigint", on_error=dead_letter(bad))
        made.send_to(app.output_stream("out"))

    found = whole_run(spec_of(application))
    assert columns(found["bad"])["message"] == {"rows.k TRANSFORMATION?", "rows.v TRANSFORMATION?"}
    assert columns(found["bad"])["at"] == set()
    assert said(found["out"].rows) == {"rows.k FILTER?", "rows.v FILTER?"}


def totals(app: Any) -> None:
    rows = files(app, "rows").where("v > 0").partition_by("c", id="by-c")
    rows.aggregate("c", id="sums", n=count(), total=sum_("v")).send_to(app.output_stream("out"))


def test_a_stage_is_told_in_columns_of_its_own_inputs() -> None:
    first, second = stages_of(spec_of(totals), reduced=False).values()
    assert columns(first["by-c"]) == {
        "k": {"rows.k IDENTITY"},
        "c": {"rows.c IDENTITY"},
        "v": {"rows.v IDENTITY"},
        "at": {"rows.at IDENTITY"},
    }
    assert columns(second["out"]) == {"c": {"by-c.c IDENTITY"}, "n": set(), "total": {"by-c.v AGGREGATION"}}


def test_a_topic_has_the_columns_that_really_go_through_it() -> None:
    first, second = stages_of(spec_of(totals)).values()
    assert columns(first["by-c"]) == {"c": {"rows.c IDENTITY"}, "n": set(), "total": {"rows.v AGGREGATION"}}
    assert columns(second["out"]) == {
        "c": {"by-c.c IDENTITY"},
        "n": {"by-c.n AGGREGATION"},
        "total": {"by-c.total AGGREGATION"},
    }


def test_columns_that_spark_makes_are_known_by_what_is_written() -> None:
    found = of_run(lambda app, rows: rows.select("explode(split(c, ' ')) AS word", "k"))
    assert said(found.rest) == {"rows.c TRANSFORMATION", "rows.k IDENTITY"}
    assert said(found.rows) == {"rows.c FILTER", "rows.k FILTER"}
    assert columns(found) == {}


def test_a_filter_before_a_topic_decides_also_where_no_column_is_read_behind_it() -> None:
    def application(app: Any, rows: Any) -> Any:
        return rows.where("v > 1").partition_by("c", id="by-c").select("1 AS one")

    found = of_run(application)
    assert columns(found) == {"one": set()}
    assert said(found.rows) == {"rows.v FILTER"}
    assert found.reads == {"rows"}


def test_streams_in_a_circle_are_followed_until_nothing_is_added() -> None:
    stages = {
        "one": {
            "a": StreamLineage({"x": frozenset([ColumnSource("in", "x"), ColumnSource("b", "x", "TRANSFORMATION")])})
        },
        "two": {"b": StreamLineage({"x": frozenset([ColumnSource("a", "x", "AGGREGATION")])})},
    }
    found = lineage_through(stages)
    assert said(found["a"].columns["x"]) == {"in.x IDENTITY", "in.x AGGREGATION"}


def test_columns_of_an_input_may_be_known_by_its_system_alone() -> None:
    def application(app: Any) -> None:
        app.input_stream("rows", partitions=2).send_to(app.output_stream("out"))

    spec = spec_of(application)
    operators = {"all": [operator.op_id for operator in spec.operators]}
    found = column_lineage(spec, operators, {"rows": Schema.of("a int, b string")})
    assert columns(found["all"]["out"]) == {"a": {"rows.a IDENTITY"}, "b": {"rows.b IDENTITY"}}


@pytest.mark.parametrize("width", [400])
def test_wide_messages_of_a_callable_share_their_sources(width: int) -> None:
    names = [f"c{number}" for number in range(width)]
    schema = ", ".join(f"{name} bigint" for name in names)

    def application(app: Any) -> None:
        made = app.input_stream("rows", schema=schema, partitions=2).map(lambda row: row, schema=schema)
        made.send_to(app.output_stream("out"))

    found = whole_run(spec_of(application))["out"]
    assert all(len(sources) == width for sources in found.columns.values())

"""The plan shown: text, pictures, and the difference of two plans."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from airflow_samza.application.windows import count, tumbling
from airflow_samza.planner.difference import changes, difference
from airflow_samza.planner.explain import explain
from airflow_samza.planner.pictures import dot, mermaid
from airflow_samza.planner.planner import plan_shape
from tests.support.planner_applications import ROW, files, left, plan_of, spec_of


def views(app: Any, condition: str = "v > 1000", name: str = "by-member", partitions: int = 16, **more: Any) -> None:
    profiles = app.pushed_table("profiles", key="k", schema="k bigint, tier string", partitions=partitions)
    (
        files(app, "views", partitions)
        .where(condition)
        .partition_by("k", id=name, **more)
        .join(profiles, left, schema=ROW, how="left", id="with-profile")
        .partition_by("c", id="by-country")
        .window(tumbling("1 minute", time="processing"), key="c", id="per-minute", n=count())
        .send_to(app.output_stream("counts", system="warehouse"))
    )


def test_the_text_names_stages_operators_counts_reasons_and_tables() -> None:
    text = explain(plan_of(views))
    assert "2. by-member (join-with-profile)   [16 tasks; after views]" in text
    for words in (
        "16 partitions  joined with profiles-push at with-profile",
        "where-0",
        "v > 1000",
        "with table profiles, by k, left",
        "tumbling 1 minute, processing time, by c, n=count()",
        "→ counts",
        "output (warehouse)",
        "profiles  pushed  by k  fed by profiles-push  looked up by join with-profile",
    ):
        assert words in text, words
    assert all(line == line.rstrip() for line in text.splitlines())


def looked_up(app: Any, *, pushed: bool) -> None:
    table = (
        app.pushed_table("named", key="k", schema="k bigint, tier string", partitions=16)
        if pushed
        else app.table(
            "named",
            key="k",
            side_inputs=[app.side_input("changes", schema="k bigint, tier string", key="k", partitions=16)],
        )
    )
    rows = files(app, "views", 16).partition_by("k", id="by-k")
    rows.join(table, left, schema=ROW, how="left", id="with-name").send_to(app.output_stream("out"))


def test_a_table_that_side_inputs_fill_is_not_called_pushed() -> None:
    plan, pushed = plan_of(partial(looked_up, pushed=False)), plan_of(partial(looked_up, pushed=True))
    assert "named  filled by side inputs  by k  fed by changes " in explain(plan)
    assert "named  pushed  by k  fed by named-push " in explain(pushed)
    assert "Table 'named' changed its kind: it was pushed and is filled by side inputs." in difference(pushed, plan)


def test_the_text_has_a_column_for_engines_and_their_reasons() -> None:
    plan = plan_of(views)
    where = next(operator.op_id for operator in plan.operators if operator.op == "where")
    lines = explain(plan, {where: "arrow: a comparison"}).splitlines()
    assert [line.endswith("arrow: a comparison") for line in lines if "where-0 " in line] == [True]


def test_the_text_of_a_shape_has_no_counts() -> None:
    text = explain(plan_shape(spec_of(views)))
    assert "shape only" in text
    assert "partitions" not in text
    assert "16" not in text


def test_a_long_expression_is_cut_and_one_over_several_lines_is_one_line() -> None:
    text = explain(plan_of(lambda app: views(app, " AND\n".join(f"v > {number}" for number in range(100)))))
    assert "v > 0 AND v > 1" in text
    assert max(map(len, text.splitlines())) < 160


def test_warnings_are_part_of_the_text() -> None:
    assert "! The output stream 'out' is declared" in explain(
        plan_of(lambda app: app.output_stream("out") and files(app, "a").sink(print))
    )


@pytest.mark.parametrize("picture", [mermaid, dot])
def test_pictures_show_every_stage_topic_and_count(picture: Callable[[Any], str]) -> None:
    plan = plan_of(views)
    drawn = picture(plan)
    for name in ("views", "by-member", "by-country", "counts", "profiles", "16"):
        assert name in drawn
    assert drawn == picture(plan_of(views))


def test_what_every_task_reads_whole_and_what_fills_a_table_is_drawn_dashed() -> None:
    drawn = dot(plan_of(views)).splitlines()
    nodes = dict(re.findall(r'^  (\w+) \[.*label="?([\w-]+)', "\n".join(drawn), re.MULTILINE))
    arrows = [re.fullmatch(r"  (\w+) -> (\w+)( \[style=dashed\])?;", line) for line in drawn]
    shown = {(nodes[arrow[1]], nodes[arrow[2]], bool(arrow[3])) for arrow in arrows if arrow}
    assert {("profiles-push", "profiles", True), ("profiles", "by-member", True)} <= shown
    assert {("views", "views", False), ("by-member", "by-member", False), ("by-country", "counts", False)} <= shown


@pytest.mark.parametrize("picture", [dot, mermaid])
def test_a_picture_of_a_stage_of_many_operators_says_how_many_it_leaves_out(picture: Callable[[Any], str]) -> None:
    def many(app: Any) -> None:
        rows = files(app, "views")
        for number in range(12):
            rows = rows.where(f"v > {number}", id=f"w-{number}")
        rows.sink(print)

    operators = len([one for one in plan_of(many).operators if one.op != "input"])
    drawn = picture(plan_of(many))
    (left_out,) = re.findall(r"… (\d+) more", drawn)
    assert drawn.count("where w-") + int(left_out) == operators
    assert "more" not in picture(plan_of(views))


def test_the_text_says_from_where_messages_come_that_are_not_those_of_the_line_above() -> None:
    def branched(app: Any) -> None:
        rows = files(app, "views")
        kept = rows.where("v > 1", id="kept")
        kept.where("v > 2", id="one").sink(print)
        kept.where("v > 3", id="two").merge(rows.where("v < 0", id="three"), id="both").sink(print)

    lines = [line.split("← ") for line in explain(plan_of(branched)).splitlines()[4:]]
    said = [(*re.findall(r"(?:where|merge) \w+|sink-\d", before), *after) for before, *after in lines]
    assert said == [
        ("where kept",),
        ("where one",),
        ("sink-2",),
        ("where three", "views"),
        ("where two", "where kept"),
        ("merge both", "where two and where three"),
        ("sink-6",),
    ]


def test_text_of_the_user_cannot_break_out_of_a_picture() -> None:
    plan = plan_of(lambda app: files(app, "a").where('c = "</text><script>alert(1)</script>"]\n').sink(print))
    assert "<script>" not in mermaid(plan)
    assert '\n"]' not in dot(plan)


def test_a_node_of_a_stream_tells_its_count_s_reason_or_its_role() -> None:
    assert 'tooltip="joined with profiles-push at with-profile"' in dot(plan_of(views))
    assert 'tooltip="intermediate"' in dot(plan_shape(spec_of(views)))


def test_equal_plans_have_no_difference() -> None:
    assert difference(plan_of(views), plan_of(views)) == ()


def test_plans_of_two_applications_say_so() -> None:
    plan = plan_of(views)
    renamed = replace(plan, application="clicks")
    assert difference(plan, renamed) == (f"The application was {plan.application}-1 and is clicks-1.",)
    assert difference(plan, replace(plan, app_id="2")) == (
        f"The application was {plan.application}-1 and is {plan.application}-2.",
    )


def test_a_changed_count_is_told_with_both_reasons() -> None:
    told = difference(plan_of(views), plan_of(views, {"job.intermediate.stream.partitions": "5"}))
    assert (
        "Stream 'by-country' had 16 partitions (max of inputs and outputs) and has 5 "
        "(job.intermediate.stream.partitions)."
    ) in told
    assert "Stage 'by-country' had 16 tasks and has 5." in told


def test_a_stream_that_is_declared_otherwise_is_told_with_what_it_was() -> None:
    def copied(app: Any, **declared: Any) -> None:
        files(app, "a").send_to(app.output_stream("out", **declared))

    plain, declared = plan_of(copied), plan_of(partial(copied, system="warehouse", schema=ROW))
    told = difference(plain, declared)
    assert f"Stream 'out' changed its schema: it was not declared and is {ROW}." in told
    assert any(sentence.startswith("Stream 'out' changed its system: ") for sentence in told)
    assert f"Stream 'out' changed its schema: it was {ROW} and is not declared." in difference(declared, plain)


def test_a_changed_operator_is_told_with_what_it_was() -> None:
    told = difference(plan_of(views), plan_of(lambda app: views(app, "v > 7")))
    assert told == ("Operator where-0 changed its condition: it was v > 1000 and is v > 7.",)


def test_a_rename_that_says_so_is_told_as_a_rename() -> None:
    told = difference(plan_of(views), plan_of(lambda app: views(app, name="by-user", renamed_from="by-member")))
    assert told == (
        "Stage 'by-member' is now 'by-user'.",
        "Intermediate stream 'by-member' was renamed to 'by-user'.",
        "Operator partition_by by-member was renamed to partition_by by-user.",
    )


def test_an_operator_that_differs_in_its_id_alone_has_changed() -> None:
    was, now = plan_of(views), plan_of(lambda app: views(app, name="by-user", renamed_from="by-member"))
    renamed = {
        change.item_id: change.former
        for change in changes(was, now)
        if change.kind == "operator" and change.change == "changed"
    }
    assert renamed
    assert all(former == op_id.replace("by-user", "by-member") for op_id, former in renamed.items())
    assert changes(was, was) == ()


def test_a_rename_that_says_nothing_is_told_as_gone_and_new() -> None:
    told = difference(plan_of(views), plan_of(lambda app: views(app, name="by-user")))
    assert "Stage 'by-user' is new; it reads 'by-user'." in told
    assert "Stage 'by-member' is gone." in told
    assert "Intermediate stream 'by-member' is gone." in told


def test_added_and_removed_parts_are_told() -> None:
    def more(app: Any) -> None:
        views(app)
        files(app, "more").send_to(app.output_stream("copy"))

    told = difference(plan_of(views), plan_of(more))
    assert told == (
        "Stage 'more' is new; it reads 'more'.",
        "Output stream 'copy' is new (8 partitions: one per task of stage more).",
        "Input stream 'more' is new (8 partitions: declared).",
        "Operator send_to-6 is new.",
    )
    assert "Stage 'more' is gone." in difference(plan_of(more), plan_of(views))

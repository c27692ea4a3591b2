"""Titles of stages: they say what a stage does, and nothing that is kept hangs on them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from airflow_samza import avg, count
from airflow_samza.errors import UnknownName
from airflow_samza.planner.plan import ExecutionPlan
from airflow_samza.planner.titles import LONGEST, stage_named, stage_titles
from tests.support.planner_applications import ROW, plan_of


def planned(describe: Callable[[Any], None]) -> ExecutionPlan:
    return plan_of(describe)


def counted(app: Any, **more: Any) -> None:
    stream = app.input_stream("events", schema=ROW, partitions=2)
    if more.get("mapped"):
        stream = stream.filter(lambda message: True)
    stream = stream.partition_by("c", id="by-country")
    if more.get("mapped"):
        stream = stream.filter(lambda message: True)
    stream.aggregate("c", events=count(), id="per-country").send_to(app.output_stream("out"))


def test_a_title_says_what_the_stage_does() -> None:
    assert stage_titles(planned(counted)) == {
        "events": "partition-by-country",
        "by-country": "count-per-country",
    }


def test_an_operator_more_that_names_nothing_changes_no_title() -> None:
    assert stage_titles(planned(lambda app: counted(app, mapped=True))) == stage_titles(planned(counted))


def test_an_id_that_has_the_verb_stays_as_the_user_wrote_it() -> None:
    def describe(app: Any) -> None:
        stream = app.input_stream("events", schema=ROW, partitions=2).partition_by("c", id="by-country")
        stream.aggregate("c", events=count(), id="count-of-events").send_to(app.output_stream("out"))

    assert list(stage_titles(planned(describe)).values()) == ["partition-by-country", "count-of-events"]


def test_several_functions_are_an_aggregation() -> None:
    def describe(app: Any) -> None:
        stream = app.input_stream("events", schema=ROW, partitions=2, key="c")
        stream = stream.partition_by("c", id="by-c")
        stream.aggregate("c", n=count(), mean=avg("v"), id="per-country").send_to(app.output_stream("out"))

    assert stage_titles(planned(describe))["by-c"] == "aggregate-per-country"


def test_a_stage_that_only_moves_messages_goes_by_where_they_go() -> None:
    def describe(app: Any) -> None:
        app.input_stream("events", schema=ROW, partitions=2).filter(lambda m: True).send_to(app.output_stream("out"))

    assert stage_titles(planned(describe)) == {"events": "write-out"}


def test_a_title_that_is_another_stages_id_is_not_taken() -> None:
    def describe(app: Any) -> None:
        stream = app.input_stream("write-out", schema=ROW, partitions=2).partition_by("c", id="by-c")
        stream.filter(lambda message: True).send_to(app.output_stream("out"))

    titles = stage_titles(planned(describe))
    assert titles == {"write-out": "partition-by-c", "by-c": "by-c"}


def test_titles_are_unique_and_short() -> None:
    def describe(app: Any) -> None:
        for number in range(3):
            stream = app.input_stream(f"events-{number}", schema=ROW, partitions=2)
            stream.map(dict, id=f"clean-{number}" if number else "a-very-long-name-of-an-operator-that-cleans-events")
            stream.filter(lambda message: True).send_to(app.output_stream(f"out-{number}"))

    titles = list(stage_titles(planned(describe)).values())
    assert len(set(titles)) == 3
    assert max(map(len, titles)) <= LONGEST


def test_a_stage_is_found_by_its_id_and_by_its_title() -> None:
    plan = planned(counted)
    assert stage_named(plan, "by-country") is stage_named(plan, "count-per-country")


def test_another_name_is_rejected_with_all_that_are_known() -> None:
    with pytest.raises(UnknownName) as caught:
        stage_named(planned(counted), "count-per-contry")
    assert caught.value.hint == (
        "Did you mean 'count-per-country'? Its stages are: events, by-country, partition-by-country, count-per-country."
    )

"""Keys of choosers that name no key, system or stream of the application are rejected with the one that was meant."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from airflow_samza import stream_application
from airflow_samza.errors import ConfigError
from airflow_samza.planner.planner import ExecutionPlanner
from airflow_samza.task.loop.reading import chooser_settings
from airflow_samza.testing import TestDriver


def describe(app: Any) -> None:
    views = app.input_stream("views", system="kafka", schema="k string", partitions=2)
    clicks = app.input_stream("clicks", schema="k string", partitions=2)
    renames = app.side_input("renames", system="kafka", schema="k string, name string", key="k", partitions=2)
    names = app.table("names", key="k", schema="k string, name string", side_inputs=[renames])
    both = views.merge(clicks, id="both").partition_by("k", id="by-k")
    both.join(names, id="named").send_to(app.output_stream("out"))


APPLICATION = stream_application("app")(describe)


def planned(config: dict[str, str], systems: dict[str, str] | None = None) -> None:
    ExecutionPlanner(config, stream_systems=systems).plan(APPLICATION.spec())


@pytest.mark.parametrize(
    ("key", "said", "hint"),
    [
        ("task.chooser.priorities.kafka.viws", "names no stream", "'task.chooser.priorities.kafka.views'"),
        ("task.chooser.priorities.kafak.views", "names no stream", "'task.chooser.priorities.kafka.views'"),
        ("task.chooser.priorities.views", "names no stream", "'task.chooser.priorities.kafka.views'"),
        ("task.chooser.priorities.kafka.out", "names no stream", "It reads kafka.views, clicks, kafka.renames"),
        ("task.chooser.priorities.log.click", "names no stream", "'task.chooser.priorities.log.clicks'"),
        ("task.chooser.priority.kafka.views", "is no key of choosers", "task.chooser.priorities.<system>.<stream>"),
        ("task.chooser.wait.for.heads", "is no key of choosers", "'task.chooser.wait.for.head'"),
        ("task.chooser.klass", "is no key of choosers", "'task.chooser.class'"),
        ("task.consumer.batchsize", "is no key of choosers", "'task.consumer.batch.size'"),
        ("streams.viws.samza.priority", "names no stream", "'streams.views.samza.priority'"),
        ("streams.out.samza.bootstrap", "names no stream", "It reads kafka.views"),
        ("streams.views.samza.prioirty", "is no key of choosers", "'streams.views.samza.priority'"),
        ("streams.views.samza.boostrap", "is no key of choosers", "'streams.views.samza.bootstrap'"),
        (
            "systems.kafka.streams.viws.samza.priority",
            "names no stream",
            "'systems.kafka.streams.views.samza.priority'",
        ),
        ("systems.kafak.streams.views.samza.bootstrap", "names no stream", "'systems.kafka.streams.views.samza.boot"),
        (
            "systems.kafka.streams.views.samza.priorty",
            "is no key of choosers",
            "'systems.kafka.streams.views.samza.prio",
        ),
    ],
)
def test_a_key_of_choosers_that_names_nothing_is_rejected_with_what_was_meant(key: str, said: str, hint: str) -> None:
    with pytest.raises(ConfigError) as caught:
        planned({key: "true" if "boo" in key else "1"})
    assert caught.value.sentence.startswith(f"{key} in the application's configuration {said}")
    assert hint in str(caught.value.hint)
    assert caught.value.facts["key"] == key


@pytest.mark.parametrize(
    "key",
    [
        "task.chooser.priorities.kafka.views",
        "task.chooser.priorities.log.clicks",
        "task.chooser.priorities.anywhere.clicks",
        "task.chooser.priorities.kafka.renames",
        "streams.clicks.samza.priority",
        "streams.renames.samza.priority",
        "systems.kafka.streams.views.samza.priority",
        "task.consumer.batch.size",
        "streams.views.samza.key.serde",
        "systems.kafka.streams.views.samza.broadcast",
        "systems.kafka.consumer.bootstrap.servers",
    ],
)
def test_keys_of_streams_that_are_read_and_other_keys_of_samza_are_taken(key: str) -> None:
    planned({key: "1"})


def test_an_unset_key_names_nothing() -> None:
    planned({"task.chooser.priorities.kafka.viws": " "})


def test_the_names_of_configuration_count() -> None:
    named = {"streams.views.samza.physical.name": "page.views", "streams.views.samza.system": "eu"}
    planned({**named, "task.chooser.priorities.eu.page.views": "1"})
    with pytest.raises(ConfigError, match="names no stream"):
        planned({**named, "task.chooser.priorities.kafka.views": "1"})


def test_a_side_input_that_a_table_names_with_dots_has_that_name() -> None:
    def dotted(app: Any) -> None:
        views = app.input_stream("views", system="kafka", schema="k string", partitions=2)
        names = app.table("names", key="k", schema="k string, name string", side_inputs=["kafka.page.names"])
        views.partition_by("k", id="by-k").join(names, id="named").send_to(app.output_stream("out"))

    spec = stream_application("app")(dotted).spec()
    for key in ("task.chooser.priorities.kafka.page.names", "systems.kafka.streams.page.names.samza.priority"):
        ExecutionPlanner({key: "1"}, dict.fromkeys(spec.side_inputs, 2)).plan(spec)
        settings, names = chooser_settings(replace(spec, config={key: "1"}), dict.fromkeys(spec.side_inputs, "kafka"))
        assert set(names.values()) == {"kafka.page.names"}
        assert settings.priorities == {"kafka.page.names": 1}


def test_where_a_stream_lies_is_known_when_a_run_is_planned() -> None:
    planned({"task.chooser.priorities.events.clicks": "1"}, {"clicks": "events", "views": "kafka"})
    with pytest.raises(ConfigError, match="names no stream") as caught:
        planned({"task.chooser.priorities.event.clicks": "1"}, {"clicks": "events", "views": "kafka"})
    assert "Did you mean 'task.chooser.priorities.events.clicks'?" in str(caught.value.hint)


def test_the_test_driver_rejects_them_too() -> None:
    with pytest.raises(ConfigError, match="names no stream"):
        TestDriver(APPLICATION, config={"task.chooser.priorities.kafka.viws": "1"}).run()

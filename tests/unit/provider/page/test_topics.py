"""Topics of a run as the page shows them."""

from __future__ import annotations

import dataclasses

from airflow_samza.provider.page.opened_run import OpenedRun
from airflow_samza.provider.page.topics import run_topics
from tests.support.page_here import Page


def test_a_system_of_another_name_has_the_topics_of_its_kind(page: Page) -> None:
    run = page.plan()
    opened = OpenedRun(page.airflow.plans[-1])
    named = [topic.bound.stream_id for topic in run_topics(opened)]
    streams = {name: dataclasses.replace(stream, system="mine") for name, stream in run.streams.items()}
    opened.__dict__["run"] = dataclasses.replace(run, streams=streams, systems={"mine": {"kind": "log"}})
    opened.__dict__["bound"] = {"mine": page.here.log}, None
    topics = list(run_topics(opened))
    assert named
    assert [topic.bound.stream_id for topic in topics] == named
    assert {(topic.kind, topic.bound.system) for topic in topics} == {("log", "mine")}

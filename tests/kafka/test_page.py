"""Topics of a real Kafka in the page: inputs, outputs and those between stages, and brokers that are away."""

from __future__ import annotations

import json
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from airflow_samza.provider.page import looks, opened_run
from airflow_samza.systems.kafka.clients import _GROUP as GROUP
from airflow_samza.systems.system import SystemBinding
from demo.airflow_settings import free_port
from demo.browser import open_page
from tests.support.kafka_outputs import read_all
from tests.support.kafka_runs import Running
from tests.support.kafka_topics import Sent, Topics
from tests.support.page_here import Page, make_page, served
from tests.support.runs_here import Here
from tests.support.waiting import until

pytestmark = [pytest.mark.extended, pytest.mark.kafka, pytest.mark.timeout(300)]

APPLICATION = """
from airflow_samza import stream_application

VISIT = "country string, email string, n bigint"

@stream_application("visits")
def visits(app):
    app.default_system("events")
    moved = app.input_stream("visits", schema=VISIT).partition_by("country", id="by-country")
    moved.where("n >= 0", id="good").send_to(app.output_stream("countries", key="country"))
    moved.where("n = 3", id="three").send_to(app.output_stream("threes", schema=VISIT, key="country"))

@stream_application("following-visits")
def following_visits(app):
    read = app.input_stream("visits", system="events", schema=VISIT, slice="checkpoint")
    read.where("n >= 0", id="good").send_to(app.output_stream("copies", system="log", partitions=1))
"""

VISITS = [{"country": ("fr", "de")[n % 2], "email": f"m{n}@example.org", "n": n} for n in range(6)]


def brokers(address: str) -> dict[str, Any]:
    return {"conn_type": "kafka", "extra": {"bootstrap.servers": address}}


@pytest.fixture
def page(tmp_path: Path, topics: Topics, monkeypatch: pytest.MonkeyPatch) -> Page:
    (tmp_path / "page_app.py").write_text(APPLICATION, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    binding = SystemBinding("kafka", {"bootstrap.servers": topics.address})
    here = Here(tmp_path / "root", bindings={"events": binding})
    return make_page(here, monkeypatch, {"events": brokers(topics.address)})


@pytest.fixture
def names(page: Page, topics: Topics) -> dict[str, str]:
    """Make a run over a topic; the topics of its streams, by stream."""
    found = {"visits": topics.make("visits", partitions=2)}
    found |= {name: topics.name(name) for name in ("countries", "threes")}
    topics.send(found["visits"], [Sent(json.dumps(visit), partition=n % 2) for n, visit in enumerate(VISITS)])
    page.run(config={f"streams.{stream}.samza.physical.name": topic for stream, topic in found.items()})
    return found


def values(page: Page, stream: str, **asked: Any) -> list[dict[str, Any]]:
    """The user messages of a stream's partitions."""
    parts = page.get("topics")["topics"]
    (topic,) = (part for part in parts if part["stream_id"] == stream)
    return [
        message["value"]
        for partition in range(topic["partitions"])
        for message in page.get(f"topics/{stream}/messages", partition=partition, **asked)["messages"]
        if message["control"] is None
    ]


def test_topics_of_brokers_have_offsets_columns_and_messages(page: Page, names: dict[str, str]) -> None:
    topics = {topic["stream_id"]: topic for topic in page.get("topics")["topics"]}
    assert {stream: topics[stream]["topic"] for stream in names} == names
    assert {topic["kind"] for topic in topics.values()} == {"kafka"}
    visits = topics["visits"]
    assert (visits["partitions"], visits["messages"], visits["offsets"], visits["note"]) == (2, None, 6, None)
    detail = page.get("topics/visits")
    assert [(part["oldest"], part["next"]) for part in detail["partitions"]] == [(0, 3), (0, 3)]
    assert (detail["columns"], detail["commits"]) == ("country string, email string, n bigint", [])
    assert sorted(values(page, "visits"), key=lambda row: row["n"]) == VISITS
    second = page.get("topics/visits/messages", partition=1, from_offset=1, limit=1)
    assert [(message["offset"], message["value"]["n"]) for message in second["messages"]] == [(1, 3)]
    assert (second["oldest"], second["head"], second["next_offset"]) == (0, 3, 2)


def test_a_topic_between_stages_has_commits_and_control_messages(page: Page, names: dict[str, str]) -> None:
    detail = page.get("topics/by-country")
    assert (detail["topic"]["messages"], detail["topic"]["control"]) == (6, 4)  # two tasks end two partitions
    assert [(commit["messages"], commit["control"]) for commit in detail["commits"]] == [(6, 4)]
    assert sorted(values(page, "by-country"), key=lambda row: row["n"]) == VISITS
    (filled, *_) = (part for part in detail["partitions"] if part["messages"])
    read = page.get("topics/by-country/messages", partition=filled["partition"])["messages"]
    assert {message["control"] for message in read} == {None, "EndOfStream"}


def test_an_output_is_shown_by_its_columns_or_as_json(page: Page, names: dict[str, str]) -> None:
    assert values(page, "threes") == [VISITS[3]]
    shown = values(page, "countries")
    assert sorted((row["value"]["n"], row["key"]) for row in shown) == [(v["n"], v["country"]) for v in VISITS]
    assert {tuple(row) for row in shown} == {("key", "value", "timestamp", "headers")}


def test_columns_are_masked_in_messages_without_declared_columns_too(
    page: Page, names: dict[str, str], topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__SAMZA__PAGE_MASKED_COLUMNS", "email")
    topics.send(names["countries"], [Sent("m7@example.org", "m7@example.org", headers=[("who", b"m7@example.org")])])
    topics.send(names["visits"], [Sent("no JSON of m8@example.org")])
    for stream in (*names, "by-country"):
        partitions = range(len(page.get(f"topics/{stream}")["partitions"]))
        answers = [page.get(f"topics/{stream}/messages", partition=partition) for partition in partitions]
        assert any(answer["messages"] for answer in answers)
        assert "@" not in json.dumps(answers)


def test_what_cannot_be_read_is_shown_at_its_offset_with_the_reason(
    page: Page, names: dict[str, str], topics: Topics
) -> None:
    topics.send(names["visits"], [Sent("{broken"), Sent(json.dumps(VISITS[0]))])
    *_, broken, last = page.get("topics/visits/messages", partition=0)["messages"]
    assert (broken["offset"], broken["value"]["text"]) == (3, "{broken")
    assert broken["value"]["error"]
    assert last["value"] == VISITS[0]


def test_offsets_without_a_message_are_passed_by(page: Page, names: dict[str, str], topics: Topics) -> None:
    for n in (10, 11):  # the end of each transaction takes an offset
        topics.transaction(names["visits"], [Sent(json.dumps({"n": n}), partition=0)])
    found = page.get("topics/visits/messages", partition=0, from_offset=2, limit=2)
    assert [(message["offset"], message["value"]["n"]) for message in found["messages"]] == [(2, 4), (3, 10)]
    rest = page.get("topics/visits/messages", partition=0, from_offset=found["next_offset"], limit=2)
    assert [message["offset"] for message in rest["messages"]] == [5]
    assert rest["next_offset"] == rest["head"]


def test_looking_leaves_nothing_at_the_brokers(page: Page, names: dict[str, str], topics: Topics) -> None:
    before = [read_all(topics.address, topic) for topic in names.values()]
    for stream in (*names, "by-country"):
        values(page, stream)
    assert [read_all(topics.address, topic) for topic in names.values()] == before
    # Other tests use the same brokers: only what bears a name of this run, or that of every reader, is the page's.
    found = {group.group_id for group in topics.admin.list_consumer_groups().result().valid}
    assert not [group for group in found if group == GROUP or any(topic in group for topic in names.values())]


def test_a_topic_that_is_deleted_is_one_sentence(page: Page, names: dict[str, str], topics: Topics) -> None:
    topics.delete(names["threes"])
    (topic,) = (topic for topic in page.get("topics")["topics"] if topic["stream_id"] == "threes")
    assert topic["note"] == f"The topic {names['threes']!r} is not there."
    assert page.get("topics/threes/messages", 404)["sentence"] == topic["note"]
    assert names["threes"] not in topics.admin.list_topics(timeout=30).topics, "a look has made the topic again"


def test_brokers_that_are_away_are_one_sentence_within_seconds(
    page: Page, names: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opened_run, "SERVER_SECONDS", 1.0)
    monkeypatch.setenv("AIRFLOW_CONN_PAGE_EVENTS", json.dumps(brokers(f"127.0.0.1:{free_port()}")))
    began = time.monotonic()
    topics = {topic["stream_id"]: topic for topic in page.get("topics")["topics"]}
    for stream in ("visits", "countries", "threes"):
        assert "cannot be asked: " in topics[stream]["note"]
        found = page.get(f"topics/{stream}/messages", 503)
        assert (found["rule"], found["sentence"].count(". ")) == ("storage-unavailable", 0)
    assert topics["by-country"]["note"] is None  # its commits lie under the root
    assert topics["by-country"]["messages"] == 6
    filled = max(page.get("topics/by-country")["partitions"], key=lambda part: part["messages"])["partition"]
    assert page.get("topics/by-country/messages", 503, partition=filled)["sentence"]
    assert time.monotonic() - began < 30  # eight questions, of which one waits for the brokers


def test_progress_of_a_stage_at_work_does_without_brokers_that_are_away(
    page: Page, topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = topics.make("visits", partitions=2)
    topics.send(topic, [Sent(json.dumps(visit)) for visit in VISITS])
    config = {"streams.visits.samza.physical.name": topic}
    planned = SimpleNamespace(
        here=page.here, plan=lambda name, mode: page.plan(application=name, mode=mode, config=config)
    )
    running = Running(cast(Any, planned), "following-visits")
    until(lambda: len(page.here.rows("copies")) == len(VISITS), 120)
    running.cancel()
    topics.send(topic, [Sent(json.dumps(visit)) for visit in VISITS[:2]])
    found = page.get("progress")
    assert (found["stages"][0]["lag"], found["note"]) == (2, None)
    monkeypatch.setattr(opened_run, "SERVER_SECONDS", 1.0)
    monkeypatch.setenv("AIRFLOW_CONN_PAGE_EVENTS", json.dumps(brokers(f"127.0.0.1:{free_port()}")))
    looks.LOOKS._runs.clear()  # as after five minutes: connections are read again
    found = page.get("progress")
    assert (found["stages"][0]["read"], found["stages"][0]["lag"]) == (len(VISITS), None)
    assert found["note"].startswith("The lag behind streams of the system 'events' is not known at present: ")


@pytest.mark.browser
def test_a_browser_lists_an_input_topic_and_shows_its_messages_masked(
    page: Page, names: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__SAMZA__PAGE_MASKED_COLUMNS", "email")
    with served(page) as run, open_page(width=1120) as browser:
        browser.goto(f"{run}#/data")
        topics = browser.get_by_role("table", name="Topics", exact=True)
        topics.wait_for()
        cells = topics.get_by_role("row").filter(has_text="input").locator("td").all_inner_texts()
        assert cells[:5] == ["visits", "input", "events (kafka)", "2", "6 offsets"]
        topics.get_by_role("link", name="visits", exact=True).click()
        browser.get_by_role("button", name="Show", exact=True).click()
        messages = browser.get_by_role("table", name="Messages of partition 0 of visits")
        messages.wait_for()
        rows = [row.locator("td").all_inner_texts() for row in messages.locator("tbody tr").all()]
    # Offset, kind, country, email, n: partition 0 has every other visit.
    assert rows == [[str(offset), "message", "fr", "***", str(2 * offset)] for offset in range(3)]

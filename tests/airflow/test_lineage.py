"""Assets and events of OpenLineage of the demo's application, in a real Airflow, its tasks deferred."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import Any

import pytest

from airflow_samza.provider.airflow_versions import events_take_partitions
from tests.support.lineage_events import check_event, reached

pytestmark = [pytest.mark.nightly, pytest.mark.airflow, pytest.mark.spark, pytest.mark.timeout(1800)]

STAGES = ("flights", "planes", "by-tail-and-planes-by-tail", "by-maker-and-hour")

Event = dict[str, Any]


def ran(flights: Any, dag_id: str, run_id: str) -> dict[str, Any]:
    run: dict[str, Any] = flights.airflow.wait_for_run(dag_id, run_id, timeout=1200)
    assert run["state"] == "success", flights.airflow.task_states(dag_id, run_id)
    return run


def started_by_it(flights: Any, dag_id: str, source: str) -> dict[str, Any]:
    """Return what a run of a Dag was told of the event of the Dag ``source`` that has started it."""

    def told() -> list[dict[str, Any]]:
        runs = [run for run in flights.airflow.runs(dag_id) if run["state"] == "success"]
        events = [event for run in runs for event in flights.airflow.xcom(dag_id, run["dag_run_id"], "told")]
        return [event for event in events if event["source"] == source]

    found: list[dict[str, Any]] = flights.airflow.wait_until(told, 300, f"a run of {dag_id} by {source}")
    (event,) = found
    return event


@pytest.fixture(scope="module")
def keyed(flights: Any) -> str:
    """A keyed run, which goes on beside the other; none where Airflow has no partitions."""
    run_id: str = flights.airflow.trigger("lineage_keyed") if events_take_partitions() else ""
    return run_id


@pytest.fixture(scope="module")
def mapped(flights: Any) -> str:
    """A mapped run, which goes on beside the others, too."""
    run_id: str = flights.airflow.trigger("lineage_mapped")
    return run_id


@pytest.fixture(scope="module")
def failed(flights: Any) -> str:
    """A run whose task fails, beside the others."""
    run_id: str = flights.airflow.trigger("lineage_failed")
    return run_id


@pytest.fixture(scope="module")
def run_id(flights: Any, keyed: str, mapped: str, failed: str) -> str:
    flights.airflow.wait_for_dag("lineage_consumer")
    flights.airflow.pause("lineage_consumer", False)
    run_id: str = flights.airflow.trigger("lineage_flights")
    ran(flights, "lineage_flights", run_id)
    return run_id


def events_of(flights: Any, dag_id: str, group: str, runs: int = 1) -> dict[str, list[Event]]:
    """Return the events of the only run of a Dag by job, in the order in which they were sent.

    Its end, and those of the ``runs`` of the task group, are among them: each process sends its own.
    """
    found: dict[str, list[Event]] = defaultdict(list)

    def read() -> bool:
        found.clear()
        for line in flights.lineage.read_text().splitlines():
            event = json.loads(line)
            if event["job"]["name"].startswith(dag_id):  # of other Dags, failed tasks are told
                found[event["job"]["name"]].append(event)
        return bool(ends_of(found, dag_id)) and len(ends_of(found, f"{dag_id}.{group}")) >= runs

    flights.airflow.wait_until(read, 120, f"the end of the run of {dag_id} in the events")
    return found


@pytest.fixture(scope="module")
def events(flights: Any, run_id: str) -> dict[str, list[Event]]:
    return events_of(flights, "lineage_flights", "delays")


def ends_of(events: dict[str, list[Event]], job: str) -> list[Event]:
    return [event for event in events.get(job, ()) if event["eventType"] == "COMPLETE"]


def end_of(events: dict[str, list[Event]], job: str) -> Event:
    (event,) = ends_of(events, job)
    return event


def test_every_event_has_the_form_of_the_specification(events: dict[str, list[Event]]) -> None:
    tasks = {f"lineage_flights.delays.{task}" for task in ("plan", *STAGES, "cleanup")}
    assert set(events) == {*tasks, "lineage_flights", "lineage_flights.delays"}
    for found in events.values():
        for event in found:
            check_event({"inputs": [], "outputs": [], **event})


def test_a_deferred_task_starts_again_as_the_same_run_and_says_the_same(events: dict[str, list[Event]]) -> None:
    found = [event for stage in STAGES for event in events[f"lineage_flights.delays.{stage}"]]
    starts: dict[str, list[Event]] = defaultdict(list)
    for event in found:
        if event["eventType"] == "START":
            starts[event["run"]["runId"]].append(event)
    assert len(starts) == len(STAGES)
    assert any(len(again) > 1 for again in starts.values())  # a stage that ends at once is not deferred
    for again in starts.values():
        assert len({json.dumps(event["job"]["facets"]["samza"]) for event in again}) == 1


def test_stages_connect_sources_to_the_sink_through_topics(flights: Any, events: dict[str, list[Event]]) -> None:
    ends = [end_of(events, f"lineage_flights.delays.{stage}") for stage in STAGES]
    found = reached(ends, ("file", f"{flights.data}/flights"))
    topics = f"{flights.root}/topics/flights-of-a-day-1-"
    assert found == {
        ("file", f"{flights.data}/flights"),
        ("file", f"{topics}by-tail"),
        ("file", f"{topics}by-maker-and-hour"),
        ("file", f"{flights.warehouse}/delays-of-a-day"),
    }
    assert ("file", f"{flights.warehouse}/delays-of-a-day") in reached(ends, ("file", f"{flights.data}/planes"))


def test_the_whole_run_is_a_job_of_its_own_with_the_plan(
    flights: Any, run_id: str, events: dict[str, list[Event]]
) -> None:
    end = end_of(events, "lineage_flights.delays")
    (dag_run,) = {event["run"]["runId"] for event in events["lineage_flights"]}
    assert end["run"]["facets"]["parent"]["run"]["runId"] == dag_run
    assert {i["name"] for i in end["inputs"]} == {f"{flights.data}/flights", f"{flights.data}/planes"}
    assert [stage["id"] for stage in end["run"]["facets"]["samza_plan"]["stages"]] == list(STAGES)
    (written,) = end["outputs"]
    counted = flights.airflow.xcom("lineage_flights", run_id, "delays.by-maker-and-hour")["rows"]["delays"]
    assert written["outputFacets"]["outputStatistics"]["rowCount"] == counted
    columns = written["facets"]["columnLineage"]
    maker = {(f["name"].rpartition("/")[2], f["field"]) for f in columns["fields"]["manufacturer"]["inputFields"]}
    assert {("planes", "manufacturer"), ("flights", "tailnum")} <= maker  # a Python function joins the two
    filters = [f["field"] for f in columns["dataset"] for t in f["transformations"] if t["subtype"] == "FILTER"]
    assert "dep_delay" in filters


def test_the_plan_task_tells_the_plan(events: dict[str, list[Event]]) -> None:
    facet = end_of(events, "lineage_flights.delays.plan")["run"]["facets"]["samza_plan"]
    assert (
        facet["fingerprint"] == end_of(events, "lineage_flights.delays")["run"]["facets"]["samza_plan"]["fingerprint"]
    )


def test_an_output_starts_a_dag_that_reads_what_its_event_says(flights: Any, run_id: str) -> None:
    event = started_by_it(flights, "lineage_consumer", "lineage_flights")
    flights.airflow.pause("lineage_consumer", True)
    result = flights.airflow.xcom("lineage_flights", run_id, "delays.by-maker-and-hour")
    assert (event["stream"], event["rows"]) == ("delays", result["rows"]["delays"])
    assert event["files"] == len(result["outputs"]["delays"]["files"])
    assert event["bytes"] == result["outputs"]["delays"]["bytes"] > 0
    assert event["partition_key"] == "2013-01-01T00:00:00"
    assert event["interval"] == ["2013-01-01T00:00:00+00:00", "2013-01-02T00:00:00+00:00"]
    assert event["key"] is None


def test_outlets_of_the_user_get_their_events_beside_the_output(flights: Any, run_id: str) -> None:
    found = flights.airflow.api("GET", "/assets/events", params={"source_dag_id": "lineage_flights"})["asset_events"]
    assert {event["uri"] for event in found} == {
        "x-report://flights/delays",
        f"file://{flights.warehouse}/delays-of-a-day",
    }
    assert {event["source_task_id"] for event in found} == {"delays.by-maker-and-hour"}


@pytest.mark.skipif(not events_take_partitions(), reason="events take partition keys since Airflow 3.3")
def test_a_consumer_of_partitions_gets_the_key_of_the_data_interval(flights: Any, keyed: str) -> None:
    ran(flights, "lineage_keyed", keyed)
    event = started_by_it(flights, "lineage_partitions", "lineage_keyed")
    assert event["key"] == event["partition_key"] == "2013-01-02T00:00:00"
    assert event["rows"] > 0


def test_each_index_of_a_mapped_group_is_a_run_of_its_own(flights: Any, mapped: str) -> None:
    ran(flights, "lineage_mapped", mapped)
    events = events_of(flights, "lineage_mapped", "each.makers", 2)
    topic = ("file", f"{flights.root}/topics/planes-by-tail-1-by-tail")
    planes = ("file", f"{flights.data}/planes")
    output = ("file", f"{flights.warehouse}/planes-by-tail")
    stages = [ends_of(events, f"lineage_mapped.each.makers.{stage}") for stage in ("planes", "by-tail")]
    whole = ends_of(events, "lineage_mapped.each.makers")
    for found in (*stages, whole):
        assert len({event["run"]["runId"] for event in found}) == len(found) == 2
        for event in found:
            check_event({"inputs": [], "outputs": [], **event})
    for index in (0, 1):
        assert reached([stage[index] for stage in stages], planes) == {planes, topic, output}
        assert reached([whole[index]], planes) == {planes, output}
    runs = {event["run"]["facets"]["samza_plan"]["runId"] for event in whole}
    told = flights.airflow.api("GET", "/assets/events", params={"source_dag_id": "lineage_mapped"})["asset_events"]
    assert {event["uri"] for event in told} == {f"file://{flights.warehouse}/planes-by-tail"}
    assert {event["extra"]["run_id"] for event in told} == runs
    assert {(event["source_map_index"], event["extra"]["interval"][0][:10]) for event in told} == {
        (0, "2013-01-01"),
        (1, "2013-01-02"),
    }


def test_a_deferred_task_whose_trigger_fails_names_its_datasets_and_its_error(flights: Any, failed: str) -> None:
    assert flights.airflow.wait_for_run("lineage_failed", failed)["state"] == "failed"

    def read() -> Event | None:
        events = [json.loads(line) for line in flights.lineage.read_text().splitlines()]
        ends = (e for e in events if e["job"]["name"] == "lineage_failed.makers" and e["eventType"] != "START")
        return next(ends, None)

    end = flights.airflow.wait_until(read, 120, "the end of the task that failed in the events")
    check_event(end)
    assert end["eventType"] == "FAIL"
    assert [(i["namespace"], i["name"]) for i in end["inputs"]] == [("file", f"{flights.data}/planes")]
    assert [(o["namespace"], o["name"]) for o in end["outputs"]] == [("file", f"{flights.warehouse}/planes-by-tail")]
    assert "outputStatistics" not in end["outputs"][0].get("outputFacets", {})
    assert "rigger" in end["run"]["facets"]["errorMessage"]["message"]

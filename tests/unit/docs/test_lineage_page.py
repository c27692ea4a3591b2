"""The page on lineage, and the events that stand beside it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.lineage_events import OUR_FACETS, check_event, reached

DOCS = Path(__file__).parents[3] / "docs"
PAGE = (DOCS / "operate/lineage.md").read_text()


@pytest.fixture(scope="module")
def events() -> list[dict[str, Any]]:
    return [json.loads(line) for line in (DOCS / "reference" / "openlineage-events.jsonl").read_text().splitlines()]


def test_the_events_have_the_form_of_the_specification(events: list[dict[str, Any]]) -> None:
    for event in events:
        check_event({"inputs": [], "outputs": [], **event})


def test_the_events_connect_the_flights_with_the_delays_through_topics(events: list[dict[str, Any]]) -> None:
    stages = [event for event in events if event["job"]["facets"].get("samza", {}).get("stage")]
    assert len(stages) == 4
    assert ("file", "/warehouse/delays-of-a-day") in reached(stages, ("file", "/data/flights"))
    assert ("file", "/warehouse/delays-of-a-day") in reached(stages, ("file", "/data/planes"))


def test_the_page_names_every_facet_of_ours(events: list[dict[str, Any]]) -> None:
    sent = {
        name: facet["_schemaURL"].rpartition("/")[2]
        for event in events
        for name, facet in {**event["run"]["facets"], **event["job"]["facets"]}.items()
        if facet["_schemaURL"].startswith("urn:airflow-samza:")
    }
    assert set(sent.values()) == set(OUR_FACETS["$defs"]) - {"BaseFacet"}
    assert all(f"`{name}`" in PAGE for name in sent)

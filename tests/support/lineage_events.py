"""Events of OpenLineage in tests: checked for their shape, and as a graph of datasets and jobs."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import jsonschema

OUR_FACETS = json.loads((Path(__file__).parents[2] / "docs" / "reference" / "openlineage-facets.json").read_text())

_URI = re.compile(r"[a-z][a-z0-9+.-]*:.+")


def check_event(event: Mapping[str, Any]) -> None:
    """Fail where an event has not the form of OpenLineage's specification, or a facet of ours not that of its own."""
    assert event["eventType"] in ("START", "RUNNING", "COMPLETE", "FAIL", "ABORT", "OTHER")
    assert _URI.fullmatch(event["producer"])
    assert _URI.fullmatch(event["schemaURL"])
    assert re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", event["run"]["runId"])
    assert event["job"]["namespace"]
    assert event["job"]["name"]
    check_facets(event["run"].get("facets", {}))
    check_facets(event["job"].get("facets", {}))
    for dataset in (*event["inputs"], *event["outputs"]):
        check_dataset(dataset)


def check_dataset(dataset: Mapping[str, Any]) -> None:
    """Fail where a dataset has not the form of the specification, or tells of columns that it does not have."""
    assert dataset["namespace"]
    assert dataset["name"]
    facets = dataset.get("facets", {})
    for named in (facets, dataset.get("inputFacets", {}), dataset.get("outputFacets", {})):
        check_facets(named)
    known = {field["name"] for field in facets.get("schema", {}).get("fields", ())}
    lineage = facets.get("columnLineage")
    if lineage is not None:
        assert set(lineage["fields"]) <= known
        for field in (*(f for found in lineage["fields"].values() for f in found["inputFields"]), *lineage["dataset"]):
            assert {"namespace", "name", "field", "transformations"} <= field.keys()
            assert {change["type"] for change in field["transformations"]} <= {"DIRECT", "INDIRECT"}


def check_facets(facets: Mapping[str, Mapping[str, Any]]) -> None:
    """Fail where a facet names no producer or schema, or one of ours is not as its schema says."""
    for name, facet in facets.items():
        assert _URI.fullmatch(facet["_producer"]), name
        assert _URI.fullmatch(facet["_schemaURL"]), name
        if facet["_schemaURL"].startswith("urn:airflow-samza:"):
            kind = facet["_schemaURL"].rpartition("/")[2]
            jsonschema.validate(facet, {"$ref": f"#/$defs/{kind}", "$defs": OUR_FACETS["$defs"]})


def reached(events: Iterable[Mapping[str, Any]], start: tuple[str, str]) -> set[tuple[str, str]]:
    """Return the datasets that can be reached from one, from job to job."""
    edges = [({_name(i) for i in event["inputs"]}, {_name(o) for o in event["outputs"]}) for event in events]
    found: set[tuple[str, str]] = {start}
    before: set[tuple[str, str]] = set()
    while before != found:
        before = set(found)
        for inputs, outputs in edges:
            if inputs & found:
                found |= outputs
    return found


def _name(dataset: Mapping[str, Any]) -> tuple[str, str]:
    return dataset["namespace"], dataset["name"]

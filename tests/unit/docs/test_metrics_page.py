"""The page of metrics, the dashboard, the alert rules and the mapping of StatsD's names, against what is sent."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest
import yaml

from airflow_samza.provider.stats import emitter, gauges_of
from airflow_samza.runs.progress.progress import PartitionProgress, ProgressReport, Rate
from airflow_samza.runs.records.expectations import ExpectationResult
from airflow_samza.runs.stages.stage_state import RUNNING
from tests.support.airflow_names import metrics_sent_to
from tests.support.documentation_pages import text_of

PARTITIONS = (PartitionProgress("clicks", 0, 90, 100, watermark=5_000),)
FULL = replace(
    ProgressReport("by-member", "1.1", RUNNING, 15.0, partitions=PARTITIONS, side_inputs=PARTITIONS),
    now=Rate(7.0, 3.0, 30.0),
    metrics={"seen": 4.0},
    expectations={"out": (ExpectationResult("unique(id)", "unique", "failed", ("id",), 5, 1),)},
)
"""A report in which everything is known."""

KNOWN = {gauge.name for gauge in gauges_of(FULL)}
PROMETHEUS = "airflow_samza_stage_"


def used_in(text: str) -> set[str]:
    return set(re.findall(rf"{PROMETHEUS}(\w+)", text))


def test_the_page_names_what_is_sent() -> None:
    catalogue = text_of("operate/metrics.md").partition("\n## ")[0]
    rows = re.findall(r"^\| (`.*?) \|", catalogue, flags=re.MULTILINE)
    assert {name for row in rows for name in re.findall(r"`(\w+)`", row)} == KNOWN


@pytest.mark.parametrize("file", ["grafana.json", "alerts.yml"])
def test_a_file_uses_metrics_that_are_sent(file: str) -> None:
    used = used_in(text_of(f"monitoring/{file}"))
    assert used
    assert used <= KNOWN


def test_the_dashboard_shows_every_metric() -> None:
    assert used_in(text_of("monitoring/grafana.json")) == KNOWN


def test_each_panel_of_the_dashboard_has_a_place_of_its_own() -> None:
    panels = json.loads(text_of("monitoring/grafana.json"))["panels"]
    cells = [
        (column, row)
        for place in (panel["gridPos"] for panel in panels)
        for column in range(place["x"], place["x"] + place["w"])
        for row in range(place["y"], place["y"] + place["h"])
    ]
    assert len(set(cells)) == len(cells)
    assert max(column for column, _ in cells) == 23
    assert len({panel["id"] for panel in panels}) == len(panels)


def test_the_page_says_of_each_alert_what_it_means() -> None:
    (group,) = yaml.safe_load(text_of("monitoring/alerts.yml"))["groups"]
    rows = re.findall(r"^\| `(Samza\w+)` \|", text_of("operate/metrics.md"), flags=re.MULTILINE)
    assert rows == [rule["alert"] for rule in group["rules"]]


def test_names_without_tags_are_mapped_to_the_names_with_tags() -> None:
    sent: dict[str, Any] = {}

    class Backend:
        def gauge(self, name: str, value: float, *, tags: Any = None) -> None:
            sent[name] = tags

    with metrics_sent_to(Backend()):
        emitter("views", {})(FULL)
    mapped = {name: found for name in sent if (found := prometheus_of(f"airflow.{name}")) is not None}
    with_tags = {
        f"airflow_{name.replace('.', '_')}": tags for name, tags in sent.items() if name.startswith("samza.stage.")
    }
    assert dict(mapped.values()) == with_tags


def prometheus_of(name: str) -> tuple[str, dict[str, str]] | None:
    """Return metric and labels by the first mapping that fits, as statsd_exporter finds it; None: dropped."""
    for mapping in yaml.safe_load(text_of("monitoring/statsd-mapping.yml"))["mappings"]:
        pattern = re.escape(mapping["match"]).replace(r"\*", "([^.]*)")
        if (found := re.fullmatch(pattern, name)) is None:
            continue
        if mapping.get("action") == "drop":
            return None

        def filled(text: str, found: re.Match[str] = found) -> str:
            return re.sub(r"\$(\d)", lambda group: found[int(group[1])], text)

        return filled(mapping["name"]), {label: filled(value) for label, value in mapping["labels"].items()}
    raise AssertionError(f"no mapping fits {name}")

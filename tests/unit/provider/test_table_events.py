"""Commits of tables that started a Dag run: the version up to which its run reads them, in each way of planning it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import Asset, AssetAlias

from airflow_samza.provider.operators.planning import SamzaPlanOperator
from airflow_samza.provider.operators.stream import SamzaStreamOperator

OWN = {"stream": "views", "application": "load", "run_id": "r"}


@pytest.fixture(autouse=True)
def connections(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_SAMZA_DEFAULT", '{"conn_type": "samza", "extra": {"root": "/srv/samza"}}')
    monkeypatch.setenv("AIRFLOW_CONN_LAKE", '{"conn_type": "iceberg", "extra": {"root": "/srv/lake"}}')
    monkeypatch.setenv("AIRFLOW_CONN_OTHER", '{"conn_type": "iceberg", "host": "https://catalog:8181"}')
    monkeypatch.setenv("AIRFLOW_CONN_DELTA", '{"conn_type": "delta", "extra": {"root": "/srv/delta"}}')


def watched(snapshot: Any, table: str = "web.views", branch: str = "main") -> dict[str, Any]:
    payload = {"table": table, "branch": branch, "snapshot_id": snapshot, "previous_snapshot_id": None}
    return {"from_trigger": True, "payload": payload}


def at(uri: str, *extras: Any) -> dict[Any, list[Any]]:
    asset = Asset(name=uri, uri=uri)
    return {asset: [SimpleNamespace(extra=extra, asset=asset) for extra in extras]}


WATCHER = "x-any://name"
VIEWS = "file:///srv/lake/web/views"


@pytest.mark.parametrize(
    ("events", "versions", "told"),
    [
        (
            at(WATCHER, watched(8271638172635514)),
            {"views": "8271638172635514"},
            ["up to 8271638172635514 of web.views"],
        ),
        (at(WATCHER, watched(7), watched(7), watched(5)), {"views": "5,7"}, ["up to the newest of 7, 5 of web.views"]),
        (at(VIEWS, {**OWN, "snapshot": "9"}), {"views": "9"}, ["up to 9 of web.views"]),
        (at("x-iceberg://catalog:8181/web.views", {**OWN, "snapshot": "9"}), {}, []),
        (at(VIEWS, {"table": "web.views", "version": 3}), {}, []),
        (at("file:///srv/delta/raw", {**OWN, "version": 0}), {"raw": "0"}, ["The input raw is read up to 0 of raw"]),
        (
            at(WATCHER, watched(7, branch="audit")),
            {},
            ["views, which reads the branch main, and the commit is on audit."],
        ),
        (at(WATCHER, watched(7, "web.fixed")), {}, ["fixed, which has the option snapshot, which says what is read"]),
        (
            at(WATCHER, watched(7, "web.both")),
            {},
            [f"{name}, which has namesakes: a table of this name is in lake and in other" for name in "ab"],
        ),
        (at("x-iceberg://catalog:8181/web.both", {**OWN, "snapshot": "9"}), {"b": "9"}, ["up to 9 of web.both"]),
        (at(WATCHER, watched(7, "web.strange"), watched("x"), {"from_trigger": True}, {}, None), {}, []),
    ],
    ids=[
        "a watcher's",
        "several",
        "of a run that wrote it",
        "of another place",
        "of a pushed table",
        "Delta",
        "another branch",
        "a snapshot of the application's choice",
        "two catalogs",
        "one of two catalogs",
        "no commits of inputs",
    ],
)
@pytest.mark.parametrize("kind", [SamzaPlanOperator, SamzaStreamOperator], ids=["plan", "by hand"])
def test_a_run_reads_up_to_the_version_that_its_asset_event_names(
    kind: Any,
    events: dict[Any, list[Any]],
    versions: dict[str, str],
    told: list[str],
    runtime: Any,
    make_context: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    operator = kind(
        task_id="t",
        application="provider_applications:of_tables",
        systems={"lake": "lake", "other": "other", "delta": "delta"},
        **({"poll_interval": 0.001, "deferrable": False} if kind is SamzaStreamOperator else {}),
    )
    lines: list[str] = []
    monkeypatch.setattr(kind, "tell", lambda self, line: lines.append(line))
    by_alias = {AssetAlias(name="all"): [event for many in events.values() for event in many]}
    operator.execute({**make_context(operator), "triggering_asset_events": {**events, **by_alias}})
    assert runtime.named("prepare")[0][1].input_versions == versions
    about_events = [line for line in lines if "asset event" in line]
    assert len(about_events) == len(told)
    assert all(text in line for text, line in zip(told, about_events, strict=True))


def test_what_the_task_says_stands_over_its_events(runtime: Any, make_context: Any) -> None:
    operator = SamzaPlanOperator(
        task_id="t",
        application="provider_applications:of_tables",
        systems={"lake": "lake", "other": "other", "delta": "delta"},
        input_versions={"views": "current", "raw": "4"},
    )
    operator.execute({**make_context(operator), "triggering_asset_events": at(WATCHER, watched(7))})
    assert runtime.named("prepare")[0][1].input_versions == {"views": "current", "raw": "4"}

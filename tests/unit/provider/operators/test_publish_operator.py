"""The operator that publishes what a run has committed to branches of tables."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from airflow_samza.operators import SamzaPublishOperator
from airflow_samza.provider import airflow_versions
from airflow_samza.provider.operators.plan import ticket_of
from tests.support import slot_apps
from tests.support.airflow_names import OutletEvents
from tests.support.iceberg_lake import catalog_at
from tests.support.slot_runs import DELTA, TABLE, Outputs


def newest_version(folder: Path, kind: str) -> str:
    """Return the version of the table that readers see."""
    if kind == "delta":
        return str(DeltaTable(str(folder / "web/out")).version())
    with catalog_at(folder) as catalog:
        return str(catalog.load_table("web.out").metadata.current_snapshot_id)


class Event:
    """The event of an asset, or of an alias."""

    def __init__(self) -> None:
        self.extra: dict[str, Any] = {}

    def add(self, asset: Any, extra: dict[str, Any]) -> None:
        self.extra = extra


@pytest.mark.parametrize(
    ("application", "system", "kind", "word"),
    [(TABLE, "tables", "iceberg", "snapshot"), (DELTA, "deltas", "delta", "version")],
    ids=["iceberg", "delta"],
)
def test_it_publishes_the_run_of_its_plan_and_a_retry_tells_what_is_published(
    tmp_path: Path,
    make_context: Any,
    monkeypatch: pytest.MonkeyPatch,
    application: str,
    system: str,
    kind: str,
    word: str,
) -> None:
    monkeypatch.setattr(airflow_versions, "knows_asset", lambda uri: True)
    monkeypatch.setitem(slot_apps.OUTPUT, "branch", "audit/{run_id}")
    outputs = Outputs(tmp_path)
    connections = {
        "here": {"conn_type": "samza", "extra": {"root": str(outputs.here.root)}},
        system: {"conn_type": kind, "extra": {"root": str(tmp_path / system)}},
        "lake": {"conn_type": "fs", "extra": {"path": str(outputs.lake)}},
    }
    for name, connection in connections.items():
        monkeypatch.setenv(f"AIRFLOW_CONN_{name.upper()}", json.dumps(connection))
    outputs.day(1, 1)
    plan = outputs.run(application, "monday", 1)
    operator = SamzaPublishOperator(
        task_id="publish",
        application=application,
        conn_id="here",
        systems={system: system, "lake": "lake"},
        plan=ticket_of(plan).to_dict(),
    )
    for attempt in ("one that dies before its event is sent", "its retry"):
        events = OutletEvents(Event)
        (published,) = operator.execute({**make_context(operator), "outlet_events": events})
        assert (published["table"], published["branch"]) == ("web.out", "audit/monday"), attempt
        assert outputs.rows(application) == [1]
        current = newest_version(tmp_path / system, kind)
        assert [event.extra[word] for event in events.values()] == [published["version"]] == [current], attempt

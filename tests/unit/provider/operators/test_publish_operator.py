"""The operator that publishes what a run keeps back: output that waits for approval, and branches of tables."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from airflow_samza.operators import SamzaPublishOperator
from airflow_samza.provider import airflow_versions
from airflow_samza.provider.operators.planning import ticket_of
from tests.support import slot_apps
from tests.support.airflow_names import OutletEvents
from tests.support.iceberg_lake import catalog_at
from tests.support.slot_runs import DELTA, FILES, TABLE, Outputs


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


APPROVED = {"chosen_options": ["Approve"], "responded_by_user": {"id": "7", "name": "ann"}}
REJECTED = {"chosen_options": ["Reject"], "responded_by_user": {"id": "7", "name": "ann"}}


@pytest.fixture
def held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Outputs, Any]:
    """A run whose output waits, and a function that makes the operator."""
    monkeypatch.setattr(airflow_versions, "knows_asset", lambda uri: True)
    monkeypatch.setitem(slot_apps.OUTPUT, "publish", "after approval")
    outputs = Outputs(tmp_path)
    connections = {
        "here": {"conn_type": "samza", "extra": {"root": str(outputs.here.root)}},
        "lake": {"conn_type": "fs", "extra": {"path": str(outputs.lake)}},
    }
    for name, connection in connections.items():
        monkeypatch.setenv(f"AIRFLOW_CONN_{name.upper()}", json.dumps(connection))
    outputs.day(1, 1)
    plan = outputs.run(FILES, "monday", 1)

    def operator(**more: Any) -> SamzaPublishOperator:
        return SamzaPublishOperator(
            task_id="publish",
            application=FILES,
            conn_id="here",
            systems={"lake": "lake"},
            plan=ticket_of(plan).to_dict(),
            **more,
        )

    return outputs, operator


@pytest.mark.parametrize("approved", [True, "True", "yes", APPROVED], ids=["true", "text", "yes", "a person"])
def test_an_approval_publishes_with_an_event_and_is_on_record(
    held: tuple[Outputs, Any], make_context: Any, approved: Any
) -> None:
    outputs, make = held
    operator = make(approved=approved)
    for attempt in ("one that dies before its event is sent", "its retry"):
        events = OutletEvents(Event)
        (published,) = operator.execute({**make_context(operator), "outlet_events": events})
        assert (published["stream"], published["state"], published["rows"]) == ("out", "published", 1), attempt
        assert ("ann" in published["who"]) == (approved is APPROVED), attempt
        assert outputs.rows(FILES) == [1]
        assert [(event.extra["rows"], event.extra["files"]) for event in events.values()] == [(1, 1)], attempt


@pytest.mark.parametrize("approved", [False, "no", REJECTED], ids=["false", "text", "a person"])
def test_a_rejection_discards_it_sends_no_event_and_skips(
    held: tuple[Outputs, Any], make_context: Any, approved: Any
) -> None:
    outputs, make = held
    events = OutletEvents(Event)
    operator = make(approved=approved)
    with pytest.raises(airflow_versions.AirflowSkipException, match="has rejected what the run keeps back"):
        operator.execute({**make_context(operator), "outlet_events": events})
    assert not events
    assert outputs.rows(FILES) == []
    later = make()
    with pytest.raises(airflow_versions.AirflowException, match=r"cannot be published: .* has rejected it"):
        later.execute({**make_context(later), "outlet_events": events})


@pytest.mark.parametrize("answer", [None, "maybe", {"chosen_options": ["Later"]}])
def test_an_answer_that_is_neither_is_rejected_and_decides_nothing(
    held: tuple[Outputs, Any], make_context: Any, answer: Any
) -> None:
    outputs, make = held
    operator = make(approved=answer)
    with pytest.raises(airflow_versions.AirflowException, match="which is neither an approval nor a rejection"):
        operator.execute({**make_context(operator), "outlet_events": OutletEvents(Event)})
    assert outputs.rows(FILES) == []
    good = make()
    good.execute({**make_context(good), "outlet_events": OutletEvents(Event)})
    assert outputs.rows(FILES) == [1]


def test_a_dag_run_in_which_nothing_was_planned_has_nothing_to_publish(
    held: tuple[Outputs, Any], make_context: Any
) -> None:
    operator = SamzaPublishOperator(task_id="publish", application=FILES, conn_id="here", systems={"lake": "lake"})
    with pytest.raises(airflow_versions.AirflowException, match="has nothing to publish") as rejected:
        operator.execute({**make_context(operator), "outlet_events": OutletEvents(Event)})
    assert "Put it behind the tasks of the application." in str(rejected.value)

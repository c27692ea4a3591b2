"""The operator that compares an edited application with a run: which run it asks for, and what it returns."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from airflow_samza.errors import ConfigError, StageError
from airflow_samza.operators import SamzaCompareOperator, SamzaPublishOperator
from airflow_samza.prepare.run_request import RunRequest
from airflow_samza.provider import airflow_versions
from airflow_samza.provider.operators.compare import COMPARISON
from airflow_samza.provider.operators.planning import ticket_of
from airflow_samza.runs.records.run_plan import RunPlan
from tests.support.airflow_names import OutletEvents
from tests.support.compared_apps import EDIT
from tests.support.slot_runs import Outputs

SALES = "tests.support.compared_apps:sales"


class Event:
    """The event of an asset, or of an alias."""

    def __init__(self) -> None:
        self.extra: dict[str, Any] = {}

    def add(self, asset: Any, extra: dict[str, Any]) -> None:
        self.extra = extra


@pytest.fixture
def outputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Outputs]:
    EDIT.clear()
    made = Outputs(tmp_path)
    connections = {
        "here": {"conn_type": "samza", "extra": {"root": str(made.here.root)}},
        "lake": {"conn_type": "fs", "extra": {"path": str(made.lake)}},
    }
    for name, connection in connections.items():
        monkeypatch.setenv(f"AIRFLOW_CONN_{name.upper()}", json.dumps(connection))
    made.day(1, *range(20))
    made.run(SALES, "one", 1)
    yield made
    EDIT.clear()


def operator(**more: Any) -> SamzaCompareOperator:
    return SamzaCompareOperator(task_id="compare", application=SALES, conn_id="here", systems={"lake": "lake"}, **more)


def compared(outputs: Outputs, task: SamzaCompareOperator, context: Any) -> Any:
    """Run what a task asks for, and return its return value."""
    request = task._asked(RunRequest(SALES, "two", mode=task.mode))
    plan: RunPlan = outputs.here.plan(
        **{field.name: getattr(request, field.name) for field in dataclasses.fields(request)}
    )
    outputs.here.stages(plan)
    return task._summarized(plan, [], context)


def test_it_asks_for_what_the_other_run_has_read(outputs: Outputs) -> None:
    task = operator(as_of="one")
    request = task._asked(RunRequest(SALES, "two", mode=task.mode))
    assert (request.compares, request.mode) == ("sales/one", "staged")
    assert request.interval is not None
    assert request.interval.iso() == ("2013-01-01T00:00:00+00:00", "2013-01-02T00:00:00+00:00")
    assert operator(mode="pipelined")._asked(RunRequest(SALES, "two", mode="pipelined")).mode == "pipelined"


def test_equal_outputs_are_its_return_value(outputs: Outputs, make_context: Any) -> None:
    task = operator()
    told = compared(outputs, task, make_context(task))
    assert told["equal"] is True
    assert [(one["stream_id"], one["same"]) for one in told["outputs"]] == [("out", 20), ("sums", 2)]


def test_it_fails_where_outputs_differ_and_leaves_the_report(outputs: Outputs, make_context: Any) -> None:
    EDIT["where"] = "n > 0"
    task = operator(keys={"sums": "tens"})
    context = make_context(task)
    with pytest.raises(
        StageError, match=r"Outputs of the run 'two' of 'sales' differ from those of the run 'one': "
    ) as found:
        compared(outputs, task, context)
    assert not found.value.retryable
    report = context["ti"].pushed[COMPARISON]
    assert json.loads(json.dumps(report)) == report
    assert [one["gone"] for one in report["outputs"]] == [1, 0]


def test_it_may_only_report(outputs: Outputs, make_context: Any) -> None:
    EDIT["where"] = "n > 0"
    task = operator(fail_on_difference=False)
    assert compared(outputs, task, make_context(task))["equal"] is False


def test_rejects_parameters_that_the_other_run_sets() -> None:
    with pytest.raises(ConfigError, match="state_from='fresh' was set on 'compare', which compares an application"):
        operator(state_from="fresh")


def test_assets_have_an_event_when_what_was_compared_is_published(
    outputs: Outputs, make_context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(airflow_versions, "knows_asset", lambda uri: True)
    EDIT["where"] = "n > 0"
    task = operator(fail_on_difference=False)
    assert task.outlets == []
    compared(outputs, task, make_context(task))
    publish = SamzaPublishOperator(
        task_id="publish",
        application=SALES,
        conn_id="here",
        systems={"lake": "lake"},
        plan=ticket_of(outputs.here.runtime.load_plan("sales", "two")).to_dict(),
    )
    events = OutletEvents(Event)
    published = publish.execute({**make_context(publish), "outlet_events": events})
    assert sorted((one["stream"], one["state"]) for one in published) == [("out", "published"), ("sums", "published")]
    assert [event.extra["rows"] for event in events.values() if "rows" in event.extra] == [19, 2]

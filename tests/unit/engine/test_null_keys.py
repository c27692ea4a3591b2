"""Messages whose key is null at a partition_by or a join are counted; a stage in which all are warns, without Spark."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from airflow_samza.planner.titles import stage_names
from airflow_samza.runs.progress.progress import describe_progress
from airflow_samza.runs.records.names import Generation
from airflow_samza.runs.records.run_plan import RunPlan
from airflow_samza.runs.records.stage_result import StageResult, describe_result
from airflow_samza.runs.stages.stage_state import StageHandle
from airflow_samza.systems.system import SystemBinding
from tests.support.null_key_apps import REFUNDED
from tests.support.runs_here import Here

Rows = Sequence[Mapping[str, Any]]

ORDERS: Rows = [{"order_id": number, "member": f"m{number % 2}"} for number in range(4)]
REFUNDS: Rows = [{"order_id": number, "amount": 5} for number in range(2)]
MEMBERS: Rows = [{"member": f"m{number}", "name": f"Member {number}"} for number in range(2)]


def run(folder: Path, **files: Rows) -> tuple[Here, RunPlan]:
    """Run the application over lines of JSON."""
    lake = folder / "lake"
    lake.mkdir()
    for name, rows in {"orders": ORDERS, "refunds": REFUNDS, "members": MEMBERS, **files}.items():
        (lake / f"{name}.json").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    here = Here(folder / "root", bindings={"lake": SystemBinding("files", {"root": str(lake)})})
    return here, here.whole(REFUNDED, "one")


def results(here: Here, plan: RunPlan) -> list[StageResult]:
    return [here.runtime.finish(handle(plan, stage.stage_id)) for stage in plan.plan.stages]


def handle(plan: RunPlan, stage_id: str) -> StageHandle:
    return StageHandle(plan.application, plan.run_id, stage_id, Generation(plan.generation, 1), 1)


def counts(found: list[StageResult]) -> dict[str, int]:
    """Return the counters of null keys of all stages."""
    facts = {name: value for result in found for name, value in result.task_facts.items()}
    return {
        name.partition("refunded-1-")[2]: n for name, n in facts.items() if name.startswith("messages_without_key.")
    }


def renamed(rows: Rows, former: str, name: str) -> Rows:
    return [{name if column == former else column: value for column, value in row.items()} for row in rows]


def test_a_field_of_json_that_was_renamed_is_warned_of_at_each_operator_whose_keys_are_null(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "airflow_samza.runner")
    here, plan = run(tmp_path, orders=renamed(ORDERS, "order_id", "orderId"))
    found = results(here, plan)
    assert counts(found) == {"partition_by-orders-by-key": 4, "join-with-refunds.left": 4}
    names = stage_names(plan.plan)
    said = {name: [result.warnings for result in found if names[result.stage_id] == name] for name in names.values()}
    texts = [warning for result in found for warning in result.warnings]
    assert len(texts) == 2, said
    why = (
        ": a field may have another name in the data than in the schema, which reads it as null. Compare both; or, if "
        "keys may be null, leave such messages out before."
    )
    first = next(result for result in found if result.warnings)
    assert texts[0] == (
        f"All 4 messages at partition_by orders-by-key of the stage {names[first.stage_id]} had null in the key "
        f"(order_id){why}"
    )
    assert texts[1].startswith("All 4 messages of the left side at join with-refunds of the stage ")
    report = here.runtime.progress(handle(plan, first.stage_id))
    for lines in (describe_result(first), describe_progress(report), caplog.text.splitlines()):
        assert sum(texts[0] in line for line in lines) == 1
    assert not any("keyed" in line for line in describe_result(first))
    assert not any("keyed" in name for name in report.metrics)


def test_some_null_keys_are_counted_and_no_reason_to_warn(tmp_path: Path) -> None:
    orders: Rows = [*ORDERS[:3], {"member": "m1"}]
    found = results(*run(tmp_path, orders=orders, members=[]))
    assert counts(found) == {"partition_by-orders-by-key": 1, "join-with-refunds.left": 1}
    assert [result.warnings for result in found] == [()] * len(found)


def test_one_message_with_a_null_key_is_all_of_them(tmp_path: Path) -> None:
    found = results(*run(tmp_path, orders=[{"order_id": 1}]))
    assert counts(found) == {"partition_by-of-members": 1, "join-with-names": 1}
    (first, second) = [warning for result in found for warning in result.warnings]
    assert first.startswith("The only message at partition_by of-members of the stage ")
    assert second.startswith("The only message at join with-names of the stage ")

"""Expectations of inputs and outputs, and approval, of tables of Iceberg and Delta that stages on Spark write."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest

from airflow_samza.errors import ExpectationFailed, SamzaError
from airflow_samza.systems.system import SystemBinding
from tests.support import checked_apps, delta_lake
from tests.support.iceberg_lake import rows_of, stream, system_at
from tests.support.one_session import Runs
from tests.support.slot_runs import days

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

SHIPPED = checked_apps


def seen(folder: Path, system: str) -> list[int]:
    """Return what readers find; nothing where there is no table yet."""
    with contextlib.suppress(SamzaError):
        if system == "tables":
            return sorted(row["n"] for row in rows_of(system_at(folder / system), stream("web.out")))
        return sorted(row["n"] for row in delta_lake.rows_of(delta_lake.system_at(folder / system), stream("web.out")))
    return []


@pytest.mark.parametrize(
    ("application", "system"),
    [("checked_tables", "tables"), pytest.param("checked_deltas", "deltas", marks=pytest.mark.extended)],
)
def test_a_table_has_rows_that_meet_all_expectations_once_they_are_approved(
    session: Any, tmp_path: Path, application: str, system: str
) -> None:
    bindings = {
        "lake": SystemBinding("files", {"root": str(tmp_path / "lake")}),
        "tables": SystemBinding("iceberg", {"root": str(tmp_path / "tables")}),
        "deltas": SystemBinding("delta", {"root": str(tmp_path / "deltas")}),
    }
    runs = Runs(session, tmp_path / "root", bindings)
    (tmp_path / "lake/in").mkdir(parents=True)

    def run(day: int, *numbers: int, word: str | None = "a") -> Any:
        lines = "".join(json.dumps({"n": number, "word": word}) + "\n" for number in numbers)
        (tmp_path / f"lake/in/2013-01-{day:02}.jsonl").write_text(lines)
        plan = runs.plan(f"tests.support.checked_apps:{application}", f"day-{day}", interval=days(day))
        runs.stages(plan)
        return plan

    first = run(1, 1, 2, -3)
    assert seen(tmp_path, system) == []
    runs.runtime.publish(first, "ann")
    assert seen(tmp_path, system) == [1, 2]
    for day, numbers, word, sentence in (
        (2, (4, 5, 4), "a", r"The output 'out' does not meet the expectation unique\(n\): 1 row"),
        (3, (4, 100), "a", "The output 'out' does not meet the expectation n < 100: 1 of 2 rows"),
        (4, (4, 5), None, r"The input 'rows' does not meet the expectation not_null\(word\): 2 of 2 rows"),
        (5, (-4, -5), "a", r"rows\(at_least=1\): 0 rows, and at least 1"),
    ):
        with pytest.raises(ExpectationFailed, match=sentence):
            run(day, *numbers, word=word)
    assert seen(tmp_path, system) == [1, 2]
    runs.runtime.give_up(run(6, 6))
    runs.runtime.publish(run(7, 7))
    assert seen(tmp_path, system) == [1, 2, 7]

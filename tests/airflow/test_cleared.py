"""The preview of a clear beside the clear: what the page promises to run again is what Airflow runs again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import pytest

pytestmark = [pytest.mark.nightly, pytest.mark.airflow, pytest.mark.timeout(1800)]

DAG, PLAN, CLEANUP = "cleared", "plan", "cleanup"
GOOD, BAD, ALONE, BOTH, LAST = STAGES = ("good", "bad", "alone", "broken-and-kept", "last")
BEFORE = dict(zip(STAGES, ("success", "failed", "success", "upstream_failed", "upstream_failed"), strict=True))
SECONDS = 900

AGAIN = {
    (PLAN, True): {BAD, BOTH, LAST},
    (PLAN, False): set[str](),
    (GOOD, True): {GOOD, ALONE},
    (GOOD, False): {GOOD},
    (BAD, True): {BAD, BOTH, LAST},
    (BAD, False): {BAD},
    (BOTH, True): set[str](),
    (BOTH, False): set[str](),
}
"""The stages whose work is done again, by the task that is cleared, and whether the tasks after it are, too."""


class Outcome(NamedTuple):
    """Words of the preview of a clear, and what Airflow has run again: tasks, and stages whose work was done again."""

    preview: Mapping[str, Any]
    tasks: set[str]
    stages: set[str]

    def says(self, words: str) -> bool:
        """Return whether a sentence of the preview has these words."""
        return any(words in sentence for sentence in self.preview["sentences"])


def counts(flights: Any, run_id: str) -> tuple[dict[str, int], dict[str, int]]:
    """Return how often each task has run, and how often each stage was attempted."""
    tries = {task["task_id"]: task["try_number"] for task in flights.airflow.tasks(DAG, run_id)}
    ticket = flights.airflow.xcom(DAG, run_id, f"{DAG}.{PLAN}")
    folder = flights.root / "runs" / ticket["application"] / ticket["run_id"] / "stages"
    attempts = {stage: len([*(folder / stage).glob("*/attempts/*")]) for stage in STAGES}
    return {task.removeprefix(f"{DAG}."): number for task, number in tries.items()}, attempts


def more(before: Mapping[str, int], after: Mapping[str, int]) -> set[str]:
    return {name for name, number in after.items() if number > before[name]}


@pytest.fixture(scope="module")
def outcomes(flights: Any) -> dict[tuple[str, bool], Outcome]:
    """Outcomes of all clears of runs in which a stage has failed; runs and clears are made at the same time."""
    airflow, broken = flights.airflow, flights.signals / "cleared.broken"
    broken.touch()
    runs = {cell: airflow.trigger(DAG) for cell in AGAIN}
    for run_id in runs.values():
        airflow.wait_for_run(DAG, run_id, SECONDS)
        states = airflow.task_states(DAG, run_id)
        logs = [airflow.log(DAG, run_id, name) for name, state in states.items() if state == "failed"]
        assert {stage: states[f"{DAG}.{stage}"] for stage in STAGES} == BEFORE, "\n".join(logs)
    broken.unlink()
    before, previews = {}, {}
    for (task, after), run_id in runs.items():
        address = f"{airflow.url}/samza/api/dags/{DAG}/runs/{run_id}/plans/{DAG}.{PLAN}/-1/clear"
        asked = {"task_id": f"{DAG}.{task}", "downstream": after}
        previews[run_id] = airflow.api("GET", address, params=asked)
        before[run_id] = counts(flights, run_id)
        airflow.clear(DAG, run_id, f"{DAG}.{task}", downstream=after)
    found = {}
    for cell, run_id in runs.items():
        airflow.wait_for_run(DAG, run_id, SECONDS)
        tasks, stages = map(more, before[run_id], counts(flights, run_id))
        found[cell] = Outcome(previews[run_id], tasks, stages)
    return found


@pytest.mark.parametrize(("task", "after"), AGAIN)
def test_airflow_runs_again_what_the_preview_of_a_clear_promises(
    outcomes: dict[tuple[str, bool], Outcome], task: str, after: bool
) -> None:
    outcome = outcomes[task, after]
    promised = {stage["stage_id"] for stage in outcome.preview["stages"] if stage["effect"] == "runs again"}
    assert (promised, outcome.stages) == (AGAIN[task, after], AGAIN[task, after])
    tasks = {*STAGES} if (task, after) == (PLAN, True) else promised  # a task whose result may be kept, looks at it
    tasks |= {PLAN} if task == PLAN else set()
    tasks |= {CLEANUP} if outcome.says("cleanup runs again behind it") else set()
    assert outcome.tasks == tasks
    assert (CLEANUP not in tasks) == outcome.says("clear cleanup, too")

"""In whatever order runs are planned, run, closed, cleared and abandoned.

The versions are one chain without gaps or overlaps, and nobody publishes whose slice is another's.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given, settings, strategies as st

from airflow_samza.errors import StateError
from airflow_samza.runs.records.folders import must_read, write_once
from airflow_samza.runs.records.run_plan import RunPlan
from airflow_samza.runs.stages.run_ends import RunEnd
from airflow_samza.runs.state_history.lease import is_free, newest_lease
from airflow_samza.runs.state_history.state_at_end import leave_state
from airflow_samza.runs.state_history.state_at_start import Patience
from airflow_samza.runs.state_history.state_upkeep import abandon
from airflow_samza.runs.state_history.versions import find_version, newest_number
from tests.support.budgets import share
from tests.support.carried import STAGES, Carried

RUNS = ("a", "b", "c")
ACTIONS = ("plan", "clear", *STAGES, "close", "leave", "abandon")


class Model:
    """Runs as a scheduler, people and zombies drive them; every rejection is a StateError."""

    def __init__(self, root: Path) -> None:
        self.carried = Carried(root)
        self.plans: dict[str, RunPlan] = {}
        self.abandoned: set[str] = set()
        self.rejected = 0

    def act(self, run_id: str, action: str, patience: Patience) -> None:
        try:
            self._act(run_id, action, patience)
        except StateError:
            self.rejected += 1

    def _act(self, run_id: str, action: str, patience: Patience) -> None:
        carried, known = self.carried, self.plans.get(run_id)
        if action in ("plan", "clear"):
            former = known.generation if known is not None else 0
            self.plans[run_id] = carried.plan(
                run_id, max(former, 1) + (action == "clear" and former > 0), patience=patience
            )
        elif action == "abandon":
            if abandon(carried.files, carried.history, run_id, force=True) is None:
                self.abandoned.add(run_id)
        elif known is not None and action in STAGES:
            if action == STAGES[0] or carried.files.exists(
                self._result(known, STAGES[0])
            ):  # a stage follows its upstream
                carried.run_stage(known, action)
        elif known is not None and action == "close":
            write_once(carried.files, carried.folder(run_id).closed, RunEnd(False, 0.0))
        elif known is not None and action == "leave":
            leave_state(carried.files, known)

    def _result(self, run: RunPlan, stage: str) -> str:
        return f"{self.carried.folder(run.run_id).path}/stages/{stage}/{run.generation}.1/result.json"

    def holder(self) -> set[str]:
        """The run that holds the state, and may have come half way."""
        lease = newest_lease(self.carried.files, self.carried.history)
        return (
            {lease.run} if lease is not None and not is_free(self.carried.files, self.carried.history, lease) else set()
        )

    def chain(self) -> list[tuple[str, int, int]]:
        """The runs of the history with their slices, oldest first."""
        found = []
        number = newest_number(self.carried.files, self.carried.history)
        while number:
            version = find_version(self.carried.files, self.carried.history, number)
            assert version is not None
            record = self.carried.folder(version.run).plan(version.plan_generation)
            start, end = self._slice(record)
            assert version.offsets["views"] == (end,)
            found.append((version.run, start, end))
            number = version.parent
        return found[::-1]

    def _slice(self, path: str) -> tuple[int, int]:
        start, end = must_read(self.carried.files, path, RunPlan).streams["views"].slice["offsets"][0]  # type: ignore[index]
        return start, end


@settings(max_examples=share(150), deadline=None)
@given(st.lists(st.tuples(st.sampled_from(RUNS), st.sampled_from(ACTIONS), st.booleans()), max_size=30))
def test_the_versions_are_a_chain_and_only_its_runs_have_published(steps: list[tuple[str, str, bool]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        model = Model(Path(folder))
        for run_id, action, impatient in steps:
            model.act(run_id, action, Patience(grace_seconds=0.0 if impatient else 600.0))
        for run_id in RUNS:  # in the end everybody is given the chance to leave what is whole
            model.act(run_id, "leave", Patience())
        reached = 0
        for _, start, end in model.chain():
            assert start == reached
            reached = end
        published = {producer.split("/")[1] for producer in model.carried.sink.published}
        assert published - {run_id for run_id, _, _ in model.chain()} - model.abandoned <= model.holder()

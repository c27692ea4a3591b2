"""Runs that are ended by a callback of another task."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_samza.errors import ConfigError
from airflow_samza.notifications import SamzaStopNotifier
from airflow_samza.provider.hooks.root import RootHook
from airflow_samza.provider.operators.planning import SamzaPlanOperator
from airflow_samza.runs.records.folders import RunFolder, write_once
from airflow_samza.runs.stages.run_ends import is_ending
from airflow_samza.systems.filesystems.local import LocalFilesystem

VIEWS = "provider_applications:views"
CONTEXT = {"ti": SimpleNamespace(dag_id="feed", task_id="load")}


class Runs:
    """Runs of two Dags as their plan tasks leave them."""

    def __init__(self, root: Path, runtime: Any, make_context: Any) -> None:
        self.files, self.runtime, self.make_context = LocalFilesystem(root), runtime, make_context

    def plan(self, dag_id: str, mode: str = "continuous") -> RunFolder:
        operator = SamzaPlanOperator(task_id="plan", application=VIEWS, scope="views", mode=mode)
        self.runtime.plans.clear()
        run_id = operator.execute(self.make_context(operator, dag_id=dag_id))["run_id"]
        folder = RunFolder("views", run_id)
        write_once(self.files, folder.plan(1), self.runtime.plans[1])
        return folder

    def ending(self, folder: RunFolder) -> bool | None:
        return is_ending(self.files, folder, 1)


@pytest.fixture
def runs(tmp_path: Path, runtime: Any, make_context: Any, monkeypatch: pytest.MonkeyPatch) -> Runs:
    monkeypatch.setattr(RootHook, "root", str(tmp_path))
    monkeypatch.setattr(RootHook, "access", SimpleNamespace(options={}))
    return Runs(tmp_path, runtime, make_context)


@pytest.mark.parametrize(("action", "final"), [("stop", False), ("drain", True)])
def test_a_callback_ends_every_running_run_of_the_application(runs: Runs, action: str, final: bool) -> None:
    first, second, bounded = runs.plan("one"), runs.plan("two"), runs.plan("three", mode="staged")
    SamzaStopNotifier(application=VIEWS, action=action).notify(CONTEXT)
    assert [runs.ending(folder) for folder in (first, second, bounded)] == [final, final, None]


def test_a_callback_ends_the_runs_of_one_dag(runs: Runs) -> None:
    first, second = runs.plan("one"), runs.plan("two")
    SamzaStopNotifier(application=VIEWS, dag_id="two").notify({})
    assert [runs.ending(folder) for folder in (first, second)] == [None, False]


def test_airflow_calls_it_with_its_fields_rendered(runs: Runs) -> None:
    first, second = runs.plan("one"), runs.plan("two")
    context: dict[str, Any] = {"run_id": first.run_id, **CONTEXT}
    SamzaStopNotifier(application=VIEWS, run_id="{{ run_id }}")(context)
    assert [runs.ending(folder) for folder in (first, second)] == [False, None]
    assert context["run_id"] == first.run_id


def test_a_callback_without_a_run_to_end_does_nothing(runs: Runs) -> None:
    SamzaStopNotifier(application=VIEWS).notify(CONTEXT)


def test_rejects_an_action_when_the_dag_file_is_read() -> None:
    with pytest.raises(ConfigError, match="action='kill'"):
        SamzaStopNotifier(application=VIEWS, action="kill")


def test_the_notifier_takes_the_connection_under_either_name() -> None:
    assert SamzaStopNotifier(application=VIEWS, samza_conn_id="samza_eu").conn_id == "samza_eu"

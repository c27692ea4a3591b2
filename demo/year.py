"""The flights of the year in a real Airflow: one Dag run, what it did, and what came out."""

from __future__ import annotations

import webbrowser
from pathlib import Path
from typing import Any

from airflow_samza.systems.filesystems.root_access import NO_ACCESS
from demo import command_script, next_steps, show
from demo.local_airflow import LocalAirflow
from demo.object_stores import DemoStore
from demo.page_pictures import DAG, GROUP, take_pictures

WIDE_FILES = Path("wide/page-views")
"""The folder of the one file that a Dag of 200 stages reads, for pictures."""


class Year:
    """One run of the Dag ``flights``: ``run`` follows it to its end and shows what it did."""

    def __init__(self, airflow: LocalAirflow, home: Path, store: DemoStore | None, dags: Path) -> None:
        self.root, self.access = (str(home / "samza"), NO_ACCESS) if store is None else (store.root, store.access)
        self._airflow, self._home, self._store, self._dags = airflow, home, store, dags
        self._run_id = ""
        self._last = ""

    def run(self, seconds: float) -> str:
        """Trigger the Dag, follow it for ``seconds`` at most, show what came out, and return the run's state."""
        airflow, store = self._airflow, self._store
        airflow.wait_for_dag(DAG)
        before = store.requests() if store is not None else None
        self._run_id = airflow.trigger(DAG)
        show.step(f"The Dag {DAG!r} runs: each stage of the plan is a task")
        show.fact(self._in_airflow)
        state = show.follow(airflow, DAG, self._run_id, seconds)
        show.step("The plan, as the log of the plan task has it")
        show.indented(self._xcom(f"{GROUP}.plan", "plan_text") or "(there is none: the plan task failed)")
        if state != "success":
            show.failures(airflow, DAG, self._run_id)
            return state
        tasks = airflow.task_states(DAG, self._run_id)
        self._last = [task for task in tasks if task not in (f"{GROUP}.plan", f"{GROUP}.cleanup")][-1]
        self._show_result()
        if store is not None and before is not None:
            show.step("What the bucket holds now")
            show.bucket(store.folders())
            show.step("What the Dag run asked of the store, by the store's own log")
            show.requests(store.requests() - before)
        return state

    def open_page(self) -> None:
        """Open the Dag run in the browser of whoever runs the demo."""
        if not webbrowser.open(self._in_airflow):
            show.fact(f"No browser was found here; the Dag run is at {self._in_airflow}")

    def show_next_steps(self, kept: bool) -> None:
        """Show what to try next. ``kept`` says that Airflow stays; else it has to be started again, elsewhere."""
        script = command_script.write_script(self._home, self._airflow.environment)
        page = f"{self._airflow.url}/samza/runs/{DAG}/{self._run_id}" if kept else "Browse → Samza, in Airflow"
        show.step(f"Three things to try next{'' if kept else ', with KEEP=1 make demo, which leaves Airflow running'}")
        show.next_steps(next_steps.steps(script, page, DAG, self._last))

    def take_pictures(self, screenshot: Path) -> None:
        """Take the documentation's pictures: of the Dag run, and of the page in Airflow."""
        from demo.screenshot import take_screenshot

        airflow = self._airflow
        take_screenshot(self._in_airflow, airflow.username, airflow.password, screenshot)
        show.fact(f"The Dag run in Airflow's page: {screenshot}")
        for file in take_pictures(airflow, self._run_id, screenshot.parent / "page"):
            show.fact(f"{file}")

    def _show_result(self) -> None:
        show.step(f"What the log of the last stage says ({self._last})")
        show.stage_lines(self._airflow.log(DAG, self._run_id, self._last))
        result = self._xcom(self._last)["outputs"]["delays"]["path"]
        show.step("The first rows of the result: which makers' planes leave late, and at which hour")
        show.first_rows(result, self.access)
        logs = self._home / "airflow" / "logs" / f"dag_id={DAG}" / f"run_id={self._run_id}"
        show.step("Where everything lies")
        show.places(
            {
                "the result": result,
                "the plan as JSON, and each stage's records": f"{self.root}/runs",
                "the topics between the stages": f"{self.root}/topics",
                "the tasks' logs": logs,
                "the Dag and its application": self._dags,
            }
        )

    def _xcom(self, task: str, key: str = "return_value") -> Any:
        return self._airflow.xcom(DAG, self._run_id, task, key=key)

    @property
    def _in_airflow(self) -> str:
        return f"{self._airflow.url}/dags/{DAG}/runs/{self._run_id}"

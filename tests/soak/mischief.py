"""Faults that befall an Airflow and its stages, one after another, at times and places that a seed decides."""

from __future__ import annotations

import os
import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import httpx
import psutil

from demo.airflow_api import AirflowProblem
from demo.airflow_parts import AirflowInParts

CLEARED = {"soak_pipelined": None, "soak_daily": None, "soak_catch_up": "hours.by-carrier"}
"""The Dags whose ended runs are cleared: the whole run, or one task. A caught-up range is cleared as its stage."""

DOWN_SECONDS = (0.0, 8.0)
"""The time for which a killed part of Airflow stays away."""


class Mischief:
    """A thread that does one of these acts every few seconds; what it did is counted and kept with its time."""

    def __init__(self, airflow: AirflowInParts, seed: int, every: float) -> None:
        self.airflow = airflow
        self.chance = random.Random(seed)
        self.every = every
        self.done: Counter[str] = Counter()
        self.diary: list[str] = []
        self.over = threading.Event()
        self.began = time.monotonic()
        self._thread = threading.Thread(target=self._work, name="mischief", daemon=True)
        acts: list[tuple[str, Callable[[], str | None]]] = [
            ("kill a runner", self._kill_a_runner),
            ("kill a runner", self._kill_a_runner),
            ("kill a task", self._kill_a_task),
            ("kill a task", self._kill_a_task),
            ("kill a Java", self._kill_a_java),
            *((f"kill the {part}", lambda part=part: self._kill_a_part(part)) for part in airflow.parts),
            ("clear", self._clear),
            ("mark failed", self._mark),
            ("pause", self._pause),
        ]
        self._acts = acts

    def start(self) -> None:
        """Begins."""
        self._thread.start()

    def stop(self) -> None:
        """Ends after the act that is on; all parts of Airflow run then."""
        self.over.set()
        self._thread.join()
        for part in self.airflow.parts:
            self.airflow.start_part(part)

    def _work(self) -> None:
        while not self.over.wait(self.chance.uniform(0.5, 1.5) * self.every):
            name, act = self.chance.choice(self._acts)
            try:
                found = act()
            except (AirflowProblem, httpx.HTTPError) as problem:  # the API server is away, or rejects it now
                found, name = str(problem).splitlines()[0][:200], f"{name}: rejected"
            if found is not None:
                self.done[name] += 1
                self.diary.append(f"{time.monotonic() - self.began:6.0f} s  {name}: {found}")

    def _kill_a_part(self, part: str) -> str:
        self.airflow.kill(part)
        away = self.chance.uniform(*DOWN_SECONDS)
        time.sleep(away)
        self.airflow.start_part(part)
        return f"away for {away:.0f} s"

    def _kill_a_runner(self) -> str | None:
        return self._kill(lambda words: "python" in words and "airflow_samza" in words and "runner" in words)

    def _kill_a_java(self) -> str | None:
        return self._kill(lambda words: "java" in words and "spark" in words)

    def _kill_a_task(self) -> str | None:
        return self._kill(lambda words: "task runner" in words or "task supervisor" in words)

    def _kill(self, fits: Callable[[str], bool]) -> str | None:
        found = [(process, words) for process, words in self._processes() if fits(words)]
        if not found:
            return None
        process, words = self.chance.choice(found)
        with suppress(psutil.NoSuchProcess):
            process.kill()
        return f"{process.pid} {words[:100]}"

    def _processes(self) -> list[tuple[psutil.Process, str]]:
        home, found = self.airflow.environment["AIRFLOW_HOME"], []
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                if process.pid != os.getpid() and process.environ().get("AIRFLOW_HOME") == home:
                    found.append((process, " ".join(process.cmdline())))
        return found

    def _clear(self) -> str | None:
        dag_id = self.chance.choice(list(CLEARED))
        ended = [run for run in self.airflow.runs(dag_id)[-3:] if run["state"] in ("success", "failed")]
        if not ended:
            return None
        run_id, task_id = self.chance.choice(ended)["dag_run_id"], CLEARED[dag_id]
        self.airflow.clear(dag_id, run_id, *([] if task_id is None else [task_id]), downstream=task_id is not None)
        return f"{dag_id} {run_id} {task_id or ''}"

    def _mark(self) -> str | None:
        """A person marks a running task failed, and clears it when they see what they did."""
        task = self._a_task(("running", "deferred"))
        if task is None:
            return None
        dag_id, run_id, task_id = task["dag_id"], task["dag_run_id"], task["task_id"]
        self.airflow.mark(dag_id, run_id, task_id, "failed")
        time.sleep(self.chance.uniform(0.0, 5.0))
        self.airflow.clear(dag_id, run_id, task_id, downstream=True)
        return f"{dag_id} {run_id} {task_id}"

    def _a_task(self, states: tuple[str, ...]) -> dict[str, Any] | None:
        """Return a task instance of a Dag whose runs are cleared; a stage, since a cleared plan is another run."""
        path = "/dags/~/dagRuns/~/taskInstances"
        found = self.airflow.api("GET", path, params={"state": list(states), "limit": 100})["task_instances"]
        fit = [
            task for task in found if task["dag_id"] in CLEARED and not task["task_id"].endswith((".plan", ".cleanup"))
        ]
        return self.chance.choice(fit) if fit else None

    def _pause(self) -> str:
        dag_id = self.chance.choice(list(CLEARED))
        self.airflow.pause(dag_id, True)
        time.sleep(self.chance.uniform(1.0, 8.0))
        for _ in range(50):
            with suppress(AirflowProblem, httpx.HTTPError):
                self.airflow.pause(dag_id, False)
                return dag_id
            time.sleep(1.0)
        raise AirflowProblem(f"{dag_id} stays paused")

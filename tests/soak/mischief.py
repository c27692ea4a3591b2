"""Faults that befall an Airflow and its stages, one after another, at times and places that a seed decides."""

from __future__ import annotations

import random
import re
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import psutil

from demo.airflow_parts import AirflowInParts
from tests.soak.soak import ANSWER_SECONDS, AWAY

CLEARED = {"soak_pipelined": None, "soak_daily": None, "soak_catch_up": "hours.by-carrier"}
"""The Dags whose ended runs are cleared: the whole run, or one task. A caught-up range is cleared as its stage."""

DOWN_SECONDS = (0.0, 8.0)
"""The time for which a killed part of Airflow stays away."""

KEEPER = r"\S+ -m airflow_samza\.spark\.warm\.keeper \S+"
VICTIMS = {
    "a task": r"airflow worker -- [0-9a-f]{8}-.*",
    "a supervisor of a task": r"airflow (worker -- LocalExecutor: [0-9a-f]{8}-|task supervisor: ).*",
    "a runner": rf"\S+ -m airflow_samza\.spark\.runner .*|{KEEPER} < {KEEPER} < {KEEPER}",
    "a warm runner": rf"{KEEPER}(?! < {KEEPER})",
    "a Java": r"\S+/java .*spark.*",
}
"""Processes by their command lines, behind which those of parent and grandparent stand where they are keepers.

A warm runner's keeper has a process that forks, and this one has the driver process of a run.
"""


class Mischief:
    """A thread that does one of these acts every few seconds; what it did is counted and kept with its time.

    Each act has its turn before one has its second: a pack is shuffled and dealt. One that finds nothing to act upon,
    or that Airflow rejects for the moment, has another turn at the beginning of the next pack.
    """

    def __init__(self, airflow: AirflowInParts, seed: int, every: float) -> None:
        self.airflow = airflow
        self.chance = random.Random(seed)
        self.every = every
        self.done: Counter[str] = Counter()
        self.diary: list[str] = []
        self.over = threading.Event()
        self.began = 0.0
        self.acts: dict[str, Callable[[], str | None]] = {
            **{f"kill {who}": partial(self._kill, fits) for who, fits in VICTIMS.items()},
            **{f"kill the {part}": partial(self._kill_a_part, part) for part in airflow.parts},
            "clear": self._clear,
            "mark failed": self._mark,
            "pause": self._pause,
        }
        self._thread = threading.Thread(target=self._work, name="mischief", daemon=True)

    def start(self) -> None:
        """Begins."""
        self.began = time.monotonic()
        self._thread.start()

    def stop(self) -> None:
        """Ends after the act that is on; all parts of Airflow run then."""
        self.over.set()
        self._thread.join()
        for part in self.airflow.parts:
            self.airflow.start_part(part)

    def _work(self) -> None:
        pack: list[str] = []
        again: list[str] = []
        while not self.over.wait(self.chance.uniform(0.5, 1.5) * self.every):
            if not pack:
                fresh = list(self.acts)
                self.chance.shuffle(fresh)
                pack, again = [*fresh, *again], []
            name = pack.pop()
            try:
                found = self.acts[name]()
            except AWAY as problem:
                self._note(f"{name}: {str(problem).splitlines()[0][:200]}")
                found = None
            if found is None:
                again.append(name)
            else:
                self.done[name] += 1
                self._note(f"{name}: {found}")

    def _note(self, text: str) -> None:
        self.diary.append(f"{time.monotonic() - self.began:6.0f} s  {text}")

    def _kill_a_part(self, part: str) -> str:
        self.airflow.kill(part)
        away = self.chance.uniform(*DOWN_SECONDS)
        self.over.wait(away)
        self.airflow.start_part(part)
        return f"away for {away:.0f} s"

    def _kill(self, fits: str) -> str | None:
        found = []
        for process in self.airflow.processes():
            with suppress(psutil.Error):
                words = _words(process)
                if re.fullmatch(fits, words):
                    found.append((process, words))
        if not found:
            return None
        process, words = self.chance.choice(found)
        with suppress(psutil.NoSuchProcess):
            process.kill()
        return f"{process.pid} {words[:100]}"

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
        self.over.wait(self.chance.uniform(0.0, 5.0))
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
        self.over.wait(self.chance.uniform(1.0, 8.0))

        def goes_on() -> str:
            self.airflow.pause(dag_id, False)
            return dag_id

        return self.airflow.wait_until(goes_on, ANSWER_SECONDS, f"{dag_id} to go on", away=AWAY)


def _words(process: psutil.Process) -> str:
    """Return the command line of a process, with those of parent and grandparent where all are keepers."""
    lines = [" ".join(process.cmdline())]
    for above in process.parents()[:2]:
        line = " ".join(above.cmdline())
        if not re.fullmatch(KEEPER, line):
            break
        lines.append(line)
    return " < ".join(lines)

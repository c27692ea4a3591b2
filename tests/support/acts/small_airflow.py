"""An Airflow of a few lines: it runs the tasks of a Dag in this process, retries them, and clears them.

It does what Airflow's scheduler and its task processes do with tries, generations, XComs, teardowns and deferrals.
"""

from __future__ import annotations

import asyncio
import copy
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from types import SimpleNamespace
from typing import Any

from airflow_samza.provider.airflow_versions import AirflowFailException, TaskDeferred
from tests.support.acts.machine import PATIENCE_SECONDS

SUCCESS, FAILED, UP_FOR_RETRY, UPSTREAM_FAILED = "success", "failed", "up_for_retry", "upstream_failed"
RUNNING = "running"


@dataclass
class TaskHere:
    """A task instance: its state between two tries, and its XComs."""

    dag_id: str
    task_id: str
    run_id: str
    max_tries: int
    state: str | None = None
    try_number: int = 0
    xcoms: dict[str, Any] = field(default_factory=dict)
    error: BaseException | None = None
    map_index: int = -1

    def xcom_push(self, key: str, value: Any) -> None:
        """Push an XCom."""
        self.xcoms[key] = copy.deepcopy(value)

    def clear(self, retries: int) -> None:
        """Become as after a clear."""
        self.state, self.error, self.max_tries = None, None, self.try_number + retries


@dataclass
class DagRunHere:
    """A run of a Dag; ``tasks`` are its task instances, also of tasks that are not in the Dag any more."""

    run_id: str
    interval: tuple[str, str] | None = None
    tasks: dict[str, TaskHere] = field(default_factory=dict)

    def go_on(self, dag: Any, *, retry: bool = False, together: bool = False) -> None:
        """Run all tasks that can run now; with ``retry`` also those that wait for their next try.

        ``together``: tasks that can run at the same time do.
        """
        for task in dag.tasks:
            if task.task_id not in self.tasks:
                self.tasks[task.task_id] = TaskHere(dag.dag_id, task.task_id, self.run_id, int(task.retries or 0))
        while ready := [task for task in dag.topological_sort() if self._is_ready(task, retry=retry)]:
            if together and len(ready) > 1:
                self._at_once(ready)
            else:
                self._run(ready[0])

    def errors(self, dag: Any) -> list[BaseException]:
        """Return the errors of the Dag's tasks that have failed, or wait for their next try."""
        found = [self.tasks[task.task_id].error for task in dag.tasks if task.task_id in self.tasks]
        return [error for error in found if error is not None]

    def clear(self, dag: Any, task_id: str, *, downstream: bool) -> None:
        """Clear a task, and those behind it."""
        tasks = [dag.get_task(task_id)]
        if downstream:
            tasks += tasks[0].get_flat_relatives(upstream=False)
        for task in tasks:
            if task.task_id in self.tasks:
                self.tasks[task.task_id].clear(int(task.retries or 0))

    def clear_failed(self, dag: Any) -> None:
        """Clear the tasks that have failed, and those that wait for them."""
        for task in dag.tasks:
            if task.task_id in self.tasks and self.tasks[task.task_id].state in (FAILED, UPSTREAM_FAILED):
                self.tasks[task.task_id].clear(int(task.retries or 0))

    def _is_ready(self, task: Any, *, retry: bool) -> bool:
        here = self.tasks[task.task_id]
        if here.state is not None and not (retry and here.state == UP_FOR_RETRY):
            return False
        states = [self.tasks[name].state for name in task.upstream_task_ids]
        if any(state in (None, UP_FOR_RETRY, RUNNING) for state in states):
            return False
        if task.is_teardown or all(state == SUCCESS for state in states):
            return True
        here.state = UPSTREAM_FAILED
        return False

    def _at_once(self, tasks: Iterable[Any]) -> None:
        threads = [threading.Thread(target=self._run, args=(task,), daemon=True) for task in tasks]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _run(self, task: Any) -> None:
        here = self.tasks[task.task_id]
        here.try_number += 1
        here.error, here.state = None, RUNNING
        operator = task.prepare_for_execution()
        if getattr(operator, "plan", None) is not None:  # what Airflow makes of plan.output
            operator.plan = self.tasks[operator.plan.operator.task_id].xcoms.get("return_value")
        context = self._context(operator, here)
        try:
            result = _to_the_end(operator, lambda: operator.execute(context), context)
        except Exception as error:
            here.error = error
            again = not isinstance(error, AirflowFailException) and here.try_number <= here.max_tries
            here.state = UP_FOR_RETRY if again else FAILED
        else:
            here.xcom_push("return_value", result)
            here.state = SUCCESS

    def _context(self, operator: Any, here: TaskHere) -> dict[str, Any]:
        moments = [datetime.fromisoformat(moment) for moment in self.interval or ()]
        ti = SimpleNamespace(
            task=operator,
            xcom_push=here.xcom_push,
            **{
                name: getattr(here, name)
                for name in ("dag_id", "task_id", "run_id", "map_index", "try_number", "max_tries")
            },
        )
        between = dict(zip(("data_interval_start", "data_interval_end"), moments, strict=False))
        return {
            "ti": ti,
            "task_instance": ti,
            "task": operator,
            "run_id": self.run_id,
            "dag_run": SimpleNamespace(conf={}, run_type="manual", **between),
            **between,
        }


def _to_the_end(operator: Any, work: Callable[[], Any], context: Any) -> Any:
    while True:
        try:
            return work()
        except TaskDeferred as deferred:
            event = asyncio.run(asyncio.wait_for(_first_event(deferred.trigger), PATIENCE_SECONDS))
            given = {**(deferred.kwargs or {}), "event": event}
            work = _resumed(operator, deferred.method_name, given, context)


def _resumed(operator: Any, method: str, given: dict[str, Any], context: Any) -> Callable[[], Any]:
    return lambda: operator.resume_execution(method, given, context)


async def _first_event(trigger: Any) -> Any:
    async for event in trigger.run():
        return event.payload
    return None

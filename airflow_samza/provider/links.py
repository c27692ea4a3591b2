"""Links on tasks, which Airflow's page shows as buttons while a task runs, while it is deferred, and afterwards.

Airflow shows what lies in the XCom of a link, and writes those itself when a task's process ends. So that they are
there before, tasks write them as soon as an address is known; what the trigger of a deferred task finds, it writes.
Operators and the trigger of deferred stages write them.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from airflow.sdk import BaseOperatorLink

from airflow_samza.errors import SamzaError
from airflow_samza.provider.airflow_versions import conf
from airflow_samza.runs.stages.spark_page import read_spark_page
from airflow_samza.runs.stages.stage_state import QUEUED, StageHandle, StageStatus, runner_of
from airflow_samza.systems.filesystems.filesystem import Filesystem

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator
    from airflow.sdk.types import TaskInstanceKey

log = logging.getLogger(__name__)

FIRST_PAUSE_SECONDS = 1.0
"""The least time between two looks for the page of a Spark that is not up yet."""

TASK_ROUTE, RUN_ROUTE = "samza-task", "samza-run"
"""The names of the page's views on a task instance and on a Dag run, within Airflow's own page."""

RESULTS, DATA = "results", "data"
"""Tabs of the page: outputs, failures and logs; topics and tables."""


class SamzaLink(BaseOperatorLink):
    """A link whose address a task of this package has written, or its trigger."""

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """Return the address for Airflow to write when the task's process ends: the one that is known by then."""
        shown: Mapping[str, str] = getattr(operator, "shown_links", {})
        if self.xcom_key in shown:
            return shown[self.xcom_key]
        ti: Any = ti_key  # in a task's process it is the task instance, and a trigger may have written the address
        written = ti.xcom_pull(task_ids=ti.task_id, key=self.xcom_key, map_indexes=ti.map_index)
        return written if isinstance(written, str) else ""


class SamzaPageLink(SamzaLink):
    """The task's page: plan, progress, results and errors of its run."""

    name = "Samza"


class RunnerLogLink(SamzaLink):
    """The log of the stage runner, with what the driver and Spark print."""

    name = "Runner's log"


class SparkLink(SamzaLink):
    """The page of the runner's Spark, or the one of its history."""

    name = "Spark"


class OutputLink(SamzaLink):
    """The page's view of what the task writes."""

    name = "Output"


class EndedRunLink(SamzaLink):
    """The page of the run that a drain or a stop ends."""

    name = "Ended run"


PAGE, RUNNER_LOG, SPARK, OUTPUT, ENDED_RUN = SamzaPageLink(), RunnerLogLink(), SparkLink(), OutputLink(), EndedRunLink()


def show_link(ti: Any, link: SamzaLink, address: str) -> None:
    """Write a link's address, from a task or its trigger; that it cannot be written fails no task and ends no wait.

    Airflow's page reads it in Airflow's database, so it goes there, whatever backend XComs have.
    """
    from airflow.sdk.bases.xcom import BaseXCom

    index = getattr(ti, "map_index", None)
    try:
        BaseXCom.set(
            key=link.xcom_key,
            value=address,
            dag_id=ti.dag_id,
            task_id=ti.task_id,
            run_id=ti.run_id,
            map_index=-1 if index is None else index,
        )
    except Exception as error:
        log.warning("The link %r is there only when the task has ended: %s", link.name, error)


class SparkPages:
    """The addresses of Spark's pages for attempts at stages, each looked up when it begins and when it has ended.

    A runner's Spark may come up in the middle of an attempt, or never (decision 123): an attempt without a page is
    looked at again, each time when it is twice as old.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._looks: dict[str, tuple[tuple[int, bool], float, float]] = {}

    def look(self, files: Filesystem, handle: StageHandle, status: StageStatus) -> str:
        """Return the address when there may be a new one, else nothing; a look reads two records at most."""
        if status.state == QUEUED or not status.attempt:
            return ""
        now, new = self._clock(), (status.attempt, status.is_final)
        moment, since, due = self._looks.get(handle.stage_id, (None, now, now))
        if moment != new:
            since = due = now
        if now < due:
            return ""
        self._looks[handle.stage_id] = new, since, now + max(now - since, FIRST_PAUSE_SECONDS)
        with suppress(SamzaError, OSError):
            runner = runner_of(files, handle, status.attempt)
            page = read_spark_page(files, runner) if runner is not None else None
            if page is not None or status.is_final:
                self._looks[handle.stage_id] = new, since, math.inf
            return page.link(is_over=status.is_final) if page is not None else ""
        return ""


def task_page(ti: Any, tab: str = "") -> str:
    """Return the address of the page's view on a task instance, at one of its tabs."""
    index = getattr(ti, "map_index", None)
    mapped = f"/mapped/{index}" if index is not None and int(index) >= 0 else ""
    task = f"{_run(ti.dag_id, ti.run_id)}/tasks/{_part(ti.task_id)}{mapped}"
    return f"{task}/plugin/{TASK_ROUTE}" + (f"#/{tab}" if tab else "")


def run_page(dag_id: str, run_id: str) -> str:
    """Return the address of the page's view on a Dag run."""
    return f"{_run(dag_id, run_id)}/plugin/{RUN_ROUTE}"


def _run(dag_id: str, run_id: str) -> str:
    """Return the address of a Dag run, from the host's root and the path below which Airflow is served.

    A worker may not know the name by which a browser reaches the API server; an address that names none leads there.
    """
    base = urlsplit(conf.get("api", "base_url", fallback="") or "").path.rstrip("/")
    return f"{base}/dags/{_part(dag_id)}/runs/{_part(run_id)}"


def _part(text: str) -> str:
    return quote(text, safe="")

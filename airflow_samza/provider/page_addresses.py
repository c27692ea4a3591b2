"""Addresses of the page in Airflow, for links on tasks.

They begin at the host's root, with the path below which Airflow is served: a worker may not know the name by which a
browser reaches the API server, and a link that names none leads there all the same.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import quote, urlsplit

from airflow_samza.provider.airflow_versions import conf

TASK_ROUTE, RUN_ROUTE = "samza-task", "samza-run"
"""The names of the page's views on a task instance and on a Dag run, within Airflow's own page."""

RESULTS, DATA = "results", "data"
"""Tabs of the page: outputs, failures and logs; topics and tables."""


def task_page(ti: Any, tab: str = "") -> str:
    """Return the address of the page's view on a task instance, at one of its tabs."""
    index = _map_index(ti)
    mapped = f"/mapped/{index}" if index >= 0 else ""
    task = f"{_run(ti.dag_id, ti.run_id)}/tasks/{_part(ti.task_id)}{mapped}"
    return f"{task}/plugin/{TASK_ROUTE}" + (f"#/{tab}" if tab else "")


def run_page(dag_id: str, run_id: str) -> str:
    """Return the address of the page's view on a Dag run."""
    return f"{_run(dag_id, run_id)}/plugin/{RUN_ROUTE}"


def _run(dag_id: str, run_id: str) -> str:
    return f"{_base()}/dags/{_part(dag_id)}/runs/{_part(run_id)}"


def _base() -> str:
    return urlsplit(conf.get("api", "base_url", fallback="") or "").path.rstrip("/")


def _part(text: str) -> str:
    return quote(text, safe="")


def _map_index(ti: Any) -> int:
    index = getattr(ti, "map_index", None)
    return -1 if index is None else int(index)

"""The operator of retention: deletes what has expired of all applications under a root."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow.sdk import BaseOperator

from airflow_samza.provider.configured_numbers import check_number
from airflow_samza.provider.connections.fields import connection_id
from airflow_samza.provider.failures import mapped_failures
from airflow_samza.provider.hooks.samza import SamzaHook
from airflow_samza.runs.upkeep.keep import Keep


class SamzaRetentionOperator(BaseOperator):
    """Deletes what has expired under the root: topics, runs, and what dead processes have left.

    A run is kept while it is open, while its topics are kept, and while the state of its application needs it. It is
    also kept until other applications have read what it wrote. The return value lists what was deleted: ``runs``,
    ``topics``, ``folders``, ``files``, ``bytes``, and ``kept`` with the reason for each run.

    ```python
    SamzaRetentionOperator(task_id="sweep", keep_runs=50, keep_runs_days=14)
    ```

    :param conn_id: The connection of type ``samza`` (templated). Default ``samza_default``.
    :param samza_conn_id: Another name of ``conn_id``; give one of the two.
    :param systems: Connection ids by the names of systems; logs among them are swept, too (templated).
    :param keep_runs: The number of runs of each application to keep. Default ``[samza] keep_runs`` (100).
    :param keep_runs_days: The days for which they are kept. Default ``[samza] keep_runs_days`` (30).
    :param dry_run: If true, nothing is deleted, and the log lists what would be.
    :param kwargs: Parameters of Airflow's ``BaseOperator``.
    """

    template_fields: Sequence[str] = ("conn_id", "systems")
    ui_color = "#e8f1fb"

    def __init__(
        self,
        *,
        conn_id: str | None = None,
        samza_conn_id: str | None = None,
        systems: dict[str, str] | None = None,
        keep_runs: int | None = None,
        keep_runs_days: float | None = None,
        dry_run: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.conn_id = connection_id(f"The task {self.task_id!r}", conn_id, samza_conn_id)
        self.systems = systems
        for name, number, unit in (("keep_runs", keep_runs, "runs"), ("keep_runs_days", keep_runs_days, "days")):
            if number is not None:
                check_number(f"{name}={number} of the task {self.task_id!r}", name, number, unit, may_be_0=True)
        self.keep_runs = keep_runs
        self.keep_runs_days = keep_runs_days
        # ``dry_run`` is a method of Airflow's operators.
        self.only_tell = dry_run

    def execute(self, context: Any) -> dict[str, Any]:
        """Delete what has expired, and return a list of it.

        ``runs``, ``topics``, ``folders``, ``kept`` (reasons by run), ``files`` and ``bytes``.
        """
        with mapped_failures(self.log, lambda: SamzaHook(self.conn_id)):
            hook = SamzaHook(self.conn_id, systems=self.systems)
            configured = hook.keep
            keep = Keep(
                configured.runs if self.keep_runs is None else self.keep_runs,
                configured.days if self.keep_runs_days is None else self.keep_runs_days,
            )
            swept = hook.get_conn().upkeep.sweep_root(keep, dry=self.only_tell)
        logs = swept.logs.values()
        tables = swept.tables.values()
        topics = sorted({*swept.runs.topics, *(name for log in logs for name in log.topics)})
        counts = {
            "runs": swept.runs.runs,
            "topics": topics,
            "folders": swept.runs.leftovers,
            "kept": swept.runs.kept,
            "files": sum(log.files for log in logs) + sum(table.files for table in tables),
            "bytes": sum(log.bytes for log in logs) + sum(table.bytes for table in tables),
        }
        done = "Would delete" if self.only_tell else "Deleted"
        self.log.info("%s %d runs, %d topics, %d files.", done, len(swept.runs.runs), len(topics), counts["files"])
        for run, why in swept.runs.kept.items():
            self.log.info("Kept the run %s: %s", run, why)
        return counts

"""The operator of retention: deletes what has expired of all applications under a root."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow.sdk import BaseOperator

from airflow_samza.provider.connections.alias import connection_id
from airflow_samza.provider.failures import mapped_failures
from airflow_samza.provider.hooks import SamzaHook
from airflow_samza.runs.upkeep.kept_runs import Keep


class SamzaRetentionOperator(BaseOperator):
    """Deletes what has expired under the root of a connection.

    Expired topics, runs beyond number and age, and what dead processes have left.

    A run stays in any case while it is open, while its topics are kept, while the state of its application holds what
    it left, and while another application has not read what it wrote. The list of what was deleted is the return
    value, and is printed in the log.

    :param conn_id: The Samza connection whose root is swept (templated).
    :param samza_conn_id: Another name of ``conn_id``.
    :param systems: Connection ids by the names of systems: logs among them are swept, too (templated).
    :param keep_runs: The number of runs of each application that are kept; by default ``[samza] keep_runs``.
    :param keep_runs_days: The number of days for which they are kept; by default ``[samza] keep_runs_days``.
    :param dry_run: If true, nothing is deleted; the log lists what would be.
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
        self.keep_runs = keep_runs
        self.keep_runs_days = keep_runs_days
        # ``dry_run`` is a method of Airflow's operators.
        self.only_tell = dry_run

    def execute(self, context: Any) -> dict[str, Any]:
        """Delete what has expired, and return a list of it.

        ``runs``, ``topics``, ``folders``, ``kept`` (reasons by run), ``files`` and ``bytes``.
        """
        with mapped_failures(self.log.error):
            hook = SamzaHook(self.conn_id, systems=self.systems)
            known = hook.keep
            keep = Keep(
                known.runs if self.keep_runs is None else self.keep_runs,
                known.days if self.keep_runs_days is None else self.keep_runs_days,
            )
            swept = hook.get_conn().upkeep.sweep_root(keep, dry=self.only_tell)
        logs = swept.logs.values()
        topics = sorted({*swept.runs.topics, *(name for log in logs for name in log.topics)})
        found = {
            "runs": swept.runs.runs,
            "topics": topics,
            "folders": swept.runs.leftovers,
            "kept": swept.runs.kept,
            "files": sum(log.files for log in logs),
            "bytes": sum(log.bytes for log in logs),
        }
        done = "Would delete" if self.only_tell else "Deleted"
        self.log.info("%s %d runs, %d topics, %d files.", done, len(swept.runs.runs), len(topics), found["files"])
        for run, why in swept.runs.kept.items():
            self.log.info("Kept the run %s: %s", run, why)
        return found

"""The operator that publishes the branches of tables to which a run has committed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from airflow_samza.errors import StageError
from airflow_samza.provider.failures import mapped_failures
from airflow_samza.provider.lineage.outlets import announce, outlets_of_task, slice_of, with_outlets
from airflow_samza.provider.lineage.task_lineage import names_in
from airflow_samza.provider.operators.samza_operator import EndOfRunOperator
from airflow_samza.provider.parsed_application import application_if_there
from airflow_samza.provider.run_tasks import scopes_to_close
from airflow_samza.runs.branch_publication import PublishedBranch
from airflow_samza.runs.records.stage_result import StageResult


class SamzaPublishOperator(EndOfRunOperator):
    """Publishes what a run has committed to branches of tables (write, audit, publish).

    An output with ``branch="audit/{run_id}"`` is seen by nobody who does not ask for the branch. Audit it in tasks
    behind the stages; this task then has the table take it over, in one commit for each table, which is an event of the
    table's asset. The return value lists ``table``, ``branch`` and ``version`` of each.

    ```python
    group = SamzaTaskGroup("flights", application="pipelines.flights:flights_of_the_year")
    group >> SamzaPublishOperator(task_id="publish", application="pipelines.flights:flights_of_the_year")
    ```
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        parsed = application_if_there(self.application, kwargs.get("config"))
        spec = parsed.spec if parsed is not None else None
        on_branches = [name for name, one in spec.outputs.items() if "branch" in dict(one.options)] if spec else None
        ours = outlets_of_task(spec, self.application, self.conn_id, self.systems, on_branches, alone=False)
        self.outlets = with_outlets(ours, self.outlets)

    def execute(self, context: Any) -> list[dict[str, Any]]:
        """Publish the branches, and return them."""
        with mapped_failures(self.log.error, lambda: self.hook.root):
            hook = self.hook
            runs = self._runs(hook, context, scopes_to_close(self, context))
            if not runs:
                raise StageError(
                    f"No task of this Dag run has planned a run of {self.application!r}, so the task {self.task_id!r} "
                    "has nothing to publish.",
                    hint="Put it behind the tasks of the application.",
                    task=self.task_id,
                )
            published = []
            for run in runs:
                # A try that died behind the publication has sent no event of it.
                branches = [replace(one, version=one.standing) for one in hook.publish(run)]
                for one in branches:
                    self.tell(str(one))
                results = [as_published(result, branches) for result in hook.results(run)]
                written = slice_of(context, None, self.task_id, run.interval)
                announce(context.get("outlet_events"), self.outlets, run, results, hook, names_in(hook, run), written)
                published += branches
        return [one.facts for one in published]


def as_published(result: StageResult, branches: Sequence[PublishedBranch]) -> StageResult:
    """Return what a stage has written to published branches as what readers of their tables see now."""
    versions = {stream_id: {one.word: one.version} for one in branches for stream_id in one.streams}
    seen = [
        replace(output, facts={**output.facts, "branch": None, **versions[output.stream_id]})
        for output in result.outputs
        if output.stream_id in versions
    ]
    return replace(result, outputs=tuple(seen), inputs=())

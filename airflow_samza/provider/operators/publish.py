"""The operator that publishes what a run keeps back: outputs that wait for approval, and branches of tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from airflow_samza.errors import ConfigError, StageError
from airflow_samza.provider.airflow_versions import AirflowSkipException
from airflow_samza.provider.failures import mapped_failures
from airflow_samza.provider.lineage.outlets import announce, outlets_of_task, slice_of, with_outlets
from airflow_samza.provider.lineage.task_lineage import names_in
from airflow_samza.provider.operators.samza_operator import EndOfRunOperator
from airflow_samza.provider.parsed_application import application_if_there
from airflow_samza.provider.run_tasks import scopes_to_close
from airflow_samza.runs.publication import Published, PublishedBranch
from airflow_samza.runs.records.stage_result import StageResult

_YES = ("approve", "approved", "publish", "yes", "ok", "true")
_NO = ("reject", "rejected", "discard", "drop", "no", "false")


class SamzaPublishOperator(EndOfRunOperator):
    """Publishes what a run keeps back (write, audit, publish).

    A run keeps back outputs with ``publish="after approval"`` and those of a :class:`SamzaCompareOperator`, which
    nobody sees. It also keeps back outputs with ``branch="audit/{run_id}"``, which only those see who ask for the
    branch. Audit them in tasks behind the stages, or ask a person; this task then publishes them, and each is an event
    of its asset. Without approval it discards them, says so, and is skipped with what follows it. The return value
    lists what is published.

    ```python
    group = SamzaTaskGroup("flights", application="pipelines.flights:flights_of_the_year")
    ask = HITLOperator(task_id="ask", subject="Publish the flights?", options=["Approve", "Reject"])
    publish = SamzaPublishOperator(
        task_id="publish", application="pipelines.flights:flights_of_the_year", approved=ask.output
    )
    group >> ask >> publish
    ```

    :param approved: The approval: true, false, or the output of a ``HITLOperator`` whose options are ``Approve`` and
        ``Reject`` (templated). Default: that the task runs is the approval.
    """

    template_fields: Sequence[str] = (*EndOfRunOperator.template_fields, "approved")

    def __init__(self, *, approved: Any = True, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.approved = approved
        parsed = application_if_there(self.application, kwargs.get("config"))
        spec = parsed.spec if parsed is not None else None
        kept_back = (
            [name for name, one in spec.outputs.items() if one.waits_for_approval or "branch" in dict(one.options)]
            if spec
            else None
        ) or None  # of a run that is compared with another one all outputs wait
        ours = outlets_of_task(spec, self.application, self.conn_id, self.systems, kept_back, alone=False)
        self.outlets = with_outlets(ours, self.outlets)

    def execute(self, context: Any) -> list[dict[str, Any]]:
        """Publish what is kept back, and return it; or discard it."""
        with mapped_failures(self.log, lambda: self.hook):
            approved, who = self._answer(context)
            runs = self._runs(context, scopes_to_close(self, context))
            if not runs:
                raise StageError(
                    f"No task of this Dag run has planned a run of {self.application!r}, so the task {self.task_id!r} "
                    "has nothing to publish.",
                    hint="Put it behind the tasks of the application.",
                    task=self.task_id,
                )
            published: list[Published] = []
            for run in runs:
                if not approved:
                    for given_up in self.hook.give_up(run, who):
                        self.tell(str(given_up))
                    continue
                outputs = [_as_it_stands(one) for one in self.hook.publish(run, who)]
                for one in outputs:
                    self.tell(str(one))
                results = [as_published(result, outputs) for result in self.hook.results(run)]
                written = slice_of(context, None, self.task_id, run.interval)
                announce(
                    context.get("outlet_events"),
                    self.outlets,
                    run,
                    results,
                    self.hook,
                    names_in(self.hook, run),
                    written,
                )
                published += outputs
        if not approved:
            raise AirflowSkipException(f"{who} has rejected what the run keeps back; it is discarded.")
        return [one.told for one in published]

    def _answer(self, context: Any) -> tuple[bool, str]:
        """Return whether the outputs are approved, and by whom."""
        answer = self.approved
        who = f"the task {self.task_id!r} of the Dag {context['ti'].dag_id!r}"
        if isinstance(answer, Mapping) and "chosen_options" in answer:
            person = answer.get("responded_by_user")
            who = str((person.get("name") or person.get("id")) if isinstance(person, Mapping) else person or who)
            answer = next(iter(answer["chosen_options"]), None)
        word = str(answer).strip().lower()
        if word in (*_YES, *_NO):
            return word in _YES, who
        raise ConfigError(
            f"The task {self.task_id!r} has approved={answer!r}, which is neither an approval nor a rejection.",
            hint='Give True, False, or the output of a HITLOperator with options=["Approve", "Reject"].',
            key="approved",
            value=str(answer),
        )


def _as_it_stands(one: Published) -> Published:
    """Return what is published with its version: a try that died behind the publication has sent no event of it."""
    return replace(one, version=one.standing) if isinstance(one, PublishedBranch) else one


def as_published(result: StageResult, outputs: Sequence[Published]) -> StageResult:
    """Return what a stage has written and kept back as what readers see now."""
    facts = {
        stream_id: {"branch": None, one.word: one.version} if isinstance(one, PublishedBranch) else dict(one.facts)
        for one in outputs
        for stream_id in one.streams
    }
    seen = [
        replace(output, facts={**output.facts, **facts[output.stream_id]}, held=False)
        for output in result.outputs
        if output.stream_id in facts
    ]
    return replace(result, outputs=tuple(seen), inputs=())

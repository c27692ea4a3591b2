"""The operator that runs an edited application over what a run has read, and says how its outputs differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from airflow_samza.errors import ConfigError, StageError
from airflow_samza.prepare.run_request import RunRequest
from airflow_samza.provider.operators.stream import SamzaStreamOperator
from airflow_samza.runs.records.comparison import comparison_lines
from airflow_samza.runs.records.run_plan import RunPlan
from airflow_samza.runs.records.stage_result import StageResult

_OF_THE_OTHER_RUN = (
    "stage",
    "plan",
    "producers",
    "run_for",
    "data_interval",
    "state_from",
    "table_versions",
    "input_versions",
)
"""Parameters of a task of one stage, and of what a run reads, which the other run says."""

COMPARISON = "comparison"
"""XCom key of the report, which is there also when the task fails."""


class SamzaCompareOperator(SamzaStreamOperator):
    """Runs an application over the input ranges of another run, and reports how its outputs differ from that run's.

    Nobody sees its outputs: they wait for an approval, and a :class:`SamzaPublishOperator` behind it publishes them in
    place of the other run's. The return value, and the XCom ``comparison``, have by output the rows that are equal,
    added, gone and different. They also have the columns in which rows differ. Keys of rows are masked.

    ```python
    SamzaCompareOperator(
        task_id="compare", application="pipelines.flights_v2:flights_of_the_year", other="flights-of-the-year"
    )
    ```

    :param as_of: The id of the run to compare with, as ``airflow-samza runs list`` has it (templated). Default: the
        last one that has succeeded.
    :param other: The application of that run, by its name or as ``package.module:attribute`` (templated). Default: the
        same one.
    :param mode: How the stages run. Default: as those of the other run. ``continuous`` runs over the same input, and
        ends with it.
    :param keys: The columns by which rows are found again, by output (templated). Default: the key of the output, or
        the columns that it expects to be unique; else whole rows are compared.
    :param samples: The number of rows of each kind of which masked keys are reported.
    :param fail_on_difference: If true, the task fails where outputs differ; no retry helps.
    """

    template_fields: Sequence[str] = (*SamzaStreamOperator.template_fields, "as_of", "other", "keys")

    def __init__(
        self,
        *,
        as_of: str | None = None,
        other: str | None = None,
        mode: str | None = None,
        keys: Mapping[str, str | Sequence[str]] | None = None,
        samples: int = 5,
        fail_on_difference: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs if mode is None else {**kwargs, "mode": mode})
        given = next((name for name in _OF_THE_OTHER_RUN if kwargs.get(name) is not None), None)
        if given is not None:
            raise ConfigError(
                f"{given}={kwargs[given]!r} was set on {self.task_id!r}, which compares an application with a run.",
                hint="Leave it out: what is read is what the other run has read (as_of=, other=).",
                key=given,
                value=str(kwargs[given]),
            )
        self.outlets = list(kwargs.get("outlets") or ())  # what waits is no event of its asset
        self.as_of = as_of
        self.other = other
        self.keys = keys
        self.samples = samples
        self.fail_on_difference = fail_on_difference
        self._mode_is_given = mode is not None

    def _asked(self, request: RunRequest) -> RunRequest:
        """Return the request for a run of what the other run has read."""
        request = request if self._mode_is_given else replace(request, mode=None)
        return self.hook.request_to_compare(request, self.as_of or None, self.other or None)

    def _summarized(self, run: RunPlan, results: Sequence[StageResult], context: Any) -> dict[str, Any]:
        """Return the report on the outputs of a run that has ended; fail where they differ, if that is asked for."""
        keys = {name: (text,) if isinstance(text, str) else tuple(text) for name, text in (self.keys or {}).items()}
        comparison = self.hook.compare(run, keys, self.samples)
        self.tell("\n".join(comparison_lines(comparison)))
        context["ti"].xcom_push(key=COMPARISON, value=comparison.told)
        if self.fail_on_difference and not comparison.is_equal:
            outputs = ", ".join(repr(one.stream_id) for one in comparison.outputs if not one.is_equal)
            raise StageError(
                f"Outputs of the run {run.run_id!r} of {run.application!r} differ from those of the run "
                f"{comparison.with_run!r}: {outputs}.",
                hint="The log of this task says how. If they are as they should be, publish them "
                f"(airflow-samza publish {run.application} {run.run_id}), or set fail_on_difference=False.",
                run=run.run_id,
            )
        return comparison.told

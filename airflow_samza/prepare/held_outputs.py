"""Outputs that wait for an approval, in a run's plan: what cannot wait is rejected."""

from __future__ import annotations

from collections.abc import Mapping

from airflow_samza.errors import ConfigError
from airflow_samza.runs.records.run_plan import CONTINUOUS, RunPlan
from airflow_samza.system_kinds import traits_of


def reject_unheld(run: RunPlan, kinds: Mapping[str, str]) -> None:
    """Reject outputs that would be visible without an approval, and runs without an end after which one is given.

    ``kinds`` are those of the systems of the streams.
    """
    for stream_id in run.approvals:
        if run.mode == CONTINUOUS:
            raise ConfigError(
                f'The output {stream_id!r} has publish="after approval", and a continuous run does not end.',
                hint="Leave publish= out for continuous runs, or run it in another mode, such as a catch-up on a "
                'schedule (slice="checkpoint").',
                key="publish",
                value="after approval",
            )
        if traits_of(kinds.get(stream_id)).through_topics:
            raise ConfigError(
                f'The output {stream_id!r} has publish="after approval", and Spark writes it when the stage ends: its '
                f"system {run.streams[stream_id].system!r} is of kind {kinds[stream_id]}.",
                hint="Write it to files or to a table of kind iceberg or delta, or leave publish= out.",
                key="publish",
                value="after approval",
            )

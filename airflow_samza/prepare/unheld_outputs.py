"""Outputs whose rows cannot be held back until somebody has approved them, or has compared them with another run's."""

from __future__ import annotations

from collections.abc import Mapping

from airflow_samza.errors import ConfigError
from airflow_samza.runs.records.run_plan import CONTINUOUS, RunPlan
from airflow_samza.system_kinds import traits_of
from airflow_samza.systems.output_slots import MODE, UPSERT


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


def reject_uncompared(run: RunPlan, base: RunPlan, kinds: Mapping[str, str]) -> None:
    """Reject outputs whose rows cannot be held back, or read again: those of Spark, of brokers, and upserted ones."""
    for stream_id in run.approvals:
        if (MODE, UPSERT) in run.streams[stream_id].spec.options:
            raise ConfigError(
                f"The run {run.run_id!r} cannot be compared with the run {base.run_id!r}: the output {stream_id!r} is "
                "upserted, and which changes a run has merged into its table is not kept.",
                hint='Compare it in files: with mode="append" and a system of kind files (--system) in both runs.',
                key=MODE,
                value=UPSERT,
                stream=stream_id,
            )
        traits = traits_of(kinds.get(stream_id))
        if traits.through_topics or traits.stages_outputs:
            raise ConfigError(
                f"The run {run.run_id!r} cannot be compared with the run {base.run_id!r}: the output {stream_id!r} is "
                f"in the system {run.streams[stream_id].system!r} of kind {kinds[stream_id]}, whose rows cannot be "
                "read before they are published.",
                hint="Bind the system to files or a log for the comparison "
                f"(--system {run.streams[stream_id].system}=files:/path), and compare runs that both wrote there.",
                key="systems",
                value=kinds[stream_id],
                stream=stream_id,
            )

"""Errors for what a task cannot do: run what only Spark can, and end without an end-of-stream."""

from __future__ import annotations

from collections.abc import Mapping

from airflow_samza.errors import InvalidApplication, NotYet, StageError
from airflow_samza.task.messages.user_errors import cut_short
from airflow_samza.task.program.stage_program import StageProgram


def reject_catalyst(program: StageProgram) -> None:
    """Reject a stage with a part that only Spark can run."""
    unreadable = next((c for c in program.operators.values() if c.unreadable), None)
    if unreadable is not None:
        spec = unreadable.spec
        at = f" ({spec.location})" if spec.location is not None else ""
        raise InvalidApplication(
            f"{spec.title}{at} has a syntax error {unreadable.unreadable}: {cut_short(', '.join(spec.sql))}.",
            hint="Correct the SQL; if Spark reads it as it stands, the stage runs on Spark only.",
            operator=spec.op_id,
        )
    if len(program.sections) > 1:
        catalyst = next(c for c in program.operators.values() if c.engine == "catalyst")
        raise NotYet(
            f"{catalyst.spec.title} of stage {program.stage.stage_id!r} runs only in Catalyst ({catalyst.reason}), and "
            "there is no Spark here.",
            hint="Write it within the subset that Arrow runs, or run the stage on Spark.",
            operator=catalyst.spec.op_id,
            stage=program.stage.stage_id,
        )


def no_end(stage: str, task: str, missing: Mapping[tuple[str, int], tuple[int, int | None]]) -> StageError:
    """Return the error of a task that has read everything, and whose partitions lack an end.

    ``missing`` holds the producers that have ended each, and how many there are.
    """
    stream, partition = next(iter(missing))
    ended, total = missing[stream, partition]
    text = f"{ended} of {total} producers have ended it" if total is not None else "no producer has ended it"
    more = f" (and {len(missing) - 1} more)" if len(missing) > 1 else ""
    return StageError(
        f"Input {stream!r}, partition {partition}{more}, of stage {stage!r} has no end-of-stream: {text}.",
        hint="The stage that writes it did not finish, or its topic was cleaned up: clear it with its upstream.",
        stage=stage,
        task=task,
        stream=stream,
        partition=partition,
    )

"""One task of a stage of one section, run by itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from airflow_samza.task.loop.reading import TaskInput
from airflow_samza.task.loop.run_loop import SectionRun
from airflow_samza.task.messages.output_writers import Writer
from airflow_samza.task.program.stage_program import StageProgram, reject_catalyst
from airflow_samza.task.report import TaskReport


def run_task(
    program: StageProgram, task: int, inputs: Sequence[TaskInput], outputs: Mapping[str, Writer]
) -> TaskReport:
    """Run a task from first message to last; the report holds what to commit. ``outputs`` are producers by stream."""
    reject_catalyst(program)
    run = SectionRun(program, 0, task, outputs)
    for _ in run.run(inputs):
        raise AssertionError("a section without a boundary yields nothing")
    return run.report

"""``airflow-samza status``: the progress of a run's stages, live or after its end."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict

from airflow_samza.cli.environment import Environment
from airflow_samza.cli.options import look_from_here
from airflow_samza.cli.remedies import PLAN_ANEW, on_the_command_line
from airflow_samza.cli.warm_commands import lenders
from airflow_samza.errors import SamzaError, UnknownName
from airflow_samza.planner.titles import stage_names, stage_titles
from airflow_samza.prepare.bound_systems import bind_systems, run_bindings
from airflow_samza.runs.held_outputs import HeldOutput, held_outputs
from airflow_samza.runs.progress.progress import ProgressReport, describe_progress
from airflow_samza.runs.progress.run_costs import run_requests
from airflow_samza.runs.progress.run_list import (
    PLAN_FAILED,
    RUNNING,
    NotPlanned,
    RunEntry,
    find_run,
    newest_not_planned,
    plan_of,
    run_state,
)
from airflow_samza.runs.progress.stage_failures import stage_failures
from airflow_samza.runs.progress.stage_progress import bound_answers, heads_that_answer, stage_progress
from airflow_samza.runs.records.run_plan import RunPlan
from airflow_samza.runs.stages.newest_stages import finished_result, newest_handle
from airflow_samza.runs.stages.stage_runners import is_worked_on
from airflow_samza.runs.stages.stage_state import FINAL, SUCCEEDED, stage_status
from airflow_samza.runs.upkeep.waiting_output import WaitingOutput, waiting_output
from airflow_samza.secrecy import without_passwords
from airflow_samza.systems.filesystems.filesystem import Filesystem
from airflow_samza.systems.filesystems.object_store.requests import described
from airflow_samza.systems.system import System


class RunStatus:
    """A run whose status is asked for, and the root of its records."""

    def __init__(self, environment: Environment, names: Sequence[str]) -> None:
        self._files = environment.files
        self.entry = chosen_run(self._files, names)
        self.run = plan_of(self._files, self.entry)
        self.note = ""
        try:
            self._systems: dict[str, System] = bind_systems(
                run_bindings(self.run.systems, environment.systems), self._files.root
            )
        except SamzaError as error:  # the records can be read all the same
            self._systems = {}
            self.note = f"Heads of inputs are not asked for: {error.sentence}"
        bound_answers(self._systems.values())
        self.unknown: dict[str, str] = {}

    @property
    def state(self) -> str:
        """The state of the run now, as lists of runs have it."""
        return run_state(self._files, self.entry.folder)

    def waiting(self) -> list[WaitingOutput]:
        """Return what is committed, and neither published nor worked on."""
        working = is_worked_on(self._files, self.run)
        return [] if working else waiting_output(self._files, self._systems, self.run)

    def held(self) -> list[HeldOutput]:
        """Return the outputs that wait for an approval, or did."""
        return held_outputs(self._files, self.run) if self.run.approvals else []

    def tables(self) -> dict[str, list[str]]:
        """Return what stages read of tables, what those that have succeeded have committed to some, and what waits."""
        lines: dict[str, list[str]] = {}
        held = self.held()
        for stage in self.run.plan.stages:
            notes = self.run.notes.get(stage.stage_id, {})
            read = [
                f"{stream_id}: {notes[stream_id]}"
                for stream_id in (*stage.inputs, *stage.side_inputs)
                if stream_id in notes and "table" in (self.run.side_input(stream_id).slice or {})
            ]
            result = finished_result(self._files, self.run, stage.stage_id)
            written = [
                f"{output.stream_id}: committed to {output.place}"
                for output in (result.outputs if result is not None else ())
                if output.version
            ]
            waits = [str(one) for one in held if one.stage_id == stage.stage_id]
            lines[stage.stage_id] = [*read, *written, *waits]
        return lines

    def reports(self) -> list[ProgressReport]:
        """Return the reports of every stage, in the plan's order; ``unknown`` has why lags are left out, by system."""
        self.unknown = {}
        heads = heads_that_answer(self._systems, self.unknown)
        return [stage_progress(self._files, heads, self.run, stage.stage_id) for stage in self.run.plan.stages]

    def lines(self, reports: Sequence[ProgressReport], worst: int) -> list[str]:
        """Return the run for people."""
        run, files = self.run, self._files
        failed, tables, names = failures_of(files, run), self.tables(), stage_names(run.plan)
        ended = sum(report.state == SUCCEEDED for report in reports)
        compared = f", compared with {run.compares[1]}" if run.compares is not None else ""
        lines = [
            f"Run {run.run_id} of {run.application} ({run.mode}, plan {run.generation}{compared}): {self.state}, "
            f"{ended} of {len(reports)} stages succeeded",
            *(f"  served by the warm runner {lender}" for lender in lenders(files, run)),
        ]
        for one in reports:
            lines += describe_progress(one, worst=worst, name=names[one.stage_id])
            lines += [f"  {said}" for said in tables[one.stage_id]]
            if one.stage_id in failed:
                lines += [f"  {said}" for said in failure_lines(run, failed[one.stage_id])]
        lines += [
            f"{one} are committed and wait to be published: the next try of the task does it, or airflow-samza runs "
            f"finish {run.application} {run.run_id}"
            for one in self.waiting()
        ]
        lines += self.unknown.values()
        requests = run_requests(files, run)
        return [*lines, f"Sent to the root so far: {described(requests)}"] if requests else lines

    def json(self, reports: Sequence[ProgressReport]) -> str:
        """Return the run for programs."""
        run, state, titles = self.run, self.state, stage_titles(self.run.plan)
        errors = {stage_id: error.to_dict() for stage_id, error in failures_of(self._files, run).items()}
        return json.dumps(
            {
                "application": run.application,
                "run_id": run.run_id,
                "generation": run.generation,
                "mode": run.mode,
                "compares": "/".join(run.compares) if run.compares is not None else None,
                "state": state,
                "closed": state != RUNNING,
                "requests": run_requests(self._files, run),
                "waiting": [asdict(output) for output in self.waiting()],
                "held": [output.told for output in self.held()],
                "tables": run.table_facts,
                "stages": [
                    {**report.to_dict(), "title": titles[report.stage_id], "error": errors.get(report.stage_id)}
                    for report in reports
                ],
            },
            indent=2,
        )


def chosen_run(files: Filesystem, names: Sequence[str]) -> RunEntry:
    """Return the run that one or two arguments name.

    Nothing (the newest of all), an application (its newest), a run, or an application and a run.
    """
    words = [_name_of(word) if ":" in word else word for word in names]
    if len(words) == 2:
        return find_run(files, words[0], words[1])
    if words:
        with suppress(UnknownName):
            return find_run(files, words[0])
    return find_run(files, None, words[0] if words else None)


def failed_plan(environment: Environment, names: Sequence[str]) -> NotPlanned | None:
    """Return why the newest plan of the run that arguments name has failed, as :func:`chosen_run` reads them."""
    files = environment.files
    words = [_name_of(word) if ":" in word else word for word in names]
    if len(words) == 2:
        return newest_not_planned(files, words[0], words[1])
    if not words:
        return newest_not_planned(files)
    return newest_not_planned(files, None, words[0]) or newest_not_planned(files, words[0])


def plan_failure(failure: NotPlanned, *, as_json: bool = False) -> str:
    """Return why a run could not be planned, what to do about it, and the command that goes on."""
    if as_json:
        about = {"application": failure.application, "run_id": failure.run_id, "state": PLAN_FAILED}
        return json.dumps({**about, "error": dict(failure.error)}, indent=2)
    anew = "" if failure.generation == 1 else f" {PLAN_ANEW}"
    command = f"airflow-samza run {failure.reference} --run-id {failure.run_id}{anew}"
    error = SamzaError.from_dict(dict(failure.error))
    lines = _error_lines(error, f"{command} (in Airflow: clear its plan with its downstream)")
    return "\n  ".join([f"Run {failure.run_id} of {failure.application} could not be planned.", *lines])


def _name_of(application: str) -> str:
    from airflow_samza.application.loader import load_application

    look_from_here()
    return load_application(application).spec({}).name


def failures_of(files: Filesystem, run: RunPlan) -> dict[str, SamzaError]:
    """Return the errors of a run's stages that have failed, by stage."""
    handles = [newest_handle(files, run, stage.stage_id) for stage in run.plan.stages]
    failed = stage_failures(files, run, [(handle, stage_status(files, handle)) for handle in handles])
    return {failure.handle.stage_id: failure.error for failure in failed}


def failure_lines(run: RunPlan, error: SamzaError) -> Iterator[str]:
    """Return the sentence of a stage's failure, what to do about it, and the command that goes on."""
    anew, clear = (
        (f" {PLAN_ANEW}", "its plan") if PLAN_ANEW in on_the_command_line(error.hint) else ("", "its failed tasks")
    )
    yield from _error_lines(
        error, f"airflow-samza run {run.reference} --run-id {run.run_id}{anew} (in Airflow: clear {clear})"
    )


def _error_lines(error: SamzaError, next_step: str) -> Iterator[str]:
    yield f"Error: {without_passwords(error.sentence)}"
    hint = on_the_command_line(error.hint)
    if hint:
        yield f"Hint: {without_passwords(hint)}"
    yield f"More: {error.entry}"
    yield f"Next: {next_step}"


def watched(
    status: RunStatus, seconds: float, pause: Callable[[float], None] = time.sleep
) -> Iterator[list[ProgressReport]]:
    """Yield the reports again and again, until the run is over, or every stage has ended."""
    while True:
        is_over = status.state != RUNNING
        reports = status.reports()
        yield reports
        if is_over or all(report.state in FINAL for report in reports):
            return
        pause(seconds)

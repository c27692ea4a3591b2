"""``airflow-samza status``: the progress of a run's stages, live or after its end."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress

from airflow_samza.application.loader import load_application
from airflow_samza.cli.environment import Environment
from airflow_samza.cli.warm_commands import lenders
from airflow_samza.errors import SamzaError, UnknownName
from airflow_samza.planner.titles import stage_names, stage_titles
from airflow_samza.prepare.bound_systems import bind_systems, run_bindings
from airflow_samza.runs.progress.progress import NOT_STARTED, ProgressReport
from airflow_samza.runs.progress.progress_text import describe_progress
from airflow_samza.runs.progress.run_costs import run_requests, table_facts
from airflow_samza.runs.progress.run_list import RUNNING, RunEntry, find_run, plan_of, run_state
from airflow_samza.runs.progress.stage_progress import stage_progress
from airflow_samza.runs.records.folders import read_fixed
from airflow_samza.runs.records.run_plan import RunPlan
from airflow_samza.runs.records.stage_result import StageResult
from airflow_samza.runs.stages.stage_runners import is_worked_on
from airflow_samza.runs.stages.stage_state import FINAL, SUCCEEDED
from airflow_samza.runs.state_history.lease_holder import finished_stage
from airflow_samza.runs.upkeep.waiting_output import WaitingOutput, waiting_output
from airflow_samza.systems.filesystems.filesystem import Filesystem
from airflow_samza.systems.filesystems.object_store.requests import described
from airflow_samza.systems.filesystems.opening import open_filesystem
from airflow_samza.systems.system import System


class RunStatus:
    """A run whose status is asked for, and the root of its records."""

    def __init__(self, environment: Environment, names: Sequence[str]) -> None:
        self._files = open_filesystem(environment.root)
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

    @property
    def state(self) -> str:
        """The state of the run now, as lists of runs have it."""
        return run_state(self._files, self.entry.folder)

    def requests(self) -> dict[str, int]:
        """Return the requests of the run to a root that charges for them, by kind."""
        return run_requests(self._files, self.run)

    def lenders(self) -> list[str]:
        """Return the warm runners that have lent a Java to the run."""
        return lenders(self._files, self.run)

    def waiting(self) -> list[WaitingOutput]:
        """Return what is committed, and neither published nor worked on."""
        working = is_worked_on(self._files, self.run)
        return [] if working else waiting_output(self._files, self._systems, self.run)

    def tables(self) -> dict[str, list[str]]:
        """Return what stages read of tables, and what those that have succeeded have committed to some, in words."""
        lines: dict[str, list[str]] = {}
        for stage in self.run.plan.stages:
            notes = self.run.notes.get(stage.stage_id, {})
            read = [
                f"{stream_id}: {notes[stream_id]}"
                for stream_id in (*stage.inputs, *stage.side_inputs)
                if stream_id in notes and "table" in (self.run.side_input(stream_id).slice or {})
            ]
            handle = finished_stage(self._files, self.run, stage.stage_id)
            result = read_fixed(self._files, handle.folder.result, StageResult) if handle is not None else None
            written = [
                f"{output.stream_id}: committed to {output.place}"
                for output in (result.outputs if result is not None else ())
                if output.version
            ]
            lines[stage.stage_id] = [*read, *written]
        return lines

    def reports(self) -> list[ProgressReport]:
        """Return the reports of every stage, in the plan's order."""
        return [stage_progress(self._files, self._systems, self.run, stage.stage_id) for stage in self.run.plan.stages]


def chosen_run(files: Filesystem, names: Sequence[str]) -> RunEntry:
    """Return the run that one or two arguments name.

    Nothing (the newest of all), an application (its newest), a run, or an application and a run.
    """
    words = [load_application(word).spec({}).name if ":" in word else word for word in names]
    if len(words) == 2:
        return find_run(files, words[0], words[1])
    if words:
        with suppress(UnknownName):
            return find_run(files, words[0])
    return find_run(files, None, words[0] if words else None)


def status_lines(
    state: str,
    run: RunPlan,
    reports: Sequence[ProgressReport],
    worst: int,
    requests: Mapping[str, int],
    lenders: Sequence[str] = (),
    waiting: Sequence[WaitingOutput] = (),
    tables: Mapping[str, Sequence[str]] | None = None,
) -> list[str]:
    """Print a run for people."""
    of_tables = tables or {}
    ended = sum(report.state == SUCCEEDED for report in reports)
    head = (
        f"Run {run.run_id} of {run.application} ({run.mode}, plan {run.generation}): {state}, {ended} of "
        f"{len(reports)} stages succeeded"
    )
    names = stage_names(run.plan)
    served = [f"  served by the warm runner {lender}" for lender in lenders]
    lines = [
        head,
        *served,
        *(
            line
            for one in reports
            for line in (
                *describe_progress(one, worst=worst, name=names[one.stage_id]),
                *(f"  {said}" for said in of_tables.get(one.stage_id, ())),
            )
        ),
    ]
    lines += [
        f"{one} are committed and wait to be published: the next try of the task does it, or airflow-samza runs "
        f"finish {run.application} {run.run_id}"
        for one in waiting
    ]
    return [*lines, f"Sent to the root so far: {described(requests)}"] if requests else lines


def status_json(
    state: str,
    run: RunPlan,
    reports: Sequence[ProgressReport],
    requests: Mapping[str, int],
    waiting: Sequence[WaitingOutput] = (),
) -> str:
    """Return a run for programs."""
    titles = stage_titles(run.plan)
    return json.dumps(
        {
            "application": run.application,
            "run_id": run.run_id,
            "generation": run.generation,
            "mode": run.mode,
            "state": state,
            "closed": state != RUNNING,
            "requests": dict(requests),
            "waiting": [output.to_dict() for output in waiting],
            "tables": table_facts(run),
            "stages": [{**report.to_dict(), "title": titles[report.stage_id]} for report in reports],
        },
        indent=2,
    )


def watched(
    status: RunStatus, seconds: float, pause: Callable[[float], None] = time.sleep
) -> Iterator[list[ProgressReport]]:
    """Yield the reports again and again, until every stage has ended."""
    while True:
        reports = status.reports()
        yield reports
        if all(report.state in FINAL for report in reports) and not any(
            report.state == NOT_STARTED for report in reports
        ):
            return
        pause(seconds)

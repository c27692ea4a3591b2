"""The lines that ``airflow-samza run`` prints while it works: plain ones, or on a terminal a live line per stage."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import typer

from airflow_samza.cli.terminal import COLOURS, is_live
from airflow_samza.columns import folded
from airflow_samza.errors import SamzaError
from airflow_samza.figures import duration, rate
from airflow_samza.planner.titles import stage_names
from airflow_samza.runs.progress.progress import ProgressReport
from airflow_samza.runs.progress.stage_progress import DEAD_LETTERS, DROPPED, LATE
from airflow_samza.runs.records.run_plan import CONTINUOUS, RunPlan
from airflow_samza.runs.records.stage_result import StageResult, describe_result, fact_lines, warning_lines
from airflow_samza.runs.stages.stage_state import (
    CANCELLED,
    FAILED,
    FINAL,
    LOST,
    QUEUED,
    RUNNING,
    SUCCEEDED,
    StageStatus,
)

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

Tell = Callable[[str], None]
Measure = Callable[[str, StageStatus], ProgressReport]
"""Makes a report of a stage, by its id."""

PROGRESS_SECONDS = 5.0
"""The least time between two plain lines of a running stage."""

MEASURE_SECONDS = 2.0
"""The least time between two reports of a running stage, which read the records of its tasks."""


class PlainLines:
    """The progress of a run as plain lines, for pipes and logs: changes of state at once, figures now and then."""

    def __init__(self, tell: Tell, clock: Callable[[], float] = time.monotonic) -> None:
        self._tell = tell
        self._clock = clock
        self._names: Mapping[str, str] = {}
        self._said: dict[str, tuple[str, float]] = {}

    def __enter__(self) -> PlainLines:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def tell(self, text: str) -> None:
        """Print a text that stays."""
        self._tell(text)

    @property
    def width(self) -> int | None:
        """The columns of a terminal; None: lines may be of any length."""
        return None

    def waits(self, words: str) -> None:
        """Show what is done until the next call; in plain lines only what follows is said."""

    def planned(self, run: RunPlan, measure: Measure) -> None:
        """Take the plan whose stages follow; ``measure`` makes their reports."""
        del measure
        self._names = stage_names(run.plan)

    def submitting(self, stage_id: str) -> None:
        """Show that a stage waits for a stage runner; in plain lines its state follows."""

    def progress(self, stage_id: str, status: StageStatus) -> None:
        """Show a status that differs from the one before."""
        state, at = self._said.get(stage_id, ("", 0.0))
        now = self._clock()
        if status.state != state or now - at > PROGRESS_SECONDS:
            self._said[stage_id] = status.state, now
            self.tell(f"Stage {self._names[stage_id]}: {status}")

    def done(self, result: StageResult) -> None:
        """Show the result of a stage that has succeeded."""
        for line in describe_result(result, self._names[result.stage_id]):
            self.tell(line)


@dataclass
class _Row:
    """A stage that has been submitted; ``began`` is when it ran first, with ``done_before`` of its tasks done."""

    submitted: float
    status: StageStatus | None = None
    began: float = 0.0
    done_before: int = 0
    report: ProgressReport | None = None
    measured: float = float("-inf")


_MARKS = {SUCCEEDED: ("✔", "+"), CANCELLED: ("■", "x"), FAILED: ("✘", "x"), LOST: ("✘", "x")}
_SPINNER = ("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏", "-\\|/")
_FRAMES_A_SECOND = 8

_FIGURES_WIDTH = 54
"""Columns that a stage's figures take at most, as a rule; its name has the others."""


class LiveLines(PlainLines):
    """The progress of a run on a terminal: below what stays, a line per running stage that is drawn again and again.

    A stage that has ended has a line that stays. The colours are Rich's: ``NO_COLOR`` is respected.
    """

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        from rich.live import Live

        super().__init__(self._print, clock)
        self._console = console
        self._rows: dict[str, _Row] = {}
        self._places: dict[str, str] = {}
        self._waits: tuple[str, float] | None = None
        self._left = 0
        self._continuous = False
        self._measure: Measure | None = None
        self._live = Live(
            get_renderable=self._drawn,
            console=console,
            refresh_per_second=_FRAMES_A_SECOND,
            transient=True,
            redirect_stdout=False,
        )

    def __enter__(self) -> LiveLines:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._rows, self._waits, self._left = {}, None, 0
        self._live.stop()

    @property
    def width(self) -> int | None:
        """The columns of the terminal."""
        return self._console.width

    def waits(self, words: str) -> None:
        """Show what is done, with a spinner and its time, until the next call."""
        self._rows, self._left = {}, 0
        self._waits = words, self._clock()

    def planned(self, run: RunPlan, measure: Measure) -> None:
        """Take the plan whose stages follow; ``measure`` makes their reports."""
        super().planned(run, measure)
        self._measure, self._waits, self._left = measure, None, len(run.plan.stages)
        self._continuous = run.mode == CONTINUOUS
        whole, width = len(run.plan.stages), len(str(len(run.plan.stages)))
        self._places = {stage.stage_id: f"{number:>{width}}/{whole}" for number, stage in enumerate(run.plan.stages, 1)}

    def submitting(self, stage_id: str) -> None:
        """Show that a stage waits for a stage runner."""
        self._rows[stage_id] = _Row(self._clock())
        self._left -= 1

    def progress(self, stage_id: str, status: StageStatus) -> None:
        """Take a status that differs from the one before; its figures are measured now and then."""
        row, now = self._rows[stage_id], self._clock()
        if status.state == RUNNING and not row.began:
            row.began, row.done_before = now, status.tasks_done
        row.status = status
        if status.state == RUNNING and now - row.measured > MEASURE_SECONDS and self._measure is not None:
            with suppress(SamzaError, OSError):  # a stage without figures is no reason to fail
                row.report = self._measure(stage_id, status)
            row.measured = self._clock()
        if status.state in (FAILED, CANCELLED, LOST):
            self._end(stage_id, status.state, self._figures(row))

    def done(self, result: StageResult) -> None:
        """Print the line of a stage that has succeeded, and messages that were dropped or came late."""
        tasks = "1 task" if result.tasks == 1 else f"{result.tasks} tasks"
        figures = [tasks, f"{result.read:,} read", f"{result.sent:,} sent", duration(result.seconds)]
        self._end(result.stage_id, SUCCEEDED, ["keeps its result"] if result.kept else figures)
        for line in (*warning_lines(result.warnings), *fact_lines(result, only=(LATE, DROPPED, DEAD_LETTERS))):
            self.tell(line)

    def _end(self, stage_id: str, state: str, figures: list[str]) -> None:
        mark = _MARKS[state][self._console.options.ascii_only]
        line = self._line(stage_id, mark, state, figures)
        self._rows.pop(stage_id, None)
        self._console.print(line, soft_wrap=True)

    def _print(self, text: str) -> None:
        from rich.text import Text

        self._console.print(Text(folded(text, self._console.width)), soft_wrap=True)

    def _drawn(self) -> Text:
        from rich.text import Text

        now, lines = self._clock(), []
        frames = _SPINNER[self._console.options.ascii_only]
        turning = frames[int(now * _FRAMES_A_SECOND) % len(frames)]
        if self._waits is not None:
            words, since = self._waits
            lines.append(Text(f"{turning} {words}  {_passed(now - since)}"))
        rows, room = list(self._rows.items()), max(self._console.height - 3, 1)
        for stage_id, row in rows[:room]:
            state = row.status.state if row.status is not None else QUEUED
            lines.append(self._line(stage_id, turning, state, self._figures(row)))
        hidden = [f"{len(rows) - room} more run"] if len(rows) > room else []
        waiting = [f"{self._left} more to come"] if self._left > 0 else []
        if hidden or waiting:
            lines.append(Text(f"  {', '.join([*hidden, *waiting])}", style="dim"))
        return Text("\n", no_wrap=True, overflow="ellipsis").join(lines)

    def _line(self, stage_id: str, mark: str, state: str, figures: list[str]) -> Text:
        from rich.text import Text

        place = self._places[stage_id]
        longest = max(map(len, self._names.values()))
        width = min(longest, max(self._console.width - _FIGURES_WIDTH - len(place), 16))
        name = Text(self._names[stage_id])
        name.truncate(width, overflow="ellipsis", pad=True)
        colour = COLOURS[state]
        return Text.assemble(
            (mark, colour), f" {place} ", name, "  ", (state, colour), "  " if figures else "", "  ".join(figures)
        )

    def _figures(self, row: _Row) -> list[str]:
        status, now = row.status, self._clock()
        time_passed = _passed(now - row.submitted)
        if status is None:
            return [time_passed, "a stage runner and its Spark start"]
        if status.state == QUEUED:
            waits_for = status.progress.waiting_for if status.progress is not None else None
            if waits_for:
                return [time_passed, f"waits for {self._names.get(waits_for, waits_for)}"]
            return [time_passed, "its stage runner starts, or is busy"]
        figures = []
        if status.progress is not None and status.progress.epochs:
            figures.append("1 epoch" if status.progress.epochs == 1 else f"{status.progress.epochs:,} epochs")
        elif status.tasks:
            figures.append(f"{status.tasks_done} of {'1 task' if status.tasks == 1 else f'{status.tasks} tasks'}")
        present = row.report.present_rate if row.report is not None else None
        if present is not None and present.read and status.state not in FINAL:
            figures.append(rate(present.read))
        figures.append(time_passed)
        left = self._seconds_left(row, status)
        if left is not None and status.state not in FINAL:
            figures.append(f"{_passed(left)} {'behind' if self._continuous else 'left'}")
        return figures

    def _seconds_left(self, row: _Row, status: StageStatus) -> float | None:
        """Return the time that is left at the pace of now: that of the messages of a loop, else that of the tasks."""
        if status.progress is not None:
            return row.report.seconds_left if row.report is not None else None
        done, ahead = status.tasks_done - row.done_before, status.tasks - status.tasks_done
        return (self._clock() - row.began) * ahead / done if done > 0 and ahead else None


def _passed(seconds: float) -> str:
    """Return a time that goes on, without the tenths.

    >>> _passed(4.2), _passed(75)
    ('4 s', '1 min 15 s')
    """
    return f"{int(seconds)} s" if seconds < 60 else duration(seconds)


def lines_on_stderr() -> PlainLines:
    """Return the lines of a run on standard error; on a terminal they live. Standard output has the result alone."""
    if not is_live(sys.stderr):
        return PlainLines(lambda text: typer.echo(text, err=True))
    from rich.console import Console

    return LiveLines(Console(stderr=True, highlight=False))

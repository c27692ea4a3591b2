"""Lines of ``airflow-samza run``: plain in pipes and in CI, living on terminals; by a clock of the test's."""

from __future__ import annotations

import io
import re
import sys
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from airflow_samza import stream_application
from airflow_samza.cli.run_lines import LiveLines, PlainLines, lines_on_stderr
from airflow_samza.errors import TopicError
from airflow_samza.planner.planner import ExecutionPlanner
from airflow_samza.runs.progress.progress import PartitionProgress, ProgressReport, Rate
from airflow_samza.runs.records.run_plan import CONTINUOUS
from airflow_samza.runs.records.stage_result import InputResult, OutputResult, StageResult
from airflow_samza.runs.stages.stage_state import FAILED, QUEUED, RUNNING, SUCCEEDED, StageProgress, StageStatus
from tests.support.terminal import CODES, terminal

READ = InputResult("page-views", "log", "page-views", 4, 200, 2, 800)
SENT = OutputResult("by-member", "log", "by-member", 4, 180, 4, 700, own=True)
RESULT = StageResult("views", "one", "page-views", "1.1", 4, 4.0, 2.0, (READ,), (SENT,))
REPORT = ProgressReport("page-views", "1.1", RUNNING, 0.0, tasks=4, overall=Rate(1234.0, 10.0, 5.0))


@stream_application("views")
def views(app: Any) -> None:
    app.input_stream("page-views", system="log", schema="member bigint", partitions=4).partition_by(
        "member", id="by-member"
    ).send_to(app.output_stream("out", system="log", partitions=4))


def a_run(mode: str = "staged") -> Any:
    return SimpleNamespace(plan=ExecutionPlanner({}, {"page-views": 4, "out": 4}).plan(views.spec({})), mode=mode)


class Screen:
    """Live lines of a run of two stages on a console without colours, over a clock that only the test moves."""

    def __init__(self, columns: int = 100, mode: str = "staged", **console: Any) -> None:
        self.now = 0.0
        self.report: ProgressReport | Exception = REPORT
        self.written = io.StringIO()
        given = {"force_terminal": True, "color_system": None, **console}
        self.console = Console(file=self.written, width=columns, height=10, highlight=False, **given)
        self.lines = LiveLines(self.console, lambda: self.now)
        self.lines.planned(a_run(mode), self.measure)

    def measure(self, stage_id: str, status: StageStatus) -> ProgressReport:
        if isinstance(self.report, Exception):
            raise self.report
        return replace(self.report, stage_id=stage_id)

    def drawn(self) -> list[str]:
        """The lines that are drawn again and again, as they are now."""
        with self.console.capture() as captured:
            self.console.print(self.lines._drawn())
        text = CODES.sub("", captured.get())
        return [re.sub("[⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏]", "*", line) for line in text.splitlines() if line]

    def stays(self) -> list[str]:
        return [line for line in CODES.sub("", self.written.getvalue()).splitlines() if line]


def plain(clock: Any = lambda: 0.0) -> tuple[PlainLines, list[str]]:
    told: list[str] = []
    lines = PlainLines(told.append, clock)
    lines.planned(a_run(), lambda *_: REPORT)
    return lines, told


def test_a_change_of_state_is_a_plain_line_at_once_and_figures_come_now_and_then() -> None:
    now = [0.0]
    lines, told = plain(lambda: now[0])
    lines.submitting("page-views")
    for at, done in ((1.0, 0), (2.0, 1), (7.0, 2)):
        now[0] = at
        lines.progress("page-views", StageStatus(RUNNING, 1, 4, done))
    name = "Stage page-views (partition-by-member)"
    assert told == [f"{name}: running (attempt 1, {done} of 4 tasks done)" for done in (0, 2)]
    lines.done(RESULT)
    assert told[2].startswith(f"{name} is done: 4 tasks, 4.0 s")
    assert len(told) == 5, "what was read and sent follows"


def test_what_is_waited_for_is_said_with_its_time() -> None:
    screen = Screen()
    screen.lines.waits("Planning views")
    screen.now = 27.0
    assert screen.drawn() == ["* Planning views  27 s"]


def test_a_stage_that_starts_says_so_and_for_how_long() -> None:
    screen = Screen()
    screen.lines.submitting("page-views")
    screen.now = 27.0
    name = "page-views (partition-by-member)"
    assert screen.drawn() == [f"* 1/2 {name}  queued  27 s  a stage runner and its Spark start", "  1 more to come"]
    screen.lines.progress("page-views", StageStatus(QUEUED, 1))
    assert screen.drawn()[0] == f"* 1/2 {name}  queued  27 s  its stage runner starts, or is busy"


def test_a_running_stage_has_its_tasks_rate_time_and_time_left() -> None:
    screen = Screen()
    screen.lines.submitting("page-views")
    screen.now = 5.0
    screen.lines.progress("page-views", StageStatus(RUNNING, 1, 4, 0))
    screen.now = 15.0
    screen.lines.progress("page-views", StageStatus(RUNNING, 1, 4, 1))
    assert screen.drawn()[0].endswith("running  1 of 4 tasks  1,234/s  15 s  30 s left"), "a task took 10 s"


@pytest.mark.parametrize(("mode", "said"), [("staged", "5 s left"), (CONTINUOUS, "5 s behind")])
def test_the_time_left_of_many_epochs_is_that_of_their_messages(mode: str, said: str) -> None:
    screen = Screen(mode=mode)
    screen.lines.submitting("page-views")
    screen.report = replace(REPORT, partitions=(PartitionProgress("page-views", 0, offset=0, head=6170),))
    progress = StageProgress(epochs=3, messages=10, lag=6170)
    screen.lines.progress("page-views", StageStatus(RUNNING, 1, 4, 0, progress=progress))
    assert screen.drawn()[0].endswith(f"running  3 epochs  1,234/s  0 s  {said}")


def test_figures_that_cannot_be_had_are_left_out() -> None:
    screen = Screen()
    screen.report = TopicError("The record is damaged.")
    screen.lines.submitting("page-views")
    screen.lines.progress("page-views", StageStatus(RUNNING, 1, 4, 1))
    assert screen.drawn()[0].endswith("running  1 of 4 tasks  0 s")


def test_the_line_of_a_stage_that_has_ended_stays() -> None:
    screen = Screen()
    for stage_id in ("page-views", "by-member"):
        screen.lines.submitting(stage_id)
    screen.lines.done(replace(RESULT, task_facts={"late_messages.w": 3, "restore_seconds": 1.0, "samples": ["x"]}))
    screen.lines.progress("by-member", StageStatus(FAILED, 1, 4, 2))
    assert screen.drawn() == []
    assert screen.stays() == [
        "✔ 1/2 page-views (partition-by-member)  succeeded  4 tasks  200 read  180 sent  4.0 s",
        "  late messages.w: 3",
        "  samples, for example:",
        "    x",
        "✘ 2/2 by-member (write-out)             failed  2 of 4 tasks  0 s",
    ]


def test_more_stages_than_a_terminal_has_lines_are_counted() -> None:
    screen = Screen()
    screen.console.height = 4
    screen.lines.submitting("page-views")
    screen.lines.submitting("by-member")
    assert len(screen.drawn()) == 2
    assert screen.drawn()[1] == "  1 more run"


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_no_line_is_wider_than_the_terminal(columns: int) -> None:
    screen = Screen(columns)
    screen.lines.submitting("page-views")
    screen.lines.progress("page-views", StageStatus(RUNNING, 1, 4, 1))
    assert all(len(line) <= columns for line in screen.drawn())


@pytest.mark.parametrize(("variables", "is_green"), [({}, True), ({"NO_COLOR": "1"}, False)])
def test_states_have_colours_and_no_color_takes_them_away(variables: dict[str, str], is_green: bool) -> None:
    screen = Screen(color_system="auto", _environ={"TERM": "xterm", **variables})
    screen.lines.submitting("page-views")
    screen.lines.done(RESULT)
    assert ("\x1b[32m" in screen.written.getvalue()) is is_green


def test_lines_live_on_a_terminal_and_leave_what_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    with terminal(monkeypatch) as shown:
        monkeypatch.setattr(sys, "stderr", shown.stream)
        with lines_on_stderr() as lines:
            assert isinstance(lines, LiveLines)
            lines.planned(a_run(), lambda *_: REPORT)
            lines.tell("Run one of views.")
            lines.submitting("page-views")
            lines.progress("page-views", StageStatus(SUCCEEDED, 1, 4, 4))
            lines.done(RESULT)
        monkeypatch.undo()
    assert "\x1b[?25l" in shown.raw, "the cursor is hidden"
    assert "\x1b[?25h" in shown.raw, "and comes back"
    assert "Run one of views.\n" in shown.text
    assert "✔ 1/2" in shown.text

"""Layouts of commands on terminals of some width, by a pseudo-terminal; in a pipe nothing is cut or folded."""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Callable
from typing import Any

import pytest

from airflow_samza import stream_application
from airflow_samza.cli.terminal import columns, is_live, say, say_in_place, width_of
from airflow_samza.planner.explain import explain
from airflow_samza.planner.planner import ExecutionPlanner
from tests.support.terminal import Terminal, terminal

HEADING = ["APPLICATION", "RUN", "STATE", "DATA INTERVAL", "PLANNED", "DAG", "DAG RUN"]
RUN = "scheduled__2026-01-01T00:00:00+00:00"
ROWS = [
    ["page-views", RUN, "failed", "2026-01-01/2026-01-02", "2026-01-02T00:00:11Z", "", ""],
    ["clicks", RUN, "succeeded", "2026-01-01/2026-01-02", "2026-01-02T00:00:12Z", "", ""],
]
FAILURE = """Stage by-country (count-per-country): failed after 0.2 s, 1 of 2 tasks done; read 2 messages (10.1/s)
  Error: page_views.<lambda> in filter-0 failed with ZeroDivisionError: division by zero, on the message 3 of 4.
  Next: airflow-samza run pipelines.page_views:page_views --run-id scheduled__2026-01-01T00:00:00+00:00 --again"""


@stream_application("views")
def views(app: Any) -> None:
    source = app.input_stream("page-views", system="logs", schema="member bigint, country string", partitions=4)
    source.where("member > 0 and country is not null").partition_by("member", id="by-member").send_to(
        app.output_stream("views-per-member", system="warehouse", partitions=4)
    )


def said(monkeypatch: pytest.MonkeyPatch, text: Callable[[], str], width: int = 80, **variables: str) -> Terminal:
    """Return the terminal of so many columns on which a text was printed."""
    with terminal(monkeypatch, width) as shown:
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stdout", shown.stream)
            say(text())
    return shown


def words(text: str) -> list[str]:
    return sorted(text.split())


@pytest.mark.parametrize("width", [60, 80, 120])
def test_a_table_is_as_wide_as_the_terminal_and_nothing_is_cut(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    shown = said(monkeypatch, lambda: columns(HEADING, ROWS), width).text
    assert max(map(len, shown.splitlines())) <= width
    assert words(shown) == words(columns(HEADING[:5], [row[:5] for row in ROWS])), "the empty columns are left out"


def test_a_row_of_a_wide_table_goes_on_below_its_first_line(monkeypatch: pytest.MonkeyPatch) -> None:
    assert said(monkeypatch, lambda: columns(HEADING, ROWS)).text.splitlines()[2:4] == [
        f"page-views   {RUN}  failed",
        "  2026-01-01/2026-01-02  2026-01-02T00:00:11Z",
    ]


def test_a_table_in_a_pipe_has_a_line_per_row_and_every_column() -> None:
    heading, *rows = columns(HEADING, ROWS).splitlines()
    assert heading.split("  ")[-1] == "DAG RUN"
    assert len(rows) == len(ROWS)


def plan_text(width: int | None) -> str:
    plan = ExecutionPlanner({}, {"page-views": 4, "views-per-member": 4}).plan(views.spec({}))
    engines = {operator.op_id: "catalyst: uses a function that only Spark has" for operator in plan.operators}
    note = "reads 3 of 4 columns, and skips what statistics rule out by member > 0"
    return explain(plan, engines, {"page-views": {"page-views": note}}, width=width)


def test_a_plan_fits_a_terminal_and_nothing_of_it_is_lost() -> None:
    assert max(map(len, plan_text(None).splitlines())) > 100
    assert max(map(len, plan_text(80).splitlines())) <= 80
    assert words(plan_text(80)) == words(plan_text(None))


def test_long_lines_are_folded_between_words_but_not_a_command(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = said(monkeypatch, lambda: FAILURE).text.splitlines()
    assert [line for line in shown if len(line) > 80] == [FAILURE.splitlines()[-1]], "a command is copied as it is"
    assert shown[2:4] == [
        "  Error: page_views.<lambda> in filter-0 failed with ZeroDivisionError: division",
        "    by zero, on the message 3 of 4.",
    ]


def test_states_and_errors_have_colours_which_no_color_takes_away(monkeypatch: pytest.MonkeyPatch) -> None:
    assert re.findall(r"\x1b\[31m(?:\x1b\[1m)?(\w+)", said(monkeypatch, lambda: FAILURE).raw) == ["failed", "Error"]
    assert "\x1b" not in said(monkeypatch, lambda: FAILURE, NO_COLOR="1").raw


def test_a_pipe_gets_the_text_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    say(FAILURE)
    assert capsys.readouterr().out == f"{FAILURE}\n"


def test_columns_in_the_environment_are_those_of_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    with terminal(monkeypatch, 90) as shown:
        assert width_of(shown.stream) == 90
        monkeypatch.setenv("COLUMNS", "100")
        assert width_of(shown.stream) == 100
    assert width_of(io.StringIO()) is None


@pytest.mark.parametrize(("variable", "value"), [("CI", "true"), ("TERM", "dumb")])
def test_lines_are_plain_where_nobody_can_draw_them_again(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str
) -> None:
    with terminal(monkeypatch) as shown:
        assert is_live(shown.stream)
        monkeypatch.setenv(variable, value)
        assert not is_live(shown.stream)
    assert not is_live(io.StringIO())


def test_states_in_a_table_have_their_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = said(monkeypatch, lambda: columns(HEADING, ROWS), 200)
    assert "\x1b[31mfailed\x1b[0m" in shown.raw
    assert "\x1b[32msucceeded\x1b[0m" in shown.raw


def test_a_look_on_a_terminal_takes_the_place_of_the_one_before(monkeypatch: pytest.MonkeyPatch) -> None:
    with terminal(monkeypatch, 80) as shown, monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", shown.stream)
        say_in_place("Stage a: running", first=True)
        say_in_place("Stage a: succeeded", first=False)
    assert shown.raw.count("\x1b[2J") == 2
    assert shown.text.splitlines()[-1] == "Stage a: succeeded"


def test_looks_in_a_pipe_stand_below_each_other(capsys: pytest.CaptureFixture[str]) -> None:
    say_in_place("Stage a: running", first=True)
    say_in_place("Stage a: succeeded", first=False)
    assert capsys.readouterr().out == "Stage a: running\n\nStage a: succeeded\n"

"""Ends of commands: exit codes, sentences, and no traceback unless it is asked for."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from airflow_samza.cli.app import app
from airflow_samza.cli.reporting import ReportingGroup
from airflow_samza.errors import ConfigError, StageFailed, TopicError


def program(error: BaseException) -> typer.Typer:
    """A command line like ours with a command that raises."""
    made = typer.Typer(cls=ReportingGroup, pretty_exceptions_enable=False)

    @made.callback()
    def common(debug: bool = False) -> None:
        del debug

    @made.command()
    def work() -> None:
        raise error

    return made


def call(error: BaseException, *before: str) -> Result:
    return CliRunner().invoke(program(error), [*before, "work"])


def test_what_is_rejected_ends_with_2_a_sentence_a_hint_and_an_address() -> None:
    done = call(ConfigError("The key is wrong.", hint="Correct it."))
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.splitlines() == [
        "Error: The key is wrong.",
        "  Hint: Correct it.",
        "  More: docs/reference/errors.md#invalid-config",
    ]


def test_a_hint_is_in_the_words_of_the_command_line() -> None:
    done = call(
        TopicError("The record is damaged.", hint="Clear the plan task: a new generation keeps records of its own.")
    )
    assert "  Hint: Run it again with --again: a new generation keeps records of its own.\n" in done.stderr


def test_work_that_failed_ends_with_1() -> None:
    assert call(StageFailed("The stage failed.")).exit_code == 1


def test_a_mistake_of_ours_ends_with_70_and_no_traceback() -> None:
    done = call(KeyError("x"))
    assert done.exit_code == 70
    assert done.stderr.startswith("Error: KeyError: 'x'\n  Hint: ")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("error", [KeyError("x"), ConfigError("The key is wrong.")])
def test_debug_shows_where_it_came_from(error: Exception) -> None:
    done = call(error, "--debug")
    assert "Traceback" in done.stderr
    assert "raise error" in done.stderr


def test_an_interrupted_command_ends_with_130() -> None:
    done = call(KeyboardInterrupt())
    assert (done.exit_code, done.stderr) == (130, "Interrupted.\n")


def test_no_command_shows_the_help() -> None:
    done = CliRunner().invoke(app, [])
    assert "plan" in done.output
    assert "topics" in done.output


def test_the_help_of_an_option_is_shown_whole() -> None:
    """Text in brackets, Rich would take for a style."""
    done = CliRunner().invoke(app, ["stop", "--help"], env={"COLUMNS": "200"})
    assert "The environment: the section env.NAME of samza.toml." in done.output


def test_version_names_what_it_runs_on() -> None:
    done = CliRunner().invoke(app, ["version"])
    assert done.exit_code == 0
    assert "airflow-samza 0." in done.stdout
    assert "pyspark 4." in done.stdout


@pytest.mark.parametrize("arguments", [["nope"], ["plan"], ["plan", "--nope"], ["topics", "nope"], ["topics", "tail"]])
def test_wrong_usage_ends_with_2(arguments: list[str]) -> None:
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 2
    assert "Usage" in done.stderr


def test_the_installed_command_is_this_one() -> None:
    command = Path(sys.executable).with_name("airflow-samza")
    done = subprocess.run([command, "version"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("airflow-samza ")


def test_a_reader_that_has_seen_enough_is_no_error() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    program = "from airflow_samza.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", program, "version"], stdout=writing, stderr=subprocess.PIPE, text=True)
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, "")

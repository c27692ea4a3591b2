from __future__ import annotations

import ast
import io
import json
import re
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import structlog
import typer.main
from airflow.sdk.log import configure_logging, reset_logging

import airflow_samza
from airflow_samza.cli.app import app as command_line
from airflow_samza.errors import (
    ConfigError,
    MessageError,
    PlanError,
    PlanErrors,
    PushError,
    SamzaError,
    StageLost,
    TopicError,
    UpstreamCleared,
    raise_all,
)
from airflow_samza.provider.airflow_versions import AirflowException, AirflowFailException
from airflow_samza.provider.failures import (
    AT_A_ROOT,
    COMMAND,
    SamzaTaskFailed,
    SamzaTaskRejected,
    log_without_frames,
    mapped_failures,
    with_root,
)
from tests.support.syntax_trees import parsed


def log_into(told: list[str]) -> Any:
    """A task's log whose lines are kept."""
    log = lambda event, *args: told.append(event % args if args else event)  # noqa: E731
    return SimpleNamespace(info=log, error=log)


def service(root: str = "/data", lines: Sequence[str] = ()) -> Any:
    """A hook's part that failures need."""
    return SimpleNamespace(root=root, last_lines=lambda path: list(lines))


def every_error(kind: type[SamzaError] = SamzaError) -> list[type[SamzaError]]:
    return [kind, *(found for child in kind.__subclasses__() for found in every_error(child))]


@pytest.mark.parametrize("kind", [kind for kind in every_error() if kind is not PlanErrors])
def test_only_what_is_retryable_is_retried(kind: type[SamzaError]) -> None:
    with pytest.raises(AirflowException) as raised, mapped_failures():
        raise kind("It failed.", hint="Fix it.")
    assert isinstance(raised.value, AirflowFailException) is not kind.retryable
    assert str(raised.value) == "It failed.\n  Hint: Fix it."


QUOTES = {
    "a message": MessageError(
        "f in map 'm' raised ValueError, on the message Visit(email='c@d.de').", hint="Leave c@d.de out.", operator="m"
    ),
    "a key": PushError("The key 'c@d.de' comes twice.", table="people"),
    "a file": TopicError("File a.csv of stream 's' is unreadable: 'c@d.de' is no int.", reason="'c@d.de' is no int"),
}


@pytest.mark.parametrize("error", QUOTES.values(), ids=QUOTES)
@pytest.mark.parametrize("setting", ["PAGE_MASKED_COLUMNS=email", "PAGE_SAMPLES=False"])
def test_an_exception_goes_to_notifiers_without_messages_where_these_are_hidden(
    monkeypatch: pytest.MonkeyPatch, error: SamzaError, setting: str
) -> None:
    told: list[str] = []
    with pytest.raises(AirflowException, match=r"c@d\.de"), mapped_failures(log_into(told)):
        raise error
    name, _, value = setting.partition("=")
    monkeypatch.setenv(f"AIRFLOW__SAMZA__{name}", value)
    with pytest.raises(AirflowException) as raised, mapped_failures(log_into(told)):
        raise error
    text = "".join(traceback.format_exception(raised.value))
    assert "c@d.de" not in text
    assert f"{type(error).__name__}" in str(raised.value)
    assert "The task's log has it." in str(raised.value)
    assert told == [f"{error}\n  More: {error.entry}"] * 2


def test_an_error_that_quotes_no_message_is_said_as_it_is_where_messages_are_hidden(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AIRFLOW__SAMZA__PAGE_MASKED_COLUMNS", "email")
    with pytest.raises(AirflowException) as raised, mapped_failures():
        raise ConfigError("There is no system 'logs'.", hint="Bind it.")
    assert str(raised.value) == "There is no system 'logs'.\n  Hint: Bind it."


def test_the_sentence_is_told_and_the_error_kept() -> None:
    told: list[str] = []
    error = MessageError("m", operator="map", file="a.py", line=3)
    with pytest.raises(AirflowException) as raised, mapped_failures(log_into(told)):
        raise error
    assert told == ["m\n  More: docs/reference/errors.md#message"]
    assert isinstance(raised.value, SamzaTaskFailed | SamzaTaskRejected)
    assert raised.value.error is error


@pytest.fixture
def task_log() -> Iterator[io.BytesIO]:
    """Return the lines of a task process of Airflow, with its logging set up as there."""
    written = io.BytesIO()
    reset_logging()
    configure_logging(json_output=True, output=written, sending_to_supervisor=True)
    yield written
    reset_logging()
    structlog.reset_defaults()


def logged(error: Exception, log: Any, task: Any = None) -> None:
    """Raise an error in an operator whose log is ``task``, and log it as Airflow's task process does."""
    try:
        with mapped_failures(task, lambda: service(lines=["Spark is up", "java.lang.OutOfMemoryError", "\tat java.x"])):
            raise error
    except Exception:
        log.exception("Task failed with exception")
    log.info("::group::Post Execute")


def events(task_log: io.BytesIO) -> list[str]:
    return [json.loads(line)["event"] for line in task_log.getvalue().splitlines()]


@pytest.mark.parametrize("error", [ConfigError("It is wrong."), StageLost("It is lost.")], ids=["final", "retried"])
def test_our_errors_are_logged_without_frames(task_log: io.BytesIO, error: SamzaError) -> None:
    logged(error, structlog.get_logger(logger_name="task"))
    line = json.loads(task_log.getvalue().splitlines()[0])
    assert line["event"] == "Task failed with exception"
    assert "exception" not in line


@pytest.mark.parametrize("kind", [ConfigError, StageLost], ids=["final", "retried"])
def test_a_failed_tasks_log_ends_with_the_sentence_and_what_to_do(task_log: io.BytesIO, kind: type[SamzaError]) -> None:
    log = structlog.get_logger(logger_name="task")
    error = kind("It broke.", hint="Free space: airflow-samza gc", log="runner.log")
    logged(error, log, log)
    assert events(task_log) == [
        "::group::The last 3 lines of the runner and its driver (runner.log, under the root)",
        "Spark is up",
        "java.lang.OutOfMemoryError",
        "\tat java.x",
        "::endgroup::",
        f"It broke.\n  Hint: Free space: airflow-samza gc --root /data\n  More: {error.entry}",
        "::group::Post Execute",  # Airflow's own, which folds
    ]


def test_another_line_about_the_same_error_stays(task_log: io.BytesIO) -> None:
    log = structlog.get_logger(logger_name="task")
    try:
        with mapped_failures(log):
            raise ConfigError("It is wrong.")
    except SamzaTaskRejected:
        log.exception("A callback has met it")
    assert [event.split("\n")[0] for event in events(task_log)] == ["It is wrong.", "A callback has met it"]


def test_a_hook_that_cannot_be_made_hides_no_failure() -> None:
    told: list[str] = []

    def no_connection() -> Any:
        raise ConfigError("There is no connection.")

    with pytest.raises(AirflowException, match="It broke"), mapped_failures(log_into(told), no_connection):
        raise StageLost("It broke.", hint="See airflow-samza gc", log="runner.log")
    (said,) = told
    assert said.startswith("It broke.\n  Hint: See airflow-samza gc\n")


def test_errors_that_nobody_expected_keep_their_frames(task_log: io.BytesIO) -> None:
    log = structlog.get_logger(logger_name="task")
    logged(ConfigError("It is wrong."), log)
    logged(ZeroDivisionError("by zero"), log)
    assert json.loads(task_log.getvalue().splitlines()[2])["exception"][0]["frames"]


def test_logging_drops_frames_once_however_often_it_is_asked_to(task_log: io.BytesIO) -> None:
    before = len(structlog.get_config()["processors"])
    for _ in range(3):
        log_without_frames()
    assert len(structlog.get_config()["processors"]) == before + 1


def test_logging_that_cannot_be_changed_in_place_is_left_as_it_is(task_log: io.BytesIO) -> None:
    processors = tuple(structlog.get_config()["processors"])
    structlog.configure(processors=processors)
    log_without_frames()
    assert structlog.get_config()["processors"] == processors


@pytest.mark.parametrize(
    ("hint", "said"),
    [
        (
            "First undo it: airflow-samza state reset views --to 1; then clear it.",
            "First undo it: airflow-samza state reset views --to 1 --root '/my data'; then clear it.",
        ),
        (
            "To give it up: airflow-samza state abandon v run-12.00.5-x --force",
            "abandon v run-12.00.5-x --force --root '/my data'",
        ),
        ("Check the name with 'airflow-samza topics list'; it", "'airflow-samza topics list --root '/my data''; it"),
        ("See airflow-samza logs v run-1 -n 0. Or wait.", "See airflow-samza logs v run-1 -n 0 --root '/my data'. Or"),
        ("End it: airflow-samza cancel v run-1", "End it: airflow-samza cancel v run-1 --root '/my data'"),
        ("Publish it: airflow-samza runs finish.", "Publish it: airflow-samza runs finish --root '/my data'."),
        (
            "Upgrade airflow-samza here, or run airflow-samza version",
            "Upgrade airflow-samza here, or run airflow-samza v",
        ),
        ("Free space (airflow-samza gc), or forget all: airflow-samza state reset.", "state reset --root '/my data'."),
    ],
)
def test_commands_in_a_tasks_log_name_the_root(hint: str, said: str) -> None:
    with pytest.raises(SamzaTaskRejected) as caught, mapped_failures(hook=lambda: service("/my data")):
        raise ConfigError("It is wrong.", hint=hint)
    assert said in str(caught.value)


def test_commands_in_the_hints_of_several_conflicts_name_the_root() -> None:
    conflicts = [PlanError(f"It is {n}.", hint=f"Forget it: airflow-samza state reset v{n}") for n in range(2)]
    with pytest.raises(SamzaTaskRejected) as caught, mapped_failures(hook=lambda: service("/data")):
        raise_all(conflicts)
    said = str(caught.value)
    assert "state reset v0 --root /data\n" in said
    assert said.endswith("state reset v1 --root /data")


def commands(command: Any, words: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], bool]]:
    """All commands of the command line, and whether they take ``--root``."""
    for name, found in getattr(command, "commands", {}).items():
        yield from commands(found, (*words, name))
    if not hasattr(command, "commands"):
        yield words, any("--root" in parameter.opts for parameter in command.params)


def test_each_command_that_takes_a_root_gets_it_in_a_hint_and_no_other() -> None:
    single, groups = AT_A_ROOT
    known = dict(commands(typer.main.get_command(command_line)))
    assert {words for words, has_root in known.items() if has_root} == {
        words for words in known if words[0] in (single if len(words) == 1 else groups)
    }
    for words, has_root in known.items():
        text = f"airflow-samza {' '.join(words)}"
        assert with_root(text, "/data") == (f"{text} --root /data" if has_root else text)


def hints() -> Iterator[str]:
    """All hints of the package that name a command, with ``X`` for a value."""
    for path in sorted(Path(airflow_samza.__file__).parent.rglob("*.py")):
        tree = parsed(path.read_text(encoding="utf-8"))
        given = (node.value for node in ast.walk(tree) if isinstance(node, ast.keyword) and node.arg == "hint")
        for node in (found for value in given for found in ast.walk(value)):
            parts = node.values if isinstance(node, ast.JoinedStr) else [node]
            text = "".join(str(part.value) if isinstance(part, ast.Constant) else "X" for part in parts)
            if isinstance(node, ast.JoinedStr | ast.Constant) and with_root(text, "/data") != text:
                yield text


def test_no_word_of_a_hint_stands_between_a_command_and_its_root() -> None:
    found = [command for text in hints() for command in COMMAND.findall(text)]
    assert len(found) > 10
    for command in found:
        words = re.sub(r" --?[a-z-]+ \w+", "", command).split()[1:]
        arguments = words[1:] if words[0] in AT_A_ROOT[0] else words[2:]
        assert not [word for word in arguments if word.islower() and not word.startswith("-")], command


def test_other_errors_pass_as_they_are() -> None:
    with pytest.raises(ZeroDivisionError), mapped_failures():
        raise ZeroDivisionError


def test_a_lost_runner_is_tried_again_and_a_wrong_setting_is_not() -> None:
    assert StageLost.retryable
    assert not ConfigError.retryable
    assert not UpstreamCleared.retryable  # a retry is bound to what was cleared; only a clear of its own brings another
